# SPDX-License-Identifier: MIT
"""Compare the modes of runs with the same load in the same blocks of time, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval.experiments.apps.reports import Operations
from eval.intervals import BLOCKS, Blocks, Pooled
from eval.long_table import LongTable
from eval.scores import add_pooled
from linnapp import stats

#: Percentiles of the application's latencies.
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
    owner = np.repeat(np.arange(len(runs)), [len(o.latency_us) for o in runs.values()])
    for i, (mode, operations) in enumerate(runs.items()):
        blocks.add(mode, latency, owner == i)
        if operations.totals_us is not None:
            blocks.total_us[mode] = operations.totals_us.astype(np.float64)
    return blocks, {mode: o.latency_us for mode, o in runs.items()}


def add_scores(
    table: LongTable, place: Sequence[str], cells: Sequence[Mapping[str, Operations]]
) -> None:
    """Add the numbers of a load over some cells, and the reductions by modes compared with others.

    `cells` has the runs of each cell, by mode. All cells have the same modes.
    """
    blocks, latencies_us = zip(*map(blocks_of, cells), strict=True)
    drawn = Pooled(blocks, COMPARED)
    latencies = {mode: [by_mode[mode] for by_mode in latencies_us] for mode in drawn.policies}
    pairs = [
        pair
        for pair in ((ON, OFF), (LATENCY, OFF), (MODULE, OFF), (MODULE, LATENCY))
        if {*pair} <= {*drawn.policies}
    ]
    tails = dict.fromkeys(drawn.policies, COMPARED)
    add_pooled(table, place, drawn, latencies, pairs, tails=tails, counted="operations")
    for mode in drawn.policies:
        seconds = sum(runs[mode].seconds for runs in cells)
        table.add(place, mode, "per_s", sum(map(len, latencies[mode])) / seconds)
        if (mode, OFF) in pairs:
            counts = [
                np.concatenate([of_cell.count[side] / runs[side].seconds
                                for of_cell, runs in zip(blocks, cells, strict=True)])
                for side in (mode, OFF)
            ]  # fmt: skip
            ratio = stats.ratio_interval(counts[0].tolist(), counts[1].tolist())
            table.add(place, mode, "throughput", ratio)
