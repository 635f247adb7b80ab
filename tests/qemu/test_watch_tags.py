# SPDX-License-Identifier: MIT
"""An application's tags reach the drives below md and dm, on our kernel and on Debian's."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from debian import debian_kernel

from linnapp.insight.query import query
from linnapp.lab.guest import REPOSITORY

pytestmark = pytest.mark.qemu

PROGRAM = REPOSITORY / "tests" / "unit" / "watched_programs" / "tagged_reads.c"
#: When an md or dm device is opened first, the kernel reads partitions without a tag. There is no
#: udev to wait for.
SCRIPT = """
watched() {{ linnapp watch -o $OUT/seen --session $1 -- {program} $2 >$OUT/$1; }}
{modprobe}
watched nvme /dev/nvme0n1
mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --level=1 --raid-devices=2 \\
    /dev/nvme1n1 /dev/nvme2n1 2>/dev/null
: </dev/md0
watched md /dev/md0
mdadm --stop /dev/md0 2>/dev/null
dmsetup create below --noudevsync --noudevrules --table "0 65536 linear /dev/nvme1n1 8192"
: </dev/dm-0
watched dm /dev/dm-0
dmsetup remove --noudevsync --noudevrules below
"""


@pytest.mark.parametrize("kernel", ["linnos", "debian"])
def test_tags_reach_the_drives(boot_qemu, tmp_path: Path, kernel: str) -> None:
    program = tmp_path / "tagged_reads"
    subprocess.run(["gcc", "-O2", "-pthread", "-o", program, PROGRAM, "-luring"], check=True)
    if kernel == "debian":
        modprobe = "modprobe -d $UNPACKED -a raid1 dm-mod"
        script = SCRIPT.format(program=program, modprobe=modprobe)
        debian_kernel("kernel-debian", ours=False).boot(script, tmp_path, n_drives=3)
    else:
        boot_qemu(SCRIPT.format(program=program, modprobe=""))
    for session, which in (
        ("nvme", "device = 'nvme0n1'"),
        ("md", "device = 'md0'"),
        ("md", "device <> 'md0' and below"),
        ("dm", "device = 'dm-0'"),
        ("dm", "device = 'nvme1n1' and below"),
    ):
        printed = re.findall(r"^(\d+) (\d+)$", (tmp_path / session).read_text(), re.M)
        expected = {int(sector): int(tag) or None for sector, tag in printed}
        assert len(expected) == 16 * 11
        _, answer = query(
            tmp_path / "seen",
            f"select sector, tag from ios where session = '{session}' and {which} and watched",
        )
        rows = list(answer)
        # Sectors relative to the first one that is read, wherever it is on the drive.
        begin = min(sector for sector, _ in rows)
        assert {(sector - begin, tag) for sector, tag in rows} == set(expected.items()), which
