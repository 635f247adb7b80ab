# SPDX-License-Identifier: MIT
"""CPU share of inference per drive: measured inference time times the rate of reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eval import grid
from eval.bench import kernel
from eval.cells import N_DRIVES, WORKLOADS, recorded, trained
from eval.experiment import Context
from eval.study import Study, load_study_texts
from linnapp.trace import convert as iolog

#: The rate of a busy drive.
BUSY_IOPS = 100_000


def work_ns(context: Context, seed: int) -> float:
    """Time the whole of LinnOS's work on a hinted read: accounting, history and decision."""
    cell = grid.cell(WORKLOADS[0], seed)
    model = trained(context.cache, cell) / "flash0.linnos"

    def make(folder: Path) -> float:
        path = folder / "policy.json"
        kernel.run("bench_policy", "--json", str(path), str(model), quiet=True)
        measured = json.loads(path.read_text())
        return float(measured[str(model)]["hinted_read"]["warm_ns"])

    return float(context.cache.value("policy-work", {"seed": seed}, make))


def prepare(context: Context, *, workload: str, seed: int) -> None:
    """Time the work first, while the other threads wait for it and the CPUs are idle."""
    work_ns(context, context.seeds[0])
    recorded(context.cache, grid.cell(workload, seed))


def measure(context: Context, *, workload: str, policy: str, seed: int) -> list[dict[str, Any]]:
    """Count the reads of each drive."""
    cell = grid.cell(workload, seed)
    each_ns = work_ns(context, context.seeds[0])
    rows = []
    for drive in range(N_DRIVES):
        chunks = iolog.read_workload(
            recorded(context.cache, cell) / "replay" / f"flash{drive}.iolog", "iolog"
        )
        per_s = sum(int((~chunk.is_write).sum()) for chunk in chunks) / cell.replay_s
        share = per_s * each_ns * 1e-9
        busy = BUSY_IOPS * each_ns * 1e-9
        rows.append(
            {"drive": drive, "reads_per_s": per_s, "cpu_share": share, "busy_share": busy,
             "work_ns": each_ns}
        )  # fmt: skip
    return rows


EXPERIMENT = Study(
    **load_study_texts("cpu"),
    factors={"workload": WORKLOADS},
    cell=measure,
    prepare=prepare,
    sources=("eval/bench/kernel.py", "kernel/bench/bench_policy.c"),
)
