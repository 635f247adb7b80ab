# SPDX-License-Identifier: MIT
"""Follow docs/real-machine.md from the patched kernel on; `make test-machine-patched`.

A machine as Debian's installer leaves it, in QEMU with three NVMe drives and two CPUs, gets the
packages of `make deb` and `make kernel-deb`. Then the commands of the document and those of
docs/raid1.md are run one by one, as they are written; exceptions are in `walk.INSTEAD` and below
it. In between, the test checks that the machine is in the state that the document promises. In the
end nothing may be left behind.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from debian_machine import Machine
from walk import DISKS, DOCUMENT, FOLDER, OWN_KERNEL, PACKAGES, ROOT, Walk
from walked_document import Command, commands

pytestmark = pytest.mark.machine

#: The folder of the kernel packages.
KERNEL = Path(os.environ.get("LINNOS_MACHINE_KERNEL", FOLDER / "kernel-deb"))


def test_document_can_be_followed_on_the_patched_kernel(machine: Machine) -> None:
    walk = Walk(machine)
    assert "linnos" not in machine.run("uname -r")
    machine.copy(ROOT / "tests" / "qemu" / "hinted_load.py", "hinted_load.py")
    # The image only; the folder of the kernel build is next to it.
    walk.bring(PACKAGES, "deb")
    walk.bring(KERNEL, KERNEL.name)
    before = walk.inventory()

    seen: set[str] = set()
    for command in commands(DOCUMENT):
        if command.section not in OWN_KERNEL:
            seen |= one_step(walk, command)
    assert seen == {"kernel", "tools", "trace", "train", "observe", "enforce", "off", "purge"}

    assert "linnos" not in machine.run("uname -r")
    assert walk.modes() == {}
    walk.expect_nothing_left(before)


def one_step(walk: Walk, command: Command) -> set[str]:
    """Run one command, and check that it did what the document says."""
    machine, text = walk.machine, command.text
    if text.startswith("linnapp trace") or "--mode observe" in text:
        walk.usual_work(True)
    if "echo off" in text:
        raid1(walk)
    printed = walk.run_line(text)
    if text.startswith("linnapp status"):
        assert all(disk in printed for disk in DISKS)
    if "linux-image" in text and text.startswith("apt install"):
        assert machine.run("uname -r").strip().endswith("-linnos")
        modes = walk.modes()
        assert set(DISKS) < set(modes) and set(modes.values()) == {"off"}
        return {"kernel"}
    if "build/deb" in text and text.startswith("apt install"):
        assert set(walk.modes().values()) == {"off"}
        for unit in ("linnapp-exporter.service", "linnapp-recalibrate.timer"):
            assert "disabled" in machine.run(f"systemctl is-enabled {unit}", check=False)
            assert "inactive" in machine.run(f"systemctl is-active {unit}", check=False)
        return {"tools"}
    if text.startswith("linnapp trace"):
        walk.usual_work(False)
        assert set(machine.run("ls clone/traces/mine").split()) >= {f"{d}.blk" for d in DISKS}
        return {"trace"}
    if text.startswith("linnapp train"):
        assert set(machine.run("ls clone/models/mine").split()) >= {f"{d}.linnos" for d in DISKS}
        return {"train"}
    if "--mode observe" in text:
        observed(walk)
        return {"observe"}
    if "--mode enforce" in text:
        enforced(walk)
        walk.usual_work(False)
        return {"enforce"}
    if "echo off" in text:
        assert set(walk.modes().values()) == {"off"}
        return {"off"}
    return {"purge"} if "purge" in text else set()


def observed(walk: Walk) -> None:
    """Check that the kernel predicts and counts, and revokes nothing."""
    before = walk.stats()
    for disk in DISKS:
        assert walk.modes()[disk] == "observe"
        counts = walk.application(f"/dev/{disk}", "--fill", "--seconds", "10")
        assert counts["revoked"] == 0
        did = {name: n - before[disk][name] for name, n in walk.stats()[disk].items()}
        walk.print_progress(f"    {disk}: {did}")
        assert did["inferences"] > 0 and did["revoked"] == 0
        assert did["latency_critical"] >= counts["admitted"]


def enforced(walk: Walk) -> None:
    """Check that reads predicted to be slow are refused, and other reads are right."""
    revoked = 0
    for disk in DISKS:
        assert walk.modes()[disk] == "enforce"
        before = walk.stats()[disk]["revoked"]
        counts = walk.application(f"/dev/{disk}", "--seconds", "20")
        assert walk.stats()[disk]["revoked"] - before >= counts["revoked"]
        revoked += counts["revoked"]
    assert revoked > 0


def raid1(walk: Walk) -> None:
    """Follow docs/raid1.md on an array of the three drives."""
    machine = walk.machine
    machine.run(
        "mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --level=1 --raid-devices=3 "
        "/dev/nvme?n1"
    )
    assert machine.run("cat /sys/block/md0/md/linnos").strip() == "off"
    by_hand = [c for c in commands(ROOT / "docs" / "raid1.md") if c.section == "By hand"]
    assert by_hand
    for command in by_hand:
        tracing = command.text.startswith("linnapp trace")
        if tracing:
            walk.usual_work(True)
        walk.run_line(command.text)
        if tracing:
            walk.usual_work(False)
    assert machine.run("cat /sys/block/md0/md/linnos").strip() == "on"
    before = walk.stats()
    counts = walk.application("/dev/md0", "--fill", "--plain", "--seconds", "10")
    after = walk.stats()
    read = {disk: after[disk]["reads"] - before[disk]["reads"] for disk in DISKS}
    asked = {disk: after[disk]["inferences"] - before[disk]["inferences"] for disk in DISKS}
    walk.print_progress(f"    reads of md0 by drive {read}, asked {asked}")
    assert counts["revoked"] == 0 and sum(read.values()) >= counts["admitted"]
    assert all(asked.values())
    machine.run("mdadm --stop /dev/md0 && mdadm --zero-superblock /dev/nvme?n1")
