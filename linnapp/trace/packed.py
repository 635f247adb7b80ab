# SPDX-License-Identifier: MIT
"""Read files packed with gzip, xz, zstd or bzip2 as if they were not packed.

The unpacking is compiled (linnapp/native/packed.c), so that `replayer` reads the same files.

Standard input as a trace.

Readers seek and read twice, so standard input is copied once to a temporary file without a name,
which exists until this process ends.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import IO

from linnapp.errors import TraceError
from linnapp.files import AnyPath, os_errors
from linnapp.native import native

#: Suffixes of packed files, as in linnapp/native/packed.c.
SUFFIXES = (".gz", ".xz", ".zst", ".bz2")


def unpacked(path: AnyPath) -> Path:
    """Return a file with the contents of `path`: `path` itself unless it is packed.

    Packed files are recognised by their first bytes. The returned name is valid until this process
    ends, and each time it is opened, reading begins at the start.

    Raises
    ------
    TraceError
        If the file cannot be unpacked.
    """
    ffi, lib = native()
    why = ffi.new("char[]", lib.LT_PACKED_WHY)
    fd = lib.lt_packed_unpack(os.fsencode(path), why)
    if fd == -1:
        raise TraceError(os.fsdecode(ffi.string(why)))
    return Path(path if fd < 0 else f"/proc/self/fd/{fd}")


def without_packing(name: str) -> str:
    """Return a file name without the suffix of the packing format."""
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name


@functools.cache
def _copy() -> IO[bytes]:
    with os_errors(tempfile.gettempdir()):
        target = tempfile.TemporaryFile(prefix="linnapp-")  # noqa: SIM115
        shutil.copyfileobj(sys.stdin.buffer, target, 1 << 20)
        target.flush()
    return target


def copied() -> Path:
    """Return the name of a file with the content of standard input."""
    return Path(f"/proc/self/fd/{_copy().fileno()}")


def named(message: str) -> str:
    """Return a message with "standard input" in place of the name of the temporary file."""
    if not _copy.cache_info().currsize:
        return message
    return message.replace(str(copied()), "standard input")
