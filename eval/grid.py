# SPDX-License-Identifier: MIT
"""The evaluation's cells: every workload on both arrays, and how long each takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from eval.cells import RATES, WORKLOADS, Cell, Replay, Replayed, brief, replayed, trained
from eval.experiment import Context

ARRAYS = ("consumer", "enterprise")

#: Seconds of the two parts at the workload's own rate; longer where it is slowed down.
PARTS = {"train_s": 8.0, "replay_s": 2.0}


def cell(workload: str, array: str, seed: int) -> Cell:
    """A cell of the grid; where the workload is slowed down, it lasts longer."""
    stretch = 1 / RATES[array]
    return Cell(workload, array, seed, PARTS["train_s"] * stretch, PARTS["replay_s"] * stretch)


def cells(seeds: Sequence[int]) -> list[Cell]:
    """All cells of the grid, for each of these seeds."""
    return [
        cell(workload, array, seed) for workload in WORKLOADS for array in ARRAYS for seed in seeds
    ]


def seed_a_workload(workloads: Sequence[str], seeds: Sequence[int]) -> list[Cell]:
    """Some workloads on both arrays, each with one seed of its own."""
    return [
        cell(workload, array, seed)
        for workload, seed in zip(workloads, seeds, strict=False)
        for array in ARRAYS
    ]


def where(cell: Cell) -> dict[str, Any]:
    """What a row of an experiment's data says of its cell."""
    return {"workload": cell.workload, "array": cell.array, "seed": cell.seed}


def replay(context: Context, policies: Sequence[str]) -> list[Replayed]:
    """Record and train every cell of the grid, then replay it under these policies."""
    grid = cells(context.seeds)
    context.map(lambda cell: trained(context.cache, cell), grid, "recording and training")
    replays = [Replay(cell, policy) for cell in grid for policy in policies]
    return context.map(lambda replay: replayed(context.cache, replay), replays, "replaying")


def data(done: Sequence[Replayed]) -> dict[str, Any]:
    """An experiment's data of replays of the grid: ``runs`` and, in brief, ``grid``."""
    return {
        "runs": [result.summary for result in done],
        "grid": [{**where(result.replay.cell), **brief(result.summary)} for result in done],
    }


def means(data: dict[str, Any], key: str = "mean_us") -> dict[tuple[str, str], dict[str, float]]:
    """A field, averaged over the repeats: {(workload, array): {policy: value}}."""
    values: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in data["grid"]:
        values[run["workload"], run["array"]][run["policy"]].append(run[key])
    return {
        cell: {policy: float(np.mean(repeats)) for policy, repeats in policies.items()}
        for cell, policies in values.items()
    }
