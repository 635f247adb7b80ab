# SPDX-License-Identifier: MIT
"""Compare rules for choosing a node with many nodes, many clients and late agent reports.

    make eval-simulation

`make eval` does not run it, although it takes only minutes and needs only a compiler. It is a
discrete-event simulation (eval/simulator) of drives with flashsim's parameters. It runs the very
library that clients use (cluster/client), and rules of other engines and papers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from eval import figures
from eval.cache import RESULTS, ROOT
from eval.experiment import Context
from eval.experiments.cluster.rules import EXTRA, best
from eval.experiments.simulation.cells import CELLS, LABS, OF_THE_LAB, RULES, SLOW, Cell, slow_cells
from eval.experiments.simulation.runs import add_reads, add_slow_drive, built
from eval.intervals import RESAMPLES
from eval.long_table import LongTable, Place
from eval.pages import committed
from eval.study import Measure, Study
from linnapp.stats import LEVEL

MEASURES = {
    "mean_us": Measure("mean us", 1),
    "p99_us": Measure("p99 us"),
    "share_of_oracle": Measure("% of the oracle's gain", 0, 100),
    "extra_io_ratio": Measure("extra I/O %", 1, 100),
    "asked": Measure("questions a read", 2),
    "worst_share": Measure("% of the reads of a second to one node, at most", 1, 100),
    "off_lab": Measure("% that the mean differs from the lab's", 1, 100),
    "first_100_ms": Measure("% of the reads to a slow drive in its first 100 ms", 1, 100),
    "after_100_ms": Measure("% after these", 2, 100),
    "back_ms": Measure("ms until it is used again"),
}

#: The situations in the tables of the pages, by the titles of their columns or rows.
SHOWN = {
    "1 client": "the lab: 1 client, 20 us",
    "16": "16 clients",
    "64": "64 clients",
    "16, bursts of 10 ms": "16 clients, bursts of 10 ms",
    "16, news 10 ms older": "16 clients, news 10 ms older",
    "16, with writes": "writes, consumer, 16 clients",
    "16, busy drives": "calm, consumer, three quarters busy",
    "100 nodes, 100": "100 nodes, 100 clients",
    "1,000 nodes, 1,000": "1,000 nodes, 1,000 clients",
}

_DRAWN = {
    "primary": "#888888", "own-latency": "#e69f00", "prequal": "#7f3c8d", "c3": "#9c6644",
    "prediction": "#0072b2", "library": "#aa3377", "library-hedge": "#009e73", "oracle": "black",
}  # fmt: skip

#: The panels of the figure: title, and the situations by their labels on the axis.
_PANELS = (
    ("bursts, 3 nodes: clients", {f"{n}": f"{n} clients" for n in (4, 16, 64)}),
    (
        "news older by so many ms",
        {
            "0": "16 clients",
            **{ms: f"16 clients, news {ms} ms older" for ms in ("0.1", "1", "10")},
        },
    ),
    (
        "bursts, one node in ten: nodes, clients",
        {
            f"{nodes}, {clients}": f"{nodes} nodes, {clients} clients"
            for nodes, clients in (("9", "9"), ("100", "100"), ("1,000", "100"), ("1,000", "1,000"))
        },
    ),
)


def run(context: Context) -> LongTable:
    """Simulate every situation under its rules, and a drive that turns slow and recovers."""
    program = built(context.folder / "build")
    factors = ("situation", "clients_of_slow_drive")

    def measure(cell: Cell) -> LongTable:
        part = LongTable(factors)
        add_reads(part, program, cell, context.seeds[: cell.n_seeds], context.folder)
        return part

    def measure_slow(one: tuple[str, int]) -> LongTable:
        part = LongTable(factors)
        add_slow_drive(part, program, *one, context.seeds)
        return part

    table = LongTable(factors)
    for part in (
        *context.map(measure, CELLS, "cells"),
        *context.map(measure_slow, slow_cells(), "drives that turn slow"),
    ):
        table.update(part)
    add_difference_from_lab(table, committed("cluster"))
    return table


def add_difference_from_lab(table: LongTable, lab: LongTable) -> None:
    """Add by how much the means differ from those that the lab has measured."""
    for name, cell in LABS.items():
        for rule in OF_THE_LAB:
            if found := lab.get((name,), rule, "mean_us"):
                place = (cell.name, "")
                off = table.value(place, rule, "mean_us") / found.value - 1
                table.add(place, rule, "off_lab", off)


def page_data(table: LongTable) -> Mapping[str, Any]:
    """Return what the templates of the pages use besides the table."""

    def rivals_in(place: Place) -> list[str]:
        ours = ("library-deaf", "library", "library-hedge", "oracle")
        return [rule for rule in table.policies(place) if rule not in (*EXTRA, *ours)]

    shown = {title: (name, "") for title, name in SHOWN.items()}
    return {"rules": RULES, "shown": shown, "best": best, "rivals_in": rivals_in}


def draw(table: LongTable, path: Path) -> None:
    """Draw means by clients, by the age of news and by nodes; and the drive that turns slow."""
    figure, axes = plt.subplots(2, 2, figsize=(11, 7.5))
    for axis, (title, shown) in zip(axes.flat, _PANELS, strict=False):
        for rule, colour in _DRAWN.items():
            means = [table.get((name, ""), rule, "mean_us") for name in shown.values()]
            known = [(k, mean.value) for k, mean in enumerate(means) if mean]
            if known:
                x, y = zip(*known, strict=True)
                axis.plot(x, y, marker="o", ms=3, color=colour, label=RULES[rule])
        axis.set_xticks(range(len(shown)), list(shown))
        axis.set_title(title, fontsize=9)
        axis.set_ylabel("mean us")
        axis.set_yscale("log")
        axis.grid(alpha=0.3)
    slow = axes.flat[-1]
    for rule, colour in _DRAWN.items():
        shares: list[float] = []
        while found := table.get(("", "16"), rule, f"share_{len(shares)}"):
            shares.append(100 * found.value)
        if shares:
            slow.plot([100 * k for k in range(len(shares))], shares, color=colour)
    slow.set_title("a drive that is slow from 1,000 to 2,500 ms, 16 clients", fontsize=9)
    slow.set_xlabel("ms")
    slow.set_ylabel("% of the reads")
    slow.grid(alpha=0.3)
    axes.flat[0].legend(fontsize=7)
    figure.tight_layout()
    figures.save(figure, path)


EXPERIMENT = Study(
    name="simulation",
    title="Which node to read from: many nodes and clients",
    policies=tuple(RULES),
    titles=RULES,
    measure_all=run,
    measures=MEASURES,
    groups=(("situation",), ("clients_of_slow_drive",)),
    pairs=[(rule, "primary") for rule in RULES if rule != "primary"],
    figure=draw,
    settings={
        "cells": {cell.name: dict(cell.options) for cell in CELLS},
        "fail-slow": dict(SLOW),
        "level": LEVEL,
        "resamples": RESAMPLES,
    },
    page_data=page_data,
    pages={
        "simulation_all.md.j2": RESULTS / "cluster.md",
        "simulation.md.j2": ROOT / "docs" / "cluster.md",
    },
    differs="A simulation: no engine, no processors, a network that takes as long each time. An "
    "agent predicts the mean of its drive's last four reads, where the kernel has a model.",
    sources=(
        "eval/intervals.py",
        "cluster/client",
        "eval/simulator",
        "cluster/wire",
    ),
)
