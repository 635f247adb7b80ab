# SPDX-License-Identifier: MIT
"""Debian's own kernel in a guest whose time is the instructions that it runs.

QEMU translates, and lets one nanosecond pass for each instruction of all that runs on the one
processor: an exact clock, that no load of the machine disturbs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eval.cache import ROOT
from linnapp.lab.guest import LabError
from linnapp.lab.qemu import QemuGuest

#: What `make kernel-debian` unpacks.
FOLDER = ROOT / "build" / "kernel-debian"


def image() -> Path:
    """The kernel."""
    kernels = sorted((FOLDER / "boot").glob("vmlinuz-*"))
    if len(kernels) != 1:
        raise LabError(f"{FOLDER}: no kernel there; `make kernel-debian` unpacks Debian's")
    return kernels[0]


def release(kernel: Path) -> str:
    """Return the output of ``uname -r`` for a kernel."""
    return kernel.name.removeprefix("vmlinuz-")


def counting_guest(kernel: Path, **settings: Any) -> QemuGuest:
    """A guest of one processor, whose time is a count of instructions, with a kernel of `image`."""
    modules = FOLDER / "lib" / "modules" / release(kernel)
    return QemuGuest(kernel=kernel, modules=modules, counts_instructions=True, n_cpus=1, **settings)
