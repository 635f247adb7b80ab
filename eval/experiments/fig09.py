# SPDX-License-Identifier: MIT
"""Read latency from p80 to p99.99 of every policy, from the replays of Fig. 8."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from eval import figures, grid
from eval.experiment import NOT_AVAILABLE, Context, Experiment, Table
from eval.experiments import fig08
from eval.metrics import improvement, percent

PERCENTILES = ("p80_us", "p90_us", "p95_us", "p99_us", "p999_us", "p9999_us")
NAMES = ("p80", "p90", "p95", "p99", "p99.9", "p99.99")


def run(context: Context) -> dict[str, Any]:
    """The same replays as Fig. 8; they are in the cache when it has run."""
    return fig08.run(context)


def table(data: dict[str, Any]) -> dict[str, Table]:
    """One table a percentile."""
    tables = {}
    for key, name in zip(PERCENTILES, NAMES, strict=True):
        by_cell = grid.means(data, key)
        policies = list(next(iter(by_cell.values())))
        tables[f"{name} (us), average of the repeats"] = Table(
            ("workload and array", *policies),
            tuple(
                (f"{workload} on {array}", *(f"{values[p]:.0f}" for p in policies))
                for (workload, array), values in by_cell.items()
            ),
        )
    return tables


def reading(data: dict[str, Any]) -> str:
    """Range of the improvement over hedging and baseline at each percentile."""
    lines = []
    for ours in ("linnos", "linnos-hl"):
        for reference in ("baseline", "hedge"):
            ranges = []
            for key, name in zip(PERCENTILES, NAMES, strict=True):
                gains = [
                    improvement(values[ours], values[reference])
                    for values in grid.means(data, key).values()
                ]
                ranges.append(f"{name} {percent(min(gains), 0)} to {percent(max(gains), 0)}")
            lines.append(f"`{ours}` over `{reference}`: " + ", ".join(ranges) + ".")
    lost = []
    for key, name in zip(PERCENTILES, NAMES, strict=True):
        for (workload, array), values in grid.means(data, key).items():
            if values["linnos"] > values["hedge"]:
                lost.append(f"{workload} on {array} at {name}")
    lines.append(f"`hedge` is below `linnos` at: {', '.join(lost) if lost else 'none'}.")
    return "\n\n".join(lines)


def draw(data: dict[str, Any], path: Path) -> None:
    """Percentiles, one panel a cell, one line a policy, averages of the repeats."""
    cells = figures.by_cell(data)
    figure, panels = figures.grid_axes(cells)
    keys = ("p80_us", "p90_us", "p95_us", "p99_us", "p999_us", "p9999_us")
    names = ("p80", "p90", "p95", "p99", "p99.9", "p99.99")
    for cell, policies in cells.items():
        axes = panels[cell]
        for policy, runs in policies.items():
            means = [float(np.mean([run[key] for run in runs])) for key in keys]
            axes.plot(range(len(keys)), means, label=policy, **figures.style(policy))
        axes.set_xticks(range(len(keys)), names, fontsize=7)
        axes.set_yscale("log")
        axes.set_title(f"{cell[0]} on {cell[1]}", fontsize=9)
        axes.grid(alpha=0.3)
    first = next(iter(panels.values()))
    first.set_ylabel("read latency (us)", fontsize=8)
    first.legend(fontsize=6)
    figure.tight_layout()
    figures.save(figure, path)


EXPERIMENT = Experiment(
    name="fig09",
    title="Read latency percentiles, all policies",
    source="LinnOS Fig. 9",
    parameters=fig08.PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper=NOT_AVAILABLE,
    differs="As for Fig. 8. p99.99 rests on few reads a replay and is to be taken with care.",
    sources=("eval/experiments/fig08.py", "eval/grid.py"),
)
