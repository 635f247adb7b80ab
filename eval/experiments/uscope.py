# SPDX-License-Identifier: MIT
"""Random, continuous and interval slow I/Os, and their effect on latency over time."""

from __future__ import annotations

from typing import Any

from eval import contenders, figures, grid
from eval.cells import Replayed, replayed
from eval.experiment import GRID_SOURCES, NOT_AVAILABLE, Context
from eval.study import Study

RATIO_PERCENT = 10
ADDED_US = (100, 1000)

#: Reads of the drive in one cycle of the continuous pattern: a replay has two or three cycles.
PERIOD_IOS = 500

#: The length of each workload's replay, some six thousand reads of the first drive.
REPLAYED_S = {"az-e": 1.0, "az-c": 20.0}

_HOW = {
    "random": f"ratio={RATIO_PERCENT}%",
    "continuous": f"ratio={RATIO_PERCENT}%,period_ios={PERIOD_IOS}",
    "interval": f"interval={100 // RATIO_PERCENT}",
}

#: The replayer's `--inject`, on the first drive only, like a drive that begins to fail. A slow read
#: delays no other read, or occupies its chip as a delay in the driver would.
INJECTIONS: dict[str, str | None] = {
    "none": None,
    **{
        f"{pattern}, {added} us{', ' * bool(occupying)}{occupying}": (
            f"{pattern}:{how},op=read,latency_us={added},drive=0{',occupy' * bool(occupying)}"
        )
        for occupying in ("", "occupying")
        for pattern, how in _HOW.items()
        for added in ADDED_US
    },
}

SETTINGS: dict[str, Any] = {**grid.PARTS, "replayed_s": REPLAYED_S, "injections": INJECTIONS}


def measure(context: Context, *, workload: str, injection: str, policy: str, seed: int) -> Replayed:
    """Replay a workload with slow I/Os under a policy."""
    (contender,) = contenders.named([policy])
    replay = grid.replay_of(
        context.cache, grid.cell(workload, seed), contender, inject=INJECTIONS[injection],
        options=("--duration", f"{REPLAYED_S[workload]:g}"),
    )  # fmt: skip
    return replayed(context.cache, replay)


EXPERIMENT = Study(
    name="uscope",
    title="Slow I/Os by pattern, and latency over time",
    source="uScope Fig. 10, 11",
    factors={"workload": tuple(REPLAYED_S), "injection": tuple(INJECTIONS)},
    policies=contenders.INJECTED,
    cell=measure,
    prepare=grid.prepare_place,
    reads=True,
    series=True,
    seeds=grid.seed_of_workload(tuple(REPLAYED_S)),
    figure=figures.over_time,
    settings=SETTINGS,
    paper=f"LinnOS predicts single slow I/Os, and loses accuracy on continuous ones; numbers: "
    f"{NOT_AVAILABLE}.",
    differs=f"Slow I/Os, {RATIO_PERCENT} % of the reads, on one drive of the three; the cycle of "
    f"the continuous pattern is {PERIOD_IOS} reads, not 100 000, so that two or three fit into a "
    "replay.",
    notes="All three patterns count reads or are random: if a read is not sent to the drive, the "
    "next one is slow instead. So the oracle, which decides read by read, is no bound here.",
    sources=GRID_SOURCES,
)
