# SPDX-License-Identifier: MIT
"""Compare the workloads with the paper's Table 1, and test if the drives sustain their rates."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from eval import grid
from eval.cells import N_DRIVES, WORKLOADS, recorded
from eval.experiment import Context
from eval.study import Study, load_study_texts
from linnapp.trace.inspection import WorkloadSummary, inspect
from linnapp.trace.workload import generate, load_profile

KIB = 1024

#: The length of the workload that is counted as it is generated.
GENERATED_S = 600


def measure(context: Context, *, workload: str, policy: str, seed: int) -> list[dict[str, Any]]:
    """Count ten minutes of the workload as generated, and inspect the recording."""
    cell = grid.cell(workload, seed)
    folder = recorded(context.cache, cell) / "record"
    run = json.loads((folder / "baseline.json").read_text())
    *children, shared = np.random.SeedSequence([seed, 1]).spawn(N_DRIVES + 1)
    rows = []
    for drive, child in enumerate(children):
        summary = WorkloadSummary()
        size = cell.size_mb << 20
        for chunk in generate(load_profile(workload), GENERATED_S, child, size, shared):
            summary.add(chunk)
        facts = summary.to_json()
        on_drive = inspect(folder / f"flash{drive}.blk").to_json()
        kib = {
            f"{kind}_kib_{what}": facts[f"{kind}_bytes_{what}"] / KIB
            for kind in ("read", "write")
            for what in ("mean", "max")
        }
        rows.append(
            {
                "drive": drive,
                **{key: facts[key] for key in EXPERIMENT.measures if key in facts},
                **kib,
                "slack": on_drive["slack"],
                "burstiness": on_drive["burstiness"],
                "late_ratio": run["late_ios"] / (run["reads"] + run["writes"]),
                "service_mean_us": run["service_mean_us"],
                "response_mean_us": run["response_mean_us"],
            }
        )
    return rows


EXPERIMENT = Study(
    **load_study_texts("table1"),
    factors={"workload": WORKLOADS},
    seeds=lambda seeds, **place: seeds[:1],
    groups=(("workload",), ("workload", "drive")),
    cell=measure,
    prepare=grid.record_place,
)
