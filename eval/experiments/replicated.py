# SPDX-License-Identifier: MIT
"""Fig. 8 once more, with replicas that are given the same writes.

In Fig. 8, as in the paper, three traces are replayed on three drives and each drive has the writes
of its own trace, so what they slow down is slow on one replica. Replicas of one volume have the
same writes. Here each write goes to all three drives, and of each trace's writes one in three is
left: a drive gets as many as in Fig. 8, and nothing differs but what replicas have in common.
"""

from __future__ import annotations

from functools import partial

from eval import figures
from eval.cache import RESULTS
from eval.experiments import fig08
from eval.study import Study
from linnapp.lab.demo import with_duplicates

PAIRS = tuple(
    (name, "baseline") for name in ("linnos", "fastest", with_duplicates("fastest"), "verdict")
)

EXPERIMENT = Study(
    **fig08.changed(
        name="replicated",
        title="Mean read latency where each write goes to every replica",
        source="not in the papers",
        paper="",
        prepare=partial(fig08.prepare, replicate_writes=True),
        cell=partial(fig08.measure, replicate_writes=True),
        pairs=PAIRS,
        figure=partial(figures.reductions, PAIRS),
        differs="Fig. 8 but for the writes: each goes to all three drives, and of each trace's "
        "writes one in three is left, drawn from the seed, in the recorded part as in the replayed "
        "one. So a drive gets as many writes as in Fig. 8, and models learn from such writes.",
        sources=("eval/experiments/fig08.py", *fig08.EXPERIMENT.sources),
        pages={"replicated.md.j2": RESULTS / "tables.md"},
    )
)
