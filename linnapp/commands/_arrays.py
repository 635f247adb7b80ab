# SPDX-License-Identifier: MIT
"""numpy's files as users have them: whatever is wrong with one is an error that names it."""

from __future__ import annotations

import contextlib
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import LinnappError

#: what numpy and zipfile raise of a file that is damaged, or encrypted or packed as they cannot
#: unpack it, which are RuntimeErrors
_DAMAGED = (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)


def load_array(path: Path, what: str) -> npt.NDArray[Any]:
    """The array of an ``.npy`` file, mapped and not read; an error says what it should hold."""
    with _explained(path, f"an .npy file of {what}"):
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(found, np.ndarray):
        found.close()
        raise LinnappError(f"{path}: an .npz file; expected an .npy file of one array")
    return found


def load_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an ``.npz`` file by name; what else is in it is left out."""
    with _explained(path, "an .npz file of plain arrays"):
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise LinnappError(f"{path}: a single array; expected an .npz of several")
        with archive:
            entries = {name: archive[name] for name in archive.files}
    return {name: entry for name, entry in entries.items() if isinstance(entry, np.ndarray)}


@contextlib.contextmanager
def _explained(path: Path, expected: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGED as error:
        raise LinnappError(f"{path}: not {expected} ({error})") from error
    except OSError as error:
        raise LinnappError(f"{path}: {error.strerror or error}") from error
