# SPDX-License-Identifier: MIT
"""How good could it be: random windows, every policy on each.

Workload, array, the seeds and the injection of each window are drawn. No
window is dropped; those that LinnOS loses are listed, and the worst five are
taken apart read by read.
"""

from __future__ import annotations

from eval.experiment import NOT_AVAILABLE, Experiment
from eval.experiments.windows.figure import draw
from eval.experiments.windows.replays import PARAMETERS, run
from eval.experiments.windows.text import reading, table

#: What is said of pairs can be counted again from these.
_KEPT = ("seed", "workload", "cell_seed", "inject", "reads", "mean_us", "compared")

EXPERIMENT = Experiment(
    name="windows",
    title="Random windows: how good could it be",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper=f"The paper's own random windows: {NOT_AVAILABLE}.",
    differs="The windows' workloads and injections are new to the models, which were trained on "
    "the cells of Fig. 8 (same drives, same kind of workload, no injection).",
    sources=(
        "eval/grid.py",
        "eval/heimdall.py",
        "eval/seeds.py",
        "eval/scores.py",
        "eval/intervals.py",
    ),
    numbers=lambda data: [{key: w[key] for key in _KEPT} for w in data["windows"]],
)
