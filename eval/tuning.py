# SPDX-License-Identifier: MIT
"""Choose the thresholds of the heuristics from the recording alone.

`heuristic` uses the paper's threshold: the queue length at the inflection point's percentile.

`heuristic-adv` is tuned automatically in the way that section 5.6.1 of the paper tunes it by hand:
it is replayed on a slice of the recording with different thresholds, and the one with the lowest
mean is kept. First the queue length from which a drive is skipped is searched, then the latency
from which a read counts as slow. The setting of `heuristic` without a busy state is also a
candidate, so that `heuristic-adv` is never worse than `heuristic` on the slice. The slice belongs
to the part of the cell that models learn from, and never to the replayed part.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval.cache import Cache
from eval.cells import Cell, Replay, ios_of_drive, read_profile, replayed, trained, training_records
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
    """Return percentiles of the pages pending at a read's drive, including those of the read.

    In the recorded run the default replicas served all I/Os, except for replicated writes.
    """
    met_pages = []
    for drive in np.unique(records["home"]):
        of_drive = ios_of_drive(records, drive, replicate_writes=replicate_writes)
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
    """Return the candidate options for the queue length (with `heuristic`'s) and the latency."""
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

    Returns the replayer's ``options``, and ``tried``: the options and the mean of each run.
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
