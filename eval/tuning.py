# SPDX-License-Identifier: MIT
"""The thresholds of the heuristics, from the recording alone.

`heuristic` is set as the paper sets it: the queue length at the inflection point's percentile.
`heuristic-adv` is tuned as section 5.6.1 of the paper did by hand: run it on a slice of the
recording, change a threshold, run it again. Here the search is code: first the queue length
from which a drive is passed over, then the latency from which a read counts as slow, each time
keeping what had the lowest mean. What `heuristic` is set to is tried as well, without a busy state:
on the slice the advanced one is never the worse of the two. The search sees the part of the cell
that the models learn from, never the part that is replayed.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval.cache import Cache
from eval.cells import Cell, Replay, given, read_profile, replayed, trained, training_records
from linnapp.trace import replay_log
from linnapp.trace.blktrace import COMPLETED
from linnapp.trace.reads import LoggedDrive
from linnapp.trace.text import SECTOR_BYTES

#: Candidates, as percentiles of the recording's queues and latencies; None is no limit, and each
#: drive's inflection point. They surround the replayer's own defaults. The queues are as short as
#: those that most reads meet, because the shortest one that was tried has often been the best.
QUEUE_PERCENTS = (40.0, 60.0, 80.0, 95.0, None)
BUSY_PERCENTS = (None, 90.0, 99.0)

#: Slower than any read: no drive is ever busy, and `heuristic-adv` behaves like `heuristic`.
NEVER_BUSY = ("--heuristic-busy-us", "1000000000")

#: Length of the slice, as a share of a replay's; three rates of the workload or more.
SLICE = 0.7

#: Longer than any queue.
NO_LIMIT_PAGES = 1 << 30


def queue_pages(
    records: NDArray[Any], percents: Sequence[float], *, replicate_writes: bool = False
) -> list[int]:
    """Percentiles of the pending 4 KiB pages that reads met at their drive, their own included.

    In the recorded run the default replicas served all I/Os, except for replicated writes.
    """
    met_pages = []
    for drive in np.unique(records["home"]):
        of_drive = given(records, drive, replicate_writes=replicate_writes)
        start = of_drive["due_ns"] + of_drive["lag_ns"]
        by_start = np.argsort(start, kind="stable")
        of_drive, start = of_drive[by_start], start[by_start]
        all_done = np.full(len(of_drive), COMPLETED)
        (pending,) = LoggedDrive().feed(
            ("pending",),
            *(
                start,
                of_drive["latency_ns"],
                of_drive["offset_bytes"] // SECTOR_BYTES,
                of_drive["size_bytes"],
                all_done,
            ),
        )
        met_pages.append(pending[of_drive["op"] == replay_log.READ])
    all_pages = np.concatenate(met_pages)
    return [int(np.percentile(all_pages, percent)) for percent in percents]


def _read_percentile_us(records: NDArray[Any], percent: float) -> int:
    reads = records[records["op"] == replay_log.READ]
    return round(float(np.percentile(reads["latency_ns"], percent)) / 1000)


@functools.cache
def heuristic_options(
    cache: Cache, cell: Cell, train_options: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the option of `heuristic`: the queue length at the inflection points' percentile.

    The inflection points are those of networks that are trained with `train_options`.
    """
    records = replay_log.read(read_profile(cache, cell))
    slow = [
        record["slow_ratio"] for record in training_records(trained(cache, cell, train_options))
    ]
    percents = [100 * (1 - float(np.mean(slow)))]
    (pages,) = queue_pages(records, percents, replicate_writes=cell.replicate_writes)
    return ("--heuristic-queue", str(max(1, pages)))


def candidates(
    log: Path, plain: tuple[str, ...], *, replicate_writes: bool = False
) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Options to try for the queue length, those of `heuristic` among them; and for the latency."""
    records = replay_log.read(log)
    known = [percent for percent in QUEUE_PERCENTS if percent is not None]
    counted = queue_pages(records, known, replicate_writes=replicate_writes)
    pages = dict(zip(known, counted, strict=True))
    queues = [
        NO_LIMIT_PAGES if percent is None else max(1, pages[percent]) for percent in QUEUE_PERCENTS
    ]
    busy: list[tuple[str, ...]] = [
        () if percent is None
        else ("--heuristic-busy-us", str(_read_percentile_us(records, percent)))
        for percent in BUSY_PERCENTS
    ]  # fmt: skip
    lengths = [("--heuristic-queue", str(pages)) for pages in queues]
    return list(dict.fromkeys((*lengths, plain))), [*busy, NEVER_BUSY]


@functools.cache
def tune(cache: Cache, cell: Cell) -> dict[str, Any]:
    """Search the thresholds of `heuristic-adv` on the end of a cell's first part.

    Returned are the replayer's ``options``, and ``tried``: of each run its options and its mean.
    """
    slice_s = cell.kept_s * max(3, round(SLICE * cell.replay_s / cell.kept_s))
    slice_s = min(slice_s, cell.train_s)
    where = ("--skip", f"{cell.train_s - slice_s:g}", "--duration", f"{slice_s:g}")
    tried: dict[tuple[str, ...], float] = {}

    def mean_us(options: tuple[str, ...]) -> float:
        if options not in tried:
            replay = Replay(cell, "heuristic-adv", part="train", options=(*where, *options))
            tried[options] = float(replayed(cache, replay).summary["response_mean_us"])
        return tried[options]

    plain = heuristic_options(cache, cell)
    queues, busy = candidates(
        read_profile(cache, cell), plain, replicate_writes=cell.replicate_writes
    )
    queue = min(queues, key=mean_us)
    combined = [(*queue, *latency) for latency in busy]
    best = min([*combined, (*plain, *NEVER_BUSY)], key=mean_us)
    return {
        "options": list(best),
        "tried": [{"options": list(o), "mean_us": mean} for o, mean in tried.items()],
    }
