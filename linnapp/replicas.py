# SPDX-License-Identifier: MIT
"""Reads from the replica that is predicted to answer first: liblinnos for Python, by ctypes."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from linnapp.errors import LinnappError
from linnapp.files import AnyPath

SONAME = "liblinnos.so.0"
_BUILT = Path(__file__).resolve().parents[1] / "build" / "liblinnos" / SONAME
_REPLICAS_MAX = 16
_ERROR_BYTES = 512
_HOME_TURNS = -1
_BUFFERED = 1
_HINT = 2
_ASK = 4
_UNGUARDED = 8
_HEDGE_BY_GAIN = 16


class _Options(ctypes.Structure):
    """`struct linnos_options` of liblinnos.h."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("flags", ctypes.c_uint32),
        ("home", ctypes.c_int32),
        ("home_margin_percent", ctypes.c_uint32),
        ("explore_ms", ctypes.c_uint32),
        ("hedge_us", ctypes.c_uint32),
        ("extra_io_burst", ctypes.c_uint32),
        ("hedge_percentile", ctypes.c_double),
        ("extra_io_percent", ctypes.c_double),
        ("hedge_tables", ctypes.POINTER(ctypes.c_char_p)),
    )


class _Stats(ctypes.Structure):
    """`struct linnos_stats` of liblinnos.h."""

    _fields_ = (
        ("reads", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("moved", ctypes.c_uint64),
        ("explored", ctypes.c_uint64),
        ("hedges", ctypes.c_uint64),
        ("hedges_won", ctypes.c_uint64),
        ("hedges_denied", ctypes.c_uint64),
        ("failovers", ctypes.c_uint64),
        ("refused", ctypes.c_uint64),
        ("errors", ctypes.c_uint64),
        ("failed", ctypes.c_uint64),
        ("in_flight", ctypes.c_uint64),
        ("saved_us_estimate", ctypes.c_int64),
        ("hedges_saved_us", ctypes.c_uint64),
        ("served_by", ctypes.c_uint64 * _REPLICAS_MAX),
        ("errors_by", ctypes.c_uint64 * _REPLICAS_MAX),
        ("asked", ctypes.c_uint64),
        ("without_ring", ctypes.c_uint64),
        ("not_choosing", ctypes.c_uint64),
        ("stayed", ctypes.c_uint64),
    )


@dataclass(frozen=True)
class Stats:
    """What an array has done since it was opened; liblinnos(3) defines each number.

    Attributes
    ----------
    saved_us_estimate : int
        Over `moved`, what was predicted for home less what was measured elsewhere.
    hedges_saved_us : int
        Over `hedges_won`, how much later the attempt that lost was answered.
    served_by, errors_by : tuple of int
        One a replica.
    """

    reads: int
    bytes: int
    moved: int
    explored: int
    hedges: int
    hedges_won: int
    hedges_denied: int
    failovers: int
    refused: int
    errors: int
    failed: int
    in_flight: int
    saved_us_estimate: int
    hedges_saved_us: int
    served_by: tuple[int, ...]
    errors_by: tuple[int, ...]
    asked: int
    without_ring: int
    not_choosing: int
    stayed: int


@functools.cache
def _library() -> ctypes.CDLL:
    """LINNOS_LIB, else what `make liblinnos` built in a checkout, else the installed one."""
    given = os.environ.get("LINNOS_LIB")
    path = given or (str(_BUILT) if _BUILT.exists() else SONAME)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise LinnappError(
            f"{path}: {error}; run `make liblinnos` in the repository, `make install-lib` for "
            "the whole system, or set LINNOS_LIB"
        ) from error
    array = ctypes.c_void_p
    library.linnos_open.argtypes = [
        ctypes.POINTER(array), ctypes.c_uint, ctypes.POINTER(ctypes.c_char_p),
        ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(_Options),
    ]  # fmt: skip
    library.linnos_error.argtypes = [array, ctypes.c_char_p, ctypes.c_size_t]
    library.linnos_error.restype = None
    library.linnos_close.argtypes = [array]
    library.linnos_get_stats.argtypes = [array, ctypes.POINTER(_Stats), ctypes.c_size_t]
    library.linnos_get_stats.restype = None
    library.linnos_size.argtypes = [array]
    library.linnos_size.restype = ctypes.c_uint64
    library.linnos_hint_is_used.argtypes = [array]
    library.linnos_asking_is_used.argtypes = [array]
    library.linnos_pread.argtypes = [array, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64]
    library.linnos_pread.restype = ctypes.c_ssize_t
    library.linnos_best.argtypes = [
        ctypes.c_uint, ctypes.POINTER(ctypes.c_int), ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_uint32),
    ]  # fmt: skip
    return library


_NO_BEST = {
    errno.ENOTTY: "this kernel cannot tell; it needs LinnOS, or linnos.ko (kernel/README.md)",
    errno.ENOTBLK: "not all are block devices",
    errno.EBADF: "not all are open for reading",
}


def best(fds: Sequence[int], size: int) -> list[int]:
    """Ask the kernel which drives should serve a read that is about to be sent: linnos_best(3).

    Parameters
    ----------
    fds : sequence of int
        Descriptors of block devices that hold the same bytes, open for reading; 1 to 16.
    size : int
        Bytes that will be read, 1 or more.

    Returns
    -------
    list of int
        Places in `fds` of the drives that no other is better than, lowest first; empty when all
        drives have been removed.

    Raises
    ------
    OSError
        ENOTTY on a kernel without LinnOS, else what is wrong with a descriptor.
    """
    if not 1 <= len(fds) <= _REPLICAS_MAX:
        raise ValueError(f"{len(fds)} drives; 1 to {_REPLICAS_MAX} can be asked")
    if size < 1:
        raise ValueError(f"a read of {size} bytes; 1 or more can be asked about")
    mask = _library().linnos_best(len(fds), (ctypes.c_int * len(fds))(*fds), size, None)
    if mask < 0:
        why = _NO_BEST.get(-mask, os.strerror(-mask))
        raise OSError(-mask, f"which of {len(fds)} drives to read from: {why}")
    return [k for k in range(len(fds)) if mask >> k & 1]


def _paths(paths: Sequence[AnyPath | None]) -> Any:
    return (ctypes.c_char_p * len(paths))(
        *(None if path is None else os.fsencode(path) for path in paths)
    )


class Replicas:
    """An array of replicas, opened; any number of threads may read from it at once.

    Parameters
    ----------
    paths : sequence of path
        Block devices or files that hold the same bytes.
    models : sequence of path or None, optional
        A model of latencies for each, by `linnapp train --kind latency`. None: no read leaves that
        replica, nor home for it, unless one fails.
    home : int, optional
        The replica that reads stay at when predictions hardly differ. Default: in turn.
    home_margin_percent : int
        How much lower another prediction must be for a read to leave home.
    explore_ms : int
        A replica silent for so long is looked at again; 0: never.
    hedge_us : int
        Ask a second replica after so many us; 0: not by a fixed time.
    hedge_percentile : float
        The same after a percentile of the latencies seen; 0: not by a percentile.
    hedge_tables : sequence of path, optional
        The same by each read's prediction: what `linnapp train --kind latency` writes beside each
        replica's model.
    hedge_by_gain : bool
        At once, later or never, by what that is expected to gain and what it costs other reads.
    extra_io_percent : float
        Hedges are at most so many percent of the reads.
    extra_io_burst : int
        Hedges that calm times save up at most.
    buffered : bool
        Through the page cache, rather than with O_DIRECT.
    hint : bool
        Let a kernel that knows RWF_LATCRIT refuse reads that it predicts to be slow.
    ask : bool
        Ask a kernel with LinnOS where a read goes first; it knows of writes and others' reads.
    unguarded : bool
        Follow predictions whatever comes of it; otherwise of the reads that would leave home some
        stay, by lot, and more of them the less those gain that leave.

    Raises
    ------
    OSError
        What the operating system, a model or an option does not allow, with the remedy.
    LinnappError
        If the library is not built.
    """

    def __init__(
        self,
        paths: Sequence[AnyPath],
        models: Sequence[AnyPath | None] | None = None,
        *,
        home: int | None = None,
        home_margin_percent: int = 25,
        explore_ms: int = 20,
        hedge_us: int = 0,
        hedge_percentile: float = 0,
        hedge_tables: Sequence[AnyPath] | None = None,
        hedge_by_gain: bool = False,
        extra_io_percent: float = 5,
        extra_io_burst: int = 100,
        buffered: bool = False,
        hint: bool = False,
        ask: bool = False,
        unguarded: bool = False,
    ) -> None:
        self._handle = ctypes.c_void_p()
        self._n = len(paths)
        if models is not None and len(models) != len(paths):
            raise ValueError(f"{len(models)} models for {len(paths)} replicas; give one for each")
        if hedge_tables is not None and len(hedge_tables) != len(paths):
            raise ValueError(
                f"{len(hedge_tables)} hedge tables for {len(paths)} replicas; give one for each"
            )
        for name, value, end in (
            ("home", 0 if home is None else home, 1 << 31),
            ("home_margin_percent", home_margin_percent, 1 << 32),
            ("explore_ms", explore_ms, 1 << 32),
            ("hedge_us", hedge_us, 1 << 32),
            ("extra_io_burst", extra_io_burst, 1 << 32),
        ):
            if not 0 <= value < end:
                raise ValueError(f"{name} {value}: 0 to {end - 1} can be")
        options = _Options(
            ctypes.sizeof(_Options),
            _BUFFERED * buffered
            | _HINT * hint
            | _ASK * ask
            | _UNGUARDED * unguarded
            | _HEDGE_BY_GAIN * hedge_by_gain,
            _HOME_TURNS if home is None else home,
            home_margin_percent,
            explore_ms,
            hedge_us,
            extra_io_burst,
            hedge_percentile,
            extra_io_percent,
            None if hedge_tables is None else _paths(hedge_tables),
        )
        error = _library().linnos_open(
            ctypes.byref(self._handle),
            self._n,
            _paths(paths),
            None if models is None else _paths(models),
            ctypes.byref(options),
        )
        if error:
            try:
                raise self._error(error)
            finally:
                self.close()

    def _error(self, error: int) -> OSError:
        text = ctypes.create_string_buffer(_ERROR_BYTES)
        _library().linnos_error(self._handle, text, _ERROR_BYTES)
        return OSError(-error, os.fsdecode(text.value))

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise ValueError("the array is closed")
        return self._handle

    def pread(self, size: int, offset: int) -> bytes:
        """Read bytes; as many as asked for, fewer only where the replicas end.

        Parameters
        ----------
        size : int
            In bytes.
        offset : int
            In bytes.

        Raises
        ------
        OSError
            If all replicas failed.
        """
        buffer = bytearray(size)
        return bytes(memoryview(buffer)[: self.preadinto(buffer, offset)])

    def preadinto(self, buffer: Any, offset: int) -> int:
        """Read into a writable buffer, such as a numpy array or a bytearray.

        Parameters
        ----------
        buffer : writable, C-contiguous buffer
            All of it is to be filled.
        offset : int
            In bytes.

        Returns
        -------
        int
            Bytes read; fewer than the buffer holds only where the replicas end.

        Raises
        ------
        OSError
            If all replicas failed.
        """
        array = self._open()
        if not 0 <= offset < 1 << 63:
            raise OSError(errno.EINVAL, f"read at {offset}: no such offset")
        with memoryview(buffer) as view:
            if view.nbytes == 0:
                return 0
            if view.readonly:
                raise TypeError("the buffer to read into is read-only")
            place = (ctypes.c_char * view.nbytes).from_buffer(view.cast("B"))
            n: int = _library().linnos_pread(array, ctypes.addressof(place), view.nbytes, offset)
            del place
        if n < 0:
            raise self._error(n)
        return n

    @property
    def size(self) -> int:
        """Bytes that the largest replica held when the array was opened."""
        return int(_library().linnos_size(self._open()))

    @property
    def uses_hint(self) -> bool:
        """Whether reads carry RWF_LATCRIT."""
        return bool(_library().linnos_hint_is_used(self._open()))

    @property
    def asks(self) -> bool:
        """Whether the kernel is asked: `ask` was given, and it can tell."""
        return bool(_library().linnos_asking_is_used(self._open()))

    def stats(self) -> Stats:
        """What the array has done until now."""
        raw = _Stats()
        _library().linnos_get_stats(self._open(), ctypes.byref(raw), ctypes.sizeof(raw))
        values = {name: getattr(raw, name) for name, _ in _Stats._fields_}
        for name in ("served_by", "errors_by"):
            values[name] = tuple(values[name])[: self._n]
        return Stats(**values)

    def close(self) -> None:
        """Give the array back; waits for attempts that have lost their race. May be repeated."""
        if self._handle:
            handle, self._handle = self._handle, ctypes.c_void_p()
            _library().linnos_close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()
