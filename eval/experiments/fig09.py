# SPDX-License-Identifier: MIT
"""Read latency from p80 to p99.99 of every policy, from the replays of Fig. 8."""

from __future__ import annotations

from functools import partial

from eval import contenders, figures, scores
from eval.experiment import Table
from eval.intervals import RESTS_ON
from eval.long_table import LongTable, verdict
from eval.study import REDUCTION, Measure, Study

PERCENTS = (80.0, 90.0, 95.0, 99.0, 99.9, 99.99)

#: The policies in the figure; all of them would hide each other.
DRAWN = (
    "baseline", "clone", "shortest-queue", "shortest-queue-h95", "prequal", "c3", "heimdall",
    "hedge", "hedge-ip", "heuristic-adv", "linnos", "linnos-hl", "linnos-h99", "oracle", "verdict",
)  # fmt: skip


def against_best(table: LongTable) -> dict[str, Table]:
    """Compare the tails of ours with the best rival at each percentile."""
    rows = []
    for measure in map(scores.key, scores.COMPARED):
        for place in table.places:
            for policy in contenders.ours(table.policies(place)):
                if table.get(place, policy, measure) is None:
                    continue
                rival = table.best_rival(place, measure)
                found = table.reduction(place, policy, rival, measure)
                if found is not None:
                    row = (rival, policy, REDUCTION.text(found), verdict(found))
                    rows.append((measure.removesuffix("_us"), *place, *row))
    header = ("percentile", "workload", "best rival there", "policy", "% lower", "verdict")
    return {"Tails compared with the best rival": Table(header, tuple(rows))}


EXPERIMENT = Study(
    name="fig09",
    title="Read latency percentiles, all policies",
    source="LinnOS Fig. 9",
    view_of="fig08",
    measures={scores.key(percent): Measure(f"p{percent:g} us") for percent in PERCENTS},
    more_tables=against_best,
    figure=partial(figures.percentile_lines, policies=DRAWN),
    paper="LinnOS with hedging is the most predictable at all percentiles, even at p99.99.",
    differs=f"As for Fig. 8. A percentile is given when at least {RESTS_ON} reads lie beyond it.",
)
