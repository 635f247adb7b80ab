# SPDX-License-Identifier: MIT
"""Follow the first section of docs/real-machine.md on Debian's own kernel; `make test-machine`.

The machine has an array of three NVMe drives that runs on the kernel's own raid1, as set up by its
owner. The commands are run one by one, as the document has them; exceptions are in `walk.INSTEAD`.
No reboot is needed; a reboot into Debian's next kernel must change nothing. In the end nothing may
be left behind.
"""

from __future__ import annotations

import re

import pytest
from debian_machine import Machine
from walk import DISKS, DOCUMENT, OWN_KERNEL, PACKAGES, ROOT, Walk
from walked_document import commands

pytestmark = pytest.mark.machine

#: In addition to the array's load, each mirror has a load of its own: a backup that reads it at
#: times, and small reads. Writes go to all mirrors at once; these reads do not.
OF_A_MIRROR = """
[global]
ioengine=libaio
direct=1
size=900m
time_based=1
runtime=14400
[reads]
filename=/dev/{disk}
rw=randread
bs=4k
iodepth=4
rate_iops=60,,
rate_process=poisson
[backup]
filename=/dev/{disk}
rw=read
bs=512k
iodepth=24
thinktime={pause_us}
thinktime_blocks=24
"""


def usual_work(walk: Walk) -> None:
    walk.usual_work(True)
    for k, disk in enumerate(DISKS):
        job = OF_A_MIRROR.format(disk=disk, pause_us=700_000 + 210_000 * k)
        walk.machine.run(
            f"cat >usual-{disk}.fio <<'EOF'\n{job}EOF\n"
            f"systemd-run -q --collect -p Nice=10 --unit=usual-{disk} fio $PWD/usual-{disk}.fio"
        )


def version_of_raid1(walk: Walk) -> str:
    """Return the version of the loaded raid1; empty if it comes with the kernel."""
    return walk.machine.run("cat /sys/module/raid1/version 2>/dev/null || :").strip()


def release(walk: Walk) -> str:
    """Return the release of the running kernel."""
    return walk.machine.run("uname -r").strip()


def expect_on(walk: Walk) -> None:
    """Check that the array queries, each mirror observes with a model, and reads are right."""
    machine = walk.machine
    assert machine.run("cat /sys/block/md0/md/linnos").strip() == "on"
    for disk in DISKS:
        assert machine.run(f"cat /sys/kernel/linnos/{disk}/mode").strip() == "observe"
        assert machine.run(f"cat /sys/kernel/linnos/{disk}/model_id").strip() != "none"
    stats = "grep -H . /sys/kernel/linnos/*/stats/inferences"
    before = [int(count) for count in re.findall(r":(\d+)$", machine.run(stats), re.M)]
    walk.application("/dev/md0", "--fill", "--plain", "--seconds", "10")
    after = [int(count) for count in re.findall(r":(\d+)$", machine.run(stats), re.M)]
    walk.print_progress(f"    asked: {[b - a for a, b in zip(before, after, strict=True)]}")
    assert len(after) == len(DISKS) and all(b > a for a, b in zip(before, after, strict=True))


def test_module_works_without_reboot_and_leaves_no_files(machine: Machine) -> None:
    walk = Walk(machine)
    machine.run(
        "mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --level=1 --raid-devices=3 "
        "/dev/nvme?n1 && mdadm --detail --scan >>/etc/mdadm/mdadm.conf"
    )
    machine.copy(ROOT / "tests" / "qemu" / "hinted_load.py", "hinted_load.py")
    walk.bring(PACKAGES, "deb")
    before = walk.inventory()
    steps = [command.text for command in commands(DOCUMENT) if command.section in OWN_KERNEL]
    seen = [did for text in steps for did in one_step(walk, text)]
    assert seen == ["modules", "assembled", "on", "trial", "upgrade", "off", "purge"]
    walk.expect_nothing_left(before, kernel=release(walk))
    (assembling,) = (text for text in steps if text.startswith("mdadm --stop"))
    walk.run_line(assembling)
    assert version_of_raid1(walk) == ""


def one_step(walk: Walk, text: str) -> list[str]:
    """Run one command, and check that it did what the document says."""
    machine = walk.machine
    if text.startswith("linnapp enable"):
        usual_work(walk)
    if text.startswith("apt upgrade"):
        # Debian has a newer kernel now; see make_image.sh.
        machine.run(": >/etc/apt/preferences.d/kernel")
    old = release(walk)
    printed = walk.run_line(text)
    if text.startswith("apt install"):
        assert "arrays run on the kernel's own raid1" in printed
        for name in ("linnos", "raid1", "raid10"):
            assert "/updates/dkms/" in machine.run(f"modinfo -n {name}")
        return ["modules"]
    if text.startswith("mdadm --stop"):
        assert version_of_raid1(walk) == "linnos"
        assert machine.run("cat /sys/block/md0/md/linnos").strip() == "off"
        return ["assembled"]
    if text.startswith("linnapp enable"):
        printed = walk.run_line("linnapp status")
        assert all(disk in printed for disk in DISKS)
        return ["on"]
    if text.startswith("linnapp trial"):
        assert "md0 has its setting from before: linnos on" in printed
        walk.usual_work(False)
        expect_on(walk)
        return ["trial"]
    if text.startswith("apt upgrade"):
        assert release(walk) != old
        assert version_of_raid1(walk) == "linnos"
        expect_on(walk)
        return ["upgrade"]
    if text.startswith("linnapp disable"):
        assert machine.run("cat /sys/block/md0/md/linnos").strip() == "off"
        assert "nvme" not in machine.run("ls /sys/kernel/linnos; ls -A /etc/linnapp", check=False)
        assert "disabled" in machine.run("systemctl is-enabled linnapp-restore", check=False)
        return ["off"]
    if text.startswith("apt purge"):
        assert "arrays run on raid1 linnos of this package" in printed
        assert not machine.run("find /lib/modules -path '*dkms*.ko*'")
        return ["purge"]
    return []
