# SPDX-License-Identifier: MIT
"""Traces from one format to another, in chunks: a table of readers, one of writers, filters.

A format's reader yields :class:`~linnapp.trace.formats.iolog.Workload` chunks with times from the
trace's first I/O on. Formats are told apart by their first line or magic; ``--from`` overrules
that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from linnapp.errors import LinnappError, TraceError
from linnapp.files import AnyPath, explain_os_error, replaced_file
from linnapp.trace import blktrace
from linnapp.trace.formats import iolog, latency_log, text_trace
from linnapp.trace.formats.iolog import Workload
from linnapp.trace.formats.text_trace import SECTOR_BYTES, LineWriter, TextFormat
from linnapp.trace.packed import unpacked

ALIGNMENT_BYTES = 4096
_CHUNK_IOS = 1 << 18


TEXT_FORMATS = {
    "heimdall": TextFormat(
        "time_ms device offset_bytes size_bytes type (1 read, 0 write), separated by spaces",
        None,
        {"time": 0, "volume": 1, "offset": 2, "size": 3, "type": 4},
        6,
        ("1",),
        ("0",),
    ),
    "msr": TextFormat(
        "MSR Cambridge: time (100 ns),host,disk,Read|Write,offset_bytes,size_bytes,response_time",
        ",",
        {"time": 0, "volume": 2, "type": 3, "offset": 4, "size": 5},
        2,
        ("Read",),
        ("Write",),
        n_columns=7,
    ),
    "alibaba": TextFormat(
        "Alibaba block traces: device,R|W,offset_bytes,size_bytes,time_us",
        ",",
        {"volume": 0, "type": 1, "offset": 2, "size": 3, "time": 4},
        3,
        ("R",),
        ("W",),
        header="device_id,",
    ),
    "tencent": TextFormat(
        "Tencent block traces: time_s,offset_sectors,size_sectors,type (0 read, 1 write),volume",
        ",",
        {"time": 0, "offset": 1, "size": 2, "type": 3, "volume": 4},
        9,
        ("0",),
        ("1",),
        offset_unit_bytes=SECTOR_BYTES,
        size_unit_bytes=SECTOR_BYTES,
        header="Timestamp,Offset",
    ),
    "systor": TextFormat(
        "Systor '17: time_s,response_s,R|W,lun,offset_bytes,size_bytes",
        ",",
        {"time": 0, "type": 2, "volume": 3, "offset": 4, "size": 5},
        9,
        ("R",),
        ("W",),
        header="Timestamp,Response",
        n_columns=6,
    ),
    "flashnet": TextFormat(
        "FlashNet's log of a replay: "
        "arrival_ms,latency_us,type (1 read, 0 write),size_bytes,offset_bytes,submit_ms,size_bytes",
        ",",
        {"latency": 1, "type": 2, "size": 3, "offset": 4, "time": 5},
        6,
        ("1",),
        ("0",),
        n_columns=7,
        latency_unit_log10_ns=3,
    ),
}


@dataclasses.dataclass(frozen=True)
class Filters:
    """What to do with the I/Os on their way."""

    #: Keep this part of the input's own time, in seconds; it then starts at 0.
    slice_s: tuple[float, float] | None = None
    #: Multiply the rate of arrivals, after slicing.
    rerate: float = 1.0
    #: Wrap offsets into a drive of so many bytes, and align offsets and sizes to 4 KiB.
    fit_bytes: int | None = None


def input_formats() -> list[str]:
    """Names for ``--from``."""
    return ["blktrace", "iolog", *TEXT_FORMATS]


def output_formats() -> list[str]:
    """Names for ``--to``."""
    return list(_WRITERS)


def detect_format(path: AnyPath) -> str:
    """Tell a trace's format from its content."""
    path = Path(path)
    if path.is_fifo() or path.is_socket():
        raise TraceError(
            f"{path}: a pipe, which cannot be read twice to find out its format; name that with "
            "`source_format=`, or write a file"
        )
    if blktrace.is_blktrace(path):
        return "blktrace"
    if iolog.is_iolog(path):
        return "iolog"
    try:
        with unpacked(path).open("rb") as stream:
            head = stream.read(4096)
    except OSError as error:
        raise TraceError(str(explain_os_error(error, path))) from error
    if not head:
        raise TraceError(f"{path}: an empty file")
    lines = head.decode("utf-8", errors="replace").splitlines()
    for name, text_format in TEXT_FORMATS.items():
        header = text_format.header
        rows = lines[1:] if header and lines[0].startswith(header) else lines
        if rows and _matches(text_format, rows[0]):
            return name
    raise TraceError(
        f"{path}: not a trace in a known format ({', '.join(input_formats())}); "
        f"it starts with {head[:40]!r}. Where only this line is wrong, `source_format=` helps"
    )


def _matches(text_format: TextFormat, line: str) -> bool:
    fields = [field.strip() for field in line.split(text_format.delimiter)]
    if len(fields) != text_format.n_columns:
        return False
    columns = text_format.columns
    try:
        for name in ("time", "offset", "size"):
            float(fields[columns[name]])
    except ValueError:
        return False
    return fields[columns["type"]] in text_format.read_types + text_format.write_types


def read_workload(
    path: AnyPath, source_format: str | None = None, **options: Any
) -> Iterator[Workload]:
    """Read a trace of any known format as a workload.

    Options are for blktrace those of :class:`~linnapp.trace.blktrace.BlktraceReader`; for text
    formats ``volume``, the one to keep; for these and iologs ``on_empty``, which
    :func:`linnapp.trace.formats.text_trace.read_columns` calls.
    """
    path = Path(path)
    source_format = source_format or detect_format(path)
    if source_format == "blktrace":
        return _read_blktrace(path, **options)
    if source_format == "iolog":
        return iolog.read(path, **options)
    if source_format in TEXT_FORMATS:
        return _read_text(path, TEXT_FORMATS[source_format], **options)
    raise TraceError(f"format {source_format!r} is unknown; known: {', '.join(input_formats())}")


def _read_blktrace(path: Path, **options: Any) -> Iterator[Workload]:
    first_ns: int | None = None
    for chunk in blktrace.BlktraceReader(path, **options):
        # Revoked I/Os are the policy's doing; the workload holds their retries elsewhere.
        if first_ns is None:
            first_ns = int(chunk.arrival_ns[0])
        kept = chunk.take((chunk.flags & blktrace.REVOKED) == 0)
        yield Workload(
            # Events that lie further apart than the reader sorts may go back.
            np.maximum(kept.arrival_ns.astype(np.int64) - first_ns, 0) // 1000,
            (kept.sector * np.uint64(SECTOR_BYTES)).astype(np.int64),
            kept.size_bytes.astype(np.int64),
            kept.is_write,
        )


def _read_text(path: Path, text_format: TextFormat, **options: Any) -> Iterator[Workload]:
    if text_format.has_latency:
        yield from _read_latency_log(path, text_format, **options)
        return
    last_us = 0
    for columns in text_trace.read_columns(path, text_format, chunk_ios=_CHUNK_IOS, **options):
        # Recorders write in order of completion at times; arrivals must not go back.
        time_us = np.rint(columns.time_ns / 1000).astype(np.int64)
        time_us = np.maximum(np.maximum.accumulate(time_us), last_us)
        last_us = int(time_us[-1])
        yield Workload(time_us, *columns[1:4])


def _read_latency_log(path: Path, text_format: TextFormat, **options: Any) -> Iterator[Workload]:
    """A log of completed I/Os: lines stand where the I/O was over, not where it began."""
    first_ns: int | None = None
    for columns in latency_log.sorted_columns(path, text_format, chunk_ios=_CHUNK_IOS, **options):
        if first_ns is None:
            first_ns = int(columns.time_ns[0])
        yield Workload((columns.time_ns - first_ns) // 1000, *columns[1:4])


def filtered(chunks: Iterable[Workload], filters: Filters) -> Iterator[Workload]:
    """Apply the filters to a workload, chunk by chunk."""
    for chunk in chunks:
        if filters.slice_s is not None:
            start_us, end_us = (bound * 1e6 for bound in filters.slice_s)
            if len(chunk) and chunk.time_us[0] >= end_us:
                return
            chunk = chunk.take((chunk.time_us >= start_us) & (chunk.time_us < end_us))
            chunk = dataclasses.replace(chunk, time_us=chunk.time_us - int(start_us))
        if filters.rerate != 1.0:
            rerated = np.rint(chunk.time_us / filters.rerate)
            if len(rerated) and rerated.max() >= 2.0**62:
                raise LinnappError(
                    f"`rerate={filters.rerate:g}`: the trace would last {rerated.max() / 1e6:g} s"
                )
            chunk = dataclasses.replace(chunk, time_us=rerated.astype(np.int64))
        if filters.fit_bytes is not None:
            chunk = _fit(chunk, filters.fit_bytes)
        if len(chunk):
            yield chunk


def _fit(chunk: Workload, drive_bytes: int) -> Workload:
    usable = drive_bytes // ALIGNMENT_BYTES * ALIGNMENT_BYTES
    if not usable:
        raise LinnappError(
            f"`fit_bytes={drive_bytes}`: smaller than one block of {ALIGNMENT_BYTES}"
        )
    end = chunk.offset_bytes + chunk.size_bytes
    start = chunk.offset_bytes // ALIGNMENT_BYTES * ALIGNMENT_BYTES
    size = np.minimum(-(-end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES - start, usable)
    offset = np.minimum(start % usable, usable - size)
    return dataclasses.replace(chunk, offset_bytes=offset, size_bytes=size)


def _text_writer(name: str) -> Callable[[Path, Iterable[Workload], str], int]:
    text_format = TEXT_FORMATS[name]

    def write(path: Path, chunks: Iterable[Workload], device: str) -> int:
        volume = device if device.isdigit() else "0"
        lines = LineWriter(text_format, {text_format.columns["volume"]: volume})
        written = 0
        with replaced_file(path) as stream:
            for chunk in chunks:
                odd = np.flatnonzero(
                    (chunk.offset_bytes % text_format.offset_unit_bytes != 0)
                    | (chunk.size_bytes % text_format.size_unit_bytes != 0)
                )
                if len(odd):
                    raise LinnappError(
                        f"{name} holds whole sectors only; offset {chunk.offset_bytes[odd[0]]}, "
                        f"size {chunk.size_bytes[odd[0]]} is none: convert with `fit_bytes=`"
                    )
                stream.write(lines.lines(chunk))
                written += len(chunk)
        return written

    return write


_WRITERS: dict[str, Callable[[Path, Iterable[Workload], str], int]] = {
    "iolog": iolog.write,
    # A workload has no latencies to write.
    **{name: _text_writer(name) for name, known in TEXT_FORMATS.items() if not known.has_latency},
}


def convert(
    source: AnyPath,
    target: AnyPath,
    *,
    source_format: str | None = None,
    target_format: str = "iolog",
    device_name: str = "/dev/flash0",
    filters: Filters | None = None,
    **options: Any,
) -> int:
    """Convert a trace, and tell how many I/Os; the target appears whole or not at all."""
    source, target = Path(source), Path(target)
    filters = filters or Filters()
    chunks = filtered(read_workload(source, source_format, **options), filters)
    chosen = [f"`slice_s={filters.slice_s[0]:g}:{filters.slice_s[1]:g}`"] if filters.slice_s else []
    if (volume := options.get("volume")) is not None:
        chosen.append(f"`volume={volume!r}`")
    return _WRITERS[target_format](target, _not_empty(source, chunks, chosen), device_name)


def _not_empty(
    source: Path, chunks: Iterator[Workload], chosen: Sequence[str]
) -> Iterator[Workload]:
    empty = True
    for chunk in chunks:
        empty = False
        yield chunk
    if empty:
        of_these = f" by {' and '.join(chosen)}" if chosen else ""
        raise TraceError(f"{source}: no I/O to convert{of_these}")
