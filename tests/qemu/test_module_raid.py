# SPDX-License-Identifier: MIT
"""raid1.ko and raid10.ko that ask linnos.ko, on Debian's own kernels, as md of ours does."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import COMPLAINT
from debian import debian_kernel
from test_md_on_nvme import LEVELS, check, script_of

pytestmark = pytest.mark.qemu

# md-mod is the kernel's own.
BEFORE = """
files() {{ echo /sys/kernel/linnos/nvme$1n1; }}
modprobe -d $UNPACKED md-mod
insmod $BUILT/linnos.ko drives={drives}
insmod $BUILT/raid/{name}.ko
"""

# The file has gone with the array, and nothing is held or counted.
AFTER = """
if [ -e $md/linnos ]; then exit 1; fi
cat /sys/kernel/debug/linnos/*/in_flight >$OUT/in_flight
rmmod {name}
rmmod linnos
"""


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("kernel", ["kernel-debian", "kernel-debian-6.1"])
def test_md_asks_the_module(tmp_path: Path, kernel: str, name: str) -> None:
    debian = debian_kernel(kernel, raid=True)
    level = LEVELS[name]
    drives = ",".join(f"nvme{k}n1" for k in range(level.n_drives))
    script = (
        BEFORE.format(drives=drives, name=name)
        + script_of(level, tmp_path)
        + AFTER.format(name=name)
    )
    log = debian.boot(script, tmp_path, n_drives=level.n_drives, drive_mb=64)
    assert not COMPLAINT.search(log), log[-3000:]
    assert (tmp_path / "in_flight").read_text() == "0 pages, 0 reads\n" * level.n_drives
    check(level, tmp_path)
