# SPDX-License-Identifier: MIT
"""CPU share of inference per drive: measured inference time times the rate of reads."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from eval import figures, grid, scores
from eval.bench import kernel
from eval.cells import N_DRIVES, WORKLOADS, recorded, trained
from eval.experiment import Context, Experiment, Table
from eval.intervals import of_seeds
from eval.metrics import percent
from linnapp.stats import Interval
from linnapp.trace.formats import iolog

#: Whose share is given by workload: the one that every processor can run.
ENGINE = "scalar"

PARAMETERS: dict[str, Any] = {
    "workloads": WORKLOADS,
    **grid.PARTS,
    "busy_iops": 100_000,
}


def work_ns(model: Path) -> dict[str, float]:
    """Time of all of LinnOS's work on a hinted read: accounting, history and decision."""
    with tempfile.TemporaryDirectory() as name:
        result = Path(name) / "policy.json"
        kernel.run("bench_policy", "--json", str(result), str(model), quiet=True)
        return {ENGINE: json.loads(result.read_text())[str(model)]["hinted_read"]["warm_ns"]}


def run(context: Context) -> dict[str, Any]:
    """Time the engine once, count the reads of each workload."""
    cells = grid.cells(context.seeds, PARAMETERS["workloads"])
    context.map(lambda cell: recorded(context.cache, cell), cells, "recordings")
    engines = work_ns(trained(context.cache, cells[0]) / "flash0.linnos")
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
                    "workload": cell.workload, "seed": cell.seed, "drive": drive,
                    "reads_per_s": per_s, "cpu_share": per_s * engines[ENGINE] * 1e-9,
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


def by_workload(data: dict[str, Any], field: str) -> dict[str, Interval]:
    """Mean of a field over a workload's drives, of all seeds."""
    by: dict[str, dict[int, list[float]]] = {}
    for row in data["rows"]:
        by.setdefault(row["workload"], {}).setdefault(row["seed"], []).append(row[field])
    return {workload: of_seeds(of_each, positive=True) for workload, of_each in by.items()}


def table(data: dict[str, Any]) -> dict[str, Table]:
    """One row a workload, and the engines at a busy drive's rate."""
    shares = by_workload(data, "cpu_share")
    rows = [
        (workload, scores.number(rate.to_json()), scores.number(share.to_json(), 3, 100.0) + " %")
        for (workload, rate), share in zip(
            by_workload(data, "reads_per_s").items(), shares.values(), strict=True
        )
    ]
    busy = [
        (engine, f"{data['work_ns'][engine]:.0f}", share)
        for engine, share in busy_shares(data).items()
    ]
    return {
        f"One core, {ENGINE} engine": Table(
            ("workload", "reads/s of a drive", "CPU share"), tuple(rows)
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
        f"plain C (median). If every read is latency-critical, that is "
        f"{percent(min(shares), 3)} to {percent(max(shares), 3)} of a core per drive at the "
        f"workloads' rates; at "
        f"{PARAMETERS['busy_iops']} reads a second "
        + ", ".join(f"{share} ({engine})" for engine, share in busy_shares(data).items())
        + "."
    )


def draw(data: dict[str, Any], path: Path) -> None:
    """CPU share of inference by workload."""
    figure, axes = plt.subplots(figsize=(7, 3.5))
    shares = by_workload(data, "cpu_share")
    for i, share in enumerate(shares.values()):
        triple = [None if v is None else 100 * v for v in share.to_json()]
        axes.bar(i, triple[0], color="#0072b2")
        figures.whisker(axes, i, triple)
    axes.set_xticks(range(len(shares)), list(shares), fontsize=7)
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
    differs="The native benchmark (`make bench`): the kernel's own code compiled for user space, "
    "on the machine that ran the evaluation.",
    sources=("eval/grid.py", "eval/bench/kernel.py", "kernel/bench/bench_policy.c"),
)
