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
from dataclasses import dataclass, replace
from typing import Any

from eval import tuning
from eval.cache import Cache
from eval.cells import (
    ARRAY_OF,
    LATENCY_TRAINING,
    WINDOW_S,
    Cell,
    Replay,
    recorded,
    trained,
)
from eval.contenders import Contender
from eval.experiment import Context
from linnapp.lab.array import Array

ARRAYS = ("consumer", "enterprise")

#: Size of each drive. The profiles are made for 16 GiB; a drive's data is in the guest's memory.
SIZE_MB = Array.size_mb


@dataclass(frozen=True)
class Length:
    """The lengths of a cell's two parts, and how much of each ten seconds is kept."""

    train_s: float
    replay_s: float
    kept_s: float = WINDOW_S


LENGTHS = {
    "az-c": Length(260, 35),
    "bi-c": Length(600, 70),
    "bs-c": Length(1500, 140),
    "co-c": Length(960, 70),
    "az-e": Length(12, 2.5, 0.5),
    "bi-e": Length(65, 9, 1),
    "bs-e": Length(99, 10, 1),
    "co-e": Length(65, 6, 0.5),
}


def cell(workload: str, seed: int) -> Cell:
    """A cell of the grid, on the workload's own array."""
    length = LENGTHS[workload]
    return Cell(
        workload, ARRAY_OF[workload], seed, length.train_s, length.replay_s,
        kept_s=length.kept_s, size_mb=SIZE_MB,
    )  # fmt: skip


def seed_a_workload(workloads: Sequence[str], seeds: Sequence[int]) -> list[Cell]:
    """Some workloads, each with one seed of its own; as many as there are seeds."""
    return [cell(workload, seed) for workload, seed in zip(workloads, seeds, strict=False)]


def seed_of_workload(workloads: Sequence[str]) -> Callable[..., Sequence[int]]:
    """Return a study's `seeds` that gives each workload one seed of its own."""

    def seeds(of_context: Sequence[int], *, workload: str, **_: Any) -> Sequence[int]:
        i = workloads.index(workload)
        return of_context[i : i + 1]

    return seeds


def replay_of(cache: Cache, cell: Cell, contender: Contender, **changes: Any) -> Replay:
    """The replay of a cell under a contender, its thresholds learnt from the recording."""
    options = contender.options
    if contender.policy == "heuristic":
        options += tuning.heuristic_options(cache, cell)
    elif contender.policy == "heuristic-adv":
        options += tuple(tuning.tune(cache, cell)["options"])
    made = Replay(cell, contender.policy, options=options)
    return replace(made, **{**changes, "options": (*options, *changes.get("options", ()))})


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
