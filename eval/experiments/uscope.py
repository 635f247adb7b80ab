# SPDX-License-Identifier: MIT
"""Random, continuous and interval slow I/Os, and their effect on each policy."""

from __future__ import annotations

from eval import contenders, grid
from eval.cells import Replayed
from eval.experiment import Context
from eval.study import Study, load_study_texts

RATIO_PERCENT = 10
ADDED_US = (100, 1000)

#: Reads of the drive in one cycle of the continuous pattern: a replay has two or three cycles.
PERIOD_IOS = 500

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


def measure(context: Context, *, workload: str, injection: str, policy: str, seed: int) -> Replayed:
    """Replay a workload with slow I/Os under a policy."""
    return grid.replay_injected(context, workload, seed, policy, INJECTIONS[injection])


EXPERIMENT = Study(
    **load_study_texts("uscope"),
    factors={"workload": tuple(grid.INJECTED_S), "injection": tuple(INJECTIONS)},
    policies=contenders.INJECTED,
    cell=measure,
    prepare=grid.prepare_place,
    reads=True,
    seeds=grid.seed_of_workload(tuple(grid.INJECTED_S)),
)
