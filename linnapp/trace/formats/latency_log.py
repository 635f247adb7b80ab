# SPDX-License-Identifier: MIT
"""Read a log of completed I/Os, one per line, with the state that a kernel would have seen.

Such a log contains the submission time and the latency of each I/O, and therefore which I/Os were
in flight and which had completed at any time. This is all that
:class:`~linnapp.trace.blktrace.BlktraceReader` derives from events. Logs are seldom in order of
submission, because threads write a line when an I/O completes, so the reader sorts them. For I/Os
that were submitted at the same time, the order of the lines would show which completed first. They
are therefore put into an order that is independent of it, and do not see each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from linnapp.errors import TraceError
from linnapp.files import AnyPath
from linnapp.trace.blktrace import CHUNK_IOS, COMPLETED, ISSUED, WRITE, IoChunk, TraceStats
from linnapp.trace.formats import text_trace
from linnapp.trace.formats.text_trace import SECTOR_BYTES, Columns, TextCounts, TextFormat
from linnapp.trace.logged_drive import LoggedDrive
from linnapp.trace.packed import unpacked


class LatencyLogReader:
    """Iterate over the I/Os of a log in chunks, in order of submission."""

    def __init__(
        self,
        trace: AnyPath,
        text_format: TextFormat,
        *,
        chunk_ios: int = CHUNK_IOS,
    ) -> None:
        self.trace = Path(trace)
        self.text_format = text_format
        self.chunk_ios = chunk_ios
        self._counts = dict.fromkeys(
            (
                "bytes",
                "queued",
                "completed",
                "missing_completions",
                "revoked",
                "reads",
                "writes",
                "out_of_order",
            ),
            0,
        )

    @property
    def size_bytes(self) -> int:
        """Size of the log in bytes."""
        return unpacked(self.trace).stat().st_size

    @property
    def stats(self) -> TraceStats:
        """Counts so far. They are final after the last chunk."""
        return TraceStats(dict(self._counts), False, {})

    def __iter__(self) -> Iterator[IoChunk]:
        empty = True
        drive = LoggedDrive()
        for columns in text_trace.read_columns(
            self.trace,
            self.text_format,
            chunk_ios=self.chunk_ios,
            on_progress=self._progress,
            on_counts=self._count_lines,
            ties_as_lines=False,
        ):
            chunk = _observed(columns, drive)
            self._count(chunk)
            empty = False
            yield chunk
        if empty:
            raise TraceError(f"{self.trace}: an empty trace: no I/O in it")

    def _progress(self, done_bytes: int) -> None:
        self._counts["bytes"] = done_bytes

    def _count_lines(self, counts: TextCounts) -> None:
        self._counts["out_of_order"] = counts.out_of_order

    def _count(self, chunk: IoChunk) -> None:
        counts = self._counts
        n_writes = int(np.count_nonzero(chunk.is_write))
        n_completed = int(np.count_nonzero(chunk.flags & COMPLETED))
        counts["queued"] += len(chunk)
        counts["completed"] += n_completed
        counts["missing_completions"] += len(chunk) - n_completed
        counts["writes"] += n_writes
        counts["reads"] += len(chunk) - n_writes


def _observed(columns: Columns, drive: LoggedDrive) -> IoChunk:
    """Return the next I/Os with the state of the drive at their arrival."""
    completed = columns.latency_ns > 0
    arrival_ns = columns.time_ns.astype(np.uint64)
    latency_ns = columns.latency_ns.astype(np.uint64)
    sector = (columns.offset_bytes // SECTOR_BYTES).astype(np.uint64)
    size_bytes = np.minimum(columns.size_bytes, 2**32 - 1).astype(np.uint32)
    flags = np.where(columns.is_write, WRITE, 0) | np.where(completed, COMPLETED | ISSUED, 0)
    pending, hist_pending, hist_latency_us = drive.feed(
        ("pending", "hist_pending", "hist_latency_us"),
        *(arrival_ns, latency_ns, sector, size_bytes, flags),
    )
    return IoChunk(
        arrival_ns=arrival_ns,
        latency_ns=latency_ns,
        sector=sector,
        size_bytes=size_bytes,
        pending=pending,
        flags=flags.astype(np.uint16),
        hist_pending=hist_pending,
        hist_latency_us=hist_latency_us,
        ties_in_order=False,
    )
