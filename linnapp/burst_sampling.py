# SPDX-License-Identifier: MIT
"""Collects examples of added bursts from both parts of a trace, in chunks.

Training examples come from the training part alone and validation examples from the rest, so that
what judges a network was made from reads that it never saw. The passes go through the trace in
chunks; a short trace is gone over again with new draws until there are enough bursts and examples.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from linnapp.blktrace import BlktraceReader, IoChunk
from linnapp.bursts import COVERED, BurstReads, add_bursts, burst_count
from linnapp.features import FeatureLayout
from linnapp.files import AnyPath
from linnapp.labels import SlowLimits

#: enough to learn from, whatever the length of the trace
MAX_ROWS = 500_000
MAX_VALIDATION_ROWS = 100_000

#: A burst's added latency is one point on a scale of three decades, and a network learns the
#: scale only from many: a short trace is gone over until so many bursts have been drawn.
MIN_BURSTS = 2000
MAX_PASSES = 100


def sample_bursts(
    trace: AnyPath,
    first_validation: int,
    share: float,
    threshold_us: int,
    layout: FeatureLayout,
    seed: int,
    limits: SlowLimits | None = None,
    **reader_options: Any,
) -> tuple[BurstReads, BurstReads]:
    """Make the examples that training and validation add to a trace's own reads.

    Parameters
    ----------
    trace : path
    first_validation : int
        Index, among the trace's served reads, of the first that is for validation.
    share : float
        Share of added examples among all training examples, 0 to below 1.
    threshold_us : int
        The drive's inflection point.
    layout : FeatureLayout
    seed : int
    limits : SlowLimits, optional
        What to label slow.
    **reader_options
        Those of :class:`~linnapp.blktrace.BlktraceReader`.

    Returns
    -------
    BurstReads
        For training; fewer than asked for where the trace is very short.
    BurstReads
        For validation.
    """
    # The drive's name is part of the seed: drives of one array get different bursts.
    trace = Path(trace)
    drive = zlib.crc32(trace.name.encode())
    wanted = min(MAX_ROWS, round(first_validation * share / (1 - share)))
    parts = []
    for validation, limit in ((False, wanted), (True, MAX_VALIDATION_ROWS)):
        rng = np.random.default_rng([seed, drive, int(validation)])
        found: list[BurstReads] = []
        n_found = 0
        # What one pass over a long trace yields is thinned evenly, not cut off.
        expected = max(1.0, COVERED * first_validation)
        keep = min(1.0, 2 * limit / expected)
        n_bursts = 0
        for _ in range(MAX_PASSES):
            for chunk in _part(trace, first_validation, validation, layout, reader_options):
                n_bursts += burst_count(chunk)
                reads = add_bursts(chunk, threshold_us, layout, rng, limits)
                if keep < 1:
                    reads = reads.take(rng.random(len(reads)) < keep)
                found.append(reads)
                n_found += len(reads)
            if n_bursts >= MIN_BURSTS and (validation or n_found >= limit):
                break
        every = BurstReads(
            *(
                np.concatenate([getattr(reads, field.name) for reads in found])
                for field in dataclasses.fields(BurstReads)
            )
        )
        if n_found > limit:
            every = every.take(np.sort(rng.choice(n_found, limit, replace=False)))
        parts.append(every)
    return parts[0], parts[1]


def _part(
    trace: Path,
    first_validation: int,
    validation: bool,
    layout: FeatureLayout,
    reader_options: dict[str, Any],
) -> Iterator[IoChunk]:
    """The I/Os up to the first validation read, or those from it on."""
    seen = 0
    for chunk in BlktraceReader(trace, history=layout.history, **reader_options):
        served = np.cumsum(chunk.is_served_read)
        # I/Os before the boundary: up to and without served read number first_validation.
        n_before = int(np.searchsorted(served, first_validation - seen, side="right"))
        seen += int(served[-1]) if len(served) else 0
        part = chunk.take(slice(n_before, None) if validation else slice(0, n_before))
        if len(part):
            yield part
        if not validation and seen > first_validation:
            return
