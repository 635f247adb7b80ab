# SPDX-License-Identifier: MIT
"""Compare rules for choosing a node with many nodes, many clients and late agent reports.

    make eval-simulation

`make eval` does not run it, although it takes only minutes and needs only a compiler. It is a
discrete-event simulation (eval/simulator) of drives with flashsim's parameters. It runs the very
library that clients use (cluster/client), and rules of other engines and papers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eval.experiment import Context, Experiment
from eval.experiments.cluster import pages
from eval.experiments.simulation.cells import CELLS, SLOW, Cell, slow_cells
from eval.experiments.simulation.runs import Run, built, scored, slow_share
from eval.experiments.simulation.text import draw, reading, table
from eval.intervals import RESAMPLES
from linnapp.stats import LEVEL

PARAMETERS: Mapping[str, Any] = {
    "cells": {cell.name: dict(cell.options) for cell in CELLS},
    "fail-slow": dict(SLOW),
    "level": LEVEL,
    "resamples": RESAMPLES,
}


def run(context: Context) -> dict[str, Any]:
    """Every cell under every rule, and a drive that turns slow and recovers."""
    program = built(context.folder / "build")

    def score(cell: Cell) -> dict[str, Any]:
        return scored(program, cell, context.seeds[: cell.n_seeds], context.folder)

    def slow(one: tuple[str, int]) -> dict[str, Any]:
        rule, n_clients = one
        runs = [Run(rule, seed, {**SLOW, "clients": n_clients}) for seed in context.seeds]
        return {"rule": rule, "clients": n_clients, **slow_share(program, runs)}

    return {
        "cells": context.map(score, CELLS, "cells"),
        "slow": context.map(slow, slow_cells(), "drives that turn slow"),
    }


EXPERIMENT = Experiment(
    name="simulation",
    title="Which node to read from: many nodes and clients",
    source="not in the papers",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    pages=pages.committed,
    differs="A simulation: no engine, no processors, a network that takes as long each time. What "
    "an agent predicts is the mean of its drive's last four reads, where the kernel has a model.",
    sources=(
        "eval/intervals.py",
        "cluster/client",
        "eval/simulator",
        "cluster/wire",
    ),
)
