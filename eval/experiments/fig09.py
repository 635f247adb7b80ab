# SPDX-License-Identifier: MIT
"""Read latency from p80 to p99.99 of every policy, from the replays of Fig. 8."""

from __future__ import annotations

from functools import partial

from eval import contenders, figures, scores
from eval.experiment import Table
from eval.long_table import LongTable
from eval.study import Measure, Study, best_rival_table, load_study_texts

PERCENTS = (80.0, 90.0, 95.0, 99.0, 99.9, 99.99)

#: The policies in the figure; all of them would hide each other.
DRAWN = (
    "baseline", "clone", "c3", "heimdall", "hedge", "heuristic-adv", "linnos", "linnos-hl",
    "fastest", "oracle",
)  # fmt: skip


def compare_tails(table: LongTable) -> dict[str, Table]:
    """Compare the tails of ours with the best rival at each percentile."""
    ours = contenders.ours(table.policies())
    return {
        f"p{percent:g} compared with the best rival": best_rival_table(
            table, ours, measure=scores.key(percent)
        )
        for percent in scores.COMPARED
    }


EXPERIMENT = Study(
    **load_study_texts("fig09"),
    view_of="fig08",
    measures={scores.key(percent): Measure(f"p{percent:g} us") for percent in PERCENTS},
    more_tables=compare_tails,
    figure=partial(figures.draw_percentile_lines, policies=DRAWN),
)
