# SPDX-License-Identifier: MIT
"""Latency of the drive profiles, under a read-write workload and with its reads only."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from eval import figures
from eval.cache import code_version
from eval.cells import REPLAYER_OPTIONS, read_log
from eval.experiment import Context
from eval.scores import Reads
from eval.study import Study, load_study_texts
from linnapp.lab import guests
from linnapp.lab.array import Array
from linnapp.trace import convert as iolog
from linnapp.trace.workload import generate, load_profile

WORKLOAD, SECONDS = "az-c", 60.0


def measure(context: Context, *, profile: str, mix: str, policy: str, seed: int) -> Reads:
    """Replay a minute of the workload on one drive."""

    def make(folder: Path) -> None:
        child, shared = np.random.SeedSequence([seed, 3]).spawn(2)
        workload, size = load_profile(WORKLOAD), Array.size_mb << 20
        chunks = generate(workload, SECONDS, child, size, shared)
        if mix == "read-only":
            chunks = (chunk.take(~chunk.is_write) for chunk in chunks)
        iolog.write_iolog(folder / "flash0.iolog", chunks, "/dev/flash0")
        scenario = guests.Scenario(
            f"{profile}, {mix}",
            Array(n_drives=1, profile=profile, seed=seed),
            (folder / "flash0.iolog",),
            seed,
            options=REPLAYER_OPTIONS,
        )
        guests.replay(scenario, policy, folder)

    recipe = code_version("eval/experiments/fig01.py")
    made_from = {"profile": profile, "mix": mix, "seed": seed, "recipe": recipe}
    reads = read_log(context.cache.get("drive", made_from, make) / f"{policy}.log")
    return Reads(reads["start_us"], reads["latency_us"], SECONDS)


EXPERIMENT = Study(
    **load_study_texts("fig01"),
    factors={
        "profile": ("consumer", "consumer-nvme", "enterprise-a", "enterprise-b", "enterprise-c"),
        "mix": ("read-write", "read-only"),
    },
    policies=("baseline",),
    cell=measure,
    reads=True,
    figure=figures.draw_percentile_lines,
)
