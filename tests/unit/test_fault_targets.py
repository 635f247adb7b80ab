# SPDX-License-Identifier: MIT
"""Rules of device-mapper targets, with a dmsetup that only writes down how it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from linnapp.errors import DeviceError
from linnapp.lab import fault_rules
from linnapp.lab.faults import FaultRule, install

DMSETUP = """#!/bin/sh
echo "$*" >>{folder}/calls
case "$1" in
table) echo "0 2048 linnos-faults 7:0 0 0" ;;
message) [ "$4" != list ] || cat {folder}/list ;;
create) [ ! -e {folder}/fails ] || {{ echo "device-mapper: reload failed" >&2; exit 1; }} ;;
targets) cat {folder}/targets ;;
info) echo 2 ;;
esac
"""


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of block devices: dm-0 is a fault target, and a member of md0."""
    program = tmp_path / "bin" / "dmsetup"
    program.parent.mkdir()
    program.write_text(DMSETUP.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    folder = tmp_path / "block"
    for name, text in {
        "dm-0/dm/name": "bad",
        "md0/md/level": "raid1",
        "md0/md/dev-dm-0/offset": "2048",
        "md0/md/dev-loop1/offset": "2048",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n")
    (tmp_path / "list").write_text("")
    (tmp_path / "targets").write_text("linear v1.4.0\n")
    monkeypatch.setattr(fault_rules, "_SYSFS_BLOCK", folder)
    return folder


def calls(sysfs: Path) -> list[str]:
    lines = (sysfs.parent / "calls").read_text().splitlines()
    return [line for line in lines if not line.startswith("table") and not line.endswith("list")]


def test_rules_become_messages(sysfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extents = fault_rules_of(sysfs, monkeypatch, [(8 * k, 4) for k in range(101)])
    rule = FaultRule("/mnt/file", {"op": "write", "frequency": "all"})
    assert install([rule]) == [("dm-0", "faults0")]
    add, first, second, enable = calls(sysfs)
    assert add == "message bad 0 add faults0 op write frequency all"
    assert first.startswith("message bad 0 range faults0 0 4 8 4 16 4 ")
    assert second == "message bad 0 range faults0 800 4"
    assert enable == "message bad 0 enable faults0"
    assert len(first.split()) == 5 + 2 * len(extents) - 2


def fault_rules_of(
    sysfs: Path, monkeypatch: pytest.MonkeyPatch, ranges: list[tuple[int, int]], disk: str = "dm-0"
) -> list[tuple[int, int]]:
    """Let every file be at these ranges of a disk."""
    from linnapp.lab import faults

    monkeypatch.setattr(faults, "resolve", lambda name: faults.Extents(disk, tuple(ranges)))
    return ranges


def test_rules_of_a_mirror_have_its_data_offset(
    sysfs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault_rules_of(sysfs, monkeypatch, [(16, 8)], "md0")
    assert install([FaultRule("/mnt/file", {})], "dm-0") == [("dm-0", "faults0")]
    assert "message bad 0 range faults0 2064 8" in calls(sysfs)
    with pytest.raises(
        DeviceError, match="loop2: is no member of md0; its members are dm-0, loop1"
    ):
        install([FaultRule("/mnt/file", {})], "loop2")
    with pytest.raises(DeviceError, match="loop1: neither a flashsim drive .* nor a device of"):
        install([FaultRule("/mnt/file", {})], "loop1")
    (sysfs / "md0/md/level").write_text("raid5\n")
    with pytest.raises(DeviceError, match="md0: is raid5; only a member of raid1"):
        install([FaultRule("/mnt/file", {})], "dm-0")
    fault_rules_of(sysfs, monkeypatch, [(16, 8)], "sda")
    with pytest.raises(DeviceError, match="sda: is no md array, so it has no member dm-0"):
        install([FaultRule("/mnt/file", {})], "dm-0")


def test_listed_rules_are_shown_and_removed(sysfs: Path) -> None:
    (sysfs.parent / "list").write_text(
        "faults0 enabled 1 op write n 500 matched 1000 injected 2\n"
        "mine enabled 0 op read n 1 matched 0 injected 0\n"
    )
    rules = fault_rules.rules_of("dm-0").rules()
    assert list(rules) == ["faults0", "mine"]
    assert (rules["faults0"]["n"], rules["faults0"]["injected"]) == ("500", "2")
    with pytest.raises(DeviceError, match="bad: there is a rule mine already"):
        fault_rules.rules_of("dm-0").add("mine", {})
    assert fault_rules.remove_rules("dm-0") == 2
    assert calls(sysfs) == ["message bad 0 remove faults0", "message bad 0 remove mine"]


def test_attach_and_detach_name_the_remedy(sysfs: Path, tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(bytes(4096))
    with pytest.raises(DeviceError, match="image: not a block device; `losetup"):
        fault_rules.attach(str(image), "bad", 0)
    with pytest.raises(DeviceError, match="nowhere: No such file"):
        fault_rules.attach(str(tmp_path / "nowhere"), "bad", 0)
    with pytest.raises(DeviceError, match="a/b: must consist of letters"):
        fault_rules.attach(str(image), "a/b", 0)
    with pytest.raises(DeviceError, match="bad: is in use, by 2 openers; unmount it"):
        fault_rules.detach("/dev/mapper/bad")
    with pytest.raises(DeviceError, match="nowhere: there is no such device"):
        fault_rules.disk_of(str(tmp_path / "nowhere"))
    with pytest.raises(DeviceError, match="image: not a block device"):
        fault_rules.disk_of(str(image))
    assert fault_rules.disk_of("flash0") == "flash0"
