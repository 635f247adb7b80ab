# SPDX-License-Identifier: MIT
"""Bursts that a model of latencies learns from, beside what was recorded.

Trees predict no more than they have seen. A recording of a drive at its ease teaches them nothing
of a burst of garbage collection: so bursts are added to it
(:mod:`linnapp.learn.features.augmentation`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from linnapp.learn.features.augmentation import COVERED, SlowedReads, add_slow_reads, check_span
from linnapp.trace.recorded import Recorded, open_recording

#: Enough to learn from; a short recording is gone over again with new draws.
ENOUGH_ROWS = 20_000
MAX_PASSES = 100

#: A burst adds at least so many times what is overdue: less is told from load by nobody.
LEAST_OVERDUES = 2

#: Of a long recording only so many are kept.
MAX_ROWS = 500_000

#: What all added reads together weigh beside the recorded ones: drives are in such a burst seldom,
#: and where both kinds of reads look alike the recorded ones must decide.
WEIGHT = 0.03


def sample(trace: Recorded, n_reads: int, overdue_us: int, seed: int, **reader: Any) -> SlowedReads:
    """Add bursts to a recording; the reads' places are those among its `n_reads` served ones.

    A read in flight for longer than `overdue_us` is overdue; that is the least that a burst adds.
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
