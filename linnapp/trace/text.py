# SPDX-License-Identifier: MIT
"""Read text traces, one I/O per line, as columns of numbers, and write an iolog's lines.

The table of formats, the reader and the writer are compiled (linnapp/native/text_*.c). This module
processes a file in chunks, so that memory use does not depend on its size.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError
from linnapp.files import AnyPath, explain_os_error, os_errors
from linnapp.native import Counters, native
from linnapp.trace.blktrace import unpacked

if TYPE_CHECKING:
    from linnapp.trace.convert import Workload

SECTOR_BYTES = 512

#: I/Os per chunk, at 33 bytes each.
CHUNK_IOS = 1 << 18

#: Maximum number of volume names that are shown.
_VOLUMES_SHOWN = 6


@dataclasses.dataclass(frozen=True)
class TextFormat:
    """A text format, one I/O per line: an entry of the table in linnapp/native/text_formats.c."""

    #: The entry, ``struct lt_text_format``.
    entry: Any = dataclasses.field(repr=False)
    #: The unit of the time column is ten to this power nanoseconds.
    time_unit_log10_ns: int
    #: True if the format was detected from the first lines. Values that exclude it are then errors.
    detected: bool = False

    @property
    def name(self) -> str:
        """Its name, as for ``--from``."""
        return native().text(self.entry.name) or ""

    @property
    def description(self) -> str:
        """Description of the columns, for help and error messages."""
        return native().text(self.entry.description) or ""

    @property
    def has_latency(self) -> bool:
        """True if lines contain the latency of the I/O."""
        return bool(self.entry.latency_at)

    @property
    def has_volume(self) -> bool:
        """True if lines name the volume of the I/O."""
        return bool(self.entry.volume_columns)

    @property
    def coarse(self) -> bool:
        """True if times are too coarse to determine which I/Os were in flight simultaneously."""
        return bool(self.entry.flags & native().lib.LT_TEXT_COARSE)

    @property
    def units(self) -> str:
        """Description of the units that are assumed."""
        words = {1: "bytes", SECTOR_BYTES: f"sectors of {SECTOR_BYTES} bytes"}
        unit = native().text(native().lib.lt_text_unit(self.time_unit_log10_ns))
        return (
            f"times in {unit}, offsets in {words[self.entry.offset_unit_bytes]}, "
            f"sizes in {words[self.entry.size_unit_bytes]}"
        )


class TextCounts(Counters):
    """Counters of a text trace that has been read: the members of ``struct lt_text_counts``.

    `volumes` has the number of I/Os of each of the first volumes by name.
    """

    def notes(self, volume: str | None = None) -> list[str]:
        """Return notes on unexpected properties. `volume` is the volume that was kept."""
        notes = []
        if self.n_volumes > 1 and volume is None:
            names = ", ".join(f"{name} ({ios} I/Os)" for name, ios in self.volumes.items())
            more = ", ..." if self.n_volumes > len(self.volumes) else ""
            notes.append(
                f"has {self.n_volumes} volumes, which share one address space here: "
                f"{names}{more}; `volume=NAME` selects one"
            )
        if self.out_of_order:
            notes.append(
                f"{self.out_of_order} I/Os were not in the order of time, by up to "
                f"{self.most_late_ns / 1e9:.6f} s (line {self.most_late_line}); they are sorted"
            )
        if self.repeated_line:
            notes.append(
                f"line {self.repeated_line} repeats the first I/O; the file may contain a trace "
                "twice"
            )
        if self.skipped:
            notes.append(f"{self.skipped} lines that neither read nor write are left out")
        if self.cut_off:
            notes.append("the last line does not end with a newline; the file may be truncated")
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
    #: Time of the first I/O as the trace gives it, or 0 for an iolog.
    start_ns: int = 0


@functools.cache
def text_formats() -> dict[str, TextFormat]:
    """Return the table of text formats by name, which includes the iolog."""
    ffi, lib = native()
    n = ffi.new("int32_t *")
    table = lib.lt_text_formats(n)
    entries = [table[i] for i in range(n[0]) if not table[i].refusal]
    formats = [TextFormat(entry, entry.time_digits) for entry in entries]
    return {text_format.name: text_format for text_format in formats}


def find_format(name: str) -> TextFormat | None:
    """Find a text format by "NAME", or by "NAME:UNIT" for a different unit of time."""
    ffi, lib = native()
    digits = ffi.new("int32_t *")
    raw = lib.lt_text_find(os.fsencode(name), digits)
    return TextFormat(raw[0], raw.time_digits if digits[0] < 0 else digits[0]) if raw else None


def detect_text_format(path: AnyPath) -> TextFormat:
    """Detect the format of a text trace from its first lines."""
    path = Path(path)
    try:
        with unpacked(path).open("rb") as stream:
            head = stream.read(native().lib.LT_TEXT_HEAD_BYTES)
    except OSError as error:
        raise TraceError(str(explain_os_error(error, path))) from error
    ffi, lib = native()
    why = ffi.new("char[]", lib.LT_TEXT_WHY_BYTES)
    raw = lib.lt_text_detect(head, len(head), why)
    if not raw:
        raise TraceError(f"{path}: {ffi.string(why).decode(errors='replace')}")
    return TextFormat(raw[0], raw.time_digits, detected=True)


def _counts_of(reader: Any) -> TextCounts:
    library = native()
    counts = library.counters(library.lib.lt_text_counts(reader)[0])
    ios = library.ffi.new("int64_t *")
    volumes = {}
    for i in range(min(counts["n_volumes"], _VOLUMES_SHOWN)):
        name = library.ffi.string(library.lib.lt_text_volume(reader, i, ios))
        volumes[name.decode(errors="replace")] = ios[0]
    return TextCounts(**counts, volumes=volumes)


def read_columns(
    path: AnyPath,
    text_format: TextFormat,
    *,
    volume: str | None = None,
    chunk_ios: int = CHUNK_IOS,
    ties_as_lines: bool = True,
    on_progress: Callable[[int], None] | None = None,
    on_counts: Callable[[TextCounts], None] | None = None,
) -> Iterator[Columns]:
    """Read a text trace in chunks, in order of time.

    `volume` is the only volume to keep. A line may be up to 16,384 lines late. I/Os with the
    same time are in order of their lines if `ties_as_lines`, otherwise by size and offset.
    `on_progress` is called with the number of bytes read, `on_counts` with the counts at the
    end.
    """
    path = Path(path)
    library = native()
    ffi, lib = library
    kept_volume = ffi.NULL if volume is None else ffi.new("char[]", os.fsencode(volume))
    options = library.new(
        "lt_text_options",
        volume=kept_volume,
        time_digits=text_format.time_unit_log10_ns,
        ties_by_place=not ties_as_lines,
        known_by=lib.LT_TEXT_DETECTED if text_format.detected else lib.LT_TEXT_NAMED,
    )
    with os_errors(path):
        stream = unpacked(path).open("rb", buffering=0)
    with stream:
        reader = lib.lt_text_open(stream.fileno(), ffi.addressof(text_format.entry), options)
        if not reader:
            raise MemoryError
        try:
            n = chunk_ios
            while n == chunk_ios:
                arrays: dict[str, npt.NDArray[Any]] = {
                    name: np.empty(n, np.int64) for name in ("time", "offset", "size")
                }
                arrays["is_write"] = np.empty(n, np.bool_)
                arrays["latency"] = np.zeros(n, np.int64)
                columns = library.columns("lt_text_columns", arrays)
                n = lib.lt_text_read(reader, chunk_ios, columns)
                if n < 0:
                    why = ffi.string(lib.lt_text_error(reader)).decode(errors="replace")
                    line = lib.lt_text_line_number(reader)
                    raise TraceError(f"{path}:{line}: {why}" if line else f"{path}: {why}")
                if on_progress is not None:
                    on_progress(stream.tell())
                if n:
                    counts = lib.lt_text_counts(reader)[0]
                    unit_ns = 10**text_format.time_unit_log10_ns
                    start_ns = counts.first_units * unit_ns + counts.start_ns
                    yield Columns._make((*(array[:n] for array in arrays.values()), start_ns))
        finally:
            # This is also done if a trace is not read to its end, because of --slice.
            if on_counts is not None:
                on_counts(_counts_of(reader))
            lib.lt_text_close(reader)


def iolog_lines(ios: Workload, device: str) -> bytes:
    """Return I/Os as lines of an iolog."""
    library = native()
    arrays = {
        "time": np.ascontiguousarray(ios.time_us, np.int64),
        "offset": np.ascontiguousarray(ios.offset_bytes, np.int64),
        "size": np.ascontiguousarray(ios.size_bytes, np.int64),
        "is_write": np.ascontiguousarray(ios.is_write, np.bool_),
    }
    name, columns = device.encode(), library.columns("lt_text_columns", arrays)
    out = np.empty(len(ios) * library.lib.lt_iolog_line_bytes(name), np.uint8)
    written = library.lib.lt_iolog_write(name, len(ios), columns, library.address(out, "char *"))
    return out[:written].tobytes()
