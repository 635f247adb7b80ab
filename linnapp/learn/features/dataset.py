# SPDX-License-Identifier: MIT
"""The served reads of a trace, in columns compact enough to hold a day of reads in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError
from linnapp.learn.features.digits import DigitArray, digits
from linnapp.model.model_file import LATENCY_DIGITS, N_INPUTS, PENDING_DIGITS
from linnapp.trace.blktrace import IoChunk, TraceStats
from linnapp.trace.recorded import Reader, Recorded, open_recording
from linnapp.trace.rows import Rows

#: Number of reads whose digits are computed at a time.
_DIGIT_ROWS = 1 << 18


@dataclasses.dataclass(frozen=True)
class ReadSet(Rows):
    """Reads that the drive answered, in arrival order, and what the kernel knew at each read."""

    #: uint32 array, shape (n,). Not capped.
    latency_us: npt.NDArray[np.uint32]
    #: uint16 array, shape (n,). Number of 4 KiB pages of the read, rounded up.
    pages: npt.NDArray[np.uint16]
    #: unsigned array, shape (n,). Number of pending 4 KiB pages at arrival. This column and the
    #: following ones are capped at the maximum that their digits can represent.
    pending: npt.NDArray[Any]
    #: `hist_pending`, `hist_latency_us`: unsigned arrays, shape (n, HISTORY). Values of the last
    #: completed reads, oldest first.
    hist_pending: npt.NDArray[Any]
    hist_latency_us: npt.NDArray[Any]
    #: uint64 array, shape (n,).
    arrival_ns: npt.NDArray[np.uint64]
    #: Statistics of the whole trace.
    stats: TraceStats

    def every(self, step: int) -> ReadSet:
        """Return a copy of every `step`-th read."""
        return self.take(slice(None, None, step)).each(np.copy)

    def digits(self, rows: slice | npt.NDArray[np.intp] = slice(None)) -> DigitArray:
        """Return the feature vectors of the selected reads, shape (n, N_INPUTS)."""
        pending = self.pending[rows]
        n = len(pending)
        hist_pending, hist_latency_us = self.hist_pending[rows], self.hist_latency_us[rows]
        out = np.empty((n, N_INPUTS), np.uint8)
        for start in range(0, n, _DIGIT_ROWS):
            part = slice(start, start + _DIGIT_ROWS)
            out[part] = digits(
                pending[part].astype(np.uint32),
                hist_pending[part].astype(np.uint32),
                hist_latency_us[part].astype(np.uint32),
            )
        return out


def _capped(array: npt.NDArray[np.uint32], n_digits: int) -> npt.NDArray[Any]:
    """Cap at the largest number with `n_digits` digits. Use 16 bits if they are sufficient."""
    cap = 10**n_digits - 1
    capped = np.minimum(array, np.uint32(min(cap, 2**32 - 1)))
    return capped.astype(np.uint16) if cap < 1 << 16 else capped


def load_reads(
    trace: Recorded,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> ReadSet:
    """Read the served reads of a trace.

    Parameters
    ----------
    trace : path or IoTable
    on_progress : callable, optional
        Called with the number of bytes read so far and their total.
    **options
        Those of :func:`~linnapp.trace.recorded.open_recording`.

    Raises
    ------
    TraceError
        If the trace contains no completed read.
    """
    reader = open_recording(trace, **options)
    parts: list[list[npt.NDArray[Any]]] = [[] for _ in range(6)]
    for chunk in _reported(reader, on_progress):
        for column, part in zip(parts, _compact(chunk), strict=True):
            column.append(part)
    n_reads = sum(len(part) for part in parts[0])
    if not n_reads:
        stats = reader.stats
        raise TraceError(
            f"{trace}: holds no completions (C); record with `blktrace -a complete`, too"
            if stats["reads"] and not stats["completed"]
            else f"{trace}: no completed read to learn from ({stats['reads']} reads and "
            f"{stats['writes']} writes were submitted, {stats['revoked']} revoked); "
            "trace longer, or while the drive is in use"
        )
    columns = []
    for column in parts:
        columns.append(np.concatenate(column))
        column.clear()  # Avoids holding all columns twice.
    latency_us, pages, pending, hist_pending, hist_latency_us, arrival_ns = columns
    return ReadSet(
        latency_us, pages, pending, hist_pending, hist_latency_us, arrival_ns, reader.stats
    )


def _reported(reader: Reader, on_progress: Callable[[int, int], None] | None) -> Iterator[IoChunk]:
    total = reader.size_bytes
    for chunk in reader:
        if on_progress is not None:
            on_progress(reader.stats["bytes"], total)
        yield chunk


def _compact(chunk: IoChunk) -> tuple[npt.NDArray[Any], ...]:
    served = chunk.take(chunk.is_served_read)
    latency_us = np.minimum(served.latency_ns // np.uint64(1000), np.uint64(2**32 - 1))
    return (
        latency_us.astype(np.uint32),
        np.minimum(-(-served.size_bytes.astype(np.int64) // 4096), 65535).astype(np.uint16),
        _capped(served.pending, PENDING_DIGITS),
        _capped(served.hist_pending, PENDING_DIGITS),
        _capped(served.hist_latency_us, LATENCY_DIGITS),
        served.arrival_ns,
    )
