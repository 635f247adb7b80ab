# SPDX-License-Identifier: MIT
"""Loads the compiled core, ``liblinnapp_native.so``, built by `make` from the C files here."""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

from linnapp.errors import LinnappError

LIBRARY = "liblinnapp_native.so"

#: of the kernel's code: past reads that are seen, and all that a model of latencies sees
HISTORY, N_FEATURES = 4, 23
#: As many a model of latencies knows at least: those trained before there were more do.
N_FEATURES_MIN = 22

_REPOSITORY = Path(__file__).resolve().parents[2]


def library_path(name: str, variable: str) -> Path:
    """Where a compiled library is: environment `variable`, beside this file, or ``build/lib``."""
    override = os.environ.get(variable)
    if override:
        return Path(override)
    beside = Path(__file__).resolve().parent / name
    return beside if beside.exists() else _REPOSITORY / "build" / "lib" / name


def load_library(name: str, variable: str) -> ctypes.CDLL:
    """Load a compiled library."""
    path = library_path(name, variable)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        reason = "not built" if not path.exists() else str(error)
        raise LinnappError(
            f"{path}: {reason}; run `make native` in the repository, or set {variable}"
        ) from error


def declared(library: ctypes.CDLL, **functions: tuple[Any, ...]) -> ctypes.CDLL:
    """The library, once its functions are known: of each what it returns, then what it takes."""
    for name, (result, *arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def of_one_kind(kind: Any, *names: str) -> tuple[tuple[str, Any], ...]:
    """Fields of a structure, all of one type."""
    return tuple((name, kind) for name in names)


@functools.cache
def native() -> ctypes.CDLL:
    """The compiled core; loaded once."""
    return load_library(LIBRARY, "LINNAPP_NATIVE_LIB")
