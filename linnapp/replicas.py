# SPDX-License-Identifier: MIT
"""Reads from the replica that is predicted to answer first: liblinnos for Python, by ctypes."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from linnapp.files import AnyPath
from linnapp.native import (
    Closable,
    check_fits,
    check_status,
    counted,
    load_public,
    of_counters,
    of_one_kind,
    to_be_filled,
)

_REPLICAS_MAX = 16
_HOME_TURNS = -1
_NEVER_HEDGE = 1
#: `enum linnos_state`
STATES = ("healthy", "slow", "silent", "failing", "dropped")


@dataclass(frozen=True)
class ReplicaStats:
    """What a replica has done; liblinnos(3) defines each number.

    Attributes
    ----------
    state : str
        One of `STATES`.
    predicted_us, took_us : int
        Over `answered`, the sums of what was predicted and of what it took.
    near : int
        Of `answered`, those that took between half and twice what was predicted.
    histogram : dict of int to int
        How many took so many ns or more, up to the next bucket; those that are empty are left out.
    """

    state: str
    chooses: bool
    served: int
    errors: int
    answered: int
    in_flight: int
    predicted_us: int
    took_us: int
    near: int
    model_id: int
    histogram: dict[int, int]


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
        One a replica: `served` and `errors` of `Replicas.replica_stats`.
    """

    reads: int
    bytes: int
    moved: int
    explored: int
    hedges: int
    hedges_won: int
    hedges_denied: int
    failovers: int
    errors: int
    failed: int
    in_flight: int
    saved_us_estimate: int
    hedges_saved_us: int
    asked: int
    without_ring: int
    not_choosing: int
    stayed: int
    late: int
    cancelled: int
    served_by: tuple[int, ...]
    errors_by: tuple[int, ...]


class _ArrayOptions(ctypes.Structure):
    """`struct linnos_options` of liblinnos.h."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("flags", ctypes.c_uint32),
        ("home", ctypes.c_int32),
        *of_one_kind(ctypes.c_uint32, "home_margin_percent", "explore_ms", "hedge_us"),
        ("extra_io_burst", ctypes.c_uint32),
        *of_one_kind(ctypes.c_double, "hedge_percentile", "extra_io_percent"),
        ("hedge_tables", ctypes.POINTER(ctypes.c_char_p)),
    )


class _ArrayCounters(ctypes.Structure):
    """`struct linnos_stats` of liblinnos.h, whose members `Stats` has in their order."""

    _fields_ = of_counters(Stats, "saved_us_estimate")


class _ReplicaStats(ctypes.Structure):
    """`struct linnos_replica_stats` of linnos_choose.h."""

    _fields_ = (
        *of_one_kind(ctypes.c_uint32, "state", "chooses"),
        *of_one_kind(ctypes.c_uint64, "served", "errors", "answered", "in_flight"),
        *of_one_kind(ctypes.c_uint64, "predicted_us", "took_us", "near"),
        *of_one_kind(ctypes.c_uint32, "model_id", "reserved"),
    )


class _ReadOptions(ctypes.Structure):
    """`struct linnos_read_options` of liblinnos.h."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("flags", ctypes.c_uint32),
        ("home", ctypes.c_int32),
        ("deadline_ns", ctypes.c_uint64),
        *of_one_kind(ctypes.c_uint32, "sqe_flags", "ioprio"),
    )


class _Iovec(ctypes.Structure):
    """`struct iovec` of <sys/uio.h>."""

    _fields_ = (("base", ctypes.c_void_p), ("len", ctypes.c_size_t))


@functools.cache
def _library() -> ctypes.CDLL:
    handle, names, number = ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p), ctypes.c_uint
    status, size, u64 = ctypes.c_int, ctypes.c_size_t, ctypes.c_uint64
    iov, drives = ctypes.POINTER(_Iovec), ctypes.POINTER(ctypes.c_int)
    of_replica = ctypes.POINTER(_ReplicaStats)
    return load_public(
        "liblinnos.so.1",
        "LINNOS_LIB",
        ("liblinnos", "install-lib"),
        "LIBLINNOS_1",
        linnos_array_open=(
            *(status, ctypes.POINTER(handle), number, names, names, ctypes.POINTER(_ArrayOptions)),
        ),
        linnos_error=(ctypes.c_char_p,),
        linnos_array_close=(status, handle),
        linnos_queue_create=(status, ctypes.POINTER(handle), handle, ctypes.c_void_p),
        linnos_queue_close=(status, handle),
        linnos_array_get_stats=(None, handle, ctypes.POINTER(_ArrayCounters), size),
        linnos_array_get_replica_stats=(status, handle, number, of_replica, size),
        linnos_array_predictor=(handle, handle),
        linnos_predictor_get_histogram=(status, handle, number, ctypes.POINTER(u64), number),
        linnos_bucket_ns=(u64, number),
        linnos_array_drop_replica=(status, handle, number),
        linnos_array_restore_replica=(status, handle, number),
        linnos_set_model=(status, handle, number, ctypes.c_char_p),
        linnos_array_size=(u64, handle),
        linnos_array_queries_kernel=(status, handle),
        linnos_preadv=(
            *(ctypes.c_ssize_t, handle, iov, ctypes.c_int, ctypes.c_int64),
            ctypes.POINTER(_ReadOptions),
        ),
        linnos_kernel_best_drives=(status, number, drives, size, ctypes.POINTER(ctypes.c_uint32)),
    )


_NO_BEST = {
    errno.ENOTTY: "this kernel cannot tell; it needs LinnOS, or linnos.ko (kernel/README.md)",
    errno.ENOTBLK: "not all are block devices",
    errno.EBADF: "not all are open for reading",
}


def best(fds: Sequence[int], size: int) -> list[int]:
    """Ask the kernel which drives should serve the next read: linnos_kernel_best_drives(3).

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
    mask = _library().linnos_kernel_best_drives(
        len(fds), (ctypes.c_int * len(fds))(*fds), size, None
    )
    if mask < 0:
        why = _NO_BEST.get(-mask, os.strerror(-mask))
        raise OSError(-mask, f"which of {len(fds)} drives to read from: {why}")
    return [k for k in range(len(fds)) if mask >> k & 1]


def _paths(paths: Sequence[AnyPath | None]) -> Any:
    return (ctypes.c_char_p * len(paths))(
        *(None if path is None else os.fsencode(path) for path in paths)
    )


def _check(error: int) -> None:
    check_status(error, _library().linnos_error)


class Replicas(Closable):
    """An array of replicas, opened; any number of threads may read from it at once.

    Each thread has a queue of its own, from its first read until the array is closed or, if that is
    sooner, the thread has ended and another one reads for the first time.

    Parameters
    ----------
    paths : sequence of path or None
        Block devices or files that hold the same bytes. None: that replica is not there, and counts
        as dropped; at least one is.
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
        The same after a percentile of the latencies seen, in percent: 95, not 0.95; 0: not by a
        percentile.
    hedge_tables : sequence of path, optional
        The same by each read's prediction: what `linnapp train --kind latency` writes beside each
        replica's model.
    hedge_by_gain : bool
        At once, later or never, by what that is expected to gain and what it costs other reads.
    extra_io_percent : float
        Hedges are at most so many percent of the reads: 5, not 0.05.
    extra_io_burst : int
        Hedges that calm times save up at most.
    buffered : bool
        Through the page cache, rather than with O_DIRECT.
    ask : bool
        Ask a kernel with LinnOS where a read goes first; it knows of writes and others' reads.
    ask_all : bool
        Have every replica's model predict each read; otherwise one whose home is idle, and
        predicted as low as the others lately were, stays without asking them.
    unguarded : bool
        Follow predictions whatever comes of it; otherwise of the reads that would leave home some
        stay, by lot, and more of them the less those gain that leave.

    Raises
    ------
    OSError
        What the operating system, a model or an option does not allow, with the remedy.
    TypeError
        If one path is given where a sequence is wanted.
    LinnappError
        If the library is not built.
    """

    def __init__(
        self,
        paths: Sequence[AnyPath | None],
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
        ask: bool = False,
        ask_all: bool = False,
        unguarded: bool = False,
    ) -> None:
        for name, given in (("paths", paths), ("models", models), ("hedge_tables", hedge_tables)):
            if isinstance(given, (str, bytes, os.PathLike)):
                raise TypeError(
                    f"{name} {os.fspath(given)!r}: a list of paths is wanted, one for each replica"
                )
        self._handle = ctypes.c_void_p()
        self._queues: dict[threading.Thread, ctypes.c_void_p] = {}
        self._lock = threading.Lock()
        self._n = len(paths)
        for what, given in (("models", models), ("hedge tables", hedge_tables)):
            if given is not None and len(given) != len(paths):
                raise ValueError(
                    f"{len(given)} {what} for {len(paths)} replicas; give one for each"
                )
        check_fits(31, home=0 if home is None else home)
        check_fits(
            32,
            home_margin_percent=home_margin_percent,
            explore_ms=explore_ms,
            hedge_us=hedge_us,
            extra_io_burst=extra_io_burst,
        )
        flags = (buffered, ask, unguarded, hedge_by_gain, ask_all)  # as LINNOS_BUFFERED, ...
        options = _ArrayOptions(
            ctypes.sizeof(_ArrayOptions),
            sum(bool(flag) << bit for bit, flag in enumerate(flags)),
            _HOME_TURNS if home is None else home,
            home_margin_percent,
            explore_ms,
            hedge_us,
            extra_io_burst,
            hedge_percentile,
            extra_io_percent,
            None if hedge_tables is None else _paths(hedge_tables),
        )
        known = None if models is None else _paths(models)
        _check(
            _library().linnos_array_open(
                ctypes.byref(self._handle), self._n, _paths(paths), known, ctypes.byref(options)
            )
        )

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise ValueError("the array is closed")
        return self._handle

    def _queue(self) -> ctypes.c_void_p:
        array = self._open()
        thread = threading.current_thread()
        with self._lock:
            if thread in self._queues:
                return self._queues[thread]
            for ended in [one for one in self._queues if not one.is_alive()]:
                _library().linnos_queue_close(self._queues.pop(ended))
            queue = ctypes.c_void_p()
            _check(_library().linnos_queue_create(ctypes.byref(queue), array, None))
            self._queues[thread] = queue
            return queue

    def pread(
        self,
        size: int,
        offset: int,
        *,
        deadline_us: int = 0,
        home: int | None = None,
        never_hedge: bool = False,
    ) -> bytes:
        """Read bytes, as `preadv` does; fewer than asked for only where the replicas end."""
        buffer = bytearray(size)
        n = self.preadv(
            [buffer], offset, deadline_us=deadline_us, home=home, never_hedge=never_hedge
        )
        return bytes(memoryview(buffer)[:n])

    def preadinto(self, buffer: Any, offset: int) -> int:
        """Read into a writable buffer, such as a numpy array or a bytearray: `preadv` of one."""
        return self.preadv([buffer], offset)

    def preadv(
        self,
        buffers: Sequence[Any],
        offset: int,
        *,
        deadline_us: int = 0,
        home: int | None = None,
        never_hedge: bool = False,
    ) -> int:
        """Read into writable buffers, one after the other.

        Parameters
        ----------
        buffers : sequence of writable, C-contiguous buffers
            All of them are to be filled.
        deadline_us : int
            After so many us the read is over, with TimeoutError, if there is no answer; 0: never.
        home : int, optional
            The replica that this read stays at when predictions hardly differ.
        never_hedge : bool
            Send it to one replica at a time.

        Returns
        -------
        int
            Bytes read; fewer than the buffers hold only where the replicas end.

        Raises
        ------
        OSError
            If all replicas failed; TimeoutError at the deadline.
        """
        queue = self._queue()
        if not 0 <= offset < 1 << 63:
            raise OSError(errno.EINVAL, f"read at {offset}: no such offset")
        options = _ReadOptions(
            ctypes.sizeof(_ReadOptions),
            _NEVER_HEDGE * never_hedge,
            _HOME_TURNS if home is None else home,
            1000 * deadline_us,
        )
        with to_be_filled(buffers) as places:
            if not places:
                return 0
            iov = (_Iovec * len(places))(
                *(_Iovec(ctypes.addressof(place), len(place)) for place in places)
            )
            n: int = _library().linnos_preadv(
                queue, iov, len(places), offset, ctypes.byref(options)
            )
        if n == -errno.ETIME:
            raise TimeoutError(errno.ETIME, os.fsdecode(_library().linnos_error()))
        _check(n)
        return n

    def drop(self, replica: int) -> None:
        """Leave a replica out from now on, whose bytes are out of date; the last one cannot be."""
        _check(_library().linnos_array_drop_replica(self._open(), replica))

    def restore(self, replica: int) -> None:
        """Take a dropped replica back, when it holds what the others hold."""
        _check(_library().linnos_array_restore_replica(self._open(), replica))

    def set_model(self, replica: int, model: AnyPath | None) -> None:
        """Exchange a replica's model, while others read, too; the old one stays if it is none."""
        path = None if model is None else os.fsencode(model)
        _check(_library().linnos_set_model(self._open(), replica, path))

    @property
    def size(self) -> int:
        """Bytes that the largest replica held when the array was opened."""
        return int(_library().linnos_array_size(self._open()))

    @property
    def asks(self) -> bool:
        """Whether the kernel is asked: `ask` was given, and it can tell."""
        return bool(_library().linnos_array_queries_kernel(self._open()))

    def stats(self) -> Stats:
        """What the array has done until now."""
        raw = _ArrayCounters()
        _library().linnos_array_get_stats(self._open(), ctypes.byref(raw), ctypes.sizeof(raw))
        by = [self._replica(k) for k in range(self._n)]
        return Stats(
            **counted(raw),
            served_by=tuple(one.served for one in by),
            errors_by=tuple(one.errors for one in by),
        )

    def _replica(self, replica: int) -> _ReplicaStats:
        raw = _ReplicaStats()
        _check(
            _library().linnos_array_get_replica_stats(
                self._open(), replica, ctypes.byref(raw), ctypes.sizeof(raw)
            )
        )
        return raw

    def replica_stats(self, replica: int) -> ReplicaStats:
        """What a replica has done until now."""
        library, raw = _library(), self._replica(replica)
        known = library.linnos_array_predictor(self._open())
        counts = (
            ctypes.c_uint64 * library.linnos_predictor_get_histogram(known, replica, None, 0)
        )()
        library.linnos_predictor_get_histogram(known, replica, counts, len(counts))
        values = counted(raw)
        del values["reserved"]
        values["state"] = STATES[raw.state]
        values["chooses"] = bool(raw.chooses)
        histogram = {
            int(library.linnos_bucket_ns(bucket)): n for bucket, n in enumerate(counts) if n
        }
        return ReplicaStats(**values, histogram=histogram)

    def close(self) -> None:
        """Give the array back; waits for attempts that have lost their race. May be repeated.

        No other thread may be reading.
        """
        if not self._handle:
            return
        # One by one: after ctrl-C, for which each may wait, the next call goes on.
        while self._queues:
            _library().linnos_queue_close(self._queues.popitem()[1])
        handle, self._handle = self._handle, ctypes.c_void_p()
        _library().linnos_array_close(handle)
