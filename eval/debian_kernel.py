# SPDX-License-Identifier: MIT
"""Debian's own kernel in a guest whose time is the instructions that it runs.

QEMU translates, and lets one nanosecond pass for each instruction of all that runs on the one
processor: an exact clock, that no load of the machine disturbs.
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

#: Finds programs as a shell of Debian's root does, and this Python.
PATH = os.pathsep.join([str(Path(sys.executable).parent), DEFAULT_PATH])


def image() -> Path:
    """Return the path of the kernel."""
    kernels = sorted((FOLDER / "boot").glob("vmlinuz-*"))
    if len(kernels) != 1:
        raise LabError(f"{FOLDER}: no kernel there; `make kernel-debian` unpacks Debian's")
    return kernels[0]


def release() -> str:
    """Return the output of ``uname -r`` for the kernel."""
    return image().name.removeprefix("vmlinuz-")


def counted(script: str, **settings: Any) -> str:
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
