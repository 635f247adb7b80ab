# SPDX-License-Identifier: MIT
"""Files packed with gzip, xz, zstd or bzip2, which are read as if they were not.

The unpacking is compiled (linnapp/native/packed.c), so that `replayer` reads the same files.
"""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path

from linnapp.errors import TraceError
from linnapp.files import AnyPath
from linnapp.native import declared, native

#: ends of the names of packed files, as in linnapp/native/packed.c
SUFFIXES = (".gz", ".xz", ".zst", ".bz2")

_WHY_BYTES = 9216


@functools.cache
def _library() -> ctypes.CDLL:
    return declared(native(), lt_packed_unpack=(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p))


def unpacked(path: AnyPath) -> Path:
    """Return a file with the contents of `path`: `path` itself unless it is packed.

    Files are known to be packed by their first bytes. The returned name is valid as long as this
    process lasts, and every time that it is opened it begins at its start.
    """
    why = ctypes.create_string_buffer(_WHY_BYTES)
    fd = _library().lt_packed_unpack(os.fsencode(path), why)
    if fd == -1:
        raise TraceError(os.fsdecode(why.value))
    return Path(path if fd < 0 else f"/proc/self/fd/{fd}")


def without_packing(name: str) -> str:
    """Return a file name without the end that says how the file is packed."""
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name
