# SPDX-License-Identifier: MIT
"""Make examples of synthetic bursts for the three parts of a trace, in chunks.

Training, validation and test examples come each from their own part of the trace. A short trace is
processed several times with new random windows until there are enough bursts and examples.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from linnapp.learn.features.augmentation import (
    COVERED,
    BurstReads,
    add_bursts,
    burst_count,
    check_span,
    no_reads,
)
from linnapp.learn.features.split import Split
from linnapp.learn.labelling.labels import SlowLimits
from linnapp.trace.blktrace import IoChunk
from linnapp.trace.recorded import Recorded, name_of, open_recording

#: Enough to learn from, whatever the length of the trace.
MAX_ROWS = 500_000
MAX_HELD_OUT_ROWS = 100_000

#: The added latency of a burst is one point on a scale of three decades, and a network learns the
#: scale only from many points. A short trace is repeated until there are this many bursts.
MIN_BURSTS = 2000
MAX_PASSES = 100

#: Number of I/Os of a part that are cached between passes, at about 70 bytes each. Short traces are
#: processed up to a hundred times, and reading them takes longer than adding bursts to them.
KEPT_IOS = 1_000_000


def sample_bursts(
    trace: Recorded,
    parts: Split,
    share: float,
    threshold_us: int,
    seed: int,
    limits: SlowLimits | None = None,
    **reader_options: Any,
) -> tuple[BurstReads, BurstReads, BurstReads]:
    """Make the examples that are added to a trace's reads for training, validation and testing.

    Parameters
    ----------
    trace : path or table
    parts : Split
    share : float
        Share of added examples among all training examples. Very short traces have fewer.
    threshold_us : int
        Minimum of the added latencies.
    seed : int
    limits : SlowLimits, optional
        See :func:`~linnapp.learn.features.augmentation.add_bursts`.
    **reader_options
        Those of :func:`~linnapp.trace.recorded.open_recording`.

    Returns
    -------
    tuple of BurstReads
        Examples for training, validation and testing.
    """
    # The drive's name is part of the seed, so that the drives of an array get different bursts.
    drive = zlib.crc32(os.fsencode(name_of(trace)))
    n_train = parts.training.stop
    wanted = min(MAX_ROWS, round(n_train * share / (1 - share)))
    made = []
    for number, (part, limit) in enumerate(
        (
            (parts.training, wanted),
            (parts.validation, MAX_HELD_OUT_ROWS),
            (parts.test, MAX_HELD_OUT_ROWS),
        )
    ):
        rng = np.random.default_rng([seed, drive, number])
        found = [no_reads()]
        n_found = 0
        # The examples of one pass over a long trace are thinned evenly, not truncated.
        expected = max(1.0, COVERED * n_train)
        keep = min(1.0, 2 * limit / expected)
        n_bursts = 0
        ios = _Part(trace, part, reader_options)
        for _ in range(MAX_PASSES):
            for chunk in ios:
                check_span(trace, chunk)
                n_bursts += burst_count(chunk)
                reads = add_bursts(chunk, threshold_us, rng, limits)
                if keep < 1:
                    reads = reads.take(rng.random(len(reads)) < keep)
                found.append(reads)
                n_found += len(reads)
            if n_bursts >= MIN_BURSTS and (number > 0 or n_found >= limit):
                break
        every = BurstReads.joined(found)
        if n_found > limit:
            every = every.take(np.sort(rng.choice(n_found, limit, replace=False)))
        made.append(every)
    return made[0], made[1], made[2]


class _Part:
    """Iterate, repeatedly, over the I/Os of a part in chunks.

    The part begins at its first served read, or at the beginning of the trace.
    """

    def __init__(self, trace: Recorded, part: slice, reader_options: dict[str, Any]) -> None:
        self._trace = trace
        self._part = part
        self._options = reader_options
        self._kept: list[IoChunk] | None = None

    def __iter__(self) -> Iterator[IoChunk]:
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[IoChunk] = []
        n_ios = 0
        for chunk in self._read():
            n_ios += len(chunk)
            if n_ios <= KEPT_IOS:
                kept.append(chunk.copy())
            else:
                kept.clear()
            yield chunk
        if n_ios <= KEPT_IOS:
            self._kept = kept

    def _read(self) -> Iterator[IoChunk]:
        seen = 0
        for chunk in open_recording(self._trace, **self._options):
            served = np.cumsum(chunk.is_served_read)
            # The served read number `index`, and all I/Os after it, begin at this row of the chunk.
            begin, end = (
                int(np.searchsorted(served, index - seen, side="right")) if index else 0
                for index in (self._part.start, self._part.stop)
            )
            n_served = int(served[-1]) if len(served) else 0
            seen += n_served
            inside = chunk.take(slice(begin, end))
            if len(inside):
                yield inside
            if seen > self._part.stop:
                return
