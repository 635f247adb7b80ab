# SPDX-License-Identifier: MIT
"""Read from the replica with the lowest predicted latency, with liblinnos.

liblinnos(3) describes the options and counters in detail.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence
from typing import Any

from linnapp.files import AnyPath
from linnapp.native import (
    Closable,
    Counters,
    Library,
    check_fits,
    check_status,
    load_public,
    loaded_once,
)

#: `enum linnos_state`
STATES = ("healthy", "slow", "silent", "failing", "dropped")


@loaded_once
def _library() -> Library:
    return load_public(
        *("liblinnos.so.1", "LINNOS_LIB", ("liblinnos", "install-lib"), "LIBLINNOS_1"),
        *("linnos_choose.h", "liblinnos.h"),
    )


_NO_BEST = {
    errno.ENOTTY: "this kernel lacks LinnOS; boot one with it or load linnos.ko (kernel/README.md)",
    errno.ENOTBLK: "not all of them are block devices",
    errno.EBADF: "not all of them are open for reading",
}


def best(fds: Sequence[int], size: int) -> list[int]:
    """Query the kernel for the best drives for the next read; see linnos_kernel_best_drives(3).

    Parameters
    ----------
    fds : sequence of int
        Descriptors of block devices with identical content, open for reading; 1 to 16.
    size : int
        Number of bytes that will be read, 1 or more.

    Returns
    -------
    list of int
        Indices in `fds` of the best drives, in increasing order: several if they are equally good,
        none if all drives have been removed.

    Raises
    ------
    OSError
        ENOTTY on a kernel without LinnOS, otherwise the error of a descriptor.
    """
    ffi, lib = _library()
    maximum = lib.linnos_replicas_max()
    if not 1 <= len(fds) <= maximum:
        raise ValueError(f"fds has {len(fds)} drives; it must have 1 to {maximum}")
    if size < 1:
        raise ValueError(f"size is {size}; it must be 1 or more")
    mask = lib.linnos_kernel_best_drives(len(fds), fds, size, ffi.NULL)
    if mask < 0:
        why = _NO_BEST.get(-mask, os.strerror(-mask))
        raise OSError(-mask, f"cannot choose one of {len(fds)} drives: {why}")
    return [k for k in range(len(fds)) if mask >> k & 1]


def _paths(name: str, paths: Sequence[AnyPath | None], n: int | None) -> Any:
    """Return C strings of the paths of `n` replicas, or of any number of them without `n`."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise TypeError(
            f"{name} is one path, {os.fspath(paths)!r}; it must be a list with one for each replica"
        )
    if n is not None and len(paths) != n:
        raise ValueError(f"{name} has {len(paths)} paths for {n} replicas; give one for each")
    return _library().strings(None if path is None else os.fsencode(path) for path in paths)


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
        A latency model for each replica, from `linnapp train --kind latency`. Without a model,
        reads are redirected from or to that replica only if a read fails.
    home : int, optional
        The default replica, which reads use unless another is predicted to be clearly faster.
        Default: round robin.
    margin_percent : int
        Minimum margin by which the prediction of another replica must be lower for a redirect.
    probe_after_ms : int
        Time after which a replica without reads is probed; 0 for never.
    hedge_us : int
        Time in us after which a second replica is read as well; 0 for never.
    hedge_percentile : float
        The same, as a percentile of the observed latencies in percent (95, not 0.95); 0 for never.
    duplicates : bool
        Read a second replica as well if the expected gain justifies it.
    max_duplicates : float, optional
        Maximum number of hedges and probe copies in percent of the reads: 5, not 0.05. By default
        there is no limit with `duplicates`, and 5 for hedges after a fixed time.
    duplicates_burst : int
        Maximum number of unused hedges that are saved for later.
    buffered : bool
        Read through the page cache instead of with O_DIRECT.
    ask : bool
        Query a kernel with LinnOS for the replica; it knows about writes and reads of other
        processes.
    ask_all : bool
        Let every replica's model predict each read, also when the default replica is idle.
    unguarded : bool
        Redirect reads even if this has no benefit, without measuring it with a control group.

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
        margin_percent: int = 25,
        probe_after_ms: int = 20,
        hedge_us: int = 0,
        hedge_percentile: float = 0,
        duplicates: bool = False,
        max_duplicates: float | None = None,
        duplicates_burst: int = 100,
        buffered: bool = False,
        ask: bool = False,
        ask_all: bool = False,
        unguarded: bool = False,
    ) -> None:
        self._handle = None
        self._queues: dict[threading.Thread, Any] = {}
        self._lock = threading.Lock()
        library = _library()
        ffi, lib = library
        check_fits(31, home=0 if home is None else home)
        path_strings = _paths("paths", paths, None)
        self._n = len(paths)
        model_strings = ffi.NULL if models is None else _paths("models", models, self._n)
        flags = {
            lib.LINNOS_BUFFERED: buffered,
            lib.LINNOS_QUERY_KERNEL: ask,
            lib.LINNOS_UNGUARDED: unguarded,
            lib.LINNOS_DUPLICATES: duplicates,
            lib.LINNOS_PREDICT_ALL: ask_all,
        }
        options = library.new(
            "linnos_options",
            flags=sum(flag for flag, is_set in flags.items() if is_set),
            home=lib.LINNOS_DEFAULT_ROUND_ROBIN if home is None else home,
            margin_percent=margin_percent,
            probe_after_ms=probe_after_ms,
            hedge_us=hedge_us,
            duplicates_burst=duplicates_burst,
            hedge_percentile=hedge_percentile,
            max_duplicates=-1 if max_duplicates is None else max_duplicates,
        )
        array = ffi.new("struct linnos_array **")
        self._check(lib.linnos_array_open(array, self._n, path_strings, model_strings, options))
        self._handle = array[0]

    @staticmethod
    def _check(status: int) -> None:
        check_status(_library(), status, _library().lib.linnos_error)

    def _open(self) -> Any:
        if not self._handle:
            raise ValueError("the array is closed")
        return self._handle

    def _queue(self) -> Any:
        array = self._open()
        ffi, lib = _library()
        thread = threading.current_thread()
        with self._lock:
            if thread in self._queues:
                return self._queues[thread]
            for ended in [owner for owner in self._queues if not owner.is_alive()]:
                lib.linnos_queue_close(self._queues.pop(ended))
            queue = ffi.new("struct linnos_queue **")
            self._check(lib.linnos_queue_create(queue, array, ffi.NULL))
            self._queues[thread] = queue[0]
            return queue[0]

    def pread(
        self,
        size: int,
        offset: int,
        *,
        deadline_us: int = 0,
        home: int | None = None,
        never_hedge: bool = False,
    ) -> bytes:
        """Read `size` bytes at `offset`, with the options of :meth:`preadv`.

        The result has fewer bytes only at the end of the replicas.
        """
        buffer = bytearray(size)
        n = self.preadv(
            [buffer], offset, deadline_us=deadline_us, home=home, never_hedge=never_hedge
        )
        return bytes(memoryview(buffer)[:n])

    def preadinto(self, buffer: Any, offset: int) -> int:
        """Read into one writable buffer, such as a numpy array; see :meth:`preadv`."""
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
            Time in us after which the read fails with TimeoutError if it has no answer; 0 for
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
        library = _library()
        ffi, lib = library
        if not 0 <= offset < 1 << 63:
            raise OSError(errno.EINVAL, f"read at {offset}: no such offset")
        options = library.new(
            "linnos_read_options",
            flags=lib.LINNOS_NEVER_HEDGE * never_hedge,
            home=lib.LINNOS_DEFAULT_ROUND_ROBIN if home is None else home,
            deadline_ns=1000 * deadline_us,
        )
        with library.filled(buffers) as parts:
            if not parts:
                return 0
            iov = ffi.new("struct iovec[]", [(part, len(part)) for part in parts])
            n: int = lib.linnos_preadv(queue, iov, len(parts), offset, options)
        if n == -errno.ETIME:
            raise TimeoutError(errno.ETIME, library.text(lib.linnos_error()))
        self._check(n)
        return n

    def drop(self, replica: int) -> None:
        """Stop using a replica whose content is out of date; the last one cannot be dropped."""
        self._check(_library().lib.linnos_array_drop_replica(self._open(), replica))

    def restore(self, replica: int) -> None:
        """Use a dropped replica again, once its content equals that of the others."""
        self._check(_library().lib.linnos_array_restore_replica(self._open(), replica))

    def set_model(self, replica: int, model: AnyPath | None) -> None:
        """Replace a replica's model, also while other threads read.

        If the new file is not a valid model, the old model stays.
        """
        ffi, lib = _library()
        path = ffi.NULL if model is None else os.fsencode(model)
        self._check(lib.linnos_set_model(self._open(), replica, path))

    @property
    def size(self) -> int:
        """Size in bytes of the largest replica when the array was opened."""
        return int(_library().lib.linnos_array_size(self._open()))

    @property
    def asks(self) -> bool:
        """True if the kernel is queried: `ask` was given, and the kernel supports it."""
        return bool(_library().lib.linnos_array_queries_kernel(self._open()))

    def stats(self) -> Counters:
        """Return the array's counters since it was opened: `struct linnos_stats`.

        `served_by` and `errors_by` are the counters `served` and `errors` of each replica.
        """
        library = _library()
        stats = library.new("linnos_stats")
        library.lib.linnos_array_get_stats(self._open(), stats, library.ffi.sizeof(stats[0]))
        by_replica = [self._replica_stats(k) for k in range(self._n)]
        return Counters(
            **library.counters(stats[0]),
            served_by=tuple(replica["served"] for replica in by_replica),
            errors_by=tuple(replica["errors"] for replica in by_replica),
        )

    def _replica_stats(self, replica: int) -> dict[str, Any]:
        library = _library()
        stats = library.new("linnos_replica_stats")
        n_bytes = library.ffi.sizeof(stats[0])
        self._check(
            library.lib.linnos_array_get_replica_stats(self._open(), replica, stats, n_bytes)
        )
        return library.counters(stats[0])

    def replica_stats(self, replica: int) -> Counters:
        """Return a replica's counters: `struct linnos_replica_stats`.

        `state` is one of `STATES`, and `histogram` has the number of reads by the lower bound of
        their latency in ns, without empty buckets.
        """
        ffi, lib = _library()
        stats = self._replica_stats(replica)
        stats |= {"state": STATES[stats["state"]], "chooses": bool(stats["chooses"])}
        predictor = lib.linnos_array_predictor(self._open())
        n = lib.linnos_predictor_get_histogram(predictor, replica, ffi.NULL, 0)
        counts = ffi.new("uint64_t[]", n)
        lib.linnos_predictor_get_histogram(predictor, replica, counts, n)
        buckets = {lib.linnos_bucket_ns(bucket): counts[bucket] for bucket in range(n)}
        return Counters(**stats, histogram={ns: count for ns, count in buckets.items() if count})

    def close(self) -> None:
        """Close the array after all attempts that are still in flight have completed.

        No other thread may be reading. Closing it again has no effect.
        """
        if not self._handle:
            return
        # Close the queues one by one: each may wait, and after ctrl-C the next call continues here.
        while self._queues:
            _library().lib.linnos_queue_close(self._queues.popitem()[1])
        handle, self._handle = self._handle, None
        _library().lib.linnos_array_close(handle)
