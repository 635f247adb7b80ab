# SPDX-License-Identifier: MIT
"""Settings that a command changes for a while are restored however it ends."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_sysfs import FakeSysfs

from linnapp.drive.md import MdArray
from linnapp.drive.switches import alternating, observing
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
    Drive("sda").set("enforce")
    return sysfs


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
        found: object = None
        for _ in range(500):
            found = enabled.settings(), (tmp_path / "recordings").exists()
            if found == (BEFORE, kind != "trial"):
                return
            time.sleep(0.02)
    raise AssertionError(found)


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
    assert enabled.settings() == BEFORE


def test_settings_that_another_process_changes_are_kept(enabled: FakeSysfs) -> None:
    with observing(["sda", "sdb"], "enable", print):
        Drive("sda").set("off")
        MdArray("md0").set("unguarded")
    assert enabled.settings() == ["unguarded", "off", "off"]


def test_setting_that_cannot_be_restored_does_not_keep_the_others(enabled: FakeSysfs) -> None:
    lines: list[str] = []
    with observing(["sda", "sdb"], "enable", lines.append):
        (enabled.block / "md0" / "md" / "linnos").unlink()
        enabled.fail(lambda name, _: OSError(5, "I/O error") if name.endswith("mode") else None)
    assert [line.partition(":")[0] for line in lines[2:]] == ["sda", "md0"]
    assert "sda: mode could not be restored to enforce: " in lines[2]
