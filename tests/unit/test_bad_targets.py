# SPDX-License-Identifier: MIT
"""`linnapp check` and `enable` name what they cannot serve and the remedy, and change nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import CliRunner
from fake_sysfs import FakeSysfs

from linnapp.cli import cli
from linnapp.errors import LinnappError


@pytest.fixture
def machine(sysfs: FakeSysfs, monkeypatch: pytest.MonkeyPatch) -> FakeSysfs:
    """Make a machine with md0 that could be recorded: root, blktrace, debugfs, no lockdown."""
    sysfs.allow_tracing(monkeypatch)
    monkeypatch.setattr("linnapp.drive.checks.node_of", lambda name: sysfs.root / "dev" / name)
    return sysfs


def write(file: str, text: str) -> Callable[[FakeSysfs], object]:
    """Return a function that gives a file of sysfs another text."""
    return lambda machine: (machine.block / file).write_text(f"{text}\n")


def on_encrypted_drives(machine: FakeSysfs) -> None:
    for volume, disk in (("dm-0", "sda"), ("dm-1", "sdb")):
        (machine.block / volume / "dm").mkdir(parents=True)
        (machine.block / volume / "slaves").mkdir()
        (machine.block / volume / "slaves" / disk).symlink_to(machine.block / disk)
    machine.add_array("md1", {"dm-0": "in_sync", "dm-1": "in_sync"})


def below_encryption(machine: FakeSysfs) -> None:
    for upper, lower in (("dm-1", "dm-0"), ("dm-0", "md0")):
        (machine.block / upper / "dm").mkdir(parents=True)
        (machine.block / upper / "slaves").mkdir()
        (machine.block / upper / "slaves" / lower).symlink_to(machine.block / lower)


def heads_without_paths(machine: FakeSysfs) -> None:
    for name in ("nvme0n1", "nvme1n1"):
        (machine.block / name / "queue").mkdir(parents=True)


def without_blktrace_in_the_kernel(machine: FakeSysfs) -> None:
    (machine.tmp_path / "debug" / "block").rmdir()
    (machine.tmp_path / "debug" / "clk").mkdir()


def without_debugfs(machine: FakeSysfs) -> None:
    (machine.tmp_path / "debug" / "block").rmdir()


def locked_down(state: str) -> Callable[[FakeSysfs], object]:
    return lambda machine: (machine.tmp_path / "lockdown").write_text(f"none [{state}]\n")


@pytest.mark.parametrize(
    ("change", "device", "thing", "remedy"),
    [
        (write("md0/md/raid_disks", "1"), "md0", "md0 has one mirror", "mdadm --grow /dev/md0"),
        (write("md0/md/dev-sdb/state", "faulty"), "md0", "md0", "at least two drives"),
        (write("sdb/queue/rotational", "1"), "md0", "sdb reports that it rotates", "echo 0"),
        (on_encrypted_drives, "md1", "md1: its mirror dm-0 is", "on the array"),
        (below_encryption, "dm-1", "dm-1 is a volume on md0", "name /dev/md0"),
        (write("md0/md/degraded", "1"), "md0", "md0 is degraded", "repair it first"),
        (write("md0/md/sync_action", "resync"), "md0", "md0 is busy", "mdadm --wait /dev/md0"),
        (write("md0/md/metadata_version", "external:/md127/0"), "md0",
         "md0 has external metadata", "--metadata=1.2"),
        (write("md0/md/level", ""), "md0", "md0 is not running", "assemble it"),
        (write("md0/md/level", "raid5"), "md0", "md0 is raid5", "raid1 and raid10"),
        (heads_without_paths, "nvme0n1 nvme1n1", "nvme0n1 is the head of an NVMe multipath drive",
         "nvme list-subsys"),
        (without_blktrace_in_the_kernel, "md0", "lacks CONFIG_BLK_DEV_IO_TRACE", "lab run"),
        (without_debugfs, "md0", "debugfs is not mounted", "mount -t debugfs"),
        (locked_down("integrity"), "md0", "locked down (integrity)", "Secure Boot"),
        (locked_down("confidentiality"), "md0", "locked down (confidentiality)", "lab run"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["check", "enable"])
def test_command_names_the_obstacle_and_the_remedy_and_changes_nothing(
    machine: FakeSysfs,
    command: str,
    change: Callable[[FakeSysfs], object],
    device: str,
    thing: str,
    remedy: str,
) -> None:
    change(machine)
    machine.fail_never()
    machine.writes.clear()
    result = CliRunner().invoke(cli, [command, *device.split()])
    assert isinstance(result.exception, LinnappError), result.output
    message = str(result.exception)
    print(message)
    assert thing in message and remedy in message
    assert "\n" not in message and len(message) < 400
    assert not machine.writes and not machine.state.exists() and not machine.conf.exists()
