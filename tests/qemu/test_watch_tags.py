# SPDX-License-Identifier: MIT
"""An application's tags reach the drives below md and dm, on our kernel and on Debian's."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from linnapp.insight.query import query
from linnapp.lab.guest import REPOSITORY
from linnapp.lab.qemu import DEFAULT_KERNEL, QemuGuest, run

pytestmark = pytest.mark.qemu

DEBIAN = REPOSITORY / "build" / "kernel-debian"
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
def test_tags_reach_the_drives(tmp_path: Path, kernel: str) -> None:
    guest = QemuGuest(
        kernel=Path(os.environ.get("LINNOS_X86_KERNEL", DEFAULT_KERNEL)),
        out_dir=tmp_path,
        environment={
            "OUT": str(tmp_path),
            "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
        },
        accel=os.environ.get("LINNOS_QEMU_ACCEL", "auto"),
        timeout_s=1800 * float(os.environ.get("LINNOS_QEMU_PATIENCE", "1")),
    )
    modprobe = ""
    if kernel == "debian":
        kernels = list((DEBIAN / "boot").glob("vmlinuz-*"))
        if not kernels:
            pytest.skip(f"{DEBIAN}: no kernel; make kernel-debian")
        guest.kernel, guest.modules = kernels[0], next((DEBIAN / "lib" / "modules").iterdir())
        modprobe = f"modprobe -d {DEBIAN} -a raid1 dm-mod"
    program = tmp_path / "tagged_reads"
    subprocess.run(["gcc", "-O2", "-pthread", "-o", program, PROGRAM, "-luring"], check=True)
    errors = io.BytesIO()
    script = SCRIPT.format(program=program, modprobe=modprobe)
    result = run(["sh", "-ec", script], guest, stdout=io.BytesIO(), stderr=errors)
    assert not result.status, errors.getvalue().decode() + result.dmesg[-3000:]
    for session, which in (
        ("nvme", "device = 'nvme0n1'"),
        ("md", "device = 'md0'"),
        ("md", "device <> 'md0' and below"),
        ("dm", "device = 'dm-0'"),
        ("dm", "device = 'nvme1n1' and below"),
    ):
        said = re.findall(r"^(\d+) (\d+)$", (tmp_path / session).read_text(), re.M)
        given = {int(sector): int(tag) or None for sector, tag in said}
        assert len(given) == 16 * 11
        _, answer = query(
            tmp_path / "seen",
            f"select sector, tag from ios where session = '{session}' and {which} and watched",
        )
        rows = list(answer)
        # Sectors relative to the first one that is read, wherever it is on the drive.
        begin = min(sector for sector, _ in rows)
        assert {(sector - begin, tag) for sector, tag in rows} == set(given.items()), which
