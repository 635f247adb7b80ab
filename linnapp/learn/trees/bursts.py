# SPDX-License-Identifier: MIT
"""Synthetic bursts for training a latency model, in addition to the recorded reads.

Trees cannot predict higher latencies than they have seen. A recording of a lightly loaded drive
contains no information about bursts of garbage collection, so bursts are added to it
(:mod:`linnapp.learn.features.augmentation`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from linnapp.learn.features.augmentation import COVERED, SlowedReads, add_slow_reads, check_span
from linnapp.trace.recorded import Recorded, open_recording

#: Sufficient for training. A short recording is processed again with new random bursts.
ENOUGH_ROWS = 20_000
MAX_PASSES = 100

#: Minimum latency that a burst adds, as a multiple of `overdue_us`. A smaller increase cannot be
#: distinguished from load.
LEAST_OVERDUES = 2

#: Maximum number of rows that are kept of a long recording.
MAX_ROWS = 500_000

#: Total weight of the added reads relative to the recorded ones. Drives are seldom in such a burst,
#: and if both kinds of reads look alike, the recorded ones must decide.
WEIGHT = 0.03


def sample(trace: Recorded, n_reads: int, overdue_us: int, seed: int, **reader: Any) -> SlowedReads:
    """Add bursts to a recording and return the reads in and shortly after them.

    Parameters
    ----------
    trace : path or IoTable
    n_reads : int
        Number of served reads of the recording. `place` of the result is an index among them.
    overdue_us : int
        A read in flight for longer is overdue. Bursts add at least `LEAST_OVERDUES` times as much.
    seed : int
    **reader
        Options of :func:`~linnapp.trace.recorded.open_recording`.

    Returns
    -------
    SlowedReads
    """
    rng = np.random.default_rng(seed)
    kept = min(1.0, MAX_ROWS / max(1.0, 2 * COVERED * n_reads))
    parts: list[SlowedReads] = []
    n_rows = 0
    for _ in range(MAX_PASSES):
        n_before = 0
        for chunk in open_recording(trace, **reader):
            check_span(trace, chunk)
            made = add_slow_reads(chunk, LEAST_OVERDUES * overdue_us, overdue_us, rng)
            if kept < 1:
                made = made.take(rng.random(len(made)) < kept)
            parts.append(dataclasses.replace(made, place=made.place + n_before))
            n_before += int(np.count_nonzero(chunk.is_served_read))
            n_rows += len(made)
        if n_rows >= ENOUGH_ROWS or not n_rows:
            break
    return SlowedReads.joined(parts)
