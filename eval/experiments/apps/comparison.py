# SPDX-License-Identifier: MIT
"""Runs as numbers with their intervals: off, on; the same load in the same stretches of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval import intervals
from eval.experiments.apps.reports import Operations
from eval.intervals import BLOCKS, Blocks, Pooled
from eval.scores import key
from linnapp import stats

#: Of the application's latencies.
PERCENTS = (50.0, 95.0, 99.0, 99.9)

#: Those whose difference is given.
COMPARED = (95.0, 99.0, 99.9)

#: md's attribute, as modes are called: off; on, with the paper's networks; on, with models of
#: latencies; the same by the modules, on a kernel without LinnOS. The others are compared with the
#: first.
OFF, ON, LATENCY, MODULE = "off", "on", "latency", "module"

#: Enough for intervals in whole percents.
RESAMPLES = 2000


def blocks_of(runs: Mapping[str, Operations]) -> tuple[Blocks, dict[str, NDArray[Any]]]:
    """One cell's runs of the same load, cut into stretches of time; and their latencies, by mode.

    Operations of one mode are not those of another one by one, where a client waits for the last
    one before it begins the next; what is paired is the time, and so the background.
    """
    n_blocks = BLOCKS
    # What is only known by stretches of time has no others.
    for operations in runs.values():
        if operations.totals_us is not None:
            n_blocks = len(operations.totals_us)
    seconds = max(operations.seconds for operations in runs.values())
    # A share of the run, since repeats of a benchmark may take a little longer.
    share = {mode: o.start_us / (o.seconds * 1e6) for mode, o in runs.items()}
    blocks = Blocks(np.concatenate(list(share.values())) * seconds * 1e6, seconds * 1e6, n_blocks)
    latency = np.concatenate([o.latency_us for o in runs.values()])
    whose = np.repeat(np.arange(len(runs)), [len(o.latency_us) for o in runs.values()])
    for i, (mode, operations) in enumerate(runs.items()):
        blocks.add(mode, latency, whose == i)
        if operations.totals_us is not None:
            blocks.total_us[mode] = operations.totals_us.astype(np.float64)
    return blocks, {mode: o.latency_us for mode, o in runs.items()}


def score(cells: Sequence[Mapping[str, Operations]]) -> dict[str, Any]:
    """The numbers of a load over some cells.

    Parameters
    ----------
    cells : sequence of mapping
        The runs of each, by mode; the same modes in all.

    Returns
    -------
    dict
        ``operations`` and ``per_s`` by mode; ``modes``: {mode: {field: [value, low, high]}}, a
        percentile that rests on too few operations null; of ``ON``, ``LATENCY`` and ``MODULE``,
        ``below``: {mode: {field: by which share it is lower than off}}, ``throughput``: {mode: by
        which factor more operations were done than off}; where there are both, ``module_below``:
        {field: by which share it is lower with ``MODULE`` than with ``LATENCY``}.
    """
    made = [blocks_of(runs) for runs in cells]
    drawn = Pooled([blocks for blocks, _ in made], PERCENTS)
    pooled = {mode: np.concatenate([of[mode] for _, of in made]) for mode in drawn.policies}
    modes: dict[str, dict[str, Any]] = {}
    for mode, latency in pooled.items():
        modes[mode] = {"mean_us": drawn.mean(mode).to_json()}
        for percent in PERCENTS:
            value = intervals.percentile(latency, percent)
            modes[mode][key(percent)] = (
                None if value is None else drawn.percentile(mode, percent, value).to_json()
            )
    scored: dict[str, Any] = {
        "cells": len(cells),
        "operations": {mode: len(latency) for mode, latency in pooled.items()},
        "per_s": {
            mode: len(latency) / sum(runs[mode].seconds for runs in cells)
            for mode, latency in pooled.items()
        },
        "modes": modes,
        "below": {},
        "throughput": {},
    }

    def lower(mode: str, other: str) -> dict[str, list[float | None] | None]:
        found: dict[str, list[float | None] | None] = {
            "mean_us": drawn.below(mode, other).to_json()
        }
        for percent in COMPARED:
            values = [modes[one][key(percent)] for one in (mode, other)]
            found[key(percent)] = (
                None
                if None in values
                else drawn.percentile_below(
                    mode, other, percent, (values[0][0], values[1][0])
                ).to_json()
            )
        return found

    if MODULE in modes and LATENCY in modes:
        scored["module_below"] = lower(MODULE, LATENCY)
    for on in (mode for mode in (ON, LATENCY, MODULE) if mode in modes and OFF in modes):
        scored["below"][on] = lower(on, OFF)
        counts = [
            np.concatenate([blocks.count[mode] / runs[mode].seconds
                            for (blocks, _), runs in zip(made, cells, strict=True)])
            for mode in (on, OFF)
        ]  # fmt: skip
        ratio = stats.ratio_interval(counts[0].tolist(), counts[1].tolist())
        scored["throughput"][on] = ratio.to_json()
    return scored


def summed(counted: Iterable[Mapping[str, Sequence[int]]]) -> dict[str, list[int]]:
    """Counts of several runs, drive by drive."""
    listed = list(counted)
    return {name: [sum(of) for of in zip(*(one[name] for one in listed), strict=True)]
            for name in listed[0]}  # fmt: skip
