# SPDX-License-Identifier: MIT
"""The evaluation's cells: the paper's eight workloads, each on its array, and how long each takes.

Lengths are such that a model learns from at least ``TRAINING_READS`` reads of its drive, whatever
rates a seed draws, and that all of it takes four hours on two cores. Five replays of Azure have the
100,000 reads on which p99.9 can rest; the others, whose reads and writes are larger and take the
lab longer, some 50,000. Their times differ by two orders of magnitude between the workloads; a
replay takes as long as its I/Os.

On the consumer array the workloads run as they are. On the enterprise array each ten seconds of the
workload, in which its rate is constant, are represented by their first part (``kept_s``): so a
replay of seconds still meets a dozen rates, from quiet to the maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eval import contenders, tuning
from eval.cache import Cache
from eval.cells import (
    ARRAY_OF,
    LATENCY_TRAINING,
    WINDOW_S,
    Cell,
    Replay,
    Replayed,
    recorded,
    replayed,
    trained,
)
from eval.experiment import Context
from linnapp.lab.array import Array

#: Size of each drive. The profiles are made for 16 GiB; a drive's data is in the guest's memory.
SIZE_MB = Array.size_mb


#: The lengths of a cell's two parts for each workload, and how much of each ten seconds is kept.
LENGTHS_S = {
    "az-c": (260, 35, WINDOW_S),
    "bi-c": (600, 70, WINDOW_S),
    "bs-c": (1500, 140, WINDOW_S),
    "co-c": (960, 70, WINDOW_S),
    "az-e": (12, 2.5, 0.5),
    "bi-e": (65, 9, 1),
    "bs-e": (99, 10, 1),
    "co-e": (65, 6, 0.5),
}

#: Seconds of the replays with injected slowness, by workload: about six thousand reads of the first
#: drive.
INJECTED_S = {"az-e": 1.0, "az-c": 20.0}


def cell(workload: str, seed: int) -> Cell:
    """Return a cell of the grid, on the workload's own array."""
    train_s, replay_s, kept_s = LENGTHS_S[workload]
    array = ARRAY_OF[workload]
    return Cell(workload, array, seed, train_s, replay_s, kept_s=kept_s, size_mb=SIZE_MB)


def seed_of_workload(workloads: Sequence[str]) -> Callable[..., Sequence[int]]:
    """Return a study's `seeds` that gives each workload one seed of its own."""

    def seeds(context_seeds: Sequence[int], *, workload: str, **_: Any) -> Sequence[int]:
        i = workloads.index(workload)
        return context_seeds[i : i + 1]

    return seeds


def replay(
    context: Context, cell: Cell, policy: str, inject: str | None = None, *options: str
) -> Replayed:
    """Replay a cell under a policy, by its name in tables; thresholds come from the recording."""
    (contender,) = contenders.named([policy])
    own = contender.options
    if contender.policy == "heuristic":
        own += tuning.heuristic_options(context.cache, cell)
    elif contender.policy == "heuristic-adv":
        own += tuple(tuning.tune(context.cache, cell)["options"])
    return replayed(context.cache, Replay(cell, contender.policy, inject, options=(*own, *options)))


def replay_injected(
    context: Context, workload: str, seed: int, policy: str, inject: str | None
) -> Replayed:
    """Replay a part of a workload with slow I/Os; see ``INJECTED_S``."""
    length = ("--duration", f"{INJECTED_S[workload]:g}")
    return replay(context, cell(workload, seed), policy, inject, *length)


def prepare_cell(cache: Cache, cell: Cell) -> None:
    """Record a cell and train its networks and models of latencies; tune what is tuned."""
    recorded(cache, cell)
    trained(cache, cell)
    trained(cache, cell, LATENCY_TRAINING)
    tuning.tune(cache, cell)


def record_place(context: Context, *, workload: str, seed: int) -> None:
    """Record a cell of a study whose factor is the workload."""
    recorded(context.cache, cell(workload, seed))


def prepare_place(context: Context, *, workload: str, seed: int, **_: Any) -> None:
    """Prepare a cell of a study whose factor is the workload."""
    prepare_cell(context.cache, cell(workload, seed))
