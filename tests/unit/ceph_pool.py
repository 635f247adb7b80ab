# SPDX-License-Identifier: MIT
"""liblinnos-ceph from Python, for tests on a real Ceph: blocking reads of a pool."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Self

from linnapp.native import Library, check_status, load_public

AGENT_PORT = 7316


@functools.cache
def library() -> Library:
    headers = ("linnos_choose.h", "linnos_cluster.h")
    load_public(
        *("liblinnos-cluster.so.1", "LINNOS_CLUSTER_LIB", ("cluster", "install-cluster")),
        *("LIBLINNOS_CLUSTER_1", *headers),
    )
    return load_public(
        *("liblinnos-ceph.so.1", "LINNOS_CEPH_LIB", ("ceph", "install-ceph"), "LIBLINNOS_CEPH_1"),
        *(*headers, "linnos_ceph.h"),
    )


class Pool:
    """An open pool; several threads may read from it."""

    def __init__(self, name: str, **options: Any) -> None:
        lib = library()
        texts = {k: lib.ffi.new("char[]", os.fsencode(options.pop(k)))
                 for k in ("configuration", "user") if k in options}  # fmt: skip
        fields = {"fresh_ms": 30_000} | options | texts
        opened = lib.ffi.new("struct linnos_ceph **")
        structure = lib.new("linnos_ceph_options", **fields)
        self._check(lib.lib.linnos_ceph_open(opened, name.encode(), structure))
        self.handle = opened[0]

    @staticmethod
    def _check(status: int) -> None:
        check_status(library(), status, library().lib.linnos_ceph_error)

    def read(self, name: str, length: int, offset: int = 0) -> bytes:
        buffer = library().ffi.new("char[]", length)
        arguments = name.encode(), buffer, length, offset
        n = library().lib.linnos_ceph_read(self.handle, *arguments)
        self._check(n)
        return bytes(library().ffi.buffer(buffer, n))

    def wrote(self, name: str) -> None:
        library().lib.linnos_ceph_wrote(self.handle, name.encode())

    def osds(self, name: str) -> list[int]:
        """Return the OSDs of an object, once the monitors have answered."""
        found = library().ffi.new("int[]", library().lib.LINNOS_CLUSTER_CANDIDATES)
        until = time.monotonic() + 60
        while not (n := library().lib.linnos_ceph_osds(self.handle, name.encode(), found)):
            assert time.monotonic() < until
            time.sleep(0.001)
        return list(found[0:n])

    def _counters(self, struct: str, get: Callable[..., Any], *arguments: Any) -> SimpleNamespace:
        stats = library().new(struct)
        get(*arguments, stats, library().ffi.sizeof(stats[0]))
        return SimpleNamespace(**library().counters(stats[0]))

    def stats(self) -> SimpleNamespace:
        get = library().lib.linnos_ceph_get_stats
        return self._counters("linnos_ceph_stats", get, self.handle)

    def client_stats(self) -> SimpleNamespace:
        lib = library().lib
        cluster = lib.linnos_ceph_cluster(self.handle)
        return self._counters("linnos_cluster_stats", lib.linnos_cluster_get_stats, cluster)

    def osd_stats(self, osd: int) -> SimpleNamespace:
        lib = library().lib
        arguments = lib.linnos_ceph_cluster(self.handle), osd, time.monotonic_ns()
        return self._counters("linnos_cluster_node", lib.linnos_cluster_get_node, *arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        library().lib.linnos_ceph_close(self.handle)
