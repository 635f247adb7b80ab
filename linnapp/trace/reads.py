# SPDX-License-Identifier: MIT
"""Read recordings that have latencies: blktrace recordings and logs.

:func:`open_recording` returns a reader, which yields the I/Os in chunks. :func:`load` returns an
:class:`IoTable`, which contains all I/Os in arrays. Functions that accept the path of a recording
also accept a table. They process it in the same chunks, so that the results are identical. A table
needs up to 180 bytes per I/O. If this is too much, use the path.

A log has a line for each completed I/O, with its submission time and its latency. From these times,
:class:`LatencyLogReader` computes which I/Os were in flight, and which had completed, when an I/O
was submitted. This is the state that a kernel would have seen, and that
:class:`~linnapp.trace.blktrace.BlktraceReader` derives from events. Threads write a line when an
I/O completes, so the lines are rarely in order of submission, and the reader sorts them. I/Os that
were submitted at the same time are sorted by size and offset, because the order of their lines
would show which completed first. All of them get the state before the first of them.

:class:`LoggedDrive` computes this state with the kernel's own code (core/, docs/formats.md), to
which linnapp/native/drive_log.c reports the I/Os in order of time. An I/O is in flight from its
arrival for the duration of its latency. The time since recent writes and the amount written
recently are not among the features: on a real drive's log, trees with these features ranked later
reads worse.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.arguments import Option, check_kind, check_names, check_number
from linnapp.errors import EmptyTraceError, TraceError, needs
from linnapp.files import AnyPath
from linnapp.native import HISTORY, N_FEATURES, native
from linnapp.trace.blktrace import (
    CHUNK_IOS,
    COLUMNS,
    COMPLETED,
    ISSUED,
    NOT_SELECTED,
    WRITE,
    BlktraceReader,
    IoChunk,
    TraceStats,
    is_blktrace,
    is_per_cpu,
    trace_files,
    unpacked,
    without_packing,
)
from linnapp.trace.convert import format_of
from linnapp.trace.text import SECTOR_BYTES, Columns, TextFormat, read_columns, text_formats

#: Column of the features that depends on the time after which a read is overdue.
OVERDUE = 5


PAGE_BYTES = 4096


def pages_of(size_bytes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return sizes in pages, rounded up."""
    return np.asarray(-(-size_bytes.astype(np.int64) // PAGE_BYTES))


UInt32 = npt.NDArray[np.uint32]

#: Results: fields of struct ld_seen, and the number of values per I/O.
SEEN = {
    "pending": 1,
    "hist_pending": HISTORY,
    "hist_latency_us": HISTORY,
    "hist_nr": HISTORY,
    "features": N_FEATURES,
}


class LoggedDrive:
    """A drive to which I/Os are reported, chunk by chunk. It is initially idle.

    For ``features``, a read in flight for longer than `overdue_us` is overdue.
    """

    def __init__(self, overdue_us: int = 0) -> None:
        library = native().lib
        self._drive = library.ld_open(overdue_us)
        if not self._drive:
            raise MemoryError
        weakref.finalize(self, library.ld_close, self._drive)

    def feed(
        self,
        wanted: tuple[str, ...],
        arrival_ns: npt.NDArray[Any],
        latency_ns: npt.NDArray[Any],
        sector: npt.NDArray[Any],
        size_bytes: npt.NDArray[Any],
        flags: npt.NDArray[Any],
        *,
        ties_in_order: bool = False,
        pending: npt.NDArray[Any] | None = None,
    ) -> list[UInt32]:
        """Return the state of the drive at each of the next I/Os, and add them to the drive.

        The columns are those of an :class:`~linnapp.trace.blktrace.IoChunk`, in order of arrival.
        I/Os that are not ``COMPLETED``, or are ``REVOKED``, get the state of the drive, but are
        never in flight. I/Os with ``ERROR`` are in flight, but not in the history. `pending` has
        the numbers of pending pages for the history, if they are known more precisely than from
        these I/Os.

        Returns
        -------
        list of uint32 array
            The results that `wanted` names, shape (n,) or (n, `SEEN` of the name). Values for
            writes are zero, except ``pending``. Past reads are oldest first. ``hist_nr`` are their
            sequence numbers among the drive's answered reads, starting at 1, or 0 if there is none.

        Raises
        ------
        TraceError
            If more I/O is in flight than a drive can have.
        """
        n = len(arrival_ns)
        given: dict[str, npt.NDArray[Any]] = {
            "arrival_ns": np.ascontiguousarray(arrival_ns, np.uint64),
            "latency_ns": np.ascontiguousarray(latency_ns, np.uint64),
            "sector": np.ascontiguousarray(sector, np.uint64),
            "bytes": np.ascontiguousarray(size_bytes, np.uint32),
            "flags": np.ascontiguousarray(flags, np.uint8),
        }
        if pending is not None:
            given["pending"] = np.ascontiguousarray(pending, np.uint32)
        lengths = [len(column) for column in given.values()]
        if set(lengths) != {n}:
            raise ValueError(f"the columns have different lengths: {lengths}")
        found = {
            name: np.zeros((n, SEEN[name]) if SEEN[name] > 1 else n, np.uint32) for name in wanted
        }
        library = native()
        ios = library.columns("ld_ios", given, n=n, ties_in_order=ties_in_order)
        if not library.lib.ld_feed(self._drive, ios, library.columns("ld_seen", found)):
            raise TraceError(
                "the log has more I/O in flight at once than any drive can have: more than 131,071 "
                "I/Os or 32 GiB. Check that its latencies are in the unit of the log's format"
            )
        return list(found.values())

    def features_of(self, chunk: IoChunk) -> UInt32:
        """Return the features of each served read of the next chunk, in order of arrival.

        If the chunk has features, they are returned, because a blktrace recording contains the
        actual requests.
        """
        if chunk.features is not None:
            return chunk.features[chunk.is_served_read]
        (features,) = self.feed(
            ("features",),
            *(chunk.arrival_ns, chunk.latency_ns, chunk.sector, chunk.size_bytes, chunk.flags),
            ties_in_order=chunk.ties_in_order,
            pending=chunk.pending,
        )
        return features[chunk.is_served_read]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class IoTable(IoChunk):
    """The I/Os of a recording, with the columns of :class:`~linnapp.trace.blktrace.IoChunk`.

    Attributes
    ----------
    name : str
        File name of the recording.
    files : tuple of str
        Names of all files of the recording.
    sha256 : str
        SHA-256 of the unpacked contents of the files, in order.
    stats : TraceStats
        Counts of the reader.
    chunk_ends : tuple of int
        Index of the end of each chunk that was read.
    starts : array or None
        Start times of reads (:data:`~linnapp.trace.blktrace.START`), or None for a log or a table
        without features.
    first : int
        For a part, the index of its first I/O in the recording.
    whole : bool
        True if the table contains all I/Os of the recording.
    label : str
        Name in messages, by default `name`.
    selected : bool
        True if :meth:`select` has excluded I/Os.
    read_features : array or None
        Features of the served reads alone, in a table that :func:`held` has read for latency
        models. It has neither `features` nor the columns of the history.
    """

    name: str
    files: tuple[str, ...]
    sha256: str
    stats: TraceStats
    chunk_ends: tuple[int, ...]
    starts: npt.NDArray[Any] | None
    first: int = 0
    whole: bool = True
    label: str = ""
    selected: bool = False
    read_features: npt.NDArray[np.uint32] | None = None

    def __getitem__(self, rows: slice) -> IoTable:
        """Return consecutive I/Os, as in ``reads[n:]``, with unchanged columns.

        The columns describe the drive's state at each I/O. I/Os before the part contribute to it.

        Raises
        ------
        TypeError
            If `rows` is not a slice.
        ValueError
            If the step is not 1.
        """
        if not isinstance(rows, slice):
            raise TypeError(
                "reads[...] takes a slice, as in reads[:1000]; use reads.select(mask) for a mask"
            )
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise ValueError(f"a step of {step}: the history would lack the I/Os that are left out")
        stop = max(start, stop)
        ends = [end - start for end in self.chunk_ends if start < end < stop]
        part = self.take(slice(start, stop))
        n_writes = int(np.count_nonzero(part.is_write))
        return dataclasses.replace(
            self,
            **{name: getattr(part, name) for name in COLUMNS},
            features=part.features,
            chunk_ends=(*ends, stop - start) if stop > start else (),
            first=self.first + start,
            whole=self.whole and stop - start == len(self),
            stats=self.stats.with_counts(reads=len(part) - n_writes, writes=n_writes),
        )

    def select(self, mask: npt.NDArray[np.bool_]) -> IoTable:
        """Return the table with only some of its reads selected.

        The other I/Os remain in the table as the history of the selected reads, so the length of
        the table does not change. Functions that fit, predict and evaluate use the selected reads
        alone: the rows of ``is_served_read``.

        Parameters
        ----------
        mask : bool array, shape (n,)
            True for the I/Os to keep, in addition to an earlier selection.

        Raises
        ------
        ValueError
            If `mask` is not a bool array with an element for each I/O.
        """
        mask = np.asarray(mask)
        if mask.dtype != np.bool_ or mask.shape != (len(self),):
            raise ValueError(
                f"mask: expected a bool array of shape ({len(self)},), not {mask.dtype} of shape "
                f"{mask.shape}"
            )
        flags = np.where(mask, self.flags, self.flags | np.uint16(NOT_SELECTED))
        return dataclasses.replace(self, flags=flags, selected=True)

    def overdue(self, overdue_us: int | None) -> npt.NDArray[np.int64] | None:
        """Return how many reads were in flight for longer than `overdue_us` at each read.

        The result is None for a log, and if `overdue_us` is None. It is 0 for writes.
        """
        if self.starts is None or overdue_us is None:
            return None
        # A read is overdue at the I/Os that arrive more than `overdue_us` after its start, until it
        # is no longer in flight. `begin` is the first of these I/Os. `until` is the first I/O after
        # them. 1 ns is subtracted, because the parser adds 1 ns to start times.
        times_ns = np.maximum.accumulate(self.arrival_ns)
        overdue_ns = np.uint64(1000 * overdue_us)
        begin = np.searchsorted(
            times_ns, self.starts["start_ns"] - np.uint64(1) + overdue_ns, "right"
        )
        until = np.clip(self.starts["until"], self.first, self.first + len(self)) - np.uint64(
            self.first
        )
        until = np.maximum(until.astype(np.int64), begin)
        change = np.bincount(begin, minlength=len(self) + 1) - np.bincount(
            until, minlength=len(self) + 1
        )
        return np.where(self.is_write, 0, np.cumsum(change)[:-1])

    def features_of_reads(self, overdue_us: int) -> UInt32 | None:
        """Return `read_features`, in which the numbers of overdue reads are set in place."""
        if self.read_features is not None:
            overdue = self.overdue(overdue_us)
            assert overdue is not None
            self.read_features[:, OVERDUE] = overdue[self.is_served_read]
        return self.read_features

    def split(self, share: float = 0.5) -> tuple[IoTable, IoTable]:
        """Split the I/Os in order of time, for training and for testing.

        `share` is the share of the first part.
        """
        check_number("share", share, 0, 1, open_ends="low high")
        at = round(len(self) * share)
        return self[:at], self[at:]

    def __str__(self) -> str:
        rows = "" if self.whole else f"[{self.first}:{self.first + len(self)}]"
        return f"{self.label or self.name}{rows}{' (a selection)' if self.selected else ''}"

    def __repr__(self) -> str:
        return f"<IoTable {self}: {len(self)} I/Os>"

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``, one row per I/O.

        In columns such as ``hist_latency_us_1``, 1 is the most recent read.
        """
        with needs("a data frame needs pandas", "'linnapp[frames]'"):
            import pandas as pd
        columns: dict[str, Any] = {}
        for name in COLUMNS:
            array = getattr(self, name)
            if array.ndim == 1:
                columns[name] = array
            else:
                for ago in range(1, array.shape[1] + 1):
                    columns[f"{name}_{ago}"] = array[:, -ago]
        return pd.DataFrame(
            columns | {"is_read": self.is_read, "is_served_read": self.is_served_read}
        )


class TableReader:
    """Iterate over the I/Os of a table in the chunks in which they were read.

    If `overdue_us` is given, their features include how many reads had been in flight for longer.
    """

    def __init__(self, table: IoTable, overdue_us: int | None = None) -> None:
        self.stats = table.stats
        self._table = table
        self._overdue_us = overdue_us

    @property
    def size_bytes(self) -> int:
        """Total size of the recording's files in bytes."""
        return self.stats["bytes"]

    def __iter__(self) -> Iterator[IoChunk]:
        start = 0
        overdue = self._table.overdue(self._overdue_us)
        for end in self._table.chunk_ends:
            chunk = self._table.take(slice(start, end))
            features = None
            if overdue is not None and chunk.features is not None:
                features = chunk.features.copy()
                features[:, OVERDUE] = overdue[start:end]
            yield dataclasses.replace(chunk, features=features)
            start = end


class LatencyLogReader:
    """Iterate over the I/Os of a log in chunks, in order of submission.

    Times are those of the log, so that logs with one clock can be compared with each other.
    """

    def __init__(
        self, trace: AnyPath, text_format: TextFormat, *, chunk_ios: int = CHUNK_IOS
    ) -> None:
        self.trace = Path(trace)
        self.text_format = text_format
        self.chunk_ios = chunk_ios
        self._counts = dict.fromkeys(
            (
                *("bytes", "queued", "completed", "missing_completions", "revoked"),
                *("reads", "writes", "out_of_order"),
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
        return TraceStats(dict(self._counts), {})

    def __iter__(self) -> Iterator[IoChunk]:
        counts, drive = self._counts, LoggedDrive()
        for columns in read_columns(
            self.trace,
            self.text_format,
            chunk_ios=self.chunk_ios,
            on_progress=lambda n_bytes: counts.update(bytes=n_bytes),
            on_counts=lambda lines: counts.update(out_of_order=lines.out_of_order),
            ties_as_lines=False,
        ):
            chunk = _observed(columns, drive)
            n_writes = int(np.count_nonzero(chunk.is_write))
            n_completed = int(np.count_nonzero(chunk.flags & COMPLETED))
            counts["queued"] += len(chunk)
            counts["completed"] += n_completed
            counts["missing_completions"] += len(chunk) - n_completed
            counts["writes"] += n_writes
            counts["reads"] += len(chunk) - n_writes
            yield chunk
        if not counts["queued"]:
            raise EmptyTraceError(f"{self.trace}: an empty trace: no I/O in it")


def _observed(columns: Columns, drive: LoggedDrive) -> IoChunk:
    """Return the next I/Os with the state of the drive at their arrival."""
    completed = columns.latency_ns > 0
    # Logs of an array's drives need a common clock, so times are not relative to the first I/O. The
    # remainder keeps a time of any size within 64 bits.
    arrival_ns = (columns.start_ns % (1 << 62) + columns.time_ns).astype(np.uint64)
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


#: Suffixes that describe the kind of file and are not part of the drive's name.
_SUFFIXES = (".trace", ".csv", ".log", ".txt")

#: Those options of :func:`open_recording` and :func:`load` that are numbers or flags.
_OPTIONS = {
    "chunk_ios": Option(1, 2**31 - 1, whole=True),
    "max_age_s": Option(0, 1e9, open_ends="low"),
    "allow_truncated": Option(),
}

#: Maximum share of lost events, and of reads excluded because of them, in a recording from which a
#: model is trained. Events are lost while a drive is busiest, so that all missing reads may have
#: been slow. With a larger share, the slowest percent of the reads, which a model has to predict,
#: could be missing completely.
MAX_LOST_SHARE = 0.01

#: Maximum total size of the recordings that a process keeps in memory, in bytes of their unpacked
#: files. A blktrace recording has three or more events of 48 bytes per I/O, for which a table
#: needs up to 180 bytes.
HELD_BYTES = 1 << 29

Reader = BlktraceReader | LatencyLogReader | TableReader

#: Type of recordings that functions accept: a path, or a table that :func:`load` returned.
Recorded = AnyPath | IoTable


def open_recording(
    trace: Recorded,
    *,
    text_format: TextFormat | None = None,
    overdue_us: int | None = None,
    **options: Any,
) -> Reader:
    """Return a reader of a recording's I/Os with their features and latencies.

    Parameters
    ----------
    trace : path or IoTable
        A blktrace recording, see :func:`~linnapp.trace.blktrace.trace_files`, a text trace in a
        format with latencies, or a table from :func:`load`.
    text_format : TextFormat, optional
        Format of a text trace. By default it is detected.
    overdue_us : int, optional
        For a blktrace recording, also compute the features of a latency model, see
        :class:`~linnapp.trace.blktrace.BlktraceReader`.
    **options
        Other options of :class:`~linnapp.trace.blktrace.BlktraceReader`. For a log only `chunk_ios`
        has an effect, and `device` must not be given.

    Raises
    ------
    TraceError
        If there is no such trace, if its format has no latencies, or if `device` is given for a log
        or a table.
    TypeError, ValueError
        If an option is unknown or its value is invalid.
    """
    check_options({"text_format": text_format, **options})
    if isinstance(trace, IoTable):
        if options.get("device"):
            raise TraceError(
                f"{trace}: device={options['device']!r} must be given to linnapp.load(), which has "
                "already read this table"
            )
        return TableReader(trace, overdue_us)
    trace = _path_of(trace)
    text_format = text_format or _log_format(trace)
    if text_format is None:
        return BlktraceReader(trace, overdue_us=overdue_us, **options)
    if options.get("device"):
        raise TraceError(
            f"{trace}: `device=` applies to blktrace recordings only; a log contains one drive"
        )
    chunk = {name: options[name] for name in ("chunk_ios",) if name in options}
    return LatencyLogReader(trace, text_format, **chunk)


def check_options(options: Mapping[str, Any]) -> None:
    """Raise TypeError or ValueError for invalid options of :func:`open_recording`."""
    check_names("open_recording", options, ("text_format", "device", *_OPTIONS))
    if options.get("text_format") is not None:
        known = ", one of linnapp.trace.text.text_formats()"
        check_kind("text_format", options["text_format"], TextFormat, known)
    if options.get("device") is not None:
        check_kind("device", options["device"], str)
    for name in options.keys() & _OPTIONS.keys():
        _OPTIONS[name].check(name, options[name])


def check_losses(trace: Recorded, stats: TraceStats) -> None:
    """Raise TraceError if too many events were lost to train a model from a recording.

    The limit is :data:`MAX_LOST_SHARE`, and `stats` are those of the whole recording.
    """
    losses, reads = stats.losses, stats["reads"]
    lost, events = losses["lost_events"], stats.counts.get("events", 0)
    share = max(losses["reads_left_out"] / max(reads, 1), lost / max(lost + events, 1))
    if share > MAX_LOST_SHARE:
        raise TraceError(
            f"{trace}: {lost} events were lost, and therefore {losses['reads_left_out']} of "
            f"{reads} reads are excluded: {share:.1%}. At most {MAX_LOST_SHARE:.0%} is accepted, "
            "because the excluded reads can be the slow ones. Record for a shorter time, fewer "
            "drives at once, or to a disk that is faster than the recorded ones"
        )


def load(trace: AnyPath, **options: Any) -> IoTable:
    """Read a recording into memory. Options are those of :func:`open_recording`.

    Raises
    ------
    TraceError
        If the recording cannot be read or contains no read or write.
    """
    # With `overdue_us`, the reader computes features. The number of overdue reads depends on the
    # model. IoTable.overdue() computes it later, from `starts`.
    return _load(trace, open_recording(trace, overdue_us=0, **options))


def _load(
    trace: AnyPath,
    reader: Reader,
    on_progress: Callable[[int, int], None] | None = None,
    *,
    for_latency: bool = False,
) -> IoTable:
    has_features = isinstance(reader, BlktraceReader)
    if isinstance(reader, BlktraceReader):
        reader.keep_starts = True
    for_latency &= has_features
    total_bytes = reader.size_bytes
    names = (*COLUMNS, "features") if has_features else COLUMNS
    parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in names}
    ends = [0]
    for chunk in reader:
        for name, found in parts.items():
            column = getattr(chunk, name)
            if for_latency and name == "features":
                column = column[chunk.is_served_read]
            elif for_latency and name.startswith("hist_"):
                column = np.empty((len(chunk), 0), column.dtype)
            found.append(column)
        ends.append(ends[-1] + len(chunk))
        ties_in_order = chunk.ties_in_order
        if on_progress is not None:
            on_progress(reader.stats["bytes"], total_bytes)
    if len(ends) == 1:
        raise EmptyTraceError(f"{trace}: contains no read or write")
    paths = trace_files(trace)
    columns: dict[str, Any] = {name: joined(parts.pop(name)) for name in names}
    if for_latency:
        columns["read_features"] = columns.pop("features")
    return IoTable(
        **columns,
        ties_in_order=ties_in_order,
        name=Path(trace).name,
        files=tuple(path.name for path in paths),
        sha256=_digest_of_unpacked(paths),
        stats=reader.stats,
        chunk_ends=tuple(ends[1:]),
        starts=reader.starts if isinstance(reader, BlktraceReader) else None,
    )


def joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Concatenate arrays. Each is removed from the list, and so freed, when it has been copied."""
    if len(parts) == 1:
        return parts[0]
    whole = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    end = len(whole)
    while parts:
        part = parts.pop()
        whole[end - len(part) : end] = part
        end -= len(part)
    return whole


#: No recording begins so soon after boot. If the time of the first event is smaller, the times are
#: relative to the first event.
_LEAST_UPTIME_NS = 10**8


def check_common_clock(traces: Sequence[Recorded], **options: Any) -> None:
    """Raise TraceError if recordings of several drives cannot be compared by time.

    blkparse (with ``-d``, too) writes times since the first event of its input, so the times of two
    drives have different origins. The files that blktrace wrote have times since the system
    started, and are not checked, like logs with latencies.
    """
    for trace in traces:
        if isinstance(trace, IoTable):
            name, files = trace.label or trace.name, trace.files
            first: IoChunk | None = trace if trace.starts is not None else None
        else:
            reader = open_recording(trace, **{**options, "chunk_ios": 1})
            name, files = str(trace), tuple(path.name for path in trace_files(trace))
            # A recording can contain no I/O, but other events.
            first = next(iter(reader), None) if isinstance(reader, BlktraceReader) else None
        if any(is_per_cpu(file) for file in files):
            continue
        if first is not None and len(first) and first.arrival_ns[0] < _LEAST_UPTIME_NS:
            raise TraceError(
                f"{name}: its times begin at 0, as blkparse writes them, so they cannot be "
                "compared with those of other drives; name the files that blktrace wrote"
            )


#: Recordings that :func:`held` has read, and their sizes in bytes.
_held: dict[tuple[str, ...], tuple[IoTable, int]] = {}
_n_holders = 0
_complete = False


def held(
    trace: Recorded,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    for_latency: bool = False,
    **options: Any,
) -> Recorded:
    """Return a recording as a table in memory, so that it is parsed only once for a training.

    The tables are kept in this process until :func:`releasing` ends. If they would exceed
    `HELD_BYTES` with this recording, it is not read, and its path is returned. `on_progress` is
    called with the number of bytes read so far and their total. With `for_latency`, the table may
    have only the columns from which a latency model is trained. The other options are those of
    :func:`open_recording`.
    """
    if isinstance(trace, IoTable):
        return trace
    reader = open_recording(trace, overdue_us=0, **options)
    files = [path.stat() for path in trace_files(trace)]
    key = tuple(map(repr, (trace, options, [(f.st_size, f.st_mtime_ns) for f in files])))
    for_latency &= not _complete
    key = *key, str(for_latency)
    if key not in _held:
        size = reader.size_bytes
        if size + sum(other for _, other in _held.values()) > HELD_BYTES:
            return trace
        table = _load(trace, reader, on_progress, for_latency=for_latency)
        _held[key] = dataclasses.replace(table, label=str(trace)), size
    return _held[key][0]


@contextlib.contextmanager
def releasing(*, complete: bool = False) -> Iterator[None]:
    """Free the recordings that :func:`held` keeps, at the end of the outermost such block.

    With `complete`, their tables have all columns, so that both kinds of models can use them.
    """
    global _n_holders, _complete
    _n_holders += 1
    _complete |= complete
    try:
        yield
    finally:
        _n_holders -= 1
        if not _n_holders:
            _held.clear()
            _complete = False


def name_of(trace: Recorded) -> str:
    """Return the file name of a recording."""
    return trace.name if isinstance(trace, IoTable) else Path(trace).name


def drive_name(trace: Recorded) -> str:
    """Return the name of a recording's drive, which :func:`drive_of` derives from the file name."""
    if isinstance(trace, IoTable):
        return drive_of(trace.files[0])
    return drive_of(trace_files(_path_of(trace))[0].name)


def _path_of(trace: AnyPath) -> Path:
    if not isinstance(trace, str | os.PathLike):
        raise TypeError(
            "expected the path of a recording, or a table that linnapp.load() returned, not "
            f"{type(trace).__name__}"
        )
    return Path(trace)


def contents_of(trace: Recorded) -> tuple[list[str], str]:
    """Return the names of a recording's files, and the SHA-256 of their unpacked contents."""
    if isinstance(trace, IoTable):
        return list(trace.files), trace.sha256
    paths = trace_files(trace)
    return [path.name for path in paths], _digest_of_unpacked(paths)


def _digest_of_unpacked(paths: Sequence[Path]) -> str:
    return digest([unpacked(path) for path in paths])


def digest(paths: Sequence[AnyPath]) -> str:
    """Return the SHA-256 of the contents of files, in order, without unpacking."""
    total = hashlib.sha256()
    for path in paths:
        with Path(path).open("rb") as stream:
            while block := stream.read(1 << 20):
                total.update(block)
    return total.hexdigest()


def drive_of(name: str) -> str:
    """Return the name of a drive from the file name of its trace: ``az`` for ``az.blk.xz``."""
    name = without_packing(name).split(".blktrace.")[0].removesuffix(".blk")
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def _log_format(trace: Path) -> TextFormat | None:
    """Return the format of a text trace, or None if BlktraceReader must read or reject it."""
    if is_blktrace(trace) or not trace.is_file() or not trace.stat().st_size:
        return None
    try:
        text_format = format_of(trace)
    except TraceError as error:
        raise TraceError(f"{error}. Latencies are read from {_with_latencies()}") from error
    if text_format is None:
        return None
    if not text_format.has_latency:
        raise TraceError(
            f"{trace}: the format {text_format.name} has no latencies. Latencies are read from "
            f"{_with_latencies()}. Record the drive with `linnapp trace`, or replay the trace "
            "(`linnapp convert`, `replayer`) under blktrace"
        )
    if text_format.coarse:
        raise TraceError(
            f"{trace}: {text_format.description}. Its times are whole milliseconds, which is too "
            "coarse to determine which reads were in flight at the same time. Train on "
            f"{_with_latencies()}. `linnapp inspect` shows the latencies of this log, and `linnapp "
            "convert` converts its workload"
        )
    return text_format


def _with_latencies() -> str:
    logs = [
        f"{name} ({known.description})"
        for name, known in text_formats().items()
        if known.has_latency and not known.coarse
    ]
    return f"recordings of blktrace (`linnapp trace`) and logs in the format {', '.join(logs)}"
