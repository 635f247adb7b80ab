# SPDX-License-Identifier: MIT
"""The programs of kernel/bench, built and run: the admission path compiled for user space."""

from __future__ import annotations

import subprocess
from pathlib import Path

from eval.bench import MODEL, OUT
from eval.cache import ROOT

FOLDER = ROOT / "build" / "bench"


def build(target: str) -> None:
    """Make a target of kernel/bench, into `FOLDER`."""
    make = ["make", "--no-print-directory", "-s", "-C", str(ROOT / "kernel" / "bench")]
    subprocess.run([*make, f"OUT={FOLDER}", target], check=True)


def run(program: str, *arguments: str, quiet: bool = False) -> None:
    """Build one of kernel/bench's programs and run it.

    Parameters
    ----------
    quiet : bool
        Discard the table that it prints.
    """
    path = str(FOLDER / program)
    build(path)
    output = subprocess.DEVNULL if quiet else None
    subprocess.run([path, *arguments], check=True, stdout=output)


def latency_model(name: str = "latency.linnos", refuse_us: int = 100) -> Path:
    """Write a latency model of the size that training makes into a file of this name in `OUT`.

    Reads that are predicted to take longer than `refuse_us` are slow.
    """
    import numpy as np

    from linnapp.learn.trees import N_TREES
    from linnapp.model import N_FEATURES, N_LEAVES, N_SPLITS, LatencyModel

    # The cost does not depend on the values of the splits.
    random = np.random.default_rng(1)
    splits = random.integers(0, N_FEATURES, (N_TREES, N_SPLITS)) << 24
    splits |= random.integers(0, 1000, splits.shape)
    model = LatencyModel(
        splits.astype(np.uint32),
        random.integers(-100, 100, (N_TREES, N_LEAVES)).astype(np.int16),
        base=7 << 10,
        threshold_us=100,
        refuse_us=refuse_us,
        overdue_us=2**23,
    )
    path = OUT / name
    model.save(path)
    return path


def shared_lines() -> None:
    """Cache lines that CPUs transfer per I/O, with up to 64 simulated CPUs; exact counts."""
    results = str(OUT / "shared_lines.json")
    run("shared_lines", "-j", results, str(MODEL), str(latency_model()))
