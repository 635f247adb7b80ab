# SPDX-License-Identifier: MIT
"""Read files packed with gzip, xz, zstd or bzip2 as if they were not packed.

The unpacking is compiled (linnapp/native/packed.c), so that `replayer` reads the same files.
"""

from __future__ import annotations

import os
from pathlib import Path

from linnapp.errors import TraceError
from linnapp.files import AnyPath
from linnapp.native import native

#: Suffixes of packed files, as in linnapp/native/packed.c.
SUFFIXES = (".gz", ".xz", ".zst", ".bz2")


def unpacked(path: AnyPath) -> Path:
    """Return a file with the contents of `path`: `path` itself unless it is packed.

    Packed files are recognised by their first bytes. The returned name is valid until this process
    ends, and each time it is opened, reading begins at the start.
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
