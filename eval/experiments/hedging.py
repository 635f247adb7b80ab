# SPDX-License-Identifier: MIT
"""The cost of hedging: the reads that LinnOS+HL sends twice, and the reads that it does not.

LinnOS and LinnOS+HL replay the same reads with the same networks. The reads that LinnOS+HL sends
twice, and those that it sends once, are compared with the same reads under LinnOS alone. If the
reads that are sent once are slower, the copies slow down the drives for all.
"""

from __future__ import annotations

from eval import grid
from eval.cells import WORKLOADS, read_log, replayed
from eval.experiment import Context
from eval.experiments import published
from eval.study import Study, load_study_texts
from linnapp.trace.replay_log import HEDGED


def measure(context: Context, *, workload: str, policy: str, seed: int) -> dict[str, float]:
    """Compare the reads of two replays of a cell."""
    cell = grid.cell(workload, seed)
    alone, hedged = (
        read_log(replayed(context.cache, published.replay_of(context, cell, name)).log)
        for name in ("linnos", policy)
    )
    twice = hedged["flags"] & HEDGED != 0
    size = hedged["size_bytes"].astype(float)
    return {
        "hedged_ratio": float(twice.mean()),
        "hedged_bytes_ratio": float(size[twice].sum() / size.sum()),
        "kib_twice": float(size[twice].mean() / 1024),
        "kib_once": float(size[~twice].mean() / 1024),
        "twice_alone_us": float(alone["latency_us"][twice].mean()),
        "twice_us": float(hedged["latency_us"][twice].mean()),
        "once_alone_us": float(alone["latency_us"][~twice].mean()),
        "once_us": float(hedged["latency_us"][~twice].mean()),
        "mean_alone_us": float(alone["latency_us"].mean()),
        "mean_us": float(hedged["latency_us"].mean()),
    }


EXPERIMENT = Study(
    **load_study_texts("hedging"),
    factors={"workload": WORKLOADS},
    policies=("linnos-hl",),
    cell=measure,
    prepare=published.prepare,
    sources=("eval/experiments/published.py",),
)
