# SPDX-License-Identifier: MIT
"""Reads a log with one completed I/O a line as I/Os with what a kernel would have seen of each.

Such a log says when each I/O was submitted and how long it took, and so what was in flight and what
had completed at any moment: all that :class:`~linnapp.trace.blktrace.BlktraceReader` finds out from
events. Logs are seldom in order of submission (threads write when an I/O is over); they are put
in order within a window, so that memory does not grow with the log. Of I/Os of one instant the
lines' order would tell which was over first: they stand in an order that says nothing of it, and
do not see each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError
from linnapp.files import AnyPath
from linnapp.trace.blktrace import CHUNK_IOS, COMPLETED, ISSUED, WRITE, IoChunk, TraceStats
from linnapp.trace.formats import text_trace
from linnapp.trace.formats.text_trace import SECTOR_BYTES, Columns, TextFormat
from linnapp.trace.logged_drive import LoggedDrive
from linnapp.trace.packed import unpacked


class LatencyLogReader:
    """Iterates over a log's I/Os in chunks, in order of submission.

    `chunk_ios` is also how many lines too late an I/O may stand; memory is proportional.
    """

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
            ("bytes", "queued", "completed", "missing_completions", "revoked", "reads", "writes"), 0
        )

    @property
    def size_bytes(self) -> int:
        """Bytes of the log."""
        return unpacked(self.trace).stat().st_size

    @property
    def stats(self) -> TraceStats:
        """Counts so far; final after the last chunk."""
        return TraceStats(dict(self._counts), False, {})

    def __iter__(self) -> Iterator[IoChunk]:
        origin_ns: int | None = None
        drive = LoggedDrive()
        for columns in sorted_columns(
            self.trace,
            self.text_format,
            chunk_ios=self.chunk_ios,
            on_progress=self._progress,
            ties_as_lines=False,
        ):
            if origin_ns is None:
                origin_ns = int(columns.time_ns[0])
            chunk = _observed(columns._replace(time_ns=columns.time_ns - origin_ns), drive)
            self._count(chunk)
            yield chunk
        if origin_ns is None:
            raise TraceError(f"{self.trace}: an empty trace: no I/O in it")

    def _progress(self, done_bytes: int) -> None:
        self._counts["bytes"] = done_bytes

    def _count(self, chunk: IoChunk) -> None:
        counts = self._counts
        n_writes = int(np.count_nonzero(chunk.is_write))
        n_completed = int(np.count_nonzero(chunk.flags & COMPLETED))
        counts["queued"] += len(chunk)
        counts["completed"] += n_completed
        counts["missing_completions"] += len(chunk) - n_completed
        counts["writes"] += n_writes
        counts["reads"] += len(chunk) - n_writes


def sorted_columns(
    trace: AnyPath,
    text_format: TextFormat,
    *,
    volume: str | None = None,
    chunk_ios: int = CHUNK_IOS,
    on_progress: Callable[[int], None] | None = None,
    on_empty: Callable[[int], None] | None = None,
    ties_as_lines: bool = True,
) -> Iterator[Columns]:
    """A text trace in order of its times; as :func:`linnapp.trace.formats.text_trace.read_columns`.

    I/Os of one instant are in order of size and place, or, with `ties_as_lines`, of their lines.
    """
    held: Columns | None = None
    last_ns: int | None = None

    def emitted(part: Columns) -> Columns:
        nonlocal last_ns
        if last_ns is not None and len(part.time_ns) and int(part.time_ns[0]) < last_ns:
            raise TraceError(
                f"{trace}: an I/O stands more than {chunk_ios} lines behind one that was submitted "
                "later; sort the log by its time of submission"
            )
        last_ns = int(part.time_ns[-1])
        return part

    for columns in text_trace.read_columns(
        trace, text_format, volume=volume, chunk_ios=chunk_ios, on_progress=on_progress,
        on_empty=on_empty,
    ):  # fmt: skip
        together = columns
        if held is not None:
            pairs = zip(held, columns, strict=True)
            together = Columns._make(np.concatenate(pair) for pair in pairs)
        order = np.argsort(together.time_ns, kind="stable")
        if not ties_as_lines:
            _order_ties(order, together)
        ready = max(0, len(order) - chunk_ios)
        if ready:
            yield emitted(together.take(order[:ready]))
        held = together.take(order[ready:])
    if held is not None and len(held.time_ns):
        yield emitted(held)


def _order_ties(order: npt.NDArray[np.intp], columns: Columns) -> None:
    """Put I/Os of one instant in an order that is not that of their lines."""
    time_ns = columns.time_ns[order]
    as_before = np.concatenate(([False], time_ns[1:] == time_ns[:-1]))
    tied = as_before | np.append(as_before[1:], False)
    rows = order[tied]
    of_rows = columns.take(rows)
    # The last key is the first that counts. Those that differ in latency alone are alike.
    order[tied] = rows[
        np.lexsort(
            (of_rows.latency_ns, of_rows.is_write, of_rows.offset_bytes, of_rows.size_bytes,
             of_rows.time_ns)
        )
    ]  # fmt: skip


def _observed(columns: Columns, drive: LoggedDrive) -> IoChunk:
    """The next I/Os, with what they found on the drive."""
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
        flags=flags.astype(np.uint8),
        hist_pending=hist_pending,
        hist_latency_us=hist_latency_us,
        ties_in_order=False,
    )
