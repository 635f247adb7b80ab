# SPDX-License-Identifier: MIT
"""Read the files of a run: operations by kind and block of time, and the drive's counters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from eval import intervals
from eval.experiments.filesystems.guest.mixes import KINDS
from linnapp import stats
from linnapp.lab.work import StepError
from linnapp.stats import Interval

#: Blocks that the operations of a thread are divided into. On every drive a block has the same
#: operations.
BLOCKS = 20


def read_operations(path: Path, threads: int) -> dict[str, Any]:
    """Read a report of guest/mixes.py.

    Returns
    -------
    dict
        ``count`` and ``total_us``: {kind: one number for each block}; ``mean_us``, ``p99_us`` of
        all operations.
    """
    try:
        rows = np.fromfile(path, np.int64).reshape(threads, -1, 3)
    except (OSError, ValueError) as error:
        raise StepError(f"{path}: no report of {threads} threads: {error}") from None
    n = rows.shape[1]
    if n < BLOCKS:
        raise StepError(f"{path}: {n} operations a thread, expected {BLOCKS} or more")
    block = np.broadcast_to(np.arange(n) * BLOCKS // n, (threads, n)).ravel()
    kind, _, latency = (rows[..., i].ravel() for i in range(3))
    # The seed decides the operations, so a block has the same number of each kind on every drive.
    cell = block * len(KINDS) + kind
    size = BLOCKS * len(KINDS)
    count = np.bincount(cell, minlength=size).reshape(BLOCKS, -1)
    total_us = np.bincount(cell, latency / 1000, minlength=size).reshape(BLOCKS, -1)
    done = [k for k in range(len(KINDS)) if count[:, k].any()]
    return {
        "count": {KINDS[k]: count[:, k].tolist() for k in done},
        "total_us": {KINDS[k]: total_us[:, k].tolist() for k in done},
        "mean_us": float(latency.mean() / 1000),
        "p99_us": intervals.percentile(latency / 1000, 99),
    }


def counters(before: Path, after: Path) -> dict[str, int]:
    """Return the differences of the drive's counters over a run."""
    first, last = (
        {name: int(value) for name, value in map(str.split, path.read_text().splitlines())}
        for path in (before, after)
    )
    wanted = ("reads", "writes", "injected_reads", "injected_writes")
    return {name: last[name] - first[name] for name in wanted}


def slowdown(base: dict[str, Any], slowed: dict[str, Any], kind: str | None = None) -> Interval:
    """Return the share by which operations, of one kind or all, take longer, with its interval.

    Both runs are results of :func:`read_operations` or :func:`pooled`; their blocks are paired.
    """
    if base["count"] != slowed["count"]:
        raise StepError("the operations on a slow drive are not those on the drive as it is")
    kinds = [kind] if kind else list(base["total_us"])
    whole, part = (
        np.sum([run["total_us"][k] for k in kinds], axis=0).tolist() for run in (base, slowed)
    )
    ratio = stats.ratio_interval(part, whole)
    return Interval(ratio.value - 1, ratio.low - 1, ratio.high - 1)


def pooled(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Join the runs of several seeds: their blocks follow each other."""
    count, total = (
        {k: [n for run in runs for n in run[field][k]] for k in runs[0][field]}
        for field in ("count", "total_us")
    )
    n = sum(map(sum, count.values()))
    p99 = [run["p99_us"] for run in runs]
    return {
        "count": count,
        "total_us": total,
        "mean_us": sum(map(sum, total.values())) / n,
        "p99_us": None if None in p99 else float(np.mean(p99)),
    }
