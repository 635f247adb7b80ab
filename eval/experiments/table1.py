# SPDX-License-Identifier: MIT
"""What the workloads are like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from eval import figures, grid
from eval.cells import N_DRIVES, WORKLOADS, recorded
from eval.experiment import NOT_AVAILABLE, Context, Experiment, Table
from eval.metrics import percent
from linnapp.trace import iolog

#: A window in which the arrivals are counted, and what makes it a burst.
WINDOW_MS = 10
BURST_FACTOR = 3.0

PARAMETERS: dict[str, Any] = {
    "workloads": WORKLOADS,
    **grid.PARTS,
    "window_ms": WINDOW_MS,
    "burst_factor": BURST_FACTOR,
}


def run(context: Context) -> dict[str, Any]:
    """Count over the replayed part of each workload's first repeat."""
    cells = [grid.cell(w, "enterprise", context.seeds[0]) for w in PARAMETERS["workloads"]]
    folders = context.map(lambda cell: recorded(context.cache, cell), cells, "recording")
    rows = []
    for cell, folder in zip(cells, folders, strict=True):
        for drive in range(N_DRIVES):
            chunks = list(iolog.read(folder / "replay" / f"flash{drive}.iolog"))
            time_us = np.concatenate([c.time_us for c in chunks])
            size = np.concatenate([c.size_bytes for c in chunks])
            offset = np.concatenate([c.offset_bytes for c in chunks])
            write = np.concatenate([c.is_write for c in chunks])
            count = np.bincount(time_us // (1000 * WINDOW_MS))
            busy = count > BURST_FACTOR * max(float(np.median(count)), 1.0)
            sequential = offset[1:] == offset[:-1] + size[:-1]
            rows.append(
                {
                    "workload": cell.workload,
                    "drive": drive,
                    "ios": len(time_us),
                    "iops": len(time_us) / cell.replay_s,
                    "read_ratio": float((~write).mean()),
                    "read_mb_s": float(size[~write].sum() / cell.replay_s / 1e6),
                    "write_mb_s": float(size[write].sum() / cell.replay_s / 1e6),
                    "read_kb_mean": float(size[~write].mean() / 1024),
                    "write_kb_mean": float(size[write].mean() / 1024),
                    "sequential_ratio": float(sequential.mean()),
                    "busy_windows_ratio": float(busy.mean()),
                    "peak_iops": float(count.max() * 1000 / WINDOW_MS),
                    "touched_gb": len(np.unique(offset // 4096)) * 4096 / 1e9,
                }
            )
    return {"rows": rows, "runs": []}


def table(data: dict[str, Any]) -> dict[str, Table]:
    """One row a drive."""
    return {
        "Per drive, replayed part": Table(
            (
                "workload", "drive", "IOPS", "peak IOPS", "reads", "read MB/s", "write MB/s",
                "mean read KiB", "mean write KiB", "sequential", f"{WINDOW_MS} ms windows busy",
            ),
            tuple(
                (
                    r["workload"], str(r["drive"]), f"{r['iops']:.0f}", f"{r['peak_iops']:.0f}",
                    percent(r["read_ratio"], 0), f"{r['read_mb_s']:.1f}", f"{r['write_mb_s']:.1f}",
                    f"{r['read_kb_mean']:.1f}", f"{r['write_kb_mean']:.1f}",
                    percent(r["sequential_ratio"]), percent(r["busy_windows_ratio"]),
                )
                for r in data["rows"]
            ),
        )
    }  # fmt: skip


def reading(data: dict[str, Any]) -> str:
    """Ranges."""
    rows = data["rows"]
    return (
        f"Between {min(r['iops'] for r in rows):.0f} and {max(r['iops'] for r in rows):.0f} IOPS a "
        f"drive, {percent(min(r['read_ratio'] for r in rows), 0)} to "
        f"{percent(max(r['read_ratio'] for r in rows), 0)} of them reads. A window of "
        f"{WINDOW_MS} ms counts as busy with more than {BURST_FACTOR:g} times the median number "
        f"of arrivals: "
        f"{percent(min(r['busy_windows_ratio'] for r in rows))} to "
        f"{percent(max(r['busy_windows_ratio'] for r in rows))} of the windows."
    )


def draw(data: dict[str, Any], path: Path) -> None:
    """Rates and mix of the workloads."""
    rows = data["rows"]
    figure, panels = plt.subplots(1, 3, figsize=(13, 3.5))
    labels = [f"{row['workload']}\n{row['drive']}" for row in rows]
    for axes, key, title in zip(
        panels, ("iops", "read_ratio", "read_kb_mean"),
        ("I/Os per second", "share of reads", "mean read (KiB)"), strict=True,
    ):  # fmt: skip
        axes.bar(range(len(rows)), [row[key] for row in rows])
        axes.set_xticks(range(len(rows)), labels, fontsize=6)
        axes.set_title(title, fontsize=9)
    figure.tight_layout()
    figures.save(figure, path)


EXPERIMENT = Experiment(
    name="table1",
    title="Characteristics of the workloads",
    source="LinnOS Table 1",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper=f"The values of the paper's traces: {NOT_AVAILABLE}.",
    differs="The paper's production traces are not public; these are generated from the profiles "
    "in traces/, which name their sources.",
    sources=("eval/grid.py",),
)
