# SPDX-License-Identifier: MIT
"""What a kernel without LinnOS can have: the same cells on both kernels.

    make eval-stock

Not among what `make eval` runs: it needs a kernel of its own (`make kernel-unpatched`).

Policies of the replayer that ask no kernel are replayed on both, and must come out the same.
liblinnos itself, `linnos_pread()`, serves the reads of the same workloads, each when it is due, by
256 threads; the replayer does the writes, which liblinnos does not see.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from eval import contenders, grid, guests, scores
from eval.cells import Cell, Replay, Replayed, brief, reads_of, replayed
from eval.contenders import Contender
from eval.experiment import Context, Experiment
from eval.experiments.stock.lab import STOCK_KERNEL, OfKernel, Reading, compiled, read
from eval.experiments.stock.text import (
    BOTH_READ,
    BOTH_REPLAYED,
    PATCHED_READ,
    PATCHED_REPLAYED,
    draw,
    reading,
    stock,
    table,
)
from eval.intervals import BLOCKS, RESAMPLES
from eval.work import Step, StepError
from linnapp.stats import LEVEL

#: Those of Table 1 for the enterprise array, each with a seed of its own.
WORKLOADS = ("az-e", "bi-e", "bs-e", "co-e")

#: Must be the same on both kernels, read by read: they know nothing of models.
MUST_BE_EQUAL = ("baseline", "hedge")

PARAMETERS: dict[str, Any] = {
    "workloads": WORKLOADS,
    "both": [*BOTH_REPLAYED, *BOTH_READ],
    "with LinnOS": [*PATCHED_REPLAYED, *PATCHED_READ],
    **grid.PARTS,
    "level": LEVEL,
    "resamples": RESAMPLES,
    "blocks": BLOCKS,
}


def run(context: Context) -> dict[str, Any]:
    """Every cell on the kernel with LinnOS, then on the one without."""
    cache = context.cache
    program = compiled(context.folder)
    cells = grid.seed_a_workload(WORKLOADS, context.seeds)
    results: dict[Cell, dict[str, Replayed]] = {cell: {} for cell in cells}

    def do(
        who: tuple[Contender, ...], readers: tuple[str, ...], of: OfKernel | None = None
    ) -> None:
        work = context.work()
        steps: dict[Cell, dict[str, Step[Replayed]]] = {}
        ready = grid.preparing(work, cache, cells, tune=False)
        for cell in cells:
            named = steps[cell] = {}
            for contender in who:
                replay = Replay(cell, contender.policy, options=contender.options)
                named[contender.name] = work.add(
                    "replaying", partial(replayed, of or cache, replay), ready[cell]
                )
            for name in readers:
                one = partial(read, of or cache, program, Reading(cell, name))
                named[name] = work.add("reading by liblinnos", one, ready[cell])
        work.do()
        for cell, named in steps.items():
            for name, step in named.items():
                results[cell][stock(name) if of else name] = step.result

    do(
        contenders.named((*BOTH_REPLAYED, *PATCHED_REPLAYED)),
        (*BOTH_READ, *PATCHED_READ),
    )
    with guests.on_kernel(STOCK_KERNEL, "kernel-unpatched", context.folder.parent / "bin"):
        do(contenders.named(BOTH_REPLAYED), BOTH_READ, OfKernel(cache, "replay", "reading"))
    same = {
        cell.workload: {
            name: _n_different(results[cell][name], results[cell][stock(name)])
            for name in (*BOTH_REPLAYED, *BOTH_READ)
        }
        for cell in cells
    }
    for cell in cells:
        for name in MUST_BE_EQUAL:
            if same[cell.workload][name]:
                raise StepError(
                    f"{cell.label}: under {name} {same[cell.workload][name]} reads took another "
                    "time on the kernel without LinnOS"
                )
    return {
        "cells": [
            {**grid.where(cell), **scores.of_repeats([results[cell]], cell.replay_s)}
            for cell in cells
        ],
        "different": same,
        "counted": {
            cell.workload: {
                name: one.summary["counted"]
                for name, one in results[cell].items()
                if "counted" in one.summary
            }
            for cell in cells
        },
        "runs": [brief(one.summary) for named in results.values() for one in named.values()],
    }


def _n_different(one: Replayed, other: Replayed) -> int:
    """How many reads did not take the same time to the tick."""
    return int(np.sum(reads_of(one)["latency_us"] != reads_of(other)["latency_us"]))


EXPERIMENT = Experiment(
    name="stock",
    title="liblinnos on a kernel without LinnOS",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    differs="As for Fig. 8, one seed a cell. `linnos_pread()` has each replica in turn as home, "
    "not the trace's own drive; what they read is not compared with what was written. A program's "
    "own time is none in the lab.",
    sources=("eval/grid.py", "eval/contenders.py", "eval/scores.py", "eval/intervals.py"),
)
