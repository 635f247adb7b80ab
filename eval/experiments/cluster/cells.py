# SPDX-License-Identifier: MIT
"""Cells of reads from a cluster: which of them are measured, and how."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from eval import trace_files
from eval.experiment import Context
from eval.experiments.cluster import brought
from eval.experiments.cluster.lab import Measured, Situation, measured, recorded_and_trained
from linnapp.lab import guests
from linnapp.lab.cluster import CLUSTER_KERNEL
from linnapp.lab.work import Step, StepError

#: What tells cells apart, besides what all have in common.
_TOLD = (
    "load", "one_way_us", "clients", "lost_percent", "fails", "lies", "writes_percent", "nodes",
    "trace", "osd_us",
)  # fmt: skip


def chosen(
    variable: str, cells: Mapping[str, Situation], unnamed: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """What tells the cells apart that an environment variable names; if none, those `unnamed`."""
    names = tuple(name for name in os.environ.get(variable, "").split(",") if name)
    return {name: told(cells[name]) if name in cells else {} for name in names or unnamed}


def told(cell: Situation) -> dict[str, Any]:
    """What tells it from others."""
    return {key: value for key, value in asdict(cell).items() if key in _TOLD}


def of_traces(one_way_us: int) -> dict[str, Situation]:
    """A cell for each trace that is found, by its name."""
    try:
        found = brought.files()
    except StepError:
        # Said when one of them is asked for.
        return {}
    return {
        name: Situation(name, 0, one_way_us, trace=trace_files.digest_of(path))
        for name, path in found.items()
    }


def read(
    context: Context,
    client: Path,
    cells: Mapping[str, Situation],
    names: Sequence[str],
    rules: Sequence[str],
    scored: Callable[[list[dict[str, Measured]], int], dict[str, Any]],
    n_seeds: Mapping[str, int],
    variable: str,
    also: str = "",
) -> list[dict[str, Any]]:
    """The named cells under every rule, with one seed unless `n_seeds` says more of a cell.

    Each seed of each cell is in the cache once it is done. Where a name is unknown, `also` says how
    there are more of them.
    """
    for name in names:
        if name not in cells:
            raise StepError(f"{variable}: {name}: no such cell; known are {', '.join(cells)}{also}")
    met = {
        name: [replace(cells[name], seed=seed) for seed in context.seeds[: n_seeds.get(name, 1)]]
        for name in names
    }
    work = context.work()
    # Models are of the drives: those of one load serve every network.
    drives = {
        (one.load, one.seed, one.nodes): one for same in met.values() for one in same
    }  # fmt: skip
    for one in drives.values():
        work.add("training", partial(recorded_and_trained, context.cache, client, one))
    work.do()
    work = context.work()
    steps: dict[str, list[Step[dict[str, Measured]]]] = {name: [] for name in names}
    with guests.on_kernel(CLUSTER_KERNEL, "kernel-cluster", context.folder.parent / "bin"):
        for name, same in met.items():
            for one in same:
                do = partial(measured, context.cache, client, one, rules)
                steps[name].append(work.add(f"reading, {name}", do))
        work.do()
    return [
        {
            **told(cells[name]),
            **scored([step.result for step in steps[name]], cells[name].measured_ms),
        }
        for name in names
    ]
