# SPDX-License-Identifier: MIT
"""Convert traces of any format to fio's iolog, with filters.

:func:`read_workload` yields the I/Os of a trace in chunks (:class:`Workload`), in order of time.
The format is detected from the first lines of the file unless the user names it.

The iolog, version 3, is the text format in which workloads are stored. Its columns are
``<time> <file> <action> <offset> <bytes>``. The time is in microseconds since the start, as fio
3.33 writes and replays it. Only reads and writes are kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import LinnappError, TraceError
from linnapp.files import AnyPath, os_errors, replaced_file
from linnapp.trace import blktrace
from linnapp.trace.blktrace import Rows
from linnapp.trace.text import (
    SECTOR_BYTES,
    TextFormat,
    detect_text_format,
    find_format,
    iolog_lines,
    read_columns,
    text_formats,
)

ALIGNMENT_BYTES = 4096


@dataclasses.dataclass(frozen=True)
class Filters:
    """Filters that are applied to the I/Os."""

    #: Keep this period of the input's own time, in seconds. It then starts at 0.
    slice_s: tuple[float, float] | None = None
    #: Factor by which the rate of arrivals is multiplied, after slicing.
    rerate: float = 1.0
    #: Wrap offsets into a drive of this size, and align offsets and sizes to 4 KiB.
    fit_bytes: int | None = None


def input_formats() -> list[str]:
    """Return the names that ``--from`` accepts."""
    return ["blktrace", *text_formats()]


def format_of(path: AnyPath, source_format: str | None = None) -> TextFormat | None:
    """Return a trace's format, detected or as the user named it. None means blktrace."""
    path = Path(path)
    if source_format == "blktrace":
        return None
    if source_format is not None:
        text_format = find_format(source_format)
        if text_format is None:
            raise TraceError(
                f"format {source_format!r} is unknown; known: {', '.join(input_formats())}, and "
                "each text format with another unit of time, as heimdall:us (s, ms, us, 100ns, ns)"
            )
        return text_format
    if path.is_fifo() or path.is_socket():
        raise TraceError(
            f"{path}: is a pipe, which cannot be read twice to find out its format; name that with "
            "`source_format=`, or write a file"
        )
    return None if blktrace.is_blktrace(path) else detect_text_format(path)


def detect_format(path: AnyPath) -> str:
    """Return the name of a trace's format, detected by its content."""
    return name_of_format(format_of(path))


def name_of_format(text_format: TextFormat | None) -> str:
    """Return the name of the result of :func:`format_of`."""
    return "blktrace" if text_format is None else text_format.name


def read_workload(
    path: AnyPath, source_format: str | TextFormat | None = None, **options: Any
) -> Iterator[Workload]:
    """Read a trace of any known format as a workload, in chunks.

    Parameters
    ----------
    path : path
    source_format : str or TextFormat, optional
        By default it is detected.
    **options
        For blktrace, those of :class:`~linnapp.trace.blktrace.BlktraceReader`. For text formats,
        those of :func:`linnapp.trace.text.read_columns`.
    """
    path = Path(path)
    if not isinstance(source_format, TextFormat):
        source_format = format_of(path, source_format)
    if source_format is None:
        return _read_blktrace(path, **options)
    return _read_text(path, source_format, **options)


def to_workload(chunk: blktrace.IoChunk, origin_ns: int = 0) -> Workload:
    """Return recorded I/Os as a workload, with times since `origin_ns`."""
    return Workload(
        # Times can decrease if events are farther apart than the reader sorts.
        np.maximum(chunk.arrival_ns.astype(np.int64) - origin_ns, 0) // 1000,
        (chunk.sector * np.uint64(SECTOR_BYTES)).astype(np.int64),
        chunk.size_bytes.astype(np.int64),
        chunk.is_write,
    )


def _read_blktrace(path: Path, **options: Any) -> Iterator[Workload]:
    first_ns: int | None = None
    for chunk in blktrace.BlktraceReader(path, **options):
        # Revoked I/Os result from the policy. The workload contains their retries on other drives.
        if first_ns is None:
            first_ns = int(chunk.arrival_ns[0])
        yield to_workload(chunk.take((chunk.flags & blktrace.REVOKED) == 0), first_ns)


def _read_text(path: Path, text_format: TextFormat, **options: Any) -> Iterator[Workload]:
    for columns in read_columns(path, text_format, **options):
        yield Workload(np.rint(columns.time_ns / 1000).astype(np.int64), *columns[1:4])


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


def convert(
    source: AnyPath,
    target: AnyPath,
    *,
    source_format: str | TextFormat | None = None,
    device_name: str = "/dev/flash0",
    filters: Filters | None = None,
    **options: Any,
) -> int:
    """Convert a trace to an iolog, which appears complete or not at all.

    Parameters
    ----------
    source, target : path
    source_format : str or TextFormat, optional
        By default it is detected.
    device_name : str
        Name of the drive in the iolog.
    filters : Filters, optional
    **options
        Those of :func:`read_workload`.

    Returns
    -------
    int
        Number of I/Os.

    Raises
    ------
    TraceError
        If the source cannot be read, or no I/O is left after filtering.
    """
    source, target = Path(source), Path(target)
    _check_not_a_source(target, source)
    filters = filters or Filters()
    chunks = filtered(read_workload(source, source_format, **options), filters)
    chosen = [f"`slice_s={filters.slice_s[0]:g}:{filters.slice_s[1]:g}`"] if filters.slice_s else []
    if (volume := options.get("volume")) is not None:
        chosen.append(f"`volume={volume!r}`")
    return write_iolog(target, _not_empty(source, chunks, chosen), device_name)


def _check_not_a_source(target: Path, source: Path) -> None:
    """Refuse to replace a file that is converted: an iolog does not contain all of a recording."""
    files = [source]
    with contextlib.suppress(TraceError):
        files = blktrace.trace_files(source)
    with os_errors(target):
        if target.exists() and any(file.exists() and target.samefile(file) for file in files):
            raise LinnappError(f"{target}: is the trace to convert; name another output file")


def _not_empty(
    source: Path, chunks: Iterator[Workload], chosen: Sequence[str]
) -> Iterator[Workload]:
    empty = True
    for chunk in chunks:
        empty = False
        yield chunk
    if empty:
        filters = f" by {' and '.join(chosen)}" if chosen else ""
        raise TraceError(f"{source}: no I/O to convert{filters}")


HEADER = "fio version 3 iolog"


@dataclasses.dataclass(frozen=True)
class Workload(Rows):
    """I/Os to be replayed, in order of time."""

    #: int64 array, shape (n,). Time in us since the start of the workload.
    time_us: npt.NDArray[np.int64]
    #: int64 array, shape (n,).
    offset_bytes: npt.NDArray[np.int64]
    #: int64 array, shape (n,).
    size_bytes: npt.NDArray[np.int64]
    #: bool array, shape (n,).
    is_write: npt.NDArray[np.bool_]


def write_iolog(path: AnyPath, chunks: Iterable[Workload], device: str) -> int:
    """Write an iolog and return the number of I/Os. It appears completely or not at all."""
    try:
        words = device.encode().split()
    except UnicodeEncodeError as error:
        raise LinnappError(
            f"drive name {device!a}: contains bytes that are not UTF-8; give the drive another name"
        ) from error
    if words != [device.encode()]:
        raise LinnappError(
            f"drive name {device!r}: contains white space, which separates the columns of an "
            "iolog; give the drive another name (`device_name=`)"
        )
    written = 0
    with replaced_file(path) as stream:
        stream.write(f"{HEADER}\n0 {device} add\n0 {device} open\n".encode())
        last_us = 0
        for chunk in chunks:
            if not len(chunk):
                continue
            stream.write(iolog_lines(chunk, device))
            last_us = int(chunk.time_us[-1])
            written += len(chunk)
        stream.write(f"{last_us} {device} close\n".encode())
    return written
