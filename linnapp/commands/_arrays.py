# SPDX-License-Identifier: MIT
"""Read users' numpy files; every problem is an error that names the file."""

from __future__ import annotations

import contextlib
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from linnapp.errors import LinnappError

#: exceptions of numpy and zipfile for a damaged, encrypted or unsupported file
_DAMAGED = (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)


@contextlib.contextmanager
def errors_about(path: Path) -> Iterator[None]:
    """Let the errors in the block name the file whose arrays are used."""
    try:
        yield
    except LinnappError as error:
        raise type(error)(f"{path}: {error}") from error


def load(path: Path, *, several: bool) -> Any:
    """Read the array of an .npy file, mapped, or the arrays of an .npz file by name."""
    expected = "an .npz file of plain arrays" if several else "an .npy file of one array"
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(found, np.ndarray) == several:
            what = "a single array" if several else "an .npz file"
            raise LinnappError(f"{path}: {what}; expected {expected}")
        if not several:
            return found
        with found:
            entries = {name: found[name] for name in found.files}
    except _DAMAGED as error:
        raise LinnappError(f"{path}: not {expected} ({error})") from error
    except OSError as error:
        raise LinnappError(f"{path}: {error.strerror or error}") from error
    return {name: entry for name, entry in entries.items() if isinstance(entry, np.ndarray)}
