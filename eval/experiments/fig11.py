# SPDX-License-Identifier: MIT
"""LinnOS with hedging: at the smaller of p95 and 1 - false-submit ratio, and at p99."""

from __future__ import annotations

from functools import partial

from eval import figures
from eval.study import READ_MEASURES, Study, load_study_texts

POLICIES = (
    "hedge", "hedge, 5% cap", "linnos", "linnos-hl", "linnos-hl, 5% cap", "linnos-h99", "oracle",
)  # fmt: skip

EXPERIMENT = Study(
    **load_study_texts("fig11"),
    view_of="fig08",
    policies=POLICIES,
    measures={
        name: READ_MEASURES[name]
        for name in ("mean_us", "p95_us", "p99_us", "p999_us", "extra_io_ratio")
    },
    pairs=(("linnos-hl", "linnos"), ("linnos-hl", "linnos-h99")),
    figure=partial(figures.draw_percentile_lines, policies=POLICIES),
)
