# SPDX-License-Identifier: MIT
"""Compare the modes of runs with the same load in the same blocks of time, with intervals."""

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

#: Percentiles of the application's latencies.
PERCENTS = (50.0, 95.0, 99.0, 99.9)

#: Percentiles that are compared.
COMPARED = (95.0, 99.0, 99.9)

#: Modes: md's attribute off; on with the paper's networks; on with latency models; the same
#: with the modules on a kernel without LinnOS. All are compared with off.
OFF, ON, LATENCY, MODULE = "off", "on", "latency", "module"


def blocks_of(runs: Mapping[str, Operations]) -> tuple[Blocks, dict[str, NDArray[Any]]]:
    """Return the blocks of time of one cell's runs of a load, and the latencies by mode.

    A client that waits for one operation before the next does other operations in another mode.
    Therefore blocks of time are paired, which have the same background.
    """
    n_blocks = BLOCKS
    # Reports that have sums by block of time decide the number of blocks.
    for operations in runs.values():
        if operations.totals_us is not None:
            n_blocks = len(operations.totals_us)
    seconds = max(operations.seconds for operations in runs.values())
    # Times are shares of the run, because repeats of a benchmark can take slightly longer.
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
    """Compute the numbers of a load over some cells.

    Parameters
    ----------
    cells : sequence of mapping
        The runs of each cell, by mode. All cells have the same modes.

    Returns
    -------
    dict
        ``operations`` and ``per_s`` by mode; ``modes``: {mode: {field: [value, low, high]}}, a
        percentile of too few operations is null; ``below``: {mode: {field: reduction compared with
        off}}; ``throughput``: {mode: operations per second divided by those of off}; and
        ``module_below``: {field: reduction by ``MODULE`` compared with ``LATENCY``}.
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
    """Return the sums of the counts of several runs, by drive."""
    listed = list(counted)
    return {name: [sum(of) for of in zip(*(one[name] for one in listed), strict=True)]
            for name in listed[0]}  # fmt: skip
