# SPDX-License-Identifier: MIT
"""Read from the replica with the lowest predicted latency: ctypes bindings for liblinnos."""

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
    """Counters of a replica; liblinnos(3) defines each number.

    Attributes
    ----------
    state : str
        One of `STATES`.
    predicted_us, took_us : int
        Sums over `answered` of the predicted and the actual latencies.
    near : int
        Number of reads in `answered` whose latency was between half and twice the predicted one.
    histogram : dict of int to int
        Number of reads by the lower bound of their latency bucket, in ns, without empty buckets.
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
    """Counters of an array since it was opened; liblinnos(3) defines each number.

    Attributes
    ----------
    saved_us_estimate : int
        Sum over `moved` of the latency predicted for the default replica minus the actual latency.
    hedges_saved_us : int
        Sum over `hedges_won` of the time by which the other attempt was answered later.
    served_by, errors_by : tuple of int
        `served` and `errors` of `Replicas.replica_stats`, one value per replica.
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
    """`struct linnos_stats` of liblinnos.h, with the members of `Stats` in the same order."""

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
    """Query the kernel for the best drives for the next read: linnos_kernel_best_drives(3).

    Parameters
    ----------
    fds : sequence of int
        Descriptors of block devices with identical content, open for reading; 1 to 16.
    size : int
        Number of bytes that will be read, 1 or more.

    Returns
    -------
    list of int
        Indices in `fds` of the drives that are equally good and better than all others, in
        increasing order; empty if all drives have been removed.

    Raises
    ------
    OSError
        ENOTTY on a kernel without LinnOS, otherwise the error of a descriptor.
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
    """An open array of replicas; any number of threads may read from it at the same time.

    Each thread has its own queue, from its first read until the array is closed or, if that is
    earlier, until the thread has ended and another one reads for the first time.

    Parameters
    ----------
    paths : sequence of path or None
        Block devices or files with identical content. None stands for a missing replica, which
        is treated as dropped; at least one must be present.
    models : sequence of path or None, optional
        A latency model for each replica, from `linnapp train --kind latency`. With None, no read
        is redirected from or to that replica unless a read fails.
    home : int, optional
        The default replica, which reads use unless another is predicted to be clearly faster.
        Default: round robin.
    home_margin_percent : int
        Minimum margin by which the prediction of another replica must be lower for a redirect.
    explore_ms : int
        Time after which a replica without reads is probed; 0 for never.
    hedge_us : int
        Time in µs after which a second replica is read as well; 0 for no fixed time.
    hedge_percentile : float
        The same, as a percentile of the observed latencies, in percent: 95, not 0.95; 0 for no
        percentile.
    hedge_tables : sequence of path, optional
        The same, depending on each read's prediction: the tables that `linnapp train --kind
        latency` writes next to each replica's model.
    hedge_by_gain : bool
        Hedge immediately, later or never, depending on the expected gain of the hedge and on its
        cost for other reads.
    extra_io_percent : float
        Maximum number of hedges in percent of the reads: 5, not 0.05.
    extra_io_burst : int
        Maximum number of hedges that can be saved up in times with few hedges.
    buffered : bool
        Read through the page cache instead of with O_DIRECT.
    ask : bool
        Query a kernel with LinnOS for the replica; it knows about writes and reads of other
        processes.
    ask_all : bool
        Let every replica's model predict each read. Otherwise, if the default replica is idle and
        its prediction is as low as the others' recent ones, the others are not predicted.
    unguarded : bool
        Follow predictions even if that has no benefit. Otherwise a random part of the reads that
        would be redirected stays at the default replica as a control group, which grows as the
        measured benefit of redirecting falls.

    Raises
    ------
    OSError
        If the operating system, a model or an option does not permit this; the message says what to
        do.
    TypeError
        If one path is given instead of a sequence.
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
        flags = (buffered, ask, unguarded, hedge_by_gain, ask_all)  # bits of LINNOS_BUFFERED, ...
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
        """Read bytes, like `preadv`; fewer than requested only at the end of the replicas."""
        buffer = bytearray(size)
        n = self.preadv(
            [buffer], offset, deadline_us=deadline_us, home=home, never_hedge=never_hedge
        )
        return bytes(memoryview(buffer)[:n])

    def preadinto(self, buffer: Any, offset: int) -> int:
        """Read into one writable buffer, such as a numpy array or a bytearray, like `preadv`."""
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
        """Read into writable buffers, in this order.

        Parameters
        ----------
        buffers : sequence of writable, C-contiguous buffers
            The buffers to fill.
        deadline_us : int
            Time in µs after which the read fails with TimeoutError if it has no answer; 0 for
            never.
        home : int, optional
            The default replica of this read, unless another is predicted to be clearly faster.
        never_hedge : bool
            Send the read to one replica at a time.

        Returns
        -------
        int
            Number of bytes read; fewer than the buffers' size only at the end of the replicas.

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
        """Stop using a replica whose content is out of date; the last one cannot be dropped."""
        _check(_library().linnos_array_drop_replica(self._open(), replica))

    def restore(self, replica: int) -> None:
        """Use a dropped replica again, once its content equals that of the others."""
        _check(_library().linnos_array_restore_replica(self._open(), replica))

    def set_model(self, replica: int, model: AnyPath | None) -> None:
        """Replace a replica's model, also while other threads read.

        If the new file is not a valid model, the old model stays.
        """
        path = None if model is None else os.fsencode(model)
        _check(_library().linnos_set_model(self._open(), replica, path))

    @property
    def size(self) -> int:
        """Size in bytes of the largest replica when the array was opened."""
        return int(_library().linnos_array_size(self._open()))

    @property
    def asks(self) -> bool:
        """True if the kernel is queried: `ask` was given, and the kernel supports it."""
        return bool(_library().linnos_array_queries_kernel(self._open()))

    def stats(self) -> Stats:
        """Return the array's counters."""
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
        """Return a replica's counters."""
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
        """Close the array; waits for attempts that lost to a hedge. May be repeated.

        No other thread may be reading.
        """
        if not self._handle:
            return
        # Close the queues one by one: each may wait, and after ctrl-C the next call continues here.
        while self._queues:
            _library().linnos_queue_close(self._queues.popitem()[1])
        handle, self._handle = self._handle, ctypes.c_void_p()
        _library().linnos_array_close(handle)
