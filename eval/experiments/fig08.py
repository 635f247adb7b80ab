# SPDX-License-Identifier: MIT
"""Mean read latency of every policy on the paper's eight workloads, with bounds and intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eval import contenders, grid
from eval.cache import RESULTS, ROOT
from eval.cells import WORKLOADS, Replayed, replayed
from eval.experiment import GRID_SOURCES, Context
from eval.study import Study
from linnapp.lab.demo import with_duplicates

#: The policies whose means are compared with those of all others.
COMPARED = (
    "linnos", "linnos-hl", "linnos-hl, 5% cap", "fastest",
    *(with_duplicates("fastest", limit) for limit in ("", "5%", "10%")), "heuristic-adv", "verdict",
)  # fmt: skip


def prepare(context: Context, *, workload: str, seed: int, replicate_writes: bool = False) -> None:
    """Record a workload and train its models."""
    cell = replace(grid.cell(workload, seed), replicate_writes=replicate_writes)
    grid.prepare_cell(context.cache, cell)


def measure(
    context: Context, *, workload: str, policy: str, seed: int, replicate_writes: bool = False
) -> Replayed:
    """Replay a workload under a policy."""
    cache = context.cache
    cell = replace(grid.cell(workload, seed), replicate_writes=replicate_writes)
    (contender,) = contenders.named([policy])
    return replayed(cache, grid.replay_of(cache, cell, contender))


EXPERIMENT = Study(
    name="fig08",
    title="Mean read latency, all policies and bounds",
    source="LinnOS Fig. 8",
    factors={"workload": WORKLOADS},
    policies=contenders.NAMES,
    cell=measure,
    prepare=prepare,
    reads=True,
    compared=COMPARED,
    settings=grid.PARTS,
    paper="LinnOS with hedging lowers the average latency by 9.6 to 79.6 % compared to hedging at "
    "p95, 14.2 to 49.5 % to hedging at the inflection point, 10.7 to 71.2 % to the advanced "
    "heuristic, on all eight workloads.",
    differs="Emulated drives and generated workloads with the statistics of the paper's Table 1, "
    "not its production traces on real SSDs. On the enterprise array each ten seconds of a "
    "workload are represented by their first part. The alternatives run as published and with "
    "extra I/O capped at 5 %; `heuristic-adv` is tuned on the recording. The bounds are additions: "
    "`oracle` asks the emulator which replica would answer first, `verdict` whether each would be "
    "slow.",
    notes="Latencies count from the moment at which the workload wants a read. Where a drive "
    "cannot sustain the workload for a while, I/Os are submitted late (`late_ios`). Each drive has "
    "its own writes, and each read is compared with the data of the drive that served it.",
    sources=(*GRID_SOURCES, "eval/tuning.py"),
    pages={"fig08.md.j2": RESULTS / "tables.md", "results.md.j2": ROOT / "docs" / "results.md"},
)


def changed(**fields: Any) -> dict[str, Any]:
    """Return the fields of the study with some replaced, for an experiment that varies it."""
    return {**vars(EXPERIMENT), **fields}
