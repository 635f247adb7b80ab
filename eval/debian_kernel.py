# SPDX-License-Identifier: MIT
"""Debian's own kernel in a guest whose clock counts instructions.

QEMU emulates the only processor and advances the guest's clock by one nanosecond for each executed
instruction, so measured times do not depend on the load of the machine.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

from eval.cache import ROOT
from linnapp.lab.guest import DEFAULT_PATH, LabError
from linnapp.lab.qemu import QemuGuest, run

#: What `make kernel-debian` unpacks.
FOLDER = ROOT / "build" / "kernel-debian"

#: The PATH of Debian's root, with the folder of this Python interpreter in front.
PATH = os.pathsep.join([str(Path(sys.executable).parent), DEFAULT_PATH])


def image() -> Path:
    """Return the path of the kernel."""
    kernels = sorted((FOLDER / "boot").glob("vmlinuz-*"))
    if len(kernels) != 1:
        raise LabError(f"{FOLDER} contains no kernel; `make kernel-debian` unpacks Debian's kernel")
    return kernels[0]


def release() -> str:
    """Return the output of ``uname -r`` for the kernel."""
    return image().name.removeprefix("vmlinuz-")


def run_counting_instructions(script: str, **settings: Any) -> str:
    """Run a shell script in a new guest, and return its output.

    Parameters
    ----------
    settings
        Fields of :class:`~linnapp.lab.qemu.QemuGuest`.
    """
    modules = FOLDER / "lib" / "modules" / release()
    settings = {"n_drives": 0, "timeout_s": 1800, "environment": {"PATH": PATH}, **settings}
    guest = QemuGuest(
        kernel=image(), modules=modules, counts_instructions=True, n_cpus=1, **settings
    )
    output, errors = io.BytesIO(), io.BytesIO()
    result = run(["sh", "-ec", script], guest, stdout=output, stderr=errors)
    text = output.getvalue().decode()
    if result.status:
        raise LabError(f"the guest failed: {(text + errors.getvalue().decode())[-1000:]}")
    return text
