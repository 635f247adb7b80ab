# SPDX-License-Identifier: MIT
"""Read and write text traces, one I/O per line, as columns of numbers.

The table of formats, the reader and the writer are compiled (linnapp/native/text_*.c), and the
replayer is linked with the same files. This module processes a file in chunks, so that memory use
does not depend on its size.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from linnapp.errors import LinnappError, TraceError
from linnapp.files import AnyPath, explain_os_error, os_errors
from linnapp.native import counted, declared, native, of_one_kind
from linnapp.trace.packed import unpacked

if TYPE_CHECKING:
    from linnapp.trace.formats.iolog import Workload

SECTOR_BYTES = 512

#: I/Os per chunk, at 33 bytes each.
CHUNK_IOS = 1 << 18

#: Maximum number of volume names that are shown.
_VOLUMES_SHOWN = 6

_MAX_FIELDS = 32
_WHY_BYTES = 2048
_HEAD_BYTES = 256 << 10

# enum lt_text_flags
_IOLOG, _AT_END, _COARSE, _DEVICE = 1, 2, 4, 8

# enum lt_text_known_by
_TOLD, _DETECTED = 0, 1


@dataclasses.dataclass(frozen=True)
class TextFormat:
    """A text format, one I/O per line: an entry of the table in linnapp/native/text_formats.c."""

    name: str
    #: Description of the columns, for help and error messages.
    description: str
    #: None means white space. Any white space is read, and a space is written.
    delimiter: str | None
    #: Positions of the columns ``time``, ``offset``, ``size``, ``type`` and, if they exist,
    #: ``volume`` and ``latency``.
    columns: dict[str, int]
    #: The unit of the time column is ten to this power nanoseconds.
    time_unit_log10_ns: int
    #: `read_types`, `write_types`: values of the type column. The first one is used for writing.
    read_types: tuple[str, ...]
    write_types: tuple[str, ...]
    #: `offset_unit_bytes`, `size_unit_bytes`: units of the two columns.
    offset_unit_bytes: int
    size_unit_bytes: int
    #: Beginning of an optional header line.
    header: str
    #: Number of columns of a line.
    n_columns: int
    #: Position of a column that repeats the size, or 0 if there is none.
    same_as_size: int
    #: Like `time_unit_log10_ns`, for the latency column.
    latency_unit_log10_ns: int
    #: True if times are those of completion.
    at_end: bool
    #: True if the unit of time is too coarse to determine which I/Os were in flight simultaneously.
    coarse: bool
    #: True if the format was detected from the first lines. Values that exclude it are then errors.
    detected: bool = False

    @property
    def has_latency(self) -> bool:
        """True if lines contain the latency of the I/O."""
        return "latency" in self.columns

    @property
    def units(self) -> str:
        """Description of the units that are assumed."""
        words = {1: "bytes", SECTOR_BYTES: f"sectors of {SECTOR_BYTES} bytes"}
        unit = _library().lt_text_unit(self.time_unit_log10_ns).decode()
        return (
            f"times in {unit}, offsets in {words[self.offset_unit_bytes]}, "
            f"sizes in {words[self.size_unit_bytes]}"
        )


@dataclasses.dataclass(frozen=True)
class TextCounts:
    """Counts of a text trace that has been read, and notes for the user."""

    #: I/Os of size zero, which are skipped.
    empty: int
    #: Lines that are skipped because they neither read nor write (trim, sync, wait).
    skipped: int
    #: Number of I/Os that were earlier than an I/O on a previous line, the maximum delay, and its
    #: line.
    out_of_order: int
    most_late_ns: int
    most_late_line: int
    #: Number of volumes, and the number of I/Os of the first volumes by name.
    n_volumes: int
    volumes: dict[str, int]

    def notes(self, volume: str | None = None) -> list[str]:
        """Return notes on unexpected properties. `volume` is the volume that was kept."""
        notes = []
        if self.n_volumes > 1 and volume is None:
            names = ", ".join(f"{name} ({ios} I/Os)" for name, ios in self.volumes.items())
            more = ", ..." if self.n_volumes > len(self.volumes) else ""
            notes.append(
                f"holds {self.n_volumes} volumes, which share one address space here: "
                f"{names}{more}; `volume=NAME` keeps one"
            )
        if self.out_of_order:
            notes.append(
                f"{self.out_of_order} I/Os were not in the order of time, by up to "
                f"{self.most_late_ns / 1e9:.6f} s (line {self.most_late_line}); they are sorted"
            )
        if self.skipped:
            notes.append(f"{self.skipped} lines that neither read nor write are left out")
        return notes


class Columns(NamedTuple):
    """Consecutive I/Os of a text trace, in order of time."""

    #: int64 array, shape (n,). Time since the first I/O, or as given in an iolog.
    time_ns: npt.NDArray[np.int64]
    #: `offset_bytes`, `size_bytes`: int64 array, shape (n,).
    offset_bytes: npt.NDArray[np.int64]
    size_bytes: npt.NDArray[np.int64]
    #: bool array, shape (n,).
    is_write: npt.NDArray[np.bool_]
    #: int64 array, shape (n,). 0 if the line contains no latency.
    latency_ns: npt.NDArray[np.int64]


class _Format(ctypes.Structure):
    _fields_ = (
        *of_one_kind(ctypes.c_char_p, "name", "description", "reads", "writes", "passed_over"),
        *of_one_kind(ctypes.c_char_p, "skipped", "header", "refusal"),
        *of_one_kind(ctypes.c_int32, "separator", "n_columns", "max_columns", "time_at"),
        *of_one_kind(ctypes.c_int32, "offset_at", "size_at", "type_at", "volume_at"),
        *of_one_kind(ctypes.c_int32, "volume_columns", "latency_at", "same_as_size_at"),
        *of_one_kind(ctypes.c_int32, "time_digits", "latency_digits", "offset_unit_bytes"),
        *of_one_kind(ctypes.c_int32, "size_unit_bytes", "flags"),
    )


class _Options(ctypes.Structure):
    _fields_ = (
        ("volume", ctypes.c_char_p),
        ("window", ctypes.c_int64),
        *of_one_kind(ctypes.c_int32, "time_digits", "ties_by_place", "known_by"),
    )


class _Columns(ctypes.Structure):
    _fields_ = of_one_kind(ctypes.c_void_p, "time", "offset", "size", "is_write", "latency", "line")


class _Counts(ctypes.Structure):
    _fields_ = (
        *of_one_kind(ctypes.c_int64, "lines", "empty", "skipped", "out_of_order", "most_late_ns"),
        *of_one_kind(ctypes.c_int64, "most_late_line", "n_volumes", "fractions", "first_units"),
    )


class _Line(ctypes.Structure):
    _fields_ = (
        *of_one_kind(ctypes.c_int32, "separator", "n_fields", "time_decimals"),
        ("fields", ctypes.c_int32 * _MAX_FIELDS),
        ("literals", ctypes.c_char_p * _MAX_FIELDS),
        *of_one_kind(ctypes.c_char_p, "read", "write"),
    )


#: enum lt_text_field
_LITERAL = 0
_FIELDS = {"time": 1, "offset": 2, "size": 3, "type": 4}


@functools.cache
def _library() -> ctypes.CDLL:
    library = native()
    if not hasattr(library, "lt_text_detect") or library.lt_text_format_bytes() != ctypes.sizeof(
        _Format
    ):
        raise LinnappError("the compiled trace reader is of an older version; run `make native`")
    reader, columns, n = ctypes.c_void_p, ctypes.POINTER(_Columns), ctypes.c_int64
    line, kind, text = ctypes.POINTER(_Line), ctypes.POINTER(_Format), ctypes.c_char_p
    number = ctypes.POINTER(ctypes.c_int32)
    return declared(
        library,
        lt_text_formats=(kind, number),
        lt_text_find=(kind, text, number),
        lt_text_unit=(text, ctypes.c_int32),
        lt_text_detect=(kind, text, n, text),
        lt_text_open=(reader, ctypes.c_int, kind, ctypes.POINTER(_Options)),
        lt_text_read=(n, reader, n, columns),
        lt_text_line_number=(n, reader),
        lt_text_error=(text, reader),
        lt_text_counts=(ctypes.POINTER(_Counts), reader),
        lt_text_volume=(text, reader, n, ctypes.POINTER(n)),
        lt_text_close=(None, reader),
        lt_text_line_bytes=(n, line),
        lt_text_write=(n, line, n, columns, text),
    )


def _described(raw: _Format, time_digits: int = -1) -> TextFormat:
    columns = {"time": raw.time_at, "offset": raw.offset_at, "size": raw.size_at}
    columns["type"] = raw.type_at
    if raw.volume_columns:
        columns["volume"] = raw.volume_at + raw.volume_columns - 1
    if raw.latency_at:
        columns["latency"] = raw.latency_at

    def words(values: bytes) -> tuple[str, ...]:
        return tuple(values.decode().split(" "))

    return TextFormat(
        name=raw.name.decode(),
        description=raw.description.decode(),
        delimiter="," if raw.separator == ord(",") else None,
        columns=columns,
        time_unit_log10_ns=raw.time_digits if time_digits < 0 else time_digits,
        read_types=words(raw.reads),
        write_types=words(raw.writes),
        offset_unit_bytes=raw.offset_unit_bytes,
        size_unit_bytes=raw.size_unit_bytes,
        header=(raw.header or b"").decode(),
        n_columns=raw.n_columns,
        same_as_size=raw.same_as_size_at,
        latency_unit_log10_ns=raw.latency_digits,
        at_end=bool(raw.flags & _AT_END),
        coarse=bool(raw.flags & _COARSE),
    )


@functools.cache
def text_formats() -> dict[str, TextFormat]:
    """Return the table of text formats by name, which includes the iolog."""
    n = ctypes.c_int32()
    table = _library().lt_text_formats(ctypes.byref(n))
    return {table[i].name.decode(): _described(table[i]) for i in range(n.value)
            if not table[i].refusal}  # fmt: skip


def find_format(name: str) -> TextFormat | None:
    """Find a text format by "NAME", or by "NAME:UNIT" for a different unit of time."""
    digits = ctypes.c_int32()
    raw = _library().lt_text_find(os.fsencode(name), ctypes.byref(digits))
    return _described(raw.contents, digits.value) if raw else None


def detect_text_format(path: AnyPath) -> TextFormat:
    """Detect the format of a text trace from its first lines.

    Raises
    ------
    TraceError
        If the file cannot be read or its format is unknown.
    """
    path = Path(path)
    try:
        with unpacked(path).open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError as error:
        raise TraceError(str(explain_os_error(error, path))) from error
    why = ctypes.create_string_buffer(_WHY_BYTES)
    raw = _library().lt_text_detect(head, len(head), why)
    if not raw:
        raise TraceError(f"{path}: {why.value.decode(errors='replace')}")
    return dataclasses.replace(_described(raw.contents), detected=True)


def _counts_of(library: ctypes.CDLL, reader: int) -> TextCounts:
    counts = counted(library.lt_text_counts(reader).contents)
    ios = ctypes.c_int64()
    volumes = {}
    for i in range(min(counts["n_volumes"], _VOLUMES_SHOWN)):
        name = library.lt_text_volume(reader, i, ctypes.byref(ios)).decode(errors="replace")
        volumes[name] = ios.value
    names = (field.name for field in dataclasses.fields(TextCounts) if field.name != "volumes")
    return TextCounts(**{name: counts[name] for name in names}, volumes=volumes)


def read_columns(
    path: AnyPath,
    text_format: TextFormat,
    *,
    volume: str | None = None,
    chunk_ios: int = CHUNK_IOS,
    window: int = 0,
    ties_as_lines: bool = True,
    on_progress: Callable[[int], None] | None = None,
    on_counts: Callable[[TextCounts], None] | None = None,
) -> Iterator[Columns]:
    """Read a text trace in chunks, in order of time.

    Parameters
    ----------
    path : path
    text_format : TextFormat
    volume : str, optional
        Keep this volume only.
    chunk_ios : int
        I/Os per chunk.
    window : int
        Number of lines by which a line may be late. The default, 0, means 16,384.
    ties_as_lines : bool
        Keep I/Os with the same time in order of their lines. Otherwise they are ordered by size and
        offset.
    on_progress : callable, optional
        Called with the number of bytes read.
    on_counts : callable, optional
        Called with the counts at the end.

    Raises
    ------
    TraceError
        If the file cannot be read or a line is not valid.
    """
    path = Path(path)
    library = _library()
    digits = ctypes.c_int32()
    raw = library.lt_text_find(text_format.name.encode(), ctypes.byref(digits))
    options = _Options(
        None if volume is None else os.fsencode(volume),
        window,
        text_format.time_unit_log10_ns,
        not ties_as_lines,
        _DETECTED if text_format.detected else _TOLD,
    )
    with os_errors(path):
        stream = unpacked(path).open("rb", buffering=0)
    with stream:
        reader = library.lt_text_open(stream.fileno(), raw, ctypes.byref(options))
        if not reader:
            raise MemoryError
        try:
            n = chunk_ios
            while n == chunk_ios:
                time, offset, size = (np.empty(n, np.int64) for _ in range(3))
                is_write = np.empty(n, np.bool_)
                latency = np.zeros(n, np.int64)
                arrays = (time, offset, size, is_write, latency)
                columns = _Columns(*(array.ctypes.data for array in arrays), None)
                n = library.lt_text_read(reader, chunk_ios, ctypes.byref(columns))
                if n < 0:
                    why = library.lt_text_error(reader).decode(errors="replace")
                    line = library.lt_text_line_number(reader)
                    raise TraceError(f"{path}:{line}: {why}" if line else f"{path}: {why}")
                if on_progress is not None:
                    on_progress(stream.tell())
                if n:
                    yield Columns(time[:n], offset[:n], size[:n], is_write[:n], latency[:n])
        finally:
            # This is also done if a trace is not read to its end, because of --slice.
            if on_counts is not None:
                on_counts(_counts_of(library, reader))
            library.lt_text_close(reader)


class LineWriter:
    """Convert I/Os to the lines of a text trace.

    Columns without data of an I/O are filled with `literals`, by position, and otherwise with "0".
    """

    def __init__(self, text_format: TextFormat, literals: dict[int, str]) -> None:
        self._format = text_format
        columns = {at: name for name, at in text_format.columns.items()}
        fields = [_FIELDS.get(columns.get(at, ""), _LITERAL) for at in range(text_format.n_columns)]
        # Microseconds are integers in every unit. More digits would have no meaning.
        decimals = text_format.time_unit_log10_ns - 3
        self._time_factor = 10 ** max(0, -decimals)
        self._line = _Line(
            ord(text_format.delimiter or " "),
            text_format.n_columns,
            max(0, decimals),
            (ctypes.c_int32 * _MAX_FIELDS)(*fields),
            (ctypes.c_char_p * _MAX_FIELDS)(
                *(literals.get(at, "0").encode() for at in range(text_format.n_columns))
            ),
            text_format.read_types[0].encode(),
            text_format.write_types[0].encode(),
        )

    def lines(self, ios: Workload) -> bytes:
        """Return the lines of some I/Os. Offsets and sizes must be multiples of the units."""
        library = _library()
        n = len(ios)
        arrays = (
            np.ascontiguousarray(ios.time_us * self._time_factor, np.int64),
            np.ascontiguousarray(ios.offset_bytes // self._format.offset_unit_bytes, np.int64),
            np.ascontiguousarray(ios.size_bytes // self._format.size_unit_bytes, np.int64),
            np.ascontiguousarray(ios.is_write, np.bool_),
        )
        out = ctypes.create_string_buffer(
            n * library.lt_text_line_bytes(ctypes.byref(self._line)) + 1
        )
        columns = _Columns(*(array.ctypes.data for array in arrays), None, None)
        written = library.lt_text_write(ctypes.byref(self._line), n, ctypes.byref(columns), out)
        return memoryview(out)[:written].tobytes()
