# SPDX-License-Identifier: MIT
"""CPU share of inference per drive: measured inference time times the rate of reads."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from eval import figures, grid
from eval.bench import kernel
from eval.cells import N_DRIVES, WORKLOADS, recorded, trained
from eval.experiment import Context, Experiment, Table
from eval.metrics import percent
from linnapp.trace import iolog

#: Whose share is given by workload: the one that every processor can run.
ENGINE = "scalar"

PARAMETERS: dict[str, Any] = {
    "workloads": WORKLOADS,
    **grid.PARTS,
    "busy_iops": 100_000,
}


def work_ns(model: Path) -> dict[str, float]:
    """Time of all of LinnOS's work on a read, by engine: accounting, history and decision."""
    with tempfile.TemporaryDirectory() as name:
        result = Path(name) / "engine.json"
        kernel.run(
            "bench_engine", "--no-count", "--json", str(result), "--model", str(model), quiet=True
        )
        engines = json.loads(result.read_text())["engines"]
    return {engine["engine"]: engine["total_ns"] for engine in engines}


def run(context: Context) -> dict[str, Any]:
    """Time the engine once, count the reads of each workload."""
    cells = [grid.cell(w, context.seeds[0]) for w in PARAMETERS["workloads"]]
    models = context.map(lambda cell: trained(context.cache, cell), cells, "training")
    engines = work_ns(models[0] / "flash0.linnos")
    rows = []
    for cell in cells:
        folder = recorded(context.cache, cell)
        for drive in range(N_DRIVES):
            reads = sum(
                int((~chunk.is_write).sum())
                for chunk in iolog.read(folder / "replay" / f"flash{drive}.iolog")
            )
            per_s = reads / cell.replay_s
            rows.append(
                {
                    "workload": cell.workload, "drive": drive, "reads_per_s": per_s,
                    "cpu_share": per_s * engines[ENGINE] * 1e-9,
                }
            )  # fmt: skip
    return {
        "work_ns": engines,
        "rows": rows,
        "runs": [],
    }


def busy_shares(data: dict[str, Any]) -> dict[str, str]:
    """Share of a core at a busy drive's rate, by engine."""
    return {
        engine: percent(PARAMETERS["busy_iops"] * ns * 1e-9, 1)
        for engine, ns in data["work_ns"].items()
    }


def table(data: dict[str, Any]) -> dict[str, Table]:
    """One row a drive, and the engines at a busy drive's rate."""
    rows = [
        (r["workload"], str(r["drive"]), f"{r['reads_per_s']:.0f}", percent(r["cpu_share"], 3))
        for r in data["rows"]
    ]
    busy = [
        (engine, f"{data['work_ns'][engine]:.0f}", share)
        for engine, share in busy_shares(data).items()
    ]
    return {
        f"One core, {ENGINE} engine": Table(
            ("workload", "drive", "reads/s", "CPU share"), tuple(rows)
        ),
        f"{PARAMETERS['busy_iops']} reads a second": Table(
            ("engine", "ns a read", "CPU share"), tuple(busy)
        ),
    }


def reading(data: dict[str, Any]) -> str:
    """The share at these rates and at a busy drive's."""
    shares = [r["cpu_share"] for r in data["rows"]]
    return (
        f"All of LinnOS's work on a read takes {data['work_ns'][ENGINE]:.0f} ns of one core in "
        f"plain C (median; {data['work_ns']['reference']:.0f} ns with the reference engine). If "
        f"every read is latency-critical, that is {percent(min(shares), 3)} to "
        f"{percent(max(shares), 3)} of a core per drive at the workloads' rates; at "
        f"{PARAMETERS['busy_iops']} reads a second "
        + ", ".join(f"{share} ({engine})" for engine, share in busy_shares(data).items())
        + "."
    )


def draw(data: dict[str, Any], path: Path) -> None:
    """CPU share of inference by drive."""
    figure, axes = plt.subplots(figsize=(7, 3.5))
    rows = data["rows"]
    axes.bar(range(len(rows)), [100 * row["cpu_share"] for row in rows])
    labels = [f"{row['workload']}\n{row['drive']}" for row in rows]
    axes.set_xticks(range(len(rows)), labels, fontsize=7)
    axes.set_ylabel("share of one core (%)")
    axes.set_title(f"{data['work_ns']['scalar']:.0f} ns of work a read, plain C", fontsize=9)
    figures.save(figure, path)


EXPERIMENT = Experiment(
    name="cpu",
    title="CPU share of inference",
    source="LinnOS 5.6.4",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper="Inference takes 4 to 6 us; each device costs 0.3 to 0.7 % of the host's CPUs.",
    differs="The native benchmark (`make bench`): the kernel's engines compiled for user space, on "
    "the machine that ran the evaluation.",
    sources=("eval/grid.py", "eval/bench/kernel.py", "kernel/bench/bench_engine.c"),
)
