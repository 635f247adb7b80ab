# SPDX-License-Identifier: MIT
"""The same cells on a kernel with LinnOS and on one without.

    make eval-stock

`make eval` does not run it: it needs a kernel of its own (`make kernel-unpatched`).

Policies of the replayer that query no kernel are replayed on both, and must give the same results.
liblinnos itself, `linnos_pread()`, serves the reads of the same workloads, each when it is due, by
256 threads; the replayer does the writes, which liblinnos does not see.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eval import contenders, grid
from eval.cells import Replay, Replayed, reads_of, replayed
from eval.experiment import GRID_SOURCES, Context
from eval.experiments.stock.lab import STOCK_KERNEL, OfKernel, Reading, compiled, read
from eval.long_table import LongTable
from eval.scores import Reads, as_reads
from eval.study import READ_MEASURES, Measure, Study
from linnapp.lab import guests
from linnapp.lab.demo import with_duplicates
from linnapp.lab.work import StepError

#: The enterprise workloads of Table 1, each with a seed of its own.
WORKLOADS = ("az-e", "bi-e", "bs-e", "co-e")

#: The policies that run on both kernels: those of the replayer, and ways of read_trace.c.
BOTH_REPLAYED = ("baseline", "hedge", "fastest", with_duplicates("fastest"))
BOTH_READ = ("home", "liblinnos", "hedged")

#: The policies that need LinnOS in the kernel.
PATCHED_REPLAYED = ("linnos", "linnos-hl, 5% cap")
PATCHED_READ = ("asked",)

PATCHED = (*BOTH_REPLAYED, *BOTH_READ, *PATCHED_REPLAYED, *PATCHED_READ)

#: Policies without models; each of their reads must take the same time on both kernels.
MUST_BE_EQUAL = ("baseline", "hedge")

_ON_STOCK = ", stock kernel"
STOCK = tuple(f"{name}{_ON_STOCK}" for name in (*BOTH_REPLAYED, *BOTH_READ))

MINE = f"liblinnos{_ON_STOCK}"
PAIRS = (
    *((MINE, f"{name}{_ON_STOCK}") for name in ("baseline", "hedge", "fastest")),
    *((MINE, name) for name in ("asked", "linnos", "linnos-hl, 5% cap")),
    (f"hedged{_ON_STOCK}", MINE),
)


def prepare(context: Context, *, workload: str, seed: int) -> None:
    """Prepare a cell, and compile the program that reads through liblinnos."""
    grid.prepare_cell(context.cache, grid.cell(workload, seed), tune=False)


def _measured(context: Context, workload: str, policy: str, seed: int, kernel: str) -> Replayed:
    cell = grid.cell(workload, seed)
    cache = OfKernel(context.cache, "replay", "reading") if kernel else context.cache
    if policy in (*BOTH_READ, *PATCHED_READ):
        return read(cache, compiled(context.folder), Reading(cell, policy))
    (contender,) = contenders.named([policy])
    return replayed(cache, Replay(cell, contender.policy, options=contender.options))


def measure(context: Context, *, workload: str, policy: str, seed: int) -> Reads:
    """Replay or read a cell on a kernel; on the stock one, count the reads that differ."""
    name = policy.removesuffix(_ON_STOCK)
    done = _measured(context, workload, name, seed, policy[len(name) :])
    reads = as_reads(done)
    if name == policy:
        return reads
    patched = reads_of(_measured(context, workload, name, seed, ""))
    n_different = int(np.sum(reads.latency_us != patched["latency_us"]))
    if n_different and name in MUST_BE_EQUAL:
        raise StepError(
            f"{workload}: under {name} {n_different} reads have another latency on the kernel "
            "without LinnOS"
        )
    return reads._replace(summary={**reads.summary, "n_different": n_different})


class StockStudy(Study):
    """A study whose cells run on two kernels, one after the other."""

    def run(self, context: Context) -> LongTable:
        """Run the cells on each kernel; then take all of them from the cache."""
        compiled(context.folder)
        replace(self, policies=PATCHED).run_cells(context)
        with guests.on_kernel(STOCK_KERNEL, "kernel-unpatched", context.folder.parent / "bin"):
            replace(self, policies=STOCK).run_cells(context)
        return super().run(context)


EXPERIMENT = StockStudy(
    name="stock",
    title="liblinnos on a kernel without LinnOS",
    factors={"workload": WORKLOADS},
    policies=(*PATCHED, *STOCK),
    cell=measure,
    prepare=prepare,
    reads=True,
    seeds=grid.seed_of_workload(WORKLOADS),
    seed_fields=("reads", "response_mean_us", "n_different"),
    compared=tuple(dict.fromkeys(policy for policy, _ in PAIRS)),
    pairs=PAIRS,
    measures={
        **READ_MEASURES,
        "n_different": Measure("reads that differ between the kernels"),
    },
    settings=grid.PARTS,
    differs="As for Fig. 8, one seed a cell. The default replica of `linnos_pread()` is each in "
    "turn, not the trace's own drive; its reads are not compared with the writes. A program's own "
    "time is zero in the lab.",
    notes="`home`, `liblinnos` and `hedged` are reads by a program: from the default replica, by "
    "`linnos_pread()`, and by `linnos_pread()` that hedges up to 5 % of the reads. `asked` uses "
    "`linnos_kernel_best_drives()`. The other policies are the replayer's.",
    sources=(*GRID_SOURCES, "eval/experiments/stock/lab.py"),
)
