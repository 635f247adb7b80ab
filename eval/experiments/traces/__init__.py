# SPDX-License-Identifier: MIT
"""Traces that a reader can get, or brings: is it worth it on them, and where is it not?

    make eval-traces LINNOS_TRACES=DIR

Without the variable they are the applications recorded in traces/recorded.
"""

from __future__ import annotations

from eval.experiment import Experiment
from eval.experiments.traces import pages
from eval.experiments.traces.figure import draw
from eval.experiments.traces.runs import PARAMETERS, run
from eval.experiments.traces.text import reading, table
from eval.trace_files import VARIABLE

#: The tables' percentages and counts can be made again from these.
_KEPT = (
    "trace", "iops", "slowness", "policy", "mean_us", "p99_us", "reads", "elapsed_s",
    "extra_io_ratio",
)  # fmt: skip

EXPERIMENT = Experiment(
    name="traces",
    title="Traces that a reader can get, or brings",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    differs="Public traces are given by path and are not part of this repository. They are "
    "replayed as `make demo TRACE=` does, sped up to 2000 I/Os a second if they were slower, and "
    "to half and twice that, writes on all drives; without its bursts (calm) and with them.",
    sources=("eval/demo.py", "eval/heimdall.py", "eval/trace_files.py"),
    command=f"make eval-traces {VARIABLE}=DIR",
    numbers=lambda data: [{key: run_[key] for key in _KEPT} for run_ in data["runs"]],
    pages=pages.tables,
)
