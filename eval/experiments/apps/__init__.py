# SPDX-License-Identifier: MIT
"""Applications, unmodified, on an md raid1 that asks LinnOS.

    make eval-apps
    make eval-apps LINNOS_APPS=sqlite,fio

Not among what `make eval` runs: it needs servers installed (packaging/apt/apps.txt), and takes a
while.
"""

from __future__ import annotations

from eval.experiment import Experiment
from eval.experiments.apps.design import PARAMETERS, VARIABLE, run
from eval.experiments.apps.figure import draw
from eval.experiments.apps.text import PAPER_P99_BELOW, reading, table

EXPERIMENT = Experiment(
    name="apps",
    title="Unmodified applications on md raid1",
    source="LinnOS Fig. 13",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper="MongoDB, a copy on each of three enterprise drives, on several file systems: on f2fs "
    f"p99 is lower by {100 * PAPER_P99_BELOW:.1f} %; the other bars are in its figure only. Some "
    "50 lines of MongoDB and file systems were changed.",
    differs="Nothing is changed in an application or a file system: the array chooses. MongoDB's "
    "server is not in Debian; WiredTiger, the engine that it stores its collections with, is, and "
    "is measured by itself. The guest's processor takes no virtual time, so that what an "
    "application computes costs nothing. Each drive has the background on a part of its own, which "
    "md does not see. The modules are measured on a kernel without LinnOS, whose questions take no "
    "virtual time; the patched kernel's take 0.4 us each.",
    sources=(
        "eval/grid.py",
        "eval/scores.py",
        "eval/intervals.py",
        "kernel/config/module.config",
        "kernel/module",
    ),
    command=f"make eval-apps, or with {VARIABLE}=NAME,NAME",
)
