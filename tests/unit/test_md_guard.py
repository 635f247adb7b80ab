# SPDX-License-Identifier: MIT
"""`linnapp status` and `top` show the guard of md arrays: choosing or staying, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_sysfs import activate_what_is_written, make_tree
from test_cli import run
from test_latency_model import random_trees

from linnapp.drive.deployment import upload
from linnapp.drive.md import Guard, MdArray, guards

HOMES = """usual wished 900 left 31 stayed_us 88 left_us 90 share 21
slow wished 0 left 0 stayed_us 0 left_us 0 share 998
slower wished 0 left 0 stayed_us 0 left_us 0 share 998
bad wished 400 left 395 stayed_us 2050 left_us 95 share 1022
"""
CHOOSING = f"state choosing\nsteered 426\ngain_percent 43 41 45\n{HOMES}"
NOT_KNOWN = CHOOSING.replace("43 41 45", "n/a").replace("stayed_us 2050", "stayed_us 0")


@pytest.fixture
def array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an array that chooses; another array's kernel cannot."""
    make_tree(tmp_path, monkeypatch)
    monkeypatch.setenv("LINNAPP_STATE", str(tmp_path / "state"))
    (tmp_path / "block" / "md1" / "md").mkdir(parents=True)
    md = tmp_path / "block" / "md0" / "md"
    md.mkdir(parents=True)
    (md / "linnos").write_text("on\n")
    (md / "linnos_guard").write_text(CHOOSING)
    return md


def test_guard_is_parsed_from_its_file(array: Path) -> None:
    (guard,) = guards()
    assert (guard.array, guard.state, guard.steered) == ("md0", "choosing", 426)
    assert guard.gain_percent == (43, 41, 45)
    assert guard.homes["bad"] == {
        "wished": 400, "left": 395, "stayed_us": 2050, "left_us": 95, "share": 1022
    }  # fmt: skip
    assert guard.words == (
        "md0: choosing, 426 reads steered, mean lower by 43 [41, 45] %; "
        "home usual: 2% leave, left 90 us, stayed 88 us; "
        "home bad: 100% leave, left 95 us, stayed 2050 us"
    )
    assert MdArray("md1").guard is None
    early = Guard.parse("md0", NOT_KNOWN)
    assert early.gain_percent is None and "not known yet" in early.words
    assert "left 95 us, stayed -" in early.words


def test_new_model_restarts_the_guard_of_the_array(
    array: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    activate_what_is_written(tmp_path, monkeypatch)
    of_part = array.parents[1] / "sda" / "sda1" / "holders"
    of_part.mkdir()
    for name in ("md0", "md1"):
        (of_part / name).symlink_to(tmp_path / "block" / name)
    for said, left in (("on\n", "on"), ("unguarded\n", "unguarded\n"), ("off\n", "off\n")):
        (array / "linnos").write_text(said)
        upload(random_trees(), "sda")
        assert (array / "linnos").read_text() == left


@pytest.mark.parametrize("text", ["", CHOOSING.replace("steered", "x"), CHOOSING + "more 1\n"])
def test_malformed_guard_is_left_out_of_status(array: Path, text: str) -> None:
    (array / "linnos_guard").write_text(text)
    with pytest.raises(ValueError):
        Guard.parse("md0", text)
    assert guards() == []
    assert "sda" in run("status").stdout


def test_status_and_top_show_the_guard(array: Path) -> None:
    top = ("top", "--once", "--interval", "0.1")
    line = "md0: choosing, 426 reads steered, mean lower by 43 [41, 45] %"
    for command in (("status",), top):
        assert line in run(*command).stdout
        seen = json.loads(run(*command, "--json").stdout)["arrays"]
        assert [(each["array"], each["gain_percent"]) for each in seen] == [("md0", [43, 41, 45])]
    (array / "linnos").write_text("unguarded\n")
    (array / "linnos_guard").write_text(CHOOSING.replace("choosing", "unguarded"))
    assert MdArray("md0").asks and "md0: choosing, unguarded\n" in run("status").stdout
    (array / "linnos_guard").write_text(CHOOSING.replace("choosing", "off"))
    assert "md0" not in run("status").stdout
