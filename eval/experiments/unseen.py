# SPDX-License-Identifier: MIT
"""Compare policies under kinds of slowness that the models were not trained for.

The default training adds synthetic bursts to the recording: constant delays for 5 to 320 ms.
Injected bursts of a constant delay are the same kind, so the gain of a policy under them is no
evidence of a gain under other kinds. Therefore, kinds that no model has seen are also injected,
and are reported separately.
"""

from __future__ import annotations

from eval import grid
from eval.cells import Replayed
from eval.experiment import Context
from eval.study import Study, load_study_texts

_SLOTS = "op=read,slot_ms={slot_ms},every_ms={every_ms},rotate"

#: Options `--inject` of the replayer. :func:`spec` replaces the lengths in braces, which depend on
#: the workload. Training adds bursts of the second kind only.
KINDS = {
    "none": None,
    "constant, one drive after another": f"continuous:ratio=100%,latency_us=2000,{_SLOTS}",
    "ramp": f"continuous:ratio=100%,shape=ramp,latency_us=4000,{_SLOTS}",
    "proportional to the queue": (
        f"continuous:ratio=100%,shape=queue,at_depth=4,latency_us=1000,{_SLOTS}"
    ),
    "heavy-tailed": f"continuous:ratio=100%,shape=pareto,tail=1.2,latency_us=500,{_SLOTS}",
    "a slow region": (
        "continuous:ratio=100%,latency_us=2000,op=read,drive=0,region_start_mb=0,region_mb=256"
    ),
    "two drives at once": f"continuous:ratio=100%,latency_us=2000,{_SLOTS},at_once=2",
    "fail-slow, one drive from a fifth of the time on": (
        "continuous:ratio=100%,latency_us=2000,op=read,drive=1,start_ms={every_ms},"
        "slot_ms={rest_ms}"
    ),
}

#: The length of a burst and the time from one to the next, as shares of the replay.
SLOT_SHARE, EVERY_SHARE = 0.04, 0.2

POLICIES = (
    "baseline", "clone", "shortest-queue", "shortest-queue-h95", "shortest-queue-h95, 5% cap",
    "prequal", "c3", "heimdall", "hedge", "hedge, 5% cap", "hedge-ip", "heuristic", "heuristic-adv",
    "linnos", "linnos-hl", "fastest", "oracle",
)  # fmt: skip


def spec(kind: str, workload: str) -> str | None:
    """Return the replayer's option for a kind on a workload."""
    length_ms = 1000 * grid.INJECTED_S[workload]
    every_ms = round(EVERY_SHARE * length_ms)
    text = KINDS[kind]
    return text and text.format(
        slot_ms=round(SLOT_SHARE * length_ms),
        every_ms=every_ms,
        rest_ms=round(length_ms) - every_ms,
    )


def measure(context: Context, *, workload: str, kind: str, policy: str, seed: int) -> Replayed:
    """Replay a workload with a kind of slowness under a policy."""
    return grid.replay_injected(context, workload, seed, policy, spec(kind, workload))


EXPERIMENT = Study(
    **load_study_texts("unseen"),
    factors={"workload": tuple(grid.INJECTED_S), "kind": tuple(KINDS)},
    policies=POLICIES,
    cell=measure,
    prepare=grid.prepare_place,
    reads=True,
    seeds=grid.seed_of_workload(tuple(grid.INJECTED_S)),
)
