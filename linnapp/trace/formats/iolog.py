# SPDX-License-Identifier: MIT
"""fio's iolog, version 3: the text format of workloads.

``<time> <file> <action> <offset> <bytes>``; the time is in microseconds since the start, as fio
3.33 writes and replays it. Only reads and writes are kept; other actions are passed over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from linnapp.errors import LinnappError, TraceError
from linnapp.files import AnyPath, os_errors, replaced_file
from linnapp.trace.formats.text_trace import CHUNK_IOS, LineWriter, TextFormat, read_columns
from linnapp.trace.packed import unpacked
from linnapp.trace.rows import Rows

HEADER = "fio version 3 iolog"

_LINES = TextFormat(
    "'<us> <file> read|write <offset> <bytes>'",
    None,
    {"time": 0, "type": 2, "offset": 3, "size": 4},
    3,
    ("read",),
    ("write",),
    passed_over=("add", "open", "close", "wait", "trim", "sync", "datasync"),
    header=HEADER,
    since_first=False,
)


@dataclasses.dataclass(frozen=True)
class Workload(Rows):
    """I/Os to be replayed, in the order of their times."""

    #: int64 array, shape (n,); since the start of the workload.
    time_us: npt.NDArray[np.int64]
    #: int64 array, shape (n,)
    offset_bytes: npt.NDArray[np.int64]
    #: int64 array, shape (n,)
    size_bytes: npt.NDArray[np.int64]
    #: bool array, shape (n,)
    is_write: npt.NDArray[np.bool_]


def write(path: AnyPath, chunks: Iterable[Workload], device: str) -> int:
    """Write an iolog, and tell how many I/Os; it appears whole or not at all."""
    try:
        words = device.encode().split()
    except UnicodeEncodeError as error:
        raise LinnappError(
            f"drive name {device!a}: holds what is no text, and an iolog is text; name the drive "
            "otherwise"
        ) from error
    if words != [device.encode()]:
        raise LinnappError(
            f"drive name {device!r}: an iolog's is one word, for white space parts its columns; "
            "name the drive otherwise (`device_name=`)"
        )
    written = 0
    lines = LineWriter(_LINES, {1: device})
    with replaced_file(path) as stream:
        stream.write(f"{HEADER}\n0 {device} add\n0 {device} open\n".encode())
        last_us = 0
        for chunk in chunks:
            if not len(chunk):
                continue
            stream.write(lines.lines(chunk))
            last_us = int(chunk.time_us[-1])
            written += len(chunk)
        stream.write(f"{last_us} {device} close\n".encode())
    return written


def is_iolog(path: AnyPath) -> bool:
    """Whether the file begins as an iolog does."""
    path = Path(path)
    try:
        with unpacked(path).open("rb") as stream:
            return stream.read(len("fio version")) == b"fio version"
    except (OSError, TraceError):
        return False


def read(
    path: AnyPath,
    chunk_ios: int = CHUNK_IOS,
    on_empty: Callable[[int], None] | None = None,
) -> Iterator[Workload]:
    """Read an iolog in chunks; `on_empty` as :func:`~.text_trace.read_columns` has it."""
    path = Path(path)
    # Unbuffered: of a pipe no more than the header is gone when it is opened again.
    with os_errors(path), unpacked(path).open("rb", buffering=0) as stream:
        header = stream.readline(100).decode(errors="replace").rstrip()
    if header != HEADER:
        raise TraceError(
            f"{path}: {header[:40]!r} is not version 3 of fio's iolog; have fio write "
            "it with --write_iolog"
            if not header.startswith("fio version")
            else f"{path}: {header}: only version 3 is known; fio 3.31 and later write it"
        )
    for columns in read_columns(path, _LINES, chunk_ios=chunk_ios, on_empty=on_empty):
        yield Workload(columns.time_ns // 1000, *columns[1:4])
