# SPDX-License-Identifier: MIT
"""Inside a burst: what LinnOS knows at the first, second, third ... slow read.

Two parts. *Observed*: drives in `observe` mode, which decide and never revoke,
so that the truth of every decision is known: recall and false submits by
position within the burst, and what the misjudged reads had in common.
*Enforced*: bursts in time that wander over the array: what the user sees at
each position, how long a drive stays distrusted after its burst, and what
probing it costs and saves.
"""

from __future__ import annotations

from typing import Any

from eval.experiment import GRID_SOURCES, NOT_AVAILABLE, Context, Experiment
from eval.experiments.bursts.design import PARAMETERS
from eval.experiments.bursts.enforced import enforce
from eval.experiments.bursts.figure import draw
from eval.experiments.bursts.observed import observe
from eval.experiments.bursts.text import reading, table


def run(context: Context) -> dict[str, Any]:
    """Both parts."""
    return {"observed": observe(context), **enforce(context)}


EXPERIMENT = Experiment(
    name="bursts",
    title="Inside a burst",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper="uScope reports that LinnOS predicts single slow I/Os but loses accuracy on continuous "
    f"ones; its numbers: {NOT_AVAILABLE}.",
    differs="Added latency occupies no chip of the emulated drive: a slow read delays no other.",
    sources=("eval/decisions.py", *GRID_SOURCES),
)
