# SPDX-License-Identifier: MIT
"""Open a recording with latencies of any kind: blktrace, or a log."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from linnapp.arguments import check_flag, check_kind, check_names, check_number
from linnapp.errors import TraceError
from linnapp.files import AnyPath
from linnapp.trace.blktrace import COLUMNS, BlktraceReader, is_blktrace, trace_files
from linnapp.trace.formats import conversion
from linnapp.trace.formats.latency_log import LatencyLogReader
from linnapp.trace.formats.text_trace import TextFormat, text_formats
from linnapp.trace.packed import SUFFIXES, unpacked, without_packing
from linnapp.trace.table import IoTable, PartReader, TableReader

#: Suffixes that describe the kind of file and are not part of the drive's name.
_SUFFIXES = (".trace", ".csv", ".log", ".txt")

#: Options of :func:`open_recording` and :func:`load`.
_OPTIONS = ("text_format", "device", "chunk_ios", "max_age_s", "allow_truncated")

#: Maximum share of lost events, and of reads excluded because of them, in a recording from which a
#: model is trained. Events are lost while a drive is busiest, so in the worst case all missing
#: reads were slow. With 1 % missing, no percentile of the latencies changes by more than one point.
#: With more, the slowest percent, which a model has to predict, could be missing completely.
MAX_LOST_SHARE = 0.01

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
        :class:`~linnapp.trace.blktrace.BlktraceReader`. For a table, its recording is read again.
    **options
        Other options of :class:`~linnapp.trace.blktrace.BlktraceReader`. For a log only `chunk_ios`
        has an effect, and `device` must not be given.

    Raises
    ------
    TraceError
        If there is no such trace, its format has no latencies, `device` is given for a recording of
        a single drive, or the recording of a table is missing or has changed.
    TypeError, ValueError
        If an option is unknown or its value is invalid.
    """
    check_options({"text_format": text_format, **options})
    if isinstance(trace, IoTable):
        if options.get("device"):
            raise TraceError(
                f"{trace}: device={options['device']!r}: it is read already; load it with that"
            )
        if overdue_us is None or not isinstance(trace.reader, BlktraceReader):
            return TableReader(trace)
        return _read_again(trace, trace.reader, overdue_us)
    trace = Path(trace)
    text_format = text_format or _log_format(trace)
    if text_format is None:
        return BlktraceReader(trace, overdue_us=overdue_us, **options)
    if options.get("device"):
        raise TraceError(f"{trace}: `device=` is for blktrace recordings; a log holds one drive")
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


def check_losses(trace: AnyPath, **options: Any) -> None:
    """Check that not too many events were lost to train a model from a recording.

    `options` are those of :func:`open_recording`.

    Raises
    ------
    TraceError
        If the share of lost events or excluded reads exceeds :data:`MAX_LOST_SHARE`.
    """
    reader = open_recording(trace, **options)
    for _ in reader:
        pass
    losses, reads = reader.stats.losses, reader.stats["reads"]
    lost, events = losses["lost_events"], reader.stats.counts.get("events", 0)
    share = max(losses["reads_left_out"] / max(reads, 1), lost / max(lost + events, 1))
    if share > MAX_LOST_SHARE:
        raise TraceError(
            f"{trace}: {lost} events were lost, for which {losses['reads_left_out']} of {reads} "
            f"reads are left out: {share:.1%}, and more than {MAX_LOST_SHARE:.0%} may be the very "
            "ones that were slow; record for a shorter time, fewer drives at once, or to a faster "
            "disk than those recorded"
        )


def load(trace: AnyPath, **options: Any) -> IoTable:
    """Read a recording into memory. Options are those of :func:`open_recording`.

    Raises
    ------
    TraceError
        If the recording cannot be read or contains no read or write.
    """
    reader = open_recording(trace, **options)
    chunks = [chunk.copy() for chunk in reader]
    if not chunks:
        raise TraceError(f"{trace}: holds no read or write")
    ends = np.cumsum([len(chunk) for chunk in chunks]).tolist()
    paths = trace_files(trace)
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in COLUMNS
    }
    return IoTable(
        **columns,
        ties_in_order=chunks[0].ties_in_order,
        name=Path(trace).name,
        files=tuple(path.name for path in paths),
        sha256=_digest_of_unpacked(paths),
        stats=reader.stats,
        chunk_ends=tuple(ends),
        reader=reader,
    )


def _read_again(
    table: IoTable, reader: BlktraceReader, overdue_us: int
) -> BlktraceReader | PartReader:
    """Read the recording of a table again, with the features of a latency model.

    They depend on requests, which a table does not contain.
    """
    try:
        same = _digest_of_unpacked(reader.paths) == table.sha256
    except OSError as error:
        raise TraceError(f"{error.filename}: {error.strerror}; the table is of it") from error
    if not same:
        raise TraceError(f"{reader.trace}: has changed since the table was read; load it again")
    again = copy.copy(reader)
    again.overdue_us = overdue_us
    return again if table.whole else PartReader(table, again)


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
            f"{trace}: a trace in the format {text_format.name}, which has no latencies; they are "
            f"read from {_with_latencies()}. Record the drive with `linnapp trace`, or replay the "
            "trace (`linnapp convert`, `replayer`) under blktrace"
        )
    if text_format.coarse:
        raise TraceError(
            f"{trace}: {text_format.description}. Its times are whole milliseconds, which do not "
            "tell which reads were in flight together: `linnapp inspect` shows the latencies and "
            f"`linnapp convert` the workload, and to learn from are {_with_latencies()}"
        )
    return text_format


def _with_latencies() -> str:
    logs = [
        f"{name} ({known.description})"
        for name, known in text_formats().items()
        if known.has_latency and not known.coarse
    ]
    return f"recordings of blktrace (`linnapp trace`) and logs in the format {', '.join(logs)}"
