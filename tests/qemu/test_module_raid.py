# SPDX-License-Identifier: MIT
"""raid1.ko and raid10.ko that query linnos.ko on Debian's own kernels, as our md does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from debian import ALL, BUILD, debian_kernel
from test_md_on_nvme import LEVELS, check, script_of

pytestmark = pytest.mark.qemu

# md-mod and dm-mod come with the kernel.
BEFORE = """
files() {{ echo /sys/kernel/linnos/nvme$1n1; }}
modprobe -d $UNPACKED -a md-mod dm-mod
insmod $BUILT/linnos.ko drives={drives}
insmod $BUILT/raid/{name}.ko
"""

# The file disappeared with the array, and no reference or count remains.
AFTER = """
if [ -e $md/linnos ]; then exit 1; fi
cat /sys/kernel/debug/linnos/*/in_flight >$OUT/in_flight
rmmod {name}
rmmod linnos
"""


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("kernel", ALL)
def test_md_queries_the_module(tmp_path: Path, kernel: str, name: str) -> None:
    debian = debian_kernel(kernel, raid=True)
    level = LEVELS[name]
    drives = ",".join(f"nvme{k}n1" for k in range(level.n_drives))
    script = (
        BEFORE.format(drives=drives, name=name)
        + script_of(level, tmp_path)
        + AFTER.format(name=name)
    )
    debian.boot(script, tmp_path, n_drives=level.n_drives, drive_mb=64)
    assert (tmp_path / "in_flight").read_text() == "0 pages, 0 reads\n" * level.n_drives
    check(level, tmp_path)


def test_build_accepts_headers_that_dpkg_is_configuring(tmp_path: Path) -> None:
    debian = debian_kernel("kernel-debian", raid=True)
    release = debian.modules.name
    known = Path("/var/lib/dpkg")
    shutil.copytree(known / "info", tmp_path / "info")
    headers = re.compile(rf"(\nPackage: linux-headers-{re.escape(release)}\nStatus: \w+ ok )\S+\n")
    command = [BUILD, "--kernel", release, "--raid", "--stock", debian.modules]
    built = debian.built / "raid" / "raid1.ko"

    def build(status: str) -> subprocess.CompletedProcess[str]:
        text, n = headers.subn(rf"\1{status}\n", (known / "status").read_text())
        assert n == 1
        (tmp_path / "status").write_text(text)
        # modprobe is not in the PATH of a user.
        env = {**os.environ, "DPKG_ADMINDIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
        return subprocess.run(
            [*command, "--out", debian.built], env=env, capture_output=True, text=True, check=False
        )

    # The environment is that in which their package has DKMS build them.
    result = build("half-configured")
    assert (result.returncode, result.stderr) == (0, "")
    assert built.exists()
    result = build("config-files")
    assert result.returncode == 1
    assert "raid1 and raid10 are not built" in result.stderr
    assert not built.exists()


def test_build_without_comparable_versions_leaves_no_modules(tmp_path: Path) -> None:
    debian = debian_kernel("kernel-debian", raid=True)
    stock = tmp_path / "kernel" / "drivers" / "md"
    stock.mkdir(parents=True)
    (stock / "raid1.ko").write_bytes(b"")
    release = debian.modules.name
    command = [BUILD, "--kernel", release, "--raid", "--stock", tmp_path, "--out", debian.built]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "raid1.ko does not tell" in result.stderr
    assert not (debian.built / "raid" / "raid1.ko").exists()
