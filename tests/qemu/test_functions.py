# SPDX-License-Identifier: MIT
"""`linnapp layers --functions` on Debian's kernel, where time is a count of instructions."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from linnapp.lab.guest import REPOSITORY
from linnapp.lab.qemu import QemuGuest, run

pytestmark = pytest.mark.qemu

KERNEL = REPOSITORY / "build" / "kernel-debian"
PROGRAM = REPOSITORY / "eval" / "experiments" / "functions" / "guest" / "direct_io.c"


def test_functions_of_writes_are_told(tmp_path: Path) -> None:
    kernels = list((KERNEL / "boot").glob("vmlinuz-*"))
    if not kernels:
        pytest.skip(f"{KERNEL}: no kernel with its functions traceable; make kernel-debian")
    program = tmp_path / "direct_io"
    subprocess.run(["gcc", "-O2", "-static", "-o", program, PROGRAM], check=True)
    guest = QemuGuest(
        kernel=kernels[0],
        modules=next((KERNEL / "lib" / "modules").iterdir()),
        counts_instructions=True,
        n_cpus=1,
        n_drives=1,
        drive_mb=256,
        memory_mb=1536,
        out_dir=tmp_path,
        environment={"PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"},
        timeout_s=900,
    )
    script = (
        "mkfs.ext4 -q /dev/nvme0n1; mount /dev/nvme0n1 /run/mnt\n"
        f"{program} write /run/mnt/file 1048576 8; sync\n"
        f"linnapp layers --functions --json -- {program} write /run/mnt/file 1048576 8"
        f" >{tmp_path}/said\n"
        "linnapp layers --functions -- sh -c 'exit 3' || test $? = 3\n"
        # Nothing of it is left behind.
        'test -z "$(ls /sys/kernel/debug/tracing/instances)"\n'
    )
    errors = io.BytesIO()
    result = run(["sh", "-ec", script], guest, stdout=io.BytesIO(), stderr=errors)
    assert not result.status, errors.getvalue().decode()
    said = json.loads((tmp_path / "said").read_text())
    (call,) = said["calls"]
    assert call["call"] == "write" and call["calls"] == 8
    assert {"wait", "split", "pages", "mapping", "driver", "queue", "filesystem", "entry"} <= set(
        call["groups"]
    )
    assert sum(group["share"] for group in call["groups"].values()) == pytest.approx(1)
    # 256 pages a call take some work, and no group took less than nothing.
    pages = next(f for f in call["functions"] if f["name"] == "bio_iov_iter_get_pages")
    assert pages["calls"] >= 8 and call["groups"]["pages"]["us"] / 8 > 5
    assert 0 < said["overhead"]["inside_ns"] <= said["overhead"]["function_ns"] < 10_000
    assert said["lost"] == {"times": 0, "calls": 0}
