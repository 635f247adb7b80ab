# SPDX-License-Identifier: MIT
"""The paper's Fig. 8 as the paper describes it: its rivals untuned, its training, its loss.

`fig08` compares the policies that an operator would run today: networks have this project's default
training, `heuristic-adv` is tuned on the recording, and `hedge-ip` hedges at an inflection point of
a wider search. Here the networks have the paper's training (`PAPER_TRAINING`), both heuristics pass
over a drive whose queue is longer than at the percentile of the paper's inflection point, and
`hedge-ip` hedges at that point.
"""

from __future__ import annotations

from eval import grid, tuning
from eval.cells import (
    PAPER_TRAINING,
    WORKLOADS,
    Cell,
    Replay,
    Replayed,
    recorded,
    replayed,
    trained,
)
from eval.experiment import Context
from eval.study import Study, load_study_texts

#: The paper's methods, by the replayer's name.
POLICIES = (
    "baseline", "clone", "hedge", "hedge-ip", "heuristic", "heuristic-adv", "linnos", "linnos-hl",
)  # fmt: skip


def prepare(context: Context, *, workload: str, seed: int) -> None:
    """Record a workload and train its networks."""
    cell = grid.cell(workload, seed)
    recorded(context.cache, cell)
    trained(context.cache, cell, PAPER_TRAINING)


def replay_of(context: Context, cell: Cell, policy: str) -> Replay:
    """Return the replay of a cell under a method of the paper; LinnOS keeps its per-I/O log."""
    options: tuple[str, ...] = ()
    if policy in ("hedge", "hedge-ip", "linnos-hl"):
        options = ("--hedge-budget", "none")
    elif policy in ("heuristic", "heuristic-adv"):
        options = tuning.heuristic_options(context.cache, cell, PAPER_TRAINING)
    return Replay(
        cell, policy, train_options=PAPER_TRAINING, options=options,
        keep_log=policy.startswith("linnos"),
    )  # fmt: skip


def measure(context: Context, *, workload: str, policy: str, seed: int) -> Replayed:
    """Replay a workload under a method of the paper."""
    return replayed(context.cache, replay_of(context, grid.cell(workload, seed), policy))


EXPERIMENT = Study(
    **load_study_texts("published"),
    factors={"workload": WORKLOADS},
    policies=POLICIES,
    cell=measure,
    prepare=prepare,
    reads=True,
    compared=("linnos", "linnos-hl"),
)
