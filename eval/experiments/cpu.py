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
from eval.study import Measure, Study
from linnapp.trace import convert as iolog

#: The rate of a busy drive.
BUSY_IOPS = 100_000


def work_ns(context: Context, seed: int) -> float:
    """Time the whole of LinnOS's work on a hinted read: accounting, history and decision."""
    cell = grid.cell(WORKLOADS[0], seed)
    model = trained(context.cache, cell) / "flash0.linnos"

    def make(folder: Path) -> None:
        kernel.run("bench_policy", "--json", str(folder / "policy.json"), str(model), quiet=True)

    folder = context.cache.get("policy-work", {"seed": seed}, make)
    measured: dict[str, Any] = json.loads((folder / "policy.json").read_text())
    return float(measured[str(model)]["hinted_read"]["warm_ns"])


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
        chunks = iolog.read_iolog(recorded(context.cache, cell) / "replay" / f"flash{drive}.iolog")
        per_s = sum(int((~chunk.is_write).sum()) for chunk in chunks) / cell.replay_s
        share = per_s * each_ns * 1e-9
        busy = BUSY_IOPS * each_ns * 1e-9
        rows.append(
            {"drive": drive, "reads_per_s": per_s, "cpu_share": share, "busy_share": busy,
             "work_ns": each_ns}
        )  # fmt: skip
    return rows


EXPERIMENT = Study(
    name="cpu",
    title="CPU share of inference",
    source="LinnOS 5.6.4",
    factors={"workload": WORKLOADS},
    cell=measure,
    prepare=prepare,
    measures={
        "reads_per_s": Measure("reads/s of a drive", positive=True),
        "work_ns": Measure("ns a read", positive=True),
        "cpu_share": Measure("CPU share %", 3, 100.0, positive=True),
        "busy_share": Measure(f"at {BUSY_IOPS} reads/s %", 1, 100.0, positive=True),
    },
    settings={**grid.PARTS, "busy_iops": BUSY_IOPS},
    paper="Inference takes 4 to 6 us; each device costs 0.3 to 0.7 % of the host's CPUs.",
    differs="The native benchmark (`make bench`): the kernel's own code compiled for user space, "
    "on the machine that ran the evaluation.",
    notes="The share of one core if every read is latency-critical. The time is the median in "
    "plain C, the engine that every processor can run.",
    sources=("eval/grid.py", "eval/bench/kernel.py", "kernel/bench/bench_policy.c"),
)
