# SPDX-License-Identifier: MIT
"""The kernel and the replayer that everything is run on: copies of what `make` built."""

from __future__ import annotations

from pathlib import Path

from eval.cache import ROOT
from linnapp.lab.guests import use_copies
from linnapp.lab.uml import DEFAULT_KERNEL
from linnapp.lab.work import keep_copy

REPLAYER = ROOT / "build" / "replayer" / "replayer"


def keep_programs(out: Path) -> None:
    """Run copies of the kernel and the replayer, in ``bin`` here: a build then changes nothing."""
    programs = out / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for program, target in ((DEFAULT_KERNEL, "kernel"), (REPLAYER, "replayer")):
        if not program.exists():
            raise SystemExit(f"{program}: not there; `make {target}` builds it")
        keep_copy(program, programs / program.name)
    programs = programs.resolve()
    use_copies(programs / DEFAULT_KERNEL.name, programs)
