# SPDX-License-Identifier: MIT
"""Text traces, one I/O a line, as columns of numbers and back.

The parsing and printing is compiled (linnapp/native/text_reader.c, text_writer.c); this module
describes formats to it and goes through a file in chunks, so that memory does not grow with it.
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
from linnapp.native import declared, native, of_one_kind
from linnapp.trace.packed import unpacked

if TYPE_CHECKING:
    from linnapp.trace.formats.iolog import Workload

SECTOR_BYTES = 512

#: I/Os per chunk: 25 bytes each
CHUNK_IOS = 1 << 18

_MAX_FIELDS = 32


@dataclasses.dataclass(frozen=True)
class TextFormat:
    """A text trace with one I/O a line."""

    #: Columns, for help and errors.
    description: str
    #: None: white space.
    delimiter: str | None
    #: Where ``time``, ``offset``, ``size``, ``type`` and, if there are such, ``volume`` and
    #: ``latency`` are.
    columns: dict[str, int]
    #: The unit of the time column is ten to this power nanoseconds.
    time_unit_log10_ns: int
    #: `read_types`, `write_types`: values of the type column; the first one is written.
    read_types: tuple[str, ...]
    write_types: tuple[str, ...]
    #: Values of the type column in lines that hold no I/O.
    passed_over: tuple[str, ...] = ()
    #: `offset_unit_bytes`, `size_unit_bytes`: units of the two columns.
    offset_unit_bytes: int = 1
    size_unit_bytes: int = 1
    #: Start of a header line that may come first.
    header: str = ""
    #: Columns of a line.
    n_columns: int = 5
    #: Whether times are taken from the first I/O on, not as they stand.
    since_first: bool = True
    #: As `time_unit_log10_ns`, of the latency column.
    latency_unit_log10_ns: int = 0

    @property
    def has_latency(self) -> bool:
        """Whether lines say how long the I/O took."""
        return "latency" in self.columns


class Columns(NamedTuple):
    """Consecutive I/Os of a text trace."""

    #: int64 array, shape (n,); as the lines have it; it may go back.
    time_ns: npt.NDArray[np.int64]
    #: `offset_bytes`, `size_bytes`: int64 array, shape (n,)
    offset_bytes: npt.NDArray[np.int64]
    size_bytes: npt.NDArray[np.int64]
    #: bool array, shape (n,)
    is_write: npt.NDArray[np.bool_]
    #: int64 array, shape (n,); 0 where the line does not say.
    latency_ns: npt.NDArray[np.int64]

    def take(self, rows: npt.NDArray[np.intp]) -> Columns:
        """The I/Os that `rows` selects, in that order."""
        return Columns._make(column[rows] for column in self)


class _Format(ctypes.Structure):
    _fields_ = (
        *of_one_kind(ctypes.c_int32, "delimiter", "time_at", "offset_at", "size_at", "type_at"),
        *of_one_kind(ctypes.c_int32, "volume_at", "time_decimals", "since_first"),
        *of_one_kind(ctypes.c_int32, "offset_unit_bytes", "size_unit_bytes"),
        *of_one_kind(ctypes.c_char_p, "reads", "writes", "passed_over", "header", "volume"),
        *of_one_kind(ctypes.c_int32, "has_latency", "latency_at", "latency_decimals"),
    )


class _Columns(ctypes.Structure):
    _fields_ = of_one_kind(ctypes.c_void_p, "time", "offset", "size", "is_write", "latency")


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
    if not hasattr(library, "lt_text_empty") or library.lt_text_format_bytes() != ctypes.sizeof(
        _Format
    ):
        raise LinnappError("the compiled trace reader is of an older version; run `make native`")
    reader, columns, n = ctypes.c_void_p, ctypes.POINTER(_Columns), ctypes.c_int64
    line = ctypes.POINTER(_Line)
    return declared(
        library,
        lt_text_open=(reader, ctypes.c_int, ctypes.POINTER(_Format)),
        lt_text_read=(n, reader, n, columns),
        lt_text_line_number=(n, reader),
        lt_text_line_text=(ctypes.c_char_p, reader),
        lt_text_empty=(n, reader),
        lt_text_close=(None, reader),
        lt_text_line_bytes=(n, line),
        lt_text_write=(n, line, n, columns, ctypes.c_char_p),
    )


def _format_of(text_format: TextFormat, volume: str | None) -> _Format:
    columns = text_format.columns

    def words(values: tuple[str, ...]) -> bytes:
        return " ".join(values).encode()

    return _Format(
        ord(text_format.delimiter or "\0"),
        columns["time"],
        columns["offset"],
        columns["size"],
        columns["type"],
        columns.get("volume", 0),
        text_format.time_unit_log10_ns,
        text_format.since_first,
        text_format.offset_unit_bytes,
        text_format.size_unit_bytes,
        words(text_format.read_types),
        words(text_format.write_types),
        words(text_format.passed_over),
        text_format.header.encode() or None,
        None if volume is None else os.fsencode(volume),
        text_format.has_latency,
        columns.get("latency", 0),
        text_format.latency_unit_log10_ns,
    )


def read_columns(
    path: AnyPath,
    text_format: TextFormat,
    *,
    volume: str | None = None,
    chunk_ios: int = CHUNK_IOS,
    on_progress: Callable[[int], None] | None = None,
    on_empty: Callable[[int], None] | None = None,
) -> Iterator[Columns]:
    """Read a text trace in chunks; how many I/Os of no length are left out `on_empty` is told."""
    path = Path(path)
    library = _library()
    description = _format_of(text_format, volume)
    with os_errors(path):
        stream = unpacked(path).open("rb", buffering=0)
    with stream:
        reader = library.lt_text_open(stream.fileno(), ctypes.byref(description))
        if not reader:
            raise MemoryError
        try:
            n = chunk_ios
            while n == chunk_ios:
                time, offset, size = (np.empty(n, np.int64) for _ in range(3))
                is_write = np.empty(n, np.bool_)
                latency = np.zeros(n, np.int64)
                arrays = (time, offset, size, is_write, latency)
                columns = _Columns(*(array.ctypes.data for array in arrays))
                n = library.lt_text_read(reader, chunk_ios, ctypes.byref(columns))
                if n == -1:
                    line = library.lt_text_line_text(reader).decode(errors="replace")
                    raise TraceError(
                        f"{path}:{library.lt_text_line_number(reader)}: {line!r}: expected "
                        f"{text_format.description}"
                    )
                if n < 0:
                    raise explain_os_error(OSError(-1 - n, os.strerror(-1 - n)), path)
                if on_progress is not None:
                    on_progress(stream.tell())
                if n:
                    yield Columns(time[:n], offset[:n], size[:n], is_write[:n], latency[:n])
        finally:
            # Of a trace that is not read to its end, too: --slice.
            if on_empty is not None:
                on_empty(library.lt_text_empty(reader))
            library.lt_text_close(reader)


class LineWriter:
    """Turns I/Os into the lines of a text trace.

    Columns that hold nothing of an I/O are filled with `literals`, else with "0".
    """

    def __init__(self, text_format: TextFormat, literals: dict[int, str]) -> None:
        self._format = text_format
        columns = {at: name for name, at in text_format.columns.items()}
        fields = [_FIELDS.get(columns.get(at, ""), _LITERAL) for at in range(text_format.n_columns)]
        # Microseconds are whole in every unit; more digits would be made up.
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
        """The lines of some I/Os; offsets and sizes must be multiples of the format's units."""
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
        columns = _Columns(*(array.ctypes.data for array in arrays), None)
        written = library.lt_text_write(ctypes.byref(self._line), n, ctypes.byref(columns), out)
        return memoryview(out)[:written].tobytes()
