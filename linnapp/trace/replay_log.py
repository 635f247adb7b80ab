# SPDX-License-Identifier: MIT
"""Read the replayer's per-I/O log, which is mapped into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnapp.errors import TraceError
from linnapp.files import AnyPath
from linnapp.trace.blktrace import unpacked

MAGIC = b"LINNOSRL"

HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("record_bytes", "<u4"),
        ("n_drives", "<u4"),
        ("reserved", "<u4"),
        ("seed", "<u8"),
        ("policy", "S16"),
        ("padding", "V16"),
    ]
)

RECORD = np.dtype(
    [
        ("due_ns", "<u8"),
        ("latency_ns", "<u8"),
        ("lag_ns", "<u8"),
        ("offset_bytes", "<u8"),
        ("size_bytes", "<u4"),
        ("device_latency_us", "<u4"),
        ("home", "u1"),
        ("op", "u1"),
        ("served_by", "u1"),
        ("flags", "u1"),
        ("revocations", "<u2"),
        ("extra_ios", "<u2"),
    ]
)

VERSION = 2

READ, WRITE = 0, 1

#: Value of served_by if a read failed on every drive, or a write failed. The latency is the time
#: until the error.
NOBODY = 255

REVOKED, HEDGED, HEDGE_WON, DATA_ERROR, IO_ERROR, PROBED = 1, 2, 4, 8, 16, 32


def response_ns(records: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the response times of I/Os, from when they were due until their completion, in ns.

    This is the service time since the submission (``latency_ns``) plus the time that an I/O waited
    to be submitted (``lag_ns``).
    """
    return np.asarray(records["latency_ns"] + records["lag_ns"], np.uint64)


def is_replay_log(path: AnyPath) -> bool:
    """Return true if a file begins like a per-I/O log."""
    path = Path(path)
    try:
        with unpacked(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, TraceError):
        return False


def read(path: AnyPath) -> NDArray[Any]:
    """Map a log of `replayer --log` into memory.

    Returns
    -------
    array of `RECORD`, shape (n,)
        An element for each user I/O, in order of completion. It is read from the file when it is
        accessed, so the log may be larger than memory.

    Raises
    ------
    ValueError
        If the file is not a complete log of the current version.
    """
    path = Path(path)
    file = unpacked(path)
    size = file.stat().st_size
    if size < HEADER.itemsize:
        raise ValueError(f"{path}: too short for a per-I/O log ({size} bytes)")
    header = np.fromfile(file, HEADER, 1)[0]
    if header["magic"] != MAGIC:
        raise ValueError(f"{path}: not a per-I/O log of the replayer")
    if header["version"] != VERSION or header["record_bytes"] != RECORD.itemsize:
        raise ValueError(
            f"{path}: per-I/O log of version {header['version']}, expected {VERSION};"
            " replay again with --log"
        )
    body = size - HEADER.itemsize
    if body % RECORD.itemsize:
        raise ValueError(f"{path}: cut short within a record; record it again")
    if not body:
        return np.empty(0, RECORD)
    return np.memmap(file, RECORD, "r", HEADER.itemsize)
