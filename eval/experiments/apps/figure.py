# SPDX-License-Identifier: MIT
"""A panel an application: latencies off and on; and how much lower p99 is, beside the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from eval import figures
from eval.experiments.apps.comparison import LATENCY, MODULE, OFF, ON
from eval.experiments.apps.design import BTRFS
from eval.experiments.apps.text import FIELDS, MODES, PAPER_P99_BELOW, name_of

_COLOURS = {
    OFF: "#888888",
    ON: "#0072b2",
    LATENCY: "#009e73",
    MODULE: "#cc79a7",
    BTRFS: "#e69f00",
}
_TICKS = ("mean", "p95", "p99", "p99.9")
_COLUMNS = 3


def draw(data: dict[str, Any], path: Path) -> None:
    """Bars with their intervals; shares below off with theirs."""
    rows = data["loads"]
    n_rows = (len(rows) + _COLUMNS) // _COLUMNS
    figure, panels = plt.subplots(
        n_rows, _COLUMNS, squeeze=False, figsize=(4.2 * _COLUMNS, 3.2 * n_rows)
    )
    for spare in panels.flat[len(rows) + 1 :]:
        spare.set_visible(False)
    for axes, row in zip(panels.flat, rows, strict=False):
        width = 0.8 / len(row["modes"])
        for i, (mode, fields) in enumerate(row["modes"].items()):
            known = [(k, fields[f]) for k, f in enumerate(FIELDS) if fields[f] is not None]
            at = [k + (i + 0.5) * width - 0.4 for k, _ in known]
            axes.bar(at, [triple[0] for _, triple in known], width, color=_COLOURS[mode],
                     label=MODES[mode])  # fmt: skip
            for x, (_, triple) in zip(at, known, strict=True):
                figures.whisker(axes, x, triple)
        axes.set_xticks(range(len(FIELDS)), _TICKS)
        axes.set_xlim(-0.6, len(FIELDS) - 0.4)
        axes.set_title(name_of(row), fontsize=9)
        axes.set_ylabel("latency (us)", fontsize=8)
        axes.grid(alpha=0.3, axis="y")
        axes.legend(fontsize=7)
    _shares(panels.flat[len(rows)], rows)
    figure.tight_layout()
    figures.save(figure, path)


def _shares(axes: Any, rows: list[dict[str, Any]]) -> None:
    """By how much p99 is lower on, or p95 where there are too few for p99."""
    names = []
    for k, row in enumerate(rows):
        known = all(lower["p99_us"] is not None for lower in row["below"].values())
        field = "p99_us" if known else "p95_us"
        names.append(name_of(row) + ("" if known else " (p95)"))
        height = 0.8 / len(row["below"])
        for i, (mode, lower) in enumerate(row["below"].items()):
            if lower[field] is None:
                continue
            at = k + (i + 0.5) * height - 0.4
            axes.barh(at, 100 * lower[field][0], height, color=_COLOURS[mode])
            if lower[field][1] is not None:
                axes.plot([100 * share for share in lower[field][1:]], [at, at], color="black",
                          linewidth=1)  # fmt: skip
    axes.axvline(100 * PAPER_P99_BELOW, color="black", linestyle=":",
                 label="the paper's MongoDB on f2fs")  # fmt: skip
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("p99 lower on than off by (%)", fontsize=8)
    axes.legend(fontsize=7, loc="lower left")
