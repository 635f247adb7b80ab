# SPDX-License-Identifier: MIT
"""Read blktrace's binary files as I/Os with the features that the kernel saw.

Parsing and matching are compiled code (linnapp/native/blktrace_parser.c). This module finds the
files of a trace and returns the I/Os in chunks of numpy columns, so that traces of any length are
processed in bounded memory. Files packed with gzip, xz, zstd or bzip2 are read as if they were not
packed. The unpacking is compiled, too (packed.c), so that `replayer` reads the same files.
"""

from __future__ import annotations

import dataclasses
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from linnapp.errors import EmptyTraceError, TraceError, TraceWarning
from linnapp.files import AnyPath
from linnapp.native import native, row_type

WRITE, COMPLETED, ERROR, REVOKED, MERGED, SPLIT, REQUEUED, ISSUED = (1 << bit for bit in range(8))
#: Events are missing, so the features or the latency of the I/O may be wrong.
DOUBTFUL = 1 << 8
#: The caller's selection does not contain the I/O. It is still part of the drive's history.
NOT_SELECTED = 1 << 9

#: I/Os per chunk: 256 Ki rows of about 70 bytes, enough to make the cost of calls negligible.
CHUNK_IOS = 1 << 18

#: Time in seconds after which an I/O without completion is dropped. The timeout of the block layer
#: is much shorter.
MAX_AGE_S = 60

_PER_CPU = re.compile(r".+\.blktrace\.\d+(\.\w+)?")

#: Phases of an I/O: the rows of the array that :meth:`BlktraceReader.with_layers` returns.
_LAYERS = ("to_request_ns", "to_issue_ns", "to_completion_ns")


#: ``struct lt_start``: when a read started, and the I/O from which on it is no longer in flight.
START = np.dtype([("start_ns", np.uint64), ("until", np.uint64)])

#: Number of rows that fit into a CPU cache between the parser and the columns.
_BLOCK_ROWS = 4096


#: Suffixes of packed files, as in linnapp/native/packed.c.
SUFFIXES = (".gz", ".xz", ".zst", ".bz2")


def unpacked(path: AnyPath) -> Path:
    """Return a file with the contents of `path`: `path` itself unless it is packed.

    Packed files are recognised by their first bytes. The returned name is valid until this process
    ends, and each time it is opened, reading begins at the start.
    """
    ffi, lib = native()
    why = ffi.new("char[]", lib.LT_PACKED_WHY)
    fd = lib.lt_packed_unpack(os.fsencode(path), why)
    if fd == -1:
        raise TraceError(os.fsdecode(ffi.string(why)))
    return Path(path if fd < 0 else f"/proc/self/fd/{fd}")


def without_packing(name: str) -> str:
    """Return a file name without the suffix of the packing format."""
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name


@dataclasses.dataclass(frozen=True)
class Rows:
    """Base class of tables: fields that are arrays have a row for each I/O, others are shared."""

    def _columns(self) -> list[str]:
        fields = (field.name for field in dataclasses.fields(self))
        return [name for name in fields if isinstance(getattr(self, name), np.ndarray)]

    def __len__(self) -> int:
        return len(getattr(self, self._columns()[0]))

    def each(self, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Self:
        """Return a copy in which `change` was applied to every array."""
        changed = {name: change(getattr(self, name)) for name in self._columns()}
        return dataclasses.replace(self, **changed)

    def take(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.intp] | slice) -> Self:
        """Return the I/Os that `rows` selects."""
        return self.each(lambda column: column[rows])

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """Concatenate several instances. Fields that are not arrays are taken from the first."""
        first, *others = parts
        names = first._columns()
        columns = {n: [getattr(part, n) for part in (first, *others)] for n in names}
        return dataclasses.replace(first, **{n: np.concatenate(columns[n]) for n in names})


@dataclasses.dataclass(frozen=True)
class IoChunk(Rows):
    """Counted I/Os (reads and writes with data) in arrival order, one array per column."""

    #: Time of the Q event.
    arrival_ns: npt.NDArray[np.uint64]
    #: Latency of the drive: from D to C, of the part that took longest. It is measured from Q if no
    #: D was traced, and 0 if the C of the last sector is missing.
    latency_ns: npt.NDArray[np.uint64]
    #: First sector, in units of 512 bytes.
    sector: npt.NDArray[np.uint64]
    size_bytes: npt.NDArray[np.uint32]
    #: Pending 4 KiB pages at arrival, including those of the I/O itself.
    pending: npt.NDArray[np.uint32]
    #: Bits `WRITE`, `COMPLETED`, `ERROR`, `REVOKED`, `MERGED`, `SPLIT`, `REQUEUED`, `ISSUED`,
    #: `DOUBTFUL`, `NOT_SELECTED`.
    flags: npt.NDArray[np.uint16]
    #: `hist_pending`, `hist_latency_us`: shape (n, HISTORY). The reads that had completed last when
    #: this one arrived, oldest first. Zero for writes.
    hist_pending: npt.NDArray[np.uint32]
    hist_latency_us: npt.NDArray[np.uint32]
    #: Shape (n, N_FEATURES). Features of a latency model for each read, if requested. Zero for
    #: writes.
    features: npt.NDArray[np.uint32] | None = dataclasses.field(default=None, kw_only=True)
    #: True if I/Os with the same `arrival_ns` are in order of arrival, as events are. The lines of
    #: a log are not: there, I/Os with the same time do not see each other.
    ties_in_order: bool = dataclasses.field(default=True, kw_only=True)

    @property
    def is_write(self) -> npt.NDArray[np.bool_]:
        """True for writes."""
        return np.asarray((self.flags & WRITE) != 0)

    @property
    def is_read(self) -> npt.NDArray[np.bool_]:
        """True for reads."""
        return np.asarray((self.flags & WRITE) == 0)

    @property
    def is_served_read(self) -> npt.NDArray[np.bool_]:
        """True for reads that the drive answered, whose latency can be used for training.

        Reads that are doubtful because events are missing, and reads that are not selected, are
        excluded.
        """
        others = WRITE | ERROR | REVOKED | DOUBTFUL | NOT_SELECTED
        return np.asarray((self.flags & (others | COMPLETED)) == COMPLETED)

    @property
    def latency_us(self) -> npt.NDArray[np.float64]:
        """Latency of each I/O in us, shape (n,). It is 0 if the I/O did not complete."""
        return self.latency_ns / 1000

    def each(self, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> IoChunk:
        """Return a copy in which `change` was applied to every array; of a table, as a chunk."""
        return IoChunk(
            *(change(getattr(self, name)) for name in COLUMNS),
            features=None if self.features is None else change(self.features),
            ties_in_order=self.ties_in_order,
        )


#: Columns that every chunk has, one array each.
COLUMNS = tuple(f.name for f in dataclasses.fields(IoChunk) if not f.kw_only)


#: Losses that were found when a recording was last read, by the name of the recording.
_losses: dict[str, dict[str, int]] = {}


def losses_of(trace: AnyPath) -> dict[str, int]:
    """Return the losses of a recording that has been read: see :attr:`TraceStats.losses`."""
    return _losses.get(str(trace), {"lost_events": 0, "reads_left_out": 0})


@dataclasses.dataclass(frozen=True)
class TraceStats:
    """Counts of events, I/Os and problems that a reader found.

    The fields are those of ``struct lt_stats`` in linnapp/native/blktrace_parser.h.
    """

    counts: dict[str, int]
    devices: dict[str, int]

    def __getitem__(self, name: str) -> int:
        return self.counts[name]

    @property
    def losses(self) -> dict[str, int]:
        """Number of missing events, and of reads that are excluded because of them, by name."""
        return {
            "lost_events": self.counts.get("lost_events", 0),
            "reads_left_out": self.counts.get("doubtful_reads", 0),
        }

    def with_counts(self, **counts: int) -> TraceStats:
        """Return a copy in which these counts are replaced."""
        return dataclasses.replace(self, counts=self.counts | counts)


def trace_files(trace: AnyPath) -> list[Path]:
    """Find the files of a trace: one merged file, or all per-CPU files in order of the CPUs.

    `trace` is the name of a merged file (``blkparse -d``), of one of the per-CPU files of blktrace,
    or their common prefix. Files may be packed, see :mod:`linnapp.trace.blktrace`. If there is no
    such file, TraceError is raised.
    """
    return _find_files(trace)[0]


def _find_files(trace: AnyPath) -> tuple[list[Path], int]:
    """Find the files of a trace, and count the CPUs in between that have no file."""
    trace = Path(trace)
    if trace.exists() and not trace.is_file() and not trace.is_dir():
        raise TraceError(
            f"{trace}: is a pipe or a device; a recording must be a file, because it is read twice"
        )
    ffi, lib = native()
    found = ffi.new("struct lt_files *")
    lib.lt_find_files(os.fsencode(trace), found)
    try:
        paths = [Path(os.fsdecode(ffi.string(found.names[i]))) for i in range(found.n)]
    finally:
        lib.lt_free_files(found)
    if paths:
        return paths, found.missing
    if trace.is_dir():
        raise TraceError(f"{trace}: a directory; name a trace in it")
    if _PER_CPU.match(trace.name) or not trace.parent.is_dir():
        raise TraceError(f"{trace}: no such trace")
    raise TraceError(f"{trace}: no such trace, and no {trace.name}.blktrace.0 in its folder")


def is_blktrace(trace: AnyPath) -> bool:
    """Return true if `trace` names per-CPU files, or a file that begins like blktrace's files."""
    try:
        paths = trace_files(trace)
    except TraceError:
        return False
    try:
        first = next((path for path in map(unpacked, paths) if path.stat().st_size), None)
        if first is None:  # nothing was recorded
            return is_per_cpu(paths[0].name)
        with first.open("rb") as stream:
            magic = stream.read(4)
    except OSError:
        return False
    return magic[1:] == b"tae" or magic[:3] == b"eat"


def is_per_cpu(name: str) -> bool:
    """Return true if a file name is that of one of blktrace's files, one for each CPU."""
    return _PER_CPU.fullmatch(name) is not None


def parse_device(text: str) -> int:
    """Convert "major,minor" or "major:minor" to the kernel's device number."""
    match = re.fullmatch(r"(\d{1,4})[,:](\d{1,7})", text, re.ASCII)
    # 12 and 20 bits. Larger numbers would refer to another drive.
    if not match or int(match[1]) >> 12 or int(match[2]) >> 20:
        raise TraceError(f"device {text!r}: expected major:minor, as `lsblk` shows")
    return int(match[1]) << 20 | int(match[2])


def format_device(device: int) -> str:
    """Convert the kernel's device number to "major:minor"."""
    return f"{device >> 20}:{device & 0xFFFFF}"


class BlktraceReader:
    """Iterate over the I/Os of a trace in chunks.

    Parameters
    ----------
    trace : path
        See :func:`trace_files`.
    overdue_us : int, optional
        Compute the features of a latency model, for which a read in flight for longer is overdue.
    device : str, optional
        "major:minor" of the drive to keep if the trace contains several.
    chunk_ios : int
        I/Os per chunk. Memory use is proportional to it.
    max_age_s : float
        An I/O without completion is dropped after this time (trace time).
    allow_truncated : bool
        Treat a truncated event as the end of the trace instead of raising an error.

    Raises
    ------
    TraceError
        If the trace cannot be found or read, is empty, or contains several drives without `device`.

    Warns
    -----
    TraceWarning
        If events are missing or out of order.
    """

    def __init__(
        self,
        trace: AnyPath,
        *,
        overdue_us: int | None = None,
        device: str | None = None,
        chunk_ios: int = CHUNK_IOS,
        max_age_s: float = MAX_AGE_S,
        allow_truncated: bool = False,
    ) -> None:
        self.trace = trace
        self.paths, self._missing_files = _find_files(trace)
        self.overdue_us = overdue_us
        self.device = 0 if device is None else parse_device(device)
        if device is not None and not self.device:  # The parser would interpret 0 as any drive.
            raise TraceError(f"device {device!r}: no drive has this number; `lsblk` shows them")
        self.chunk_ios = chunk_ios
        self.max_age_s = max_age_s
        self.allow_truncated = allow_truncated
        #: Keep the start times of reads, as an array of `START`, in `starts` after the last chunk.
        self.keep_starts = False
        self.starts: npt.NDArray[Any] = np.empty(0, START)
        self._stats: TraceStats | None = None

    @property
    def size_bytes(self) -> int:
        """Total size of all files of the trace in bytes."""
        return sum(unpacked(path).stat().st_size for path in self.paths)

    @property
    def stats(self) -> TraceStats:
        """Counts so far. They are final after the last chunk."""
        if self._stats is None:
            raise RuntimeError("no chunk has been read yet")
        return self._stats

    def __iter__(self) -> Iterator[IoChunk]:
        return (self._chunk(rows) for rows in self._chunks(self._columns()))

    def with_layers(self) -> Iterator[tuple[IoChunk, npt.NDArray[np.uint64]]]:
        """Yield chunks with the durations of three phases of each I/O.

        The phases are from Q to the request (G, or a merge), from there to D, and from D to C, of
        the part of the I/O that completed last.

        Yields
        ------
        IoChunk
        uint64 array, shape (3, n)
            Durations in ns. They are zero for I/Os that were never issued.
        """
        for rows in self._chunks([*self._columns(), *_LAYERS]):
            yield self._chunk(rows), np.array([rows[name] for name in _LAYERS])

    def _columns(self) -> list[str]:
        return [*COLUMNS, *(("features",) if self.overdue_us is not None else ())]

    def _chunk(self, rows: dict[str, npt.NDArray[Any]]) -> IoChunk:
        return IoChunk(*(rows[name] for name in COLUMNS), features=rows.get("features"))

    def _chunks(self, names: list[str]) -> Iterator[dict[str, npt.NDArray[Any]]]:
        library = native()
        row = row_type(library.ffi, "lt_row")
        block = np.empty(min(self.chunk_ios, _BLOCK_ROWS), row)
        parser = _open(
            self.paths,
            max_age_ns=int(self.max_age_s * 1e9),
            device=self.device,
            overdue_us=self.overdue_us or 0,
            allow_truncated=self.allow_truncated,
            keep_starts=self.keep_starts,
        )
        try:
            self._raise_error(parser)
            while True:
                columns = {name: np.empty(self.chunk_ios, row[name]) for name in names}
                n = 0
                while n < self.chunk_ios:
                    wanted = min(len(block), self.chunk_ios - n)
                    got = library.lib.lt_read(parser, wanted, library.address(block))
                    self._stats = _read_stats(parser)
                    self._raise_error(parser)
                    for name, column in columns.items():
                        column[n : n + got] = block[name][:got]
                    n += got
                    if got < wanted:
                        break
                if n == 0:
                    break
                yield {name: column[:n] for name, column in columns.items()}
            pointer = library.ffi.new("const struct lt_start **")
            n = library.lib.lt_starts(parser, pointer)
            if n:
                memory = library.ffi.buffer(pointer[0], n * START.itemsize)
                self.starts = np.frombuffer(bytes(memory), START)
        finally:
            library.lib.lt_close(parser)
        if not self.stats["events"]:
            raise EmptyTraceError(f"{self.trace}: an empty trace: no event in it")
        if self.stats["other_device"] == self.stats["events"]:
            raise TraceError(
                f"{self.trace}: has no events of {format_device(self.device)}, only events of "
                f"{self._held()}; choose one with `device=`"
            )
        self._report_losses()

    def _report_losses(self) -> None:
        """Warn about missing events in the recording, and store losses for :func:`losses_of`."""
        stats, losses = self.stats, self.stats.losses
        _losses[str(self.trace)] = losses
        lost = f"{losses['lost_events']} events were lost; " if losses["lost_events"] else ""
        found = [
            (
                self._missing_files,
                f"the files of {self._missing_files} CPUs are missing, and with them their events",
            ),
            (
                lost or losses["reads_left_out"],
                f"{lost}{losses['reads_left_out']} of {stats['reads']} reads are left out, because "
                "neighbouring events are missing",
            ),
            (
                stats["out_of_order"],
                f"{stats['out_of_order']} events were not in order of time and are sorted",
            ),
            (
                stats["issued"] and not stats["queued"],
                "it contains no submissions (Q), so the time of issue (D) is used as the arrival; "
                "record with `blktrace -a queue`, or trace block_bio_queue, to include submissions",
            ),
            (
                stats["reads"] + stats["writes"] and not stats["completed"],
                "no completions (C) in it, so there are no latencies; record with `blktrace -a "
                "complete`, too",
            ),
            (
                stats["completed"] and not stats["queued"] + stats["issued"],
                "no submissions (Q) or issues (D) in it, so completions (C) have no I/Os; record "
                "with `blktrace -a queue -a issue`, too",
            ),
        ]
        for applies, text in found:
            if applies:
                warnings.warn(f"{self.trace}: {text}", TraceWarning, stacklevel=4)

    def _raise_error(self, parser: Any) -> None:
        if message := _error_text(parser):
            raise TraceError(message)
        if self._stats and not self.device and len(self._stats.devices) > 1:
            raise TraceError(
                f"{self.trace}: has events of several drives: {self._held()}; choose one with "
                "`device=`"
            )

    def _held(self) -> str:
        return ", ".join(f"{d} ({n} events)" for d, n in self.stats.devices.items())


def merge(trace: AnyPath, target: AnyPath, dropped: int = 0) -> int:
    """Merge per-CPU files into one file, in order of time and without process names.

    Parameters
    ----------
    trace : path
        See :func:`trace_files`.
    target : path
    dropped : int
        Number of events that blktrace reported as dropped. It is stored in the file.

    Returns
    -------
    int
        Number of events.
    """
    lib = native().lib
    parser = _open(trace_files(trace), allow_truncated=True)
    try:
        events = int(lib.lt_merge(parser, os.fsencode(target), dropped))
        if events < 0:
            raise TraceError(_error_text(parser))
        return events
    finally:
        lib.lt_close(parser)


def _open(paths: list[Path], **options: int) -> Any:
    library = native()
    names = library.strings(map(os.fsencode, paths))
    parser = library.lib.lt_open(names, len(paths), library.new("lt_options", **options))
    if not parser:
        raise MemoryError
    return parser


def _error_text(parser: Any) -> str:
    ffi, lib = native()
    return os.fsdecode(ffi.string(lib.lt_error(parser)))


def _read_stats(parser: Any) -> TraceStats:
    library = native()
    stats = library.new("lt_stats")
    library.lib.lt_stats(parser, stats)
    counts = library.counters(stats[0])
    n_devices = counts.pop("n_devices")
    devices = {format_device(stats.devices[i]): stats.device_events[i] for i in range(n_devices)}
    return TraceStats(counts, devices)
