# SPDX-License-Identifier: MIT
"""Load compiled code: the core, ``liblinnapp_native.so``, built by `make` from the C files here,
and the libraries that C programs use as well."""

from __future__ import annotations

import abc
import contextlib
import ctypes
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from linnapp.errors import LinnappError

LIBRARY = "liblinnapp_native.so"

#: from the kernel's code: number of past reads in the input, and inputs of a latency model
HISTORY, N_FEATURES = 4, 23
#: Minimum number of inputs of a latency model; models from before the last was added have this.
N_FEATURES_MIN = 22

_REPOSITORY = Path(__file__).resolve().parents[2]


def library_path(name: str, variable: str) -> Path:
    """Find a compiled library: environment `variable`, next to this file, or ``build/lib``."""
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


def load_public(
    soname: str, variable: str, goals: tuple[str, str], version: str, **functions: tuple[Any, ...]
) -> ctypes.CDLL:
    """Load a library that C programs use as well, of which any version may be installed.

    `goals` are of make: the one that builds the library in a checkout, in the folder of that name,
    and the one that installs it. A library with another `version` of its symbols has other
    structures.
    """
    made = _REPOSITORY / "build" / goals[0] / soname
    path = os.environ.get(variable) or (str(made) if made.exists() else soname)
    remedy = (
        f"run `make {goals[0]}` in the repository, `make {goals[1]}` for the whole system, install "
        f"the package {soname.replace('.so.', '')}, or set {variable}"
    )
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise LinnappError(f"{path}: {error}; {remedy}") from error
    find = declared(
        ctypes.CDLL(None),
        dlvsym=(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p),
    ).dlvsym
    for name in functions:
        if not find(library._handle, name.encode(), version.encode()):
            raise LinnappError(f"{path}: has no {name} of {version}; {remedy}")
    return declared(library, **functions)


def check_status(status: int, said: Callable[[], bytes]) -> None:
    """Raise the library's message for the last failed call of this thread, if the call failed."""
    if status < 0:
        raise OSError(-status, os.fsdecode(said()))


def check_fits(n_bits: int, **values: int) -> None:
    """Raise a ValueError for a number that ctypes would truncate to its lower bits."""
    for name, value in values.items():
        if not 0 <= value < 1 << n_bits:
            raise ValueError(f"{name} {value}: 0 to {(1 << n_bits) - 1} can be")


def declared(library: ctypes.CDLL, **functions: tuple[Any, ...]) -> ctypes.CDLL:
    """Declare functions of a library: for each, the result type, then the argument types."""
    for name, (result, *arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def of_one_kind(kind: Any, *names: str) -> tuple[tuple[str, Any], ...]:
    """Return fields of a structure that all have the same type."""
    return tuple((name, kind) for name in names)


def of_counters(counted: Any, *signed: str) -> tuple[tuple[str, Any], ...]:
    """Return fields of a structure for the numbers of a dataclass, in the same order."""
    return tuple(
        (field.name, ctypes.c_int64 if field.name in signed else ctypes.c_uint64)
        for field in dataclasses.fields(counted)
        if field.type in ("int", "int | None")
    )


def counted(raw: ctypes.Structure) -> dict[str, Any]:
    """Return a structure's numbers by name."""
    return {name: getattr(raw, name) for name, *_ in raw._fields_}


@contextlib.contextmanager
def to_be_filled(buffers: Sequence[Any]) -> Iterator[list[ctypes.Array[ctypes.c_char]]]:
    """Yield the memory of writable, C-contiguous buffers for a library; empty ones are left out."""
    with contextlib.ExitStack() as views:
        given = [views.enter_context(memoryview(buffer)) for buffer in buffers]
        given = [view for view in given if view.nbytes]
        if any(view.readonly for view in given):
            raise TypeError("the buffer to read into is read-only")
        places = [
            (ctypes.c_char * view.nbytes).from_buffer(views.enter_context(view.cast("B")))
            for view in given
        ]
        try:
            yield places
        finally:
            # A memoryview that one of these refers to could not be released.
            places.clear()


class Closable(abc.ABC):
    """Holds an object of a library as its `_handle`, and frees it with `close`."""

    _handle: ctypes.c_void_p

    @abc.abstractmethod
    def close(self) -> None:
        """Free the object; may be repeated."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()


@functools.cache
def native() -> ctypes.CDLL:
    """Return the compiled core, which is loaded once."""
    return load_library(LIBRARY, "LINNAPP_NATIVE_LIB")
