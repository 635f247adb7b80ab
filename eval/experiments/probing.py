# SPDX-License-Identifier: MIT
"""Compare LinnOS's protocol with better variants: earlier probes, and models of latencies.

A probe is a read that the kernel admits although it would be revoked. Its latency updates the
history, so that a slow period of a drive can end. The settings of the probes are tuned here. In
another variant, models of latencies refuse reads that they predict to be slow. It is compared with
`fastest`, which uses the same models to choose a replica before it sends a read.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from eval import contenders, figures, grid
from eval.cells import LATENCY_TRAINING, WORKLOADS, Replay, Replayed, replayed
from eval.experiment import GRID_SOURCES, Context
from eval.study import Study


class Variant(NamedTuple):
    """A policy with other settings."""

    of: str
    #: `after_us`, `after_revokes`: ``probe_after_us`` and ``probe_after_revokes`` of the drives.
    after_us: int
    after_revokes: int
    train_options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the variant in tables."""
        models = ", models of latencies" if self.train_options == LATENCY_TRAINING else ""
        return f"{self.of}, probes after {self.after_us / 1000:g} ms{models}"

    @property
    def prepare(self) -> str:
        """Commands in the guest before the replay."""
        knobs = {"probe_after_us": self.after_us, "probe_after_revokes": self.after_revokes}
        writes = "".join(f" echo {value} >$drive/linnos/{knob};" for knob, value in knobs.items())
        return f"for drive in /sys/block/flash*; do{writes} done\n"


#: The kernel's defaults are 10,000 us and 100 refusals. 300 us and 3 refusals had the lowest
#: geometric mean of the eight workloads' means on development seed 1010, where 3,000 us and 30,
#: 1,000 us and 10, and scaled inputs with decayed weights were tried too.
VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("linnos", 300, 3),
        Variant("linnos-hl, 5% cap", 300, 3),
        Variant("linnos", 10_000, 100, LATENCY_TRAINING),
    )
}

OTHERS = (
    "baseline", "clone", "shortest-queue", "shortest-queue-h95, 5% cap", "prequal", "c3",
    "heimdall", "hedge", "linnos", "linnos-hl, 5% cap", "fastest", "oracle", "verdict",
)  # fmt: skip

PAIRS = tuple((name, variant.of) for name, variant in VARIANTS.items())


def measure(context: Context, *, workload: str, policy: str, seed: int) -> Replayed:
    """Replay a workload under a policy or a variant of one."""
    if policy not in VARIANTS:
        return grid.replay_place(context, workload=workload, policy=policy, seed=seed)
    variant = VARIANTS[policy]
    (contender,) = contenders.named([variant.of])
    replay = Replay(
        grid.cell(workload, seed), contender.policy, train_options=variant.train_options,
        options=contender.options, prepare=variant.prepare,
    )  # fmt: skip
    return replayed(context.cache, replay)


EXPERIMENT = Study(
    name="probing",
    title="LinnOS's protocol at its best: earlier probes, models of latencies",
    factors={"workload": WORKLOADS},
    policies=(*OTHERS, *VARIANTS),
    cell=measure,
    prepare=partial(grid.prepare_place, tune=False),
    reads=True,
    compared=tuple(VARIANTS),
    pairs=PAIRS,
    figure=partial(figures.reductions, PAIRS),
    settings={**grid.PARTS, "variants": [tuple(variant) for variant in VARIANTS.values()]},
    differs="As for Fig. 8.",
    sources=GRID_SOURCES,
)
