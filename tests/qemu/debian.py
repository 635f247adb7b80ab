# SPDX-License-Identifier: MIT
"""Kernels without LinnOS under QEMU, with our modules built for them: Debian's own, and debug
kernels of the same source."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from guest_runs import GuestResult, run_script
from kernel_log import complaints

from linnapp.lab.guest import REPOSITORY
from linnapp.lab.qemu import QemuGuest, run

BUILD = REPOSITORY / "kernel" / "module" / "build.sh"

#: Kernels that `make kernel-debian`, -6.1 and -backports have unpacked, and the kernels with
#: sanitizers of `make kernel-x86-kasan-module` and -kcsan.
BUILT_HERE = ("kernel-debian", "kernel-debian-6.1")
DEBIAN = (*BUILT_HERE, "kernel-debian-backports")
DEBUG = ("linux-x86-kasan-module", "linux-x86-kcsan-module")
ALL = (*DEBIAN, *(pytest.param(name, marks=pytest.mark.debug) for name in DEBUG))

#: The Debian 13 that the modules for its newest kernel are built in.
DEBIAN_13 = Path(os.environ.get("DEBIAN_13", Path.home() / ".cache" / "linnos" / "trixie"))

#: The drives' driver is a module, so that it can be removed.
_DRIVES = """\
modprobe -d {unpacked} nvme
for k in $(seq 0 {last}); do until [ -b /dev/nvme${{k}}n1 ]; do sleep 0.1; done; done
"""


@dataclass(frozen=True)
class DebianKernel:
    """A kernel as Debian builds it, or the same source with a debug configuration.

    Attributes
    ----------
    image : Path
        The kernel.
    modules : Path
        Its modules, below the folder that it was unpacked to.
    built : Path
        The folder with our modules for it.
    has_root : bool
        True if everything that its root file system needs is built in.
    """

    image: Path
    modules: Path
    built: Path
    has_root: bool = False

    def boot(
        self,
        script: str,
        out_dir: Path,
        *,
        n_cpus: int = 2,
        n_drives: int = 2,
        n_paths: int = 1,
        drive_mb: int = 256,
    ) -> GuestResult:
        """Run a script in it.

        The script sees ``$OUT``, ``$TESTS``, this folder, ``$BUILT``, and ``$UNPACKED`` for
        ``modprobe -d``. The test fails if the script fails, or if the kernel log contains an error.
        """
        unpacked = str(self.modules.parents[2])
        # The heads of multipath drives have other numbers; a script waits for them.
        waited_for = n_drives if n_paths == 1 else 0
        drives = _DRIVES.format(unpacked=shlex.quote(unpacked), last=waited_for - 1)
        guest = QemuGuest(
            kernel=self.image,
            modules=None if self.has_root else self.modules,
            setup=drives if self.has_root else "",
            n_cpus=n_cpus,
            n_drives=n_drives,
            n_paths=n_paths,
            drive_mb=drive_mb,
            # Our modules switch trace points under load. The debug kernels are for finding races.
            one_thread=not self.has_root,
            out_dir=out_dir,
            environment={
                "OUT": str(out_dir),
                "TESTS": str(Path(__file__).parent),
                "BUILT": str(self.built),
                "UNPACKED": unpacked,
                "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
            },
            accel=os.environ.get("LINNOS_QEMU_ACCEL", "auto"),
            timeout_s=1800 * float(os.environ.get("LINNOS_QEMU_PATIENCE", "1")),
        )
        result = run_script(run, guest, script, out_dir)
        found = complaints(result.dmesg)
        assert not found, "\n".join(found) + "\n" + result.dmesg[-3000:]
        return result


def debian_kernel(name: str, *, ours: bool = True, raid: bool = False) -> DebianKernel:
    """Return a kernel, or skip the test.

    Parameters
    ----------
    name : str
        A name in ``DEBIAN`` or ``DEBUG``.
    ours : bool
        Build our modules for it.
    raid : bool
        Build raid1.ko and raid10.ko as well.
    """
    unpacked = REPOSITORY / "build" / name
    if name in DEBUG:
        return _debug_kernel(unpacked)
    images = list((unpacked / "boot").glob("vmlinuz-*"))
    if not images:
        pytest.skip(f"{unpacked}: no kernel; make {name}")
    release = images[0].name.removeprefix("vmlinuz-")
    modules = unpacked / "lib" / "modules" / release
    built = REPOSITORY / "build" / "module" / release
    if not ours:
        return DebianKernel(images[0], modules, built)
    sources = Path("/usr/src")
    command = [BUILD, "--kernel", release, "--out", built, "--stock", modules]
    if name not in BUILT_HERE:
        if os.geteuid():
            pytest.skip(f"the modules are built in {DEBIAN_13} by chroot, which needs root")
        command += ["--chroot", DEBIAN_13]
        sources = DEBIAN_13 / "usr" / "src"
    if not (sources / f"linux-headers-{release}").exists():
        pytest.skip(f"no headers of {release}; make module-debian")
    if raid:
        source = "linux-source-" + ".".join(release.split(".")[:2])
        if not (sources / f"{source}.tar.xz").exists():
            pytest.skip(f"no source of {release}; make module-debian")
        command.append("--raid")
    subprocess.run(command, check=True)
    return DebianKernel(images[0], modules, built)


def _debug_kernel(folder: Path) -> DebianKernel:
    image = folder / "bzImage"
    if not image.exists():
        pytest.skip(f"{image}: no kernel; make {folder.name.replace('linux', 'kernel')}")
    built = REPOSITORY / "build" / "module" / folder.name
    subprocess.run([BUILD, "--built", folder, "--raid", "--out", built], check=True)
    release = (folder / "include" / "config" / "kernel.release").read_text().strip()
    return DebianKernel(image, folder / "root" / "lib" / "modules" / release, built, has_root=True)
