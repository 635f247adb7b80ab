# SPDX-License-Identifier: MIT
"""Read from the Ceph OSD with the lowest expected latency, with liblinnos-ceph.

Writes and all other operations use librados as usual. docs/cluster.md has an example, and
linnos_ceph(3) describes the options and counters in detail.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Iterator
from typing import Any, Literal, TypedDict, Unpack

from linnapp.errors import LinnappError
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
from linnapp.replicas import STATES

_UNKNOWN = (1 << 64) - 1

#: Default port of linnos-agent: LINNOS_CEPH_AGENT_PORT.
AGENT_PORT = 7316


_MODES = {mode: f"LINNOS_CLUSTER_{mode.upper()}" for mode in ("observe", "choose")}


class Choosing(TypedDict, total=False):
    """Options of `Pool` for the choice, which documents them."""

    mode: Literal["observe", "choose"]
    margin_percent: int
    report_ttl_ms: int
    report_max_uses: int
    probe_after_ms: int
    probe_percent: float
    max_duplicates: float
    query_percent: float
    seed: int
    key: bytes
    unguarded: bool


@loaded_once
def _cluster_library() -> Library:
    return load_public(
        *("liblinnos-cluster.so.1", "LINNOS_CLUSTER_LIB", ("cluster", "install-cluster")),
        *("LIBLINNOS_CLUSTER_1", "linnos_choose.h", "linnos_cluster.h"),
    )


@loaded_once
def _library() -> Library:
    # In a checkout, only this finds the library that it needs. Errors are reported below.
    with contextlib.suppress(LinnappError):
        _cluster_library()
    return load_public(
        *("liblinnos-ceph.so.1", "LINNOS_CEPH_LIB", ("ceph", "install-ceph"), "LIBLINNOS_CEPH_1"),
        *("linnos_choose.h", "linnos_cluster.h", "linnos_ceph.h"),
    )


def _new_choosing(choosing: Choosing) -> tuple[Any, object]:
    """Return the options of the choice in the library's form, and the key that they point to.

    Options that are not given have the defaults of the C header.
    """
    given: dict[str, Any] = {**choosing}
    for name in given.keys() - Choosing.__annotations__.keys():
        raise TypeError(f"Pool() got an unexpected keyword argument {name!r}")
    library = _cluster_library()
    mode = given.pop("mode", "choose")
    if mode not in _MODES:
        raise ValueError(f"mode is {mode!r}; it must be one of {', '.join(_MODES)}")
    key = library.ffi.from_buffer(given.pop("key", None) or b"")
    flags = library.lib.LINNOS_CLUSTER_UNGUARDED if given.pop("unguarded", False) else 0
    given |= {"mode": getattr(library.lib, _MODES[mode]), "flags": flags}
    given |= {"key": key, "key_bytes": len(key)}
    defaults = library.defaults("linnos_cluster.h", "linnos_cluster_options")
    return library.new("linnos_cluster_options", **(defaults | given)), key


def _text(what: str, given: str | bytes) -> bytes:
    data = given.encode() if isinstance(given, str) else given
    if b"\0" in data:
        raise ValueError(f"{what} is {given!r}; a name has no zero byte")
    return data


def _object(name: str | bytes) -> bytes:
    data = _text("object", name)
    if not data:
        raise OSError(errno.EINVAL, "the name of the object is empty")
    return data


class Pool(Closable):
    """An open replicated pool; any number of threads may read from it at the same time.

    It connects as librados does, with the same timeouts: `client_mount_timeout` of ceph.conf for
    monitors, and `rados_osd_op_timeout` for an OSD, which is unlimited by default. Ctrl-C does
    not interrupt either. A forked process must open a pool of its own.

    Parameters
    ----------
    pool : str
        The pool's name.
    configuration : path, optional
        ceph.conf. Default: librados' search path, $CEPH_CONF first.
    user : str, optional
        Name of the Ceph user without `client.`. Default: admin.
    agent_port : int
        Port of linnos-agent on the OSDs' hosts, by default `AGENT_PORT`. If 0, no agent
        is queried.
    fresh_ms : int
        Maximum time for which a written object is read from its primary.
    mode : str
        "observe": reads go to the primary, and the possible gain is counted; or "choose", the
        default.
    margin_percent : int
        A read leaves the primary if its expected latency elsewhere is lower by this margin.
    report_ttl_ms, report_max_uses : int
        Time and number of reads for which an agent's report is valid; 0 if it is never used.
    probe_after_ms : int
        Initial wait before an OSD that was slow is probed again.
    probe_percent, max_duplicates, query_percent : float
        Upper limits in percent of the reads: for copies that probe a slow OSD; for all copies; for
        queries to an agent.
    seed : int
        Seed of the random choices; 0 for a random seed, so that clients choose differently.
    key : bytes, optional
        Key with which queries are signed, as the agents require; at most 256 bytes.
    unguarded : bool
        Follow the expected latencies even if that has no benefit.

    Raises
    ------
    OSError
        If Ceph lacks the pool or the user, or refuses access; the message says what to do.
    LinnappError
        If the library is not built.
    """

    def __init__(
        self,
        pool: str,
        *,
        configuration: AnyPath | None = None,
        user: str | None = None,
        agent_port: int = 0,
        fresh_ms: int = 30_000,
        **choosing: Unpack[Choosing],
    ) -> None:
        self._handle = None
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._n_calls = 0
        self._is_closing = False
        library = _library()
        ffi, lib = library
        check_fits(16, agent_port=agent_port)
        chosen_by, _key = _new_choosing(choosing)
        texts = library.strings(
            [
                None if configuration is None else os.fsencode(configuration),
                None if user is None else _text("user", user),
            ]
        )
        options = library.new(
            "linnos_ceph_options",
            configuration=texts[0],
            user=texts[1],
            choosing=ffi.cast("struct linnos_cluster_options *", chosen_by),
            agent_port=agent_port,
            fresh_ms=fresh_ms,
        )
        opened = ffi.new("struct linnos_ceph **")
        self._check(lib.linnos_ceph_open(opened, _text("pool", pool), options))
        self._handle = opened[0]

    @staticmethod
    def _check(status: int) -> None:
        check_status(_library(), status, _library().lib.linnos_ceph_error)

    @contextlib.contextmanager
    def _open(self) -> Iterator[Any]:
        """Yield the handle, and keep other threads from closing it until the block ends."""
        # After a fork, librados has no threads there, and its locks are in the state of the fork.
        if os.getpid() != self._process:
            raise ValueError("the pool was opened before this process was forked; open it in here")
        with self._changed:
            if self._is_closing:
                raise ValueError("the pool is closed")
            handle = self._handle
            self._n_calls += 1
        try:
            yield handle
        finally:
            with self._changed:
                self._n_calls -= 1
                self._changed.notify_all()

    def read(self, name: str | bytes, length: int, offset: int = 0) -> bytes:
        """Read a part of an object, with the arguments of `rados.Ioctx.read`.

        Parameters
        ----------
        name : str or bytes
            Name of the object, in the default namespace, without a locator.
        length, offset : int
            Size in bytes.

        Returns
        -------
        bytes
            Fewer than requested only at the end of the object.

        Raises
        ------
        OSError
            FileNotFoundError if the object does not exist; otherwise an operation that the OSDs do
            not permit, or the error of the last OSD to fail, which is the primary.
        """
        check_fits(63, length=length)
        buffer = bytearray(length)
        n = self.readinto(name, buffer, offset)
        return bytes(memoryview(buffer)[:n])

    def readinto(self, name: str | bytes, buffer: Any, offset: int = 0) -> int:
        """Read into a writable buffer, such as a numpy array or a bytearray.

        Returns
        -------
        int
            Number of bytes read; fewer than the buffer's size only at the end of the object.
        """
        check_fits(64, offset=offset)
        library = _library()
        with self._open() as handle, library.filled([buffer]) as parts:
            if not parts:
                return 0
            n: int = library.lib.linnos_ceph_read(
                handle, _object(name), parts[0], len(parts[0]), offset
            )
            self._check(n)
        return n

    def wrote(self, name: str | bytes) -> None:
        """Report that an object has been written, by any client, or is about to be.

        Omitting this is not an error: a replica never returns stale data, but has the read
        forwarded to the primary, which takes longer.
        """
        with self._open() as handle:
            _library().lib.linnos_ceph_wrote(handle, _object(name))

    def osds(self, name: str | bytes) -> list[int]:
        """Return the OSDs that hold an object: the primary, then the others that can be read from.

        Returns
        -------
        list of int
            Empty as long as they are not known; this call then requests them from the monitors.
        """
        ffi, lib = _library()
        found = ffi.new("int[]", lib.LINNOS_CLUSTER_CANDIDATES)
        with self._open() as handle:
            return list(found[0 : lib.linnos_ceph_osds(handle, _object(name), found)])

    def stats(self) -> Counters:
        """Return the counters since the pool was opened: `struct linnos_ceph_stats`.

        This queries librados, which may take longer than a read. `bounced` is None if librados'
        counters could not be read.
        """
        library = _library()
        stats = library.new("linnos_ceph_stats")
        with self._open() as handle:
            library.lib.linnos_ceph_get_stats(handle, stats, library.ffi.sizeof(stats[0]))
        counters: dict[str, Any] = library.counters(stats[0])
        if stats.bounced == _UNKNOWN:
            counters["bounced"] = None
        return Counters(**counters)

    def client_stats(self) -> Counters:
        """Return the counters of the choices so far: `struct linnos_cluster_stats`."""
        library = _cluster_library()
        stats = library.new("linnos_cluster_stats")
        with self._open() as handle:
            cluster = self._cluster(handle)
            library.lib.linnos_cluster_get_stats(cluster, stats, library.ffi.sizeof(stats[0]))
        return Counters(**library.counters(stats[0]))

    def osd_stats(self, osd: int) -> Counters:
        """Return the statistics of an OSD by its number: `struct linnos_cluster_node`.

        `state` is one of `linnapp.replicas.STATES` except the last. `report_age_us` is None if
        there is no valid report of its agent.
        """
        check_fits(32, osd=osd)
        library = _cluster_library()
        stats = library.new("linnos_cluster_node")
        n_bytes, now_ns = library.ffi.sizeof(stats[0]), time.monotonic_ns()
        with self._open() as handle:
            cluster = self._cluster(handle)
            status = library.lib.linnos_cluster_get_node(cluster, osd, now_ns, stats, n_bytes)
            check_status(library, status, library.lib.linnos_cluster_error)
        counters: dict[str, Any] = library.counters(stats[0])
        if counters["report_age_us"] == _UNKNOWN:
            counters["report_age_us"] = None
        counters |= {"state": STATES[stats.state], "is_trusted": bool(stats.is_trusted)}
        return Counters(**counters)

    @staticmethod
    def _cluster(handle: Any) -> Any:
        """Return the client in the other library's types."""
        cluster = _library().lib.linnos_ceph_cluster(handle)
        return _cluster_library().ffi.cast("struct linnos_cluster *", cluster)

    def close(self) -> None:
        """Close the pool when all reads of other threads have ended. May be repeated."""
        if os.getpid() != self._process:
            return
        with self._changed:
            self._is_closing = True
            # ctrl-C may interrupt this; the handle is then still there for the next call of close
            self._changed.wait_for(lambda: not self._n_calls)
            handle, self._handle = self._handle, None
            if handle:
                _library().lib.linnos_ceph_close(handle)
