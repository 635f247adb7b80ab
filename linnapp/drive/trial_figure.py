# SPDX-License-Identifier: MIT
"""The figure of a trial: the distribution of latencies, and each pair of blocks."""

from __future__ import annotations

import numpy as np

from linnapp.drive.trial import TrialOutcome, paired
from linnapp.figures import check_can_draw, in_plain_numbers, save
from linnapp.files import AnyPath
from linnapp.learn.paired_blocks import bin_edges_us

_COLOURS = {"off": "#555555", "on": "#0072b2"}


def draw(found: TrialOutcome, path: AnyPath) -> None:
    """Draw the figure; raises the errors of :func:`~linnapp.figures.check_can_draw`."""
    check_can_draw(path)
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(10, 4))
    tail, pairs = figure.subplots(1, 2)
    of_pairs = [
        paired([pair]).latencies_us("p99") if all(b.reads for b in pair) else (np.nan, np.nan)
        for pair in found.pairs
    ]
    for k, (name, colour) in enumerate(_COLOURS.items()):
        reads = np.sum([pair[k].counts for pair in found.pairs], axis=0)
        longer = 1 - np.cumsum(reads) / max(reads.sum(), 1)
        shown = (longer > 0) & (longer < 1)
        tail.plot(bin_edges_us()[1:][shown], longer[shown], color=colour, label=f"linnos {name}")
        each = [us[k] for us in of_pairs]
        pairs.plot(range(1, len(each) + 1), each, ".", color=colour, label=f"linnos {name}")
    tail.set(xscale="log", yscale="log", xlabel="latency (us)", ylabel="share of reads above")
    pairs.set(yscale="log", xlabel="pair of blocks", ylabel="p99 of a block (us)")
    in_plain_numbers(tail.xaxis)
    in_plain_numbers(pairs.yaxis)
    tail.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    pairs.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in (tail, pairs):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.suptitle(f"{found.array}: {len(found.pairs)} pairs of {found.plan.block_s:g} s", size=10)
    figure.tight_layout()
    save(figure, path)
