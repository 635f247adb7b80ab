# SPDX-License-Identifier: MIT
"""Fig. 8 once more, with replicas that are given the same writes.

In Fig. 8, as in the paper, three traces are replayed on three drives. Each drive gets the writes of
its own trace, so these slow down one replica only. Replicas of one volume, however, get the same
writes. Here each write goes to all three drives, and two in three writes of each trace are left
out. So a drive gets as many writes as in Fig. 8, and the only difference is that replicas share
them.
"""

from __future__ import annotations

from functools import partial

from eval.cache import RESULTS
from eval.experiments import fig08
from eval.study import Study, load_study_texts
from linnapp.lab.demo import with_duplicates

PAIRS = tuple(
    (name, "baseline") for name in ("linnos", "fastest", with_duplicates("fastest"), "verdict")
)

EXPERIMENT = Study(
    **fig08.changed(
        **load_study_texts("replicated"),
        prepare=partial(fig08.prepare, replicate_writes=True),
        cell=partial(fig08.measure, replicate_writes=True),
        pairs=PAIRS,
        pages={"replicated.md.j2": RESULTS / "tables.md"},
    )
)
