# SPDX-License-Identifier: MIT
"""Compare how clustered and how predictable slow reads are on emulated drives and in logs.

If slow reads come in clusters, a read that has just been slow predicts the next one. Emulated
drives whose slowness is more, or less, clustered than that of real drives make policies that use
the last latencies look better, or worse, than they are. Profiles of emulated drives are not changed
because of the result.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from eval import figures, grid, trace_files
from eval.cache import ROOT
from eval.cells import N_DRIVES, WORKLOADS, recorded
from eval.experiment import Context
from eval.long_table import LongTable
from eval.study import Study, load_study_texts
from linnapp.errors import NoGainError
from linnapp.learn.fit import fit_latency
from linnapp.learn.judge import area_under_roc
from linnapp.trace.reads import IoTable, load

#: A read is slow if it takes this many times as long as the median read of its drive.
SLOW = 2

#: Recordings are this part of those of Fig. 8, because these numbers need fewer reads.
PART = 10

LOGS = trace_files.names(trace_files.GIVEN)


def describe_drive(table: IoTable, seed: int) -> dict[str, float]:
    """Return the numbers of one drive; predictions are those for the second half."""
    read = table.is_served_read
    latency_us = table.latency_ns[read] / 1000
    limit_us = SLOW * np.median(latency_us)
    slow = latency_us > limit_us
    # The last read that had been answered when a read arrived.
    last_us = table.hist_latency_us[read][:, -1]
    found: dict[str, float] = {"slow": float(slow.mean())}
    for name, after in (("after_answer", last_us > limit_us), ("after_arrival", np.roll(slow, 1))):
        if after.any():
            found[name] = float(slow[after].mean())
    half, judged = table.split()
    later = judged.is_served_read
    late = judged.latency_ns[later] / 1000 > limit_us
    try:
        model = fit_latency(half, seed=seed)
        score = model.predict(judged)
    except NoGainError:
        score = np.zeros(len(late), np.uint32)
    for name, scores in (
        ("auc", score),
        ("auc_last", judged.hist_latency_us[later][:, -1]),
        ("auc_pending", judged.pending[later]),
    ):
        if (area := area_under_roc(scores, late)) is not None:
            found[name] = area
    return found


def measure(context: Context, *, source: str, policy: str, seed: int) -> list[dict[str, Any]]:
    """Return the numbers of the drives of a workload, or of a log."""
    if source in LOGS:
        return [describe_drive(load(trace_files.files(trace_files.GIVEN)[source]), seed)]
    whole = grid.cell(source, seed)
    cell = replace(whole, train_s=whole.train_s / PART, replay_s=whole.kept_s)
    folder = recorded(context.cache, cell) / "record"
    return [describe_drive(load(folder / f"flash{k}.blk"), seed) for k in range(N_DRIVES)]


def draw(table: LongTable, path: Path) -> None:
    """Draw predictability over clustering, one point per source."""
    figure, axes = plt.subplots(figsize=(7, 5))
    for (source,) in table.places:
        x = 100 * table.value((source,), "", "after_answer")
        y = table.value((source,), "", "auc")
        emulated = source in WORKLOADS
        axes.scatter(
            x, y, color="#0072b2" if emulated else "#d55e00", marker="o" if emulated else "s"
        )
        label = source if emulated else source.removesuffix(".trace").split(".")[-1]
        axes.annotate(label, (x, y), xytext=(5, 3), textcoords="offset points", fontsize=8)
    axes.set_xlabel("slow reads among those that arrive after a slow answer, %")
    axes.set_ylabel("area under ROC of the trees")
    axes.set_title("blue: emulated drives, orange: logs", fontsize=9)
    axes.grid(alpha=0.3)
    figures.save(figure, path)


EXPERIMENT = Study(
    **load_study_texts("clustering"),
    factors={"source": (*WORKLOADS, *LOGS)},
    cell=measure,
    figure=draw,
    inputs={"logs": trace_files.digests(trace_files.GIVEN)},
    pages={"clustering.md.j2": ROOT / "docs" / "real-drive.md"},
)
