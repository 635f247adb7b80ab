# SPDX-License-Identifier: MIT
"""Fixtures of the QEMU lab's tests: boot the guest and check its kernel log."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from guest_runs import GuestResult, run_script
from kernel_log import complaints

from linnapp.lab.guest import CrashError
from linnapp.lab.qemu import DEFAULT_KERNEL, QemuGuest, run

BootQemu = Callable[..., GuestResult]


@pytest.fixture
def boot_qemu(tmp_path: Path) -> BootQemu:
    """Boot the x86-64 kernel with NVMe drives and, by default, two CPUs; run a script in it.

    The script sees ``$OUT``, the test's ``tmp_path``, which it may write to, ``$TESTS``, this
    folder, and ``$PATIENCE``. The test fails if the script fails, or if the kernel log contains an
    error. $LINNOS_X86_KERNEL selects another kernel, and $LINNOS_QEMU_ACCEL kvm or tcg.
    $LINNOS_QEMU_PATIENCE is a factor for the time that a test may take, for slow kernels.
    """
    kernel = Path(os.environ.get("LINNOS_X86_KERNEL", DEFAULT_KERNEL))
    if not kernel.exists():
        pytest.fail(f"{kernel}: no QEMU lab kernel; `make kernel-x86` builds it")

    patience = float(os.environ.get("LINNOS_QEMU_PATIENCE", "1"))

    def boot(
        script: str,
        *,
        n_cpus: int = 2,
        n_drives: int = 3,
        n_paths: int = 1,
        drive_mb: int = 256,
        kernel_args: tuple[str, ...] = (),
        timeout_s: float = 1800,
    ) -> GuestResult:
        guest = QemuGuest(
            kernel=kernel,
            out_dir=tmp_path,
            environment={
                "OUT": str(tmp_path),
                "TESTS": str(Path(__file__).parent),
                "PATIENCE": str(round(patience)),
                "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
            },
            n_cpus=n_cpus,
            n_drives=n_drives,
            n_paths=n_paths,
            drive_mb=drive_mb,
            accel=os.environ.get("LINNOS_QEMU_ACCEL", "auto"),
            kernel_args=kernel_args,
            timeout_s=timeout_s * patience,
        )
        before = set(tmp_path.iterdir())
        try:
            result = run_script(run, guest, script, tmp_path)
        except CrashError as crash:
            # QEMU itself has crashed, which is not what the test checks.
            warnings.warn(f"once more: {crash}", stacklevel=1)
            for path in set(tmp_path.iterdir()) - before:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            result = run_script(run, guest, script, tmp_path)
        found = complaints(result.dmesg)
        assert not found, "\n".join(found) + "\n" + result.dmesg[-6000:]
        return result

    return boot
