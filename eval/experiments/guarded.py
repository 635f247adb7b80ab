# SPDX-License-Identifier: MIT
"""The benefit and the cost of the guard on the workloads of Fig. 8.

Refusals are compared with a guard and without it. As published, each read carries the hint; with
the guard, reads carry it only as far as they gain from being refused
(replayer/policies/hint_guard.h). Predictions are compared in the same way: without the guard, each
read goes to the replica that is predicted to answer first.
"""

from __future__ import annotations

from functools import partial

from eval import figures, grid
from eval.cache import RESULTS
from eval.cells import WORKLOADS
from eval.experiment import GRID_SOURCES
from eval.study import Study

#: The policies with a guard, and the same without.
WITHOUT = {
    "linnos, guarded": "linnos",
    "linnos-hl, 5% cap, guarded": "linnos-hl, 5% cap",
    "fastest": "fastest, unguarded",
}
PAIRS = tuple(
    pair
    for guarded, bare in WITHOUT.items()
    for pair in ((bare, "baseline"), (guarded, "baseline"), (guarded, bare))
)

EXPERIMENT = Study(
    name="guarded",
    title="The benefit of the guard on the workloads of Fig. 8",
    factors={"workload": WORKLOADS},
    policies=("baseline", *WITHOUT.values(), *WITHOUT),
    prepare=partial(grid.prepare_place, tune=False),
    cell=grid.replay_place,
    reads=True,
    pairs=PAIRS,
    figure=partial(figures.reductions, PAIRS),
    settings=grid.PARTS,
    differs="As for Fig. 8.",
    sources=GRID_SOURCES,
    pages={"guarded.md.j2": RESULTS / "studies.md"},
)
