# SPDX-License-Identifier: MIT
"""Read users' numpy files; every problem is an error that names the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from linnapp.errors import LinnappError


def load(path: Path, *, several: bool) -> Any:
    """Read the array of an .npy file, mapped, or the arrays of an .npz file by name."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(found, np.ndarray) == several:
            raise ValueError("a single array" if several else "an .npz file")
        if not several:
            return found
        with found:
            entries = {name: found[name] for name in found.files}
    except OSError as error:
        raise LinnappError(f"{path}: {error.strerror or error}") from error
    except Exception as error:  # numpy and zipfile raise many for a damaged or encrypted file
        expected = "an .npz file of plain arrays" if several else "an .npy file of one array"
        raise LinnappError(f"{path}: not {expected} ({error})") from error
    return {name: entry for name, entry in entries.items() if isinstance(entry, np.ndarray)}
