# SPDX-License-Identifier: MIT
"""Copies of the kernel and the replayer, on which all experiments run."""

from __future__ import annotations

from pathlib import Path

from eval.cache import ROOT
from linnapp.lab.guests import use_copies
from linnapp.lab.uml import DEFAULT_KERNEL
from linnapp.lab.work import keep_copy

REPLAYER = ROOT / "build" / "replayer" / "replayer"


def keep_programs(out: Path) -> None:
    """Copy the kernel and the replayer to ``bin`` and use the copies, which no build changes."""
    programs = out / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for program, target in ((DEFAULT_KERNEL, "kernel"), (REPLAYER, "replayer")):
        if not program.exists():
            raise SystemExit(f"{program} does not exist; `make {target}` builds it")
        keep_copy(program, programs / program.name)
    programs = programs.resolve()
    use_copies(programs / DEFAULT_KERNEL.name, programs)
