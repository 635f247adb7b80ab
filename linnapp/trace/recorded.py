# SPDX-License-Identifier: MIT
"""Open a recording with latencies of any kind: blktrace, or a log."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from linnapp.arguments import check_flag, check_kind, check_names, check_number
from linnapp.errors import TraceError
from linnapp.files import AnyPath
from linnapp.trace.blktrace import (
    COLUMNS,
    BlktraceReader,
    TraceStats,
    is_blktrace,
    trace_files,
)
from linnapp.trace.formats import conversion
from linnapp.trace.formats.latency_log import LatencyLogReader
from linnapp.trace.formats.text_trace import TextFormat, text_formats
from linnapp.trace.packed import SUFFIXES, unpacked, without_packing
from linnapp.trace.table import IoTable, TableReader

#: Suffixes that describe the kind of file and are not part of the drive's name.
_SUFFIXES = (".trace", ".csv", ".log", ".txt")

#: Options of :func:`open_recording` and :func:`load`.
_OPTIONS = ("text_format", "device", "chunk_ios", "max_age_s", "allow_truncated")

#: Maximum share of lost events, and of reads excluded because of them, in a recording from which a
#: model is trained. Events are lost while a drive is busiest, so in the worst case all missing
#: reads were slow. With 1 % missing, no percentile of the latencies changes by more than one point.
#: With more, the slowest percent, which a model has to predict, could be missing completely.
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
        If there is no such trace, its format has no latencies, `device` is given for a recording of
        a single drive.
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
    trace = Path(trace)
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
    """Check the options of :func:`open_recording`.

    Raises
    ------
    TypeError, ValueError
        If an option is unknown or its value is invalid.
    """
    check_names("open_recording", options, _OPTIONS)
    if options.get("text_format") is not None:
        known = ", one of linnapp.trace.formats.text_trace.text_formats()"
        check_kind("text_format", options["text_format"], TextFormat, known)
    if options.get("device") is not None:
        check_kind("device", options["device"], str)
    if "chunk_ios" in options:
        check_number("chunk_ios", options["chunk_ios"], 1, 2**31 - 1, whole=True)
    if "max_age_s" in options:
        check_number("max_age_s", options["max_age_s"], 0, 1e9, open_ends="low")
    if "allow_truncated" in options:
        check_flag("allow_truncated", options["allow_truncated"])


def check_losses(trace: Recorded, stats: TraceStats) -> None:
    """Check that not too many events were lost to train a model from a recording.

    `stats` are those of the whole recording.

    Raises
    ------
    TraceError
        If the share of lost events or excluded reads exceeds :data:`MAX_LOST_SHARE`.
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
    # The features are complete except for the number of overdue reads, which `starts` determine.
    return _load(trace, open_recording(trace, overdue_us=0, **options))


def _load(
    trace: AnyPath, reader: Reader, on_progress: Callable[[int, int], None] | None = None
) -> IoTable:
    of_requests = isinstance(reader, BlktraceReader) and reader.overdue_us is not None
    if isinstance(reader, BlktraceReader):
        reader.keep_starts = of_requests
    total_bytes = reader.size_bytes
    chunks = []
    for chunk in reader:
        chunks.append(chunk.copy())
        if on_progress is not None:
            on_progress(reader.stats["bytes"], total_bytes)
    if not chunks:
        raise TraceError(f"{trace}: holds no read or write")
    ends = np.cumsum([len(chunk) for chunk in chunks]).tolist()
    paths = trace_files(trace)
    names = (*COLUMNS, "features") if of_requests else COLUMNS
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in names
    }
    return IoTable(
        **columns,
        ties_in_order=chunks[0].ties_in_order,
        name=Path(trace).name,
        files=tuple(path.name for path in paths),
        sha256=_digest_of_unpacked(paths),
        stats=reader.stats,
        chunk_ends=tuple(ends),
        starts=reader.starts if isinstance(reader, BlktraceReader) and of_requests else None,
    )


#: Recordings that :func:`held` has read, and their sizes in bytes.
_held: dict[tuple[str, ...], tuple[IoTable, int]] = {}


def held(
    trace: Recorded,
    *,
    features: bool,
    on_progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Recorded:
    """Return a recording in memory, so that several steps of a training share one parse.

    The tables are kept in this process until :func:`release`. A recording that would exceed
    `HELD_BYTES` is not read, and its path is returned.

    Parameters
    ----------
    trace : path or IoTable
    features : bool
        Also keep the features of a latency model.
    on_progress : callable, optional
        Called with the number of bytes read so far and their total.
    **options
        Those of :func:`open_recording`.
    """
    if isinstance(trace, IoTable):
        return trace
    reader = open_recording(trace, overdue_us=0 if features else None, **options)
    files = [path.stat() for path in trace_files(trace)]
    key = tuple(map(repr, (trace, features, options, [(f.st_size, f.st_mtime_ns) for f in files])))
    if key not in _held:
        size = reader.size_bytes
        if size + sum(other for _, other in _held.values()) > HELD_BYTES:
            return trace
        table = _load(trace, reader, on_progress)
        _held[key] = dataclasses.replace(table, label=str(trace)), size
    return _held[key][0]


def release() -> None:
    """Free the recordings that :func:`held` keeps in this process."""
    _held.clear()


def name_of(trace: Recorded) -> str:
    """Return the file name of a recording."""
    return trace.name if isinstance(trace, IoTable) else Path(trace).name


def drive_name(trace: Recorded) -> str:
    """Return the drive of a recording; see :func:`drive_of`."""
    if isinstance(trace, IoTable):
        return drive_of(trace.files[0])
    return drive_of(trace_files(trace)[0].name)


def contents_of(trace: Recorded) -> tuple[list[str], str]:
    """Return the names of a recording's files, and the SHA-256 of their unpacked contents."""
    if isinstance(trace, IoTable):
        return list(trace.files), trace.sha256
    paths = trace_files(trace)
    return [path.name for path in paths], _digest_of_unpacked(paths)


def is_of_contents(trace: AnyPath, sha256: str) -> bool:
    """Return true if `sha256` is that of this recording, unpacked or, in old records, packed."""
    paths = trace_files(trace)
    if sha256 == _digest_of_unpacked(paths):
        return True
    # Files that are not packed have just been compared.
    return any(path.suffix in SUFFIXES for path in paths) and sha256 == digest(paths)


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
    """Return a trace's drive: its file name without ``.blk``, ``.blktrace.N``, ``.xz``, ..."""
    name = without_packing(name).split(".blktrace.")[0].removesuffix(".blk")
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def _log_format(trace: Path) -> TextFormat | None:
    """Return the format of a text trace, or None for blktrace and what BlktraceReader rejects."""
    if is_blktrace(trace) or not trace.is_file() or not trace.stat().st_size:
        return None
    try:
        text_format = conversion.format_of(trace)
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
