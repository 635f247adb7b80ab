# SPDX-License-Identifier: MIT
"""What the guard is worth, and what it costs, on the workloads of Fig. 8.

Refusals are compared with a guard and without it. As published, each read carries the hint; with
the guard, reads carry it only as far as they gain from being refused
(replayer/policies/hint_guard.h). Predictions are compared likewise: without the guard, each read
goes where it is predicted to be answered first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from eval import contenders, figures, grid, scores
from eval.cache import RESULTS
from eval.cells import WORKLOADS, Cell, Replayed
from eval.experiment import GRID_SOURCES, Context, Experiment, Table
from eval.intervals import BLOCKS, RESAMPLES, RESTS_ON
from eval.page_tables import Shown
from eval.work import Step
from linnapp.stats import LEVEL, Interval

NOTHING = "baseline"

#: Those with a guard, and the same without.
WITHOUT = {
    "linnos, guarded": "linnos",
    "linnos-hl, 5% cap, guarded": "linnos-hl, 5% cap",
    "lowest": "lowest, unguarded",
}

PARAMETERS: dict[str, Any] = {
    "workloads": WORKLOADS,
    "contenders": (NOTHING, *WITHOUT.values(), *WITHOUT),
    **grid.PARTS,
    "level": LEVEL,
    "resamples": RESAMPLES,
    "blocks": BLOCKS,
    "rests_on": RESTS_ON,
}


def run(context: Context) -> dict[str, Any]:
    """Every cell with the guards and without."""
    work = context.work()
    who = contenders.named(PARAMETERS["contenders"])
    replays: dict[Cell, dict[str, Step[Replayed]]] = {}
    for cell in grid.cells(context.seeds, PARAMETERS["workloads"]):
        ready = grid.preparing(work, context.cache, [cell], tune=False)
        replays.update(grid.replaying(work, context.cache, ready, who))
    work.do()
    results = grid.results(replays)
    cells, _ = scores.scored(None, results)
    return {
        "cells": cells,
        "grid": grid.rows(results),
        "runs": [run_.summary for by_name in results.values() for run_ in by_name.values()],
    }


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Each guarded policy beside what it is without, a row a cell."""
    return {
        f"{guarded}: by how much its mean is below": Table(
            ("workload", "baseline's", f"{bare}'s", f"p99 below {bare}'s", "baseline, mean us",
             bare, guarded),
            tuple(
                (
                    cell["workload"],
                    *(scores.standing(cell, guarded, other) for other in (NOTHING, bare)),
                    scores.percent(_tail(cell, guarded, bare), 1),
                    *(
                        scores.number(cell["policies"][name]["mean_us"])
                        for name in (NOTHING, bare, guarded)
                    ),
                )
                for cell in data["cells"]
            ),
        )
        for guarded, bare in WITHOUT.items()
    }  # fmt: skip


def _tail(cell: dict[str, Any], policy: str, other: str) -> list[float] | None:
    """By how much its p99 is below another's; None where too few reads are beyond it."""
    found: list[float] | None = (
        cell["tail_below"].get(scores.key(99.0), {}).get(policy, {}).get(other)
    )
    return found


def reading(data: dict[str, Any]) -> str:
    """Where each is below and above doing nothing, with its guard and without."""
    parts = [
        f"`{policy}` against {other}: "
        + scores.by_verdict(
            (cell["workload"], scores.below(cell, policy, other)) for cell in data["cells"]
        )
        + "."
        for guarded, bare in WITHOUT.items()
        for policy, other in ((bare, NOTHING), (guarded, NOTHING), (guarded, bare))
    ]
    return "\n\n".join((*parts, scores.errors(data["grid"])))


def draw(data: dict[str, Any], path: Path) -> None:
    """By how much each mean is below doing nothing, with the guard (filled) and without."""
    figure, axes = plt.subplots(figsize=(8, 3.5))
    for i, (guarded, bare) in enumerate(WITHOUT.items()):
        for side, name in enumerate((bare, guarded)):
            for j, cell in enumerate(data["cells"]):
                triple = [100 * v for v in cell["below"][name][NOTHING]]
                x = j + 0.24 * (i - 1) + 0.1 * side - 0.05
                axes.plot(
                    x, triple[0], "o", color=f"C{i}", mfc=f"C{i}" if side else "white",
                    markersize=4, label=None if j else name,
                )  # fmt: skip
                figures.whisker(axes, x, triple)
    axes.axhline(0, color="black", linewidth=0.5)
    axes.set_xticks(range(len(data["cells"])), [cell["workload"] for cell in data["cells"]])
    axes.set_ylabel("mean below doing nothing (%)")
    axes.legend(fontsize=7)
    figure.tight_layout()
    figures.save(figure, path)


def numbers(data: dict[str, Any]) -> dict[str, Any]:
    """By how much means and p99 are below each other, by workload, as [share, low, high]."""
    return {
        cell["workload"]: {
            "mean": {name: cell["below"][name] for name in (*WITHOUT, *WITHOUT.values())},
            "p99": {g: {bare: _tail(cell, g, bare)} for g, bare in WITHOUT.items()},
        }
        for cell in data["cells"]
    }


def _above(triple: Sequence[float] | None) -> str:
    return "-" if triple is None else scores.above(Interval.from_json(triple), 1)


def _shown(cells: Mapping[str, Any], guarded: str, bare: str) -> Shown:
    rows = [
        (
            f"`{workload}`",
            *(_above(of["mean"][name][NOTHING]) for name in (bare, guarded)),
            _above(of["mean"][guarded][bare]),
            _above(of["p99"][guarded][bare]),
        )
        for workload, of in cells.items()
    ]
    return Shown(
        (f"`{guarded}` beside `{bare}`, % above",
         f"`{bare}` above doing nothing", f"`{guarded}` above doing nothing",
         f"above `{bare}`", f"p99 above that of `{bare}`"),
        rows,
    )  # fmt: skip


def pages() -> dict[Path, list[Shown]]:
    """Tables among the studies, from what is committed."""
    cells = json.loads((RESULTS / "guarded.json").read_text())["numbers"]
    return {RESULTS / "studies.md": [_shown(cells, *both) for both in WITHOUT.items()]}


EXPERIMENT = Experiment(
    name="guarded",
    title="What the guard is worth on the workloads of Fig. 8",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    differs="As for Fig. 8.",
    sources=GRID_SOURCES,
    numbers=numbers,
    pages=pages,
)
