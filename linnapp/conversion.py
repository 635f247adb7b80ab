# SPDX-License-Identifier: MIT
"""Traces from one format to another, in chunks: a table of readers, one of writers, filters.

A format's reader yields :class:`~linnapp.iolog.Workload` chunks with times from the trace's first
I/O on. Formats are told apart by their first line or magic; ``--from`` overrules that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from linnapp import blktrace, iolog
from linnapp.errors import LinnappError, TraceError
from linnapp.files import explain_os_error, replaced_file
from linnapp.iolog import Workload

SECTOR_BYTES = 512
ALIGNMENT_BYTES = 4096
_CHUNK_IOS = 1 << 18


@dataclasses.dataclass(frozen=True)
class TextFormat:
    """A text trace with one I/O a line.

    Attributes
    ----------
    description : str
        Columns, for help and errors.
    delimiter : str or None
        None: white space.
    columns : dict of str to int
        Where ``time``, ``offset``, ``size``, ``type`` and, if there is one, ``device`` are.
    time_unit_us : float
        What one unit of the time column is in microseconds.
    read_types, write_types : set of str
        Values of the type column.
    offset_unit_bytes, size_unit_bytes : int
        Units of the two columns.
    header_lines : int
        Lines before the first I/O.
    """

    description: str
    delimiter: str | None
    columns: dict[str, int]
    time_unit_us: float
    read_types: frozenset[str]
    write_types: frozenset[str]
    offset_unit_bytes: int = 1
    size_unit_bytes: int = 1
    header_lines: int = 0

    @property
    def n_columns(self) -> int:
        """Columns that a line must at least have."""
        return max(self.columns.values()) + 1


TEXT_FORMATS = {
    "heimdall": TextFormat(
        "time_ms device offset_bytes size_bytes type (1 read, 0 write), separated by spaces",
        None,
        {"time": 0, "device": 1, "offset": 2, "size": 3, "type": 4},
        1e3,
        frozenset({"1"}),
        frozenset({"0"}),
    ),
}


@dataclasses.dataclass(frozen=True)
class Filters:
    """What to do with the I/Os on their way.

    Attributes
    ----------
    slice_s : (float, float), optional
        Keep this part of the input's own time, in seconds; it then starts at 0.
    rerate : float
        Multiply the rate of arrivals, after slicing.
    fit_bytes : int, optional
        Wrap offsets into a drive of so many bytes, and align offsets and sizes to 4 KiB.
    """

    slice_s: tuple[float, float] | None = None
    rerate: float = 1.0
    fit_bytes: int | None = None


def input_formats() -> list[str]:
    """Names for ``--from``."""
    return ["blktrace", "iolog", *TEXT_FORMATS]


def output_formats() -> list[str]:
    """Names for ``--to``."""
    return list(_WRITERS)


def detect_format(path: Path) -> str:
    """Tell a trace's format from its content.

    Raises
    ------
    TraceError
        If it is missing, empty, or none of the known formats.
    """
    if blktrace.is_blktrace(path):
        return "blktrace"
    if iolog.is_iolog(path):
        return "iolog"
    try:
        with path.open("rb") as stream:
            head = stream.read(4096)
    except OSError as error:
        raise TraceError(str(explain_os_error(error, path))) from error
    if not head:
        raise TraceError(f"{path}: an empty file")
    lines = head.decode("utf-8", errors="replace").splitlines()
    for name, text_format in TEXT_FORMATS.items():
        rows = lines[text_format.header_lines :][:1]
        if rows and _matches(text_format, rows[0]):
            return name
    raise TraceError(
        f"{path}: not a trace in a known format ({', '.join(input_formats())}); "
        f"it starts with {head[:40]!r}"
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
    return fields[columns["type"]] in text_format.read_types | text_format.write_types


def read_workload(
    path: Path, source_format: str | None = None, **options: Any
) -> Iterator[Workload]:
    """Read a trace of any known format as a workload.

    Parameters
    ----------
    path : Path
    source_format : str, optional
        One of :func:`input_formats`; found out when not given.
    **options
        For blktrace: those of :class:`~linnapp.blktrace.BlktraceReader`.

    Raises
    ------
    TraceError
        If the trace cannot be read; a malformed line is named.
    """
    source_format = source_format or detect_format(path)
    if source_format == "blktrace":
        return _read_blktrace(path, **options)
    if source_format == "iolog":
        return iolog.read(path)
    if source_format in TEXT_FORMATS:
        return _read_text(path, TEXT_FORMATS[source_format])
    raise TraceError(f"format {source_format!r} is unknown; known: {', '.join(input_formats())}")


def _read_blktrace(path: Path, **options: Any) -> Iterator[Workload]:
    first_ns: int | None = None
    for chunk in blktrace.BlktraceReader(path, **options):
        # Revoked I/Os are the policy's doing; the workload holds their retries elsewhere.
        if first_ns is None:
            first_ns = int(chunk.arrival_ns[0])
        kept = chunk.take((chunk.flags & blktrace.REVOKED) == 0)
        yield Workload(
            ((kept.arrival_ns - np.uint64(first_ns)) // np.uint64(1000)).astype(np.int64),
            (kept.sector * np.uint64(SECTOR_BYTES)).astype(np.int64),
            kept.size_bytes.astype(np.int64),
            kept.is_write,
        )


def _read_text(path: Path, text_format: TextFormat) -> Iterator[Workload]:
    first_us: float | None = None
    last_us = 0
    number = text_format.header_lines
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            for _ in range(text_format.header_lines):
                stream.readline()
            while lines := stream.readlines(_CHUNK_IOS * 40):
                time_us, workload = _parse_lines(path, number, lines, text_format)
                number += len(lines)
                if not len(workload):
                    continue
                if first_us is None:
                    first_us = float(time_us[0])
                # Recorders write in order of completion at times; arrivals must not go back.
                relative = np.rint(time_us - first_us).astype(np.int64)
                relative = np.maximum(np.maximum.accumulate(relative), last_us)
                last_us = int(relative[-1])
                yield dataclasses.replace(workload, time_us=relative)
    except OSError as error:
        raise explain_os_error(error, path) from error


def _parse_lines(
    path: Path, number: int, lines: list[str], text_format: TextFormat
) -> tuple[npt.NDArray[np.float64], Workload]:
    """Parse consecutive lines; times stay absolute, in us."""
    columns = text_format.columns
    time_at, offset_at, size_at = columns["time"], columns["offset"], columns["size"]
    type_at, delimiter = columns["type"], text_format.delimiter
    reads, writes = text_format.read_types, text_format.write_types
    times: list[float] = []
    offsets: list[int] = []
    sizes: list[int] = []
    is_write: list[bool] = []
    for at, line in enumerate(lines, number + 1):
        fields = line.split(delimiter)
        if not fields or not line.strip():
            continue
        try:
            kind = fields[type_at].strip()
            if kind in writes:
                is_write.append(True)
            elif kind in reads:
                is_write.append(False)
            else:
                raise ValueError(kind)
            times.append(float(fields[time_at]))
            offsets.append(int(fields[offset_at]))
            sizes.append(int(fields[size_at]))
            if sizes[-1] < 0 or offsets[-1] < 0:
                raise ValueError(line)
        except (ValueError, IndexError) as error:
            raise TraceError(
                f"{path}:{at}: {line.rstrip()!r}: expected {text_format.description}"
            ) from error
    workload = Workload(
        np.empty(0, np.int64),
        np.array(offsets, np.int64) * text_format.offset_unit_bytes,
        np.array(sizes, np.int64) * text_format.size_unit_bytes,
        np.array(is_write, np.bool_),
    )
    kept = workload.size_bytes > 0
    time_us = np.array(times) * text_format.time_unit_us
    workload = Workload(
        time_us[kept].astype(np.int64),
        workload.offset_bytes[kept],
        workload.size_bytes[kept],
        workload.is_write[kept],
    )
    return time_us[kept], workload


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
            rerated = np.rint(chunk.time_us / filters.rerate).astype(np.int64)
            chunk = dataclasses.replace(chunk, time_us=rerated)
        if filters.fit_bytes is not None:
            chunk = _fit(chunk, filters.fit_bytes)
        if len(chunk):
            yield chunk


def _fit(chunk: Workload, drive_bytes: int) -> Workload:
    usable = drive_bytes // ALIGNMENT_BYTES * ALIGNMENT_BYTES
    if not usable:
        raise LinnappError(f"--fit {drive_bytes}: smaller than one block of {ALIGNMENT_BYTES}")
    end = chunk.offset_bytes + chunk.size_bytes
    start = chunk.offset_bytes // ALIGNMENT_BYTES * ALIGNMENT_BYTES
    size = np.minimum(-(-end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES - start, usable)
    offset = np.minimum(start % usable, usable - size)
    return dataclasses.replace(chunk, offset_bytes=offset, size_bytes=size)


def _write_heimdall(path: Path, chunks: Iterable[Workload], device: str) -> int:
    """The 5 columns of the public replayers; its device column holds a number."""
    number = device if device.isdigit() else "0"
    written = 0
    with replaced_file(path, "w") as stream:
        text: IO[str] = stream  # type: ignore[assignment]
        for chunk in chunks:
            text.writelines(
                f"{time_us / 1000:.3f} {number} {offset} {size} {int(not is_write)}\n"
                for time_us, offset, size, is_write in zip(
                    chunk.time_us.tolist(),
                    chunk.offset_bytes.tolist(),
                    chunk.size_bytes.tolist(),
                    chunk.is_write.tolist(),
                    strict=True,
                )
            )
            written += len(chunk)
    return written


_WRITERS: dict[str, Callable[[Path, Iterable[Workload], str], int]] = {
    "iolog": iolog.write,
    "heimdall": _write_heimdall,
}


def convert(
    source: Path,
    target: Path,
    *,
    source_format: str | None = None,
    target_format: str = "iolog",
    device_name: str = "/dev/flash0",
    filters: Filters | None = None,
    **options: Any,
) -> int:
    """Convert a trace; the target appears whole or not at all.

    Parameters
    ----------
    source, target : Path
    source_format : str, optional
        Found out when not given.
    target_format : str
        One of :func:`output_formats`.
    device_name : str
        The drive's name in the target.
    filters : Filters, optional

    Returns
    -------
    int
        I/Os written.

    Raises
    ------
    TraceError
        If the source cannot be read, or nothing of it is left.
    """
    chunks = filtered(read_workload(source, source_format, **options), filters or Filters())
    return _WRITERS[target_format](target, _not_empty(source, chunks), device_name)


def _not_empty(source: Path, chunks: Iterator[Workload]) -> Iterator[Workload]:
    empty = True
    for chunk in chunks:
        empty = False
        yield chunk
    if empty:
        raise TraceError(f"{source}: no I/O to convert; is --slice beyond its end?")
