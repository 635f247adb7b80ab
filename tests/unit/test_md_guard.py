# SPDX-License-Identifier: MIT
"""`linnapp status` and `top` show the guard of md arrays: redirecting or suspended, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_sysfs import activate_what_is_written, make_tree
from test_cli import run
from trees_by_hand import random_trees

from linnapp.drive.deployment import upload
from linnapp.drive.md import Guard, MdArray, guards

CLASSES = """normal reads 900 redirected 31 control_us 88 redirected_us 90 share 21
over_p90 reads 0 redirected 0 control_us 0 redirected_us 0 share 998
over_2x_p90 reads 0 redirected 0 control_us 0 redirected_us 0 share 998
over_3x_p90 reads 400 redirected 395 control_us 2050 redirected_us 95 share 1022
"""
REDIRECTING = f"state redirecting\nredirected 426\n{CLASSES}"
NOT_KNOWN = REDIRECTING.replace("control_us 2050", "control_us 0")


@pytest.fixture
def array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an array that chooses drives; make another whose kernel cannot."""
    make_tree(tmp_path, monkeypatch)
    monkeypatch.setenv("LINNAPP_STATE", str(tmp_path / "state"))
    (tmp_path / "block" / "md1" / "md").mkdir(parents=True)
    md = tmp_path / "block" / "md0" / "md"
    md.mkdir(parents=True)
    (md / "linnos").write_text("on\n")
    (md / "linnos_guard").write_text(REDIRECTING)
    return md


def test_guard_is_parsed_from_its_file(array: Path) -> None:
    (guard,) = guards()
    assert (guard.array, guard.state, guard.redirected) == ("md0", "redirecting", 426)
    assert guard.classes["over_3x_p90"] == {
        "reads": 400, "redirected": 395, "control_us": 2050, "redirected_us": 95, "share": 1022
    }  # fmt: skip
    assert guard.words == (
        "md0: redirecting, 426 reads redirected; "
        "default replica normal: 2% are redirected, these 90 us, others 88 us; "
        "default replica over_3x_p90: 100% are redirected, these 95 us, others 2050 us"
    )
    assert MdArray("md1").guard is None
    assert "these 95 us, others -" in Guard.parse("md0", NOT_KNOWN).words


def test_new_model_restarts_the_guard_of_the_array(
    array: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    activate_what_is_written(tmp_path, monkeypatch)
    part_holders = array.parents[1] / "sda" / "sda1" / "holders"
    part_holders.mkdir()
    for name in ("md0", "md1"):
        (part_holders / name).symlink_to(tmp_path / "block" / name)
    for state, written in (("on\n", "on"), ("unguarded\n", "unguarded\n"), ("off\n", "off\n")):
        (array / "linnos").write_text(state)
        upload(random_trees(), "sda")
        assert (array / "linnos").read_text() == written


@pytest.mark.parametrize(
    "text", ["", REDIRECTING.replace("redirected 426", "x 426"), REDIRECTING + "more 1\n"]
)
def test_malformed_guard_is_left_out_of_status(array: Path, text: str) -> None:
    (array / "linnos_guard").write_text(text)
    with pytest.raises(ValueError):
        Guard.parse("md0", text)
    assert guards() == []
    assert "sda" in run("status").stdout


def test_status_and_top_show_the_guard(array: Path) -> None:
    top = ("top", "--once", "--interval", "0.1")
    line = "md0: redirecting, 426 reads redirected; default replica normal: 2% are redirected"
    for command in (("status",), top):
        assert line in " ".join(run(*command).stdout.split())
        seen = json.loads(run(*command, "--json").stdout)["arrays"]
        assert [(each["array"], each["redirected"]) for each in seen] == [("md0", 426)]
    (array / "linnos").write_text("unguarded\n")
    (array / "linnos_guard").write_text(REDIRECTING.replace("redirecting", "unguarded"))
    assert MdArray("md0").asks and "md0: redirecting, unguarded\n" in run("status").stdout
    (array / "linnos_guard").write_text(REDIRECTING.replace("redirecting", "off"))
    assert "md0" not in run("status").stdout
