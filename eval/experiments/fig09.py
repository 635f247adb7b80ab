# SPDX-License-Identifier: MIT
"""Read latency from p80 to p99.99 of every policy, from the replays of Fig. 8."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from eval import figures, scores
from eval.experiment import Context, Experiment, Table
from eval.experiments import fig08
from eval.intervals import RESTS_ON
from linnapp.stats import Interval

PERCENTS = (80.0, 90.0, 95.0, 99.0, 99.9, 99.99)
OURS = ("linnos", "linnos-hl")

#: Drawn; all of them would hide each other.
DRAWN = (
    "baseline", "clone", "shortest-queue", "shortest-queue-h95", "prequal", "c3", "heimdall",
    "hedge", "hedge-ip", "heuristic-adv", "linnos", "linnos-hl", "linnos-h99", "oracle", "verdict",
    "learnt",
)  # fmt: skip


def run(context: Context) -> dict[str, Any]:
    """What Fig. 8 measured."""
    data = context.data_of("fig08")
    return {"cells": data["cells"], "runs": []}


def table(data: dict[str, Any]) -> dict[str, Table]:
    """One table a percentile that any policy has."""
    tables = {}
    for percent in PERCENTS:
        key = scores.key(percent)
        policies = list(data["cells"][0]["policies"])
        if not any(cell["policies"][p][key] for cell in data["cells"] for p in policies):
            continue
        tables[f"p{percent:g} (us)"] = Table(
            ("workload and array", *policies),
            tuple(
                (
                    fig08.label(cell),
                    *(scores.number(cell["policies"].get(p, {}).get(key)) for p in policies),
                )
                for cell in data["cells"]
            ),
        )
    for key, by_policy in data["cells"][0]["tail_below"].items():
        for policy in (p for p in OURS if p in by_policy):
            tables[f"{key}: `{policy}` below the best rival"] = Table(
                ("workload and array", "best rival there", "below", "said"),
                tuple(_against_best(cell, policy, key) for cell in data["cells"]),
            )
    return tables


def _against_best(cell: dict[str, Any], policy: str, key: str) -> tuple[str, ...]:
    known = cell["tail_below"][key].get(policy)
    if not known:
        return (fig08.label(cell), "-", "-", f"rests on fewer than {RESTS_ON} reads")
    rival = scores.best_rival(cell, key)
    triple = known[rival]
    said = scores.verdict(Interval.from_json(triple))
    return (fig08.label(cell), rival, scores.percent(triple, 1), said)


def reading(data: dict[str, Any]) -> str:
    """What may be said of the tails, against the best rival at each percentile."""
    lines = [
        f"{key.removesuffix('_us')}, `{policy}` against the best rival there: "
        + scores.by_verdict(
            (cell["workload"], Interval.from_json(known[scores.best_rival(cell, key)]))
            for cell in data["cells"]
            if (known := cell["tail_below"][key].get(policy))
        )
        + "."
        for key in data["cells"][0]["tail_below"]
        for policy in OURS
    ]
    return "\n\n".join((*lines, f"What would rest on fewer than {RESTS_ON} reads is not given."))


def numbers(data: dict[str, Any]) -> dict[str, Any]:
    """By how much tails of ours are below everyone's, as [share, low, high].

    By workload, percentile, policy and reference; what rests on too few reads is missing.
    """
    return {
        cell["workload"]: {
            key: {name: below for name, below in by_policy.items() if name in fig08.OURS}
            for key, by_policy in cell["tail_below"].items()
        }
        for cell in data["cells"]
    }


def draw(data: dict[str, Any], path: Path) -> None:
    """Percentiles, one panel a cell, one line a policy; what rests on too few reads is missing."""
    by_cell = {(cell["workload"], cell["array"]): cell for cell in data["cells"]}
    figure, panels = figures.grid_axes(list(by_cell))
    for where, cell in by_cell.items():
        axes = panels[where]
        for name in (n for n in DRAWN if n in cell["policies"]):
            triples = [cell["policies"][name][scores.key(percent)] for percent in PERCENTS]
            values = [math.nan if t is None else t[0] for t in triples]
            axes.plot(range(len(PERCENTS)), values, label=name, **figures.style(name))
        axes.set_xticks(range(len(PERCENTS)), [f"p{p:g}" for p in PERCENTS], fontsize=7)
        axes.set_yscale("log")
        axes.set_title(f"{where[0]} on {where[1]}", fontsize=9)
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
    parameters={"percents": PERCENTS, "rests_on": RESTS_ON},
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper="LinnOS with hedging is the most predictable at all percentiles, even at p99.99.",
    differs=f"As for Fig. 8. A percentile is given when at least {RESTS_ON} reads lie beyond it.",
    sources=("eval/experiments/fig08.py", "eval/scores.py"),
    uses=("fig08",),
    numbers=numbers,
)
