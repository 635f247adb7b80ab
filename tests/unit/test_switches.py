# SPDX-License-Identifier: MIT
"""Settings that a command changes for a while are restored however it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_sysfs import FakeSysfs

from linnapp.drive.md import MdArray
from linnapp.drive.stable_ids import name_to_keep
from linnapp.drive.switches import alternating, observing, restore_left, run_directory
from linnapp.drive.sysfs import Drive
from linnapp.errors import LinnappError

BEFORE = ["on", "enforce", "off"]

#: Changes the settings of md0 and its drives until it is ended.
CHANGES = """
import sys, time
from pathlib import Path
from linnapp.drive.md import MdArray
from linnapp.drive.switches import alternating, observing

if sys.argv[1] == "trial":
    switched = alternating(MdArray("md0"), Path(sys.argv[2]), print)
else:
    switched = observing(["sda", "sdb"], "recalibrate", print)
with switched:
    if sys.argv[1] == "trial":
        MdArray("md0").set("off")
    print("changed", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def enabled(sysfs: FakeSysfs) -> FakeSysfs:
    """Make an array that is on, and a drive that enforces."""
    (sysfs.block / "md0" / "md" / "linnos").write_text("on\n")
    Drive("sda").set_mode("enforce")
    return sysfs


def wait_until_restored(sysfs: FakeSysfs) -> None:
    for _ in range(500):
        if sysfs.settings() == BEFORE and not list(run_directory().iterdir()):
            return
        time.sleep(0.02)
    raise AssertionError((sysfs.settings(), list(run_directory().iterdir())))


@contextlib.contextmanager
def changing(kind: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", CHANGES, kind, folder], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "changed\n":
                break
        yield process
        process.kill()


@pytest.mark.parametrize("kind", ["trial", "recalibrate"])
def test_killed_command_is_undone_by_its_keeper(
    enabled: FakeSysfs, tmp_path: Path, kind: str
) -> None:
    with changing(kind, tmp_path / "recordings") as process:
        assert enabled.settings()[0] == "off"
        process.kill()
        process.wait()
        wait_until_restored(enabled)
    if kind == "trial":
        assert not (tmp_path / "recordings").exists()


@pytest.mark.parametrize("kind", ["trial", "recalibrate"])
def test_command_killed_together_with_its_keeper_is_undone_by_the_next_one(
    enabled: FakeSysfs, tmp_path: Path, kind: str
) -> None:
    with changing(kind, tmp_path / "recordings") as process:
        with pytest.raises(LinnappError, match=f"linnapp {kind} is running and has changed"):
            restore_left(print)
        restore_left(print, ["sdx"])  # It concerns other drives.
        pattern = ["pgrep", "-P", str(process.pid), "-f", f"linnapp-{kind}-keeper"]
        keeper = int(subprocess.run(pattern, check=True, capture_output=True).stdout)
        os.kill(keeper, signal.SIGKILL)
        process.kill()
        process.wait()
        during = enabled.settings()
        assert during[0] == "off"
        lines: list[str] = []
        restore_left(lines.append)
    assert enabled.settings() == BEFORE and not list(run_directory().iterdir())
    assert f"md0: linnos on, as before linnapp {kind} was killed" in lines
    assert len(lines) == (1 if kind == "trial" else 2)
    assert (tmp_path / "recordings").exists() == (kind != "trial")
    restore_left(lines.append)
    assert len(lines) <= 2


@pytest.mark.parametrize("end", [None, KeyboardInterrupt, SystemExit, LinnappError])
def test_settings_are_restored_at_the_end_of_the_block(
    enabled: FakeSysfs, tmp_path: Path, end: type[BaseException] | None
) -> None:
    def end_it() -> None:
        if end is not None:
            raise end

    expected = contextlib.nullcontext() if end is None else pytest.raises(end)
    with expected, observing(["sda", "sdb"], "enable", print):
        assert enabled.settings() == ["off", "observe", "off"]
        end_it()
    assert enabled.settings() == BEFORE
    with expected, alternating(MdArray("md0"), tmp_path, print):
        MdArray("md0").set("off")
        end_it()
    assert enabled.settings() == BEFORE and not list(run_directory().iterdir())


def test_settings_that_another_process_changes_are_kept(enabled: FakeSysfs) -> None:
    with observing(["sda", "sdb"], "enable", print):
        (record,) = run_directory().iterdir()
        settings = json.loads(record.read_text())["settings"]
        assert [(each["device"], each["before"]) for each in settings] == [
            (name_to_keep("sda"), "enforce"),
            (name_to_keep("md0"), "on"),
        ]
        Drive("sda").set_mode("off")
        MdArray("md0").set("unguarded")
    assert enabled.settings() == ["unguarded", "off", "off"]


def test_setting_that_cannot_be_restored_does_not_keep_the_others(enabled: FakeSysfs) -> None:
    lines: list[str] = []
    with observing(["sda", "sdb"], "enable", lines.append):
        (enabled.block / "md0" / "md" / "linnos").unlink()
        enabled.fail(lambda name, _: OSError(5, "I/O error") if name.endswith("mode") else None)
    assert [line.partition(":")[0] for line in lines[2:]] == ["sda", "md0"]
    assert "sda: mode could not be restored to enforce: " in lines[2]
    assert not list(run_directory().iterdir())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "linnapp trial was killed, and did not record the settings"),
        ("[1]", "linnapp trial was killed, and did not record the settings"),
        ("{}", "linnapp trial was killed, and did not record the settings"),
        ('{"settings": [{"name": "md0", "device": "/x", "before": "on"}], "folder": null}',
         "md0: linnapp trial was killed; that device is missing, this is another"),
        ('{"settings": [{"name": "md9", "device": "/dev/md9", "before": "on"}], "folder": null}',
         "md9: linnapp trial was killed; md9: no such disk"),
    ],
)  # fmt: skip
def test_damaged_or_outdated_record_is_reported_and_removed(
    sysfs: FakeSysfs, text: str, says: str
) -> None:
    record = run_directory() / "trial-md0.json"
    record.parent.mkdir()
    record.write_text(text)
    lines: list[str] = []
    restore_left(lines.append)
    assert says in lines[0] and len(lines) == 1
    assert not record.exists() and sysfs.settings() == ["off"] * 3
