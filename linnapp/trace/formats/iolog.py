# SPDX-License-Identifier: MIT
"""fio's iolog, version 3: the text format of workloads.

The columns are ``<time> <file> <action> <offset> <bytes>``. The time is in microseconds since the
start, as fio 3.33 writes and replays it. Only reads and writes are kept; other actions are skipped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import LinnappError
from linnapp.files import AnyPath, output_file
from linnapp.trace.formats.text_trace import LineWriter, read_columns, text_formats
from linnapp.trace.rows import Rows

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


def write(path: AnyPath, chunks: Iterable[Workload], device: str) -> int:
    """Write an iolog and return the number of I/Os. It appears completely or not at all.

    Raises
    ------
    LinnappError
        If `device` cannot be written as one word of text.
    """
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
    lines = LineWriter(text_formats()["iolog"], {1: device})
    with output_file(path) as stream:
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


def read(path: AnyPath, **options: Any) -> Iterator[Workload]:
    """Read an iolog in chunks. Options are those of :func:`~.text_trace.read_columns`."""
    for columns in read_columns(path, text_formats()["iolog"], **options):
        yield Workload(columns.time_ns // 1000, *columns[1:4])
