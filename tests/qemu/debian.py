# SPDX-License-Identifier: MIT
"""Debian's own kernels under QEMU, with our modules built for them."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from linnapp.lab.guest import REPOSITORY
from linnapp.lab.qemu import QemuGuest, run

BUILD = REPOSITORY / "kernel" / "module" / "build.sh"


@dataclass(frozen=True)
class DebianKernel:
    """A kernel as Debian builds it.

    Attributes
    ----------
    image : Path
        The kernel.
    modules : Path
        Its modules, below the folder that it was unpacked to.
    built : Path
        The folder with our modules for it.
    """

    image: Path
    modules: Path
    built: Path

    def boot(
        self, script: str, out_dir: Path, *, n_cpus: int = 2, n_drives: int = 2, drive_mb: int = 256
    ) -> str:
        """Run a script in it; the kernel log.

        The script sees ``$OUT``, ``$TESTS``, this folder, ``$BUILT``, and ``$UNPACKED`` for
        ``modprobe -d``. The test fails when it does.
        """
        guest = QemuGuest(
            kernel=self.image,
            modules=self.modules,
            n_cpus=n_cpus,
            n_drives=n_drives,
            drive_mb=drive_mb,
            out_dir=out_dir,
            environment={
                "OUT": str(out_dir),
                "TESTS": str(Path(__file__).parent),
                "BUILT": str(self.built),
                "UNPACKED": str(self.modules.parents[2]),
                "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
            },
            accel=os.environ.get("LINNOS_QEMU_ACCEL", "auto"),
            timeout_s=1800 * float(os.environ.get("LINNOS_QEMU_PATIENCE", "1")),
        )
        stdout, stderr = io.BytesIO(), io.BytesIO()
        result = run(["sh", "-ec", script], guest, stdout=stdout, stderr=stderr)
        assert not result.status, (
            f"status {result.status} of {shlex.quote(script)}\n{stdout.getvalue().decode()}\n"
            f"{stderr.getvalue().decode()}\n{result.dmesg[-3000:]}"
        )
        return result.dmesg


def debian_kernel(name: str, *, ours: bool = True, raid: bool = False) -> DebianKernel:
    """The kernel that ``make NAME`` has unpacked, or the test is skipped.

    Parameters
    ----------
    name : str
        A target of the Makefile.
    ours : bool
        With our modules.
    raid : bool
        Also raid1.ko and raid10.ko.
    """
    unpacked = REPOSITORY / "build" / name
    images = list((unpacked / "boot").glob("vmlinuz-*"))
    if not images:
        pytest.skip(f"{unpacked}: no kernel; make {name}")
    release = images[0].name.removeprefix("vmlinuz-")
    modules = unpacked / "lib" / "modules" / release
    built = REPOSITORY / "build" / "module" / release
    if not ours:
        return DebianKernel(images[0], modules, built)
    if not Path(f"/usr/src/linux-headers-{release}").exists():
        pytest.skip(f"no headers of {release}; make module-debian")
    command = [BUILD, "--kernel", release, "--out", built, "--stock", modules]
    if raid:
        source = "linux-source-" + ".".join(release.split(".")[:2])
        if not Path(f"/usr/src/{source}.tar.xz").exists():
            pytest.skip(f"no source of {release}; make module-debian")
        command.append("--raid")
    subprocess.run(command, check=True)
    return DebianKernel(images[0], modules, built)
