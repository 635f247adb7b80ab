# SPDX-License-Identifier: MIT
"""Mean read latency of every policy on the paper's eight workloads, with bounds and intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eval import contenders, grid
from eval.cache import RESULTS, ROOT
from eval.cells import WORKLOADS, Replayed
from eval.experiment import Context
from eval.study import Study, load_study_texts
from linnapp.lab.demo import with_duplicates

#: The policies whose means are compared with those of all others.
COMPARED = (
    "linnos", "linnos-hl", "linnos-hl, 5% cap", "fastest",
    *(with_duplicates("fastest", limit) for limit in ("", "5%", "10%")), "heuristic-adv", "verdict",
)  # fmt: skip


def prepare(context: Context, *, workload: str, seed: int, replicate_writes: bool = False) -> None:
    """Record a workload and train its models."""
    cell = replace(grid.cell(workload, seed), replicate_writes=replicate_writes)
    grid.prepare_cell(context.cache, cell)


def measure(
    context: Context, *, workload: str, policy: str, seed: int, replicate_writes: bool = False
) -> Replayed:
    """Replay a workload under a policy."""
    cell = replace(grid.cell(workload, seed), replicate_writes=replicate_writes)
    return grid.replay(context, cell, policy)


EXPERIMENT = Study(
    **load_study_texts("fig08"),
    factors={"workload": WORKLOADS},
    policies=contenders.NAMES,
    cell=measure,
    prepare=prepare,
    reads=True,
    compared=COMPARED,
    pages={"fig08.md.j2": RESULTS / "tables.md", "results.md.j2": ROOT / "docs" / "results.md"},
)


def changed(**fields: Any) -> dict[str, Any]:
    """Return the fields of the study with some replaced, for an experiment that varies it."""
    return {**vars(EXPERIMENT), **fields}
