# SPDX-License-Identifier: MIT
"""liblinnos-ceph from Python, with the fake librados of its C tests, which the tests control.

test_ceph_real.py tests it on a real Ceph.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_c_libraries import CEPH as SOURCE
from test_c_libraries import CODE, ROOT
from test_cluster_library import BUILDS as CLUSTER

from linnapp import ceph as binding
from linnapp.ceph import Pool
from linnapp.errors import LinnappError
from linnapp.native import Library

INCLUDES = [
    f"-I{path}"
    for path in (
        SOURCE,
        CLUSTER.source,
        ROOT / "liblinnos" / "include",
        ROOT / "liblinnos" / "predictor",
    )
]

needs_headers = pytest.mark.skipif(
    not Path("/usr/include/rados/librados.h").exists(), reason="no librados: `make ceph`"
)


def controls() -> str:
    """Return the declarations of the fake librados' controls that the tests use."""
    header = (SOURCE / "tests" / "rados.h").read_text()
    [struct] = re.findall(r"^struct monitors \{.*?^\};", header, re.M | re.S)
    struct = re.sub(r"/\*.*?\*/", "", struct).replace("OSDS", "9")
    return f"""{struct}
        extern struct monitors monitors;
        unsigned int requests(void);
        void end_request(unsigned int request, long result, char letter);
        void pass_us(uint64_t us);
    """


class FakeRados(SimpleNamespace):
    """The library with the fake librados, in which functions can be replaced."""

    def __init__(self, library: Library) -> None:
        super().__init__(ffi=library.ffi, lib=library.lib)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lib, name)


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Build the library with the fake librados into one."""
    CLUSTER.make("all")
    folder = tmp_path_factory.mktemp("made-up")
    shown = (SOURCE / "liblinnos-ceph.map").read_text()
    made = "monitors; requests; end_request; pass_us;"
    (folder / "map").write_text(shown.replace("global:", f"global: {made}"))
    # tests/rados.c has the clock
    sources = [path for path in SOURCE.glob("*.c") if path.name != "clock.c"]
    subprocess.run(
        ["gcc", "-g", "-shared", "-fPIC", "-D_GNU_SOURCE", "-Dlinnos_error=linnos_ceph_error",
         *INCLUDES, "-o", folder / "made-up.so", f"-Wl,--version-script={folder}/map", *sources,
         SOURCE / "tests" / "rados.c", ROOT / "liblinnos" / "predictor" / "messages.c",
         ROOT / "liblinnos" / "predictor" / "thread.c",
         ROOT / "liblinnos" / "predictor" / "versioned_struct.c",
         CLUSTER.out / "liblinnos-cluster.so"],
        check=True,
    )  # fmt: skip
    os.environ["LINNOS_CEPH_LIB"] = str(folder / "made-up.so")
    binding._library.cache_clear()
    try:
        library = binding._library()
        library.ffi.cdef(controls())
        return library
    finally:
        del os.environ["LINNOS_CEPH_LIB"]


@pytest.fixture
def rados(made_up: Library, monkeypatch: pytest.MonkeyPatch) -> FakeRados:
    """Return the library; each of three OSDs, on separate hosts, has every object."""
    fake = FakeRados(made_up)
    monkeypatch.setattr(binding, "_library", lambda: Library(made_up.ffi, fake))
    monitors = made_up.ffi.addressof(made_up.lib, "monitors")
    made_up.ffi.buffer(monitors)[:] = bytes(made_up.ffi.sizeof(monitors[0]))
    monitors.epoch, monitors.n_groups = 5, 8
    monitors.osds, monitors.host = [1, 2, 0], [k % 3 for k in range(9)]
    return fake


class Reading(threading.Thread):
    """A read in a separate thread, until the test ends it."""

    def __init__(self, rados: FakeRados, pool: Pool, *arguments: Any) -> None:
        super().__init__()
        self._rados, self._pool, self._arguments = rados, pool, arguments
        self.answer: Any = None
        self.start()
        until = time.monotonic() + 60
        while not rados.requests():
            assert time.monotonic() < until and self.is_alive()
            time.sleep(0.0001)

    def run(self) -> None:
        try:
            self.answer = self._pool.read(*self._arguments)
        except OSError as error:
            self.answer = error

    def ended(self, n_bytes: int, letter: bytes = b"x") -> Any:
        """Answer the read with this many bytes, or an error; return or raise its result."""
        until = time.monotonic() + 60
        # a probe copy is sent before it, and may complete before it
        while self.is_alive() or self._rados.requests():
            assert time.monotonic() < until
            if self._rados.requests():
                self._rados.end_request(self._rados.requests() - 1, n_bytes, letter)
            else:
                self.join(0.0001)
        return self.answer


def known(pool: Pool, name: str) -> list[int]:
    """Return the OSDs of an object, once the monitors have answered."""
    until = time.monotonic() + 60
    while not (osds := pool.osds(name)):
        assert time.monotonic() < until
        time.sleep(0.001)
    return osds


@needs_headers
def test_pool_reads_and_counts_the_data_of_an_osd(rados: FakeRados) -> None:
    with Pool("data") as pool:
        assert Reading(rados, pool, "a", 16, 64).ended(16) == b"x" * 16
        # a read across the end of the object is short
        assert Reading(rados, pool, b"\xff", 16).ended(3, b"y") == b"yyy"
        assert Reading(rados, pool, "a", 16).ended(0) == b""
        assert pool.read("a", 0) == b"" and not rados.requests()
        assert pool.stats().reads == 3
        # this librados has no counters
        known(pool, "a")
        assert pool.stats().handles == 4 and pool.stats().bounced is None
        pool.wrote("a")
        assert Reading(rados, pool, "a", 16).ended(16)
        assert pool.stats().fresh == 1
    with Pool("data", mode="observe", agent_port=binding.AGENT_PORT) as pool:
        known(pool, "a")
        assert Reading(rados, pool, "a", 16).ended(16)
        assert pool.client_stats().reads == 1 and pool.osd_stats(1).answered == 1


@needs_headers
def test_errors_say_what_failed_and_what_to_do(rados: FakeRados) -> None:
    with Pool("data", user="reader") as pool:
        for status, kind, says in (
            (errno.ENOENT, FileNotFoundError, "object a of pool data: No such file"),
            (errno.EPERM, PermissionError, "client.reader needs `osd 'allow r pool=data'`"),
            (errno.ETIMEDOUT, TimeoutError, "pool data: .*rados_osd_op_timeout"),
            (errno.EIO, OSError, "object a of pool data: Input/output error"),
        ):
            error = Reading(rados, pool, "a", 16).ended(-status)
            assert type(error) is kind and error.errno == status
            assert re.search(says, str(error))
    for options, says in (
        ({"configuration": "/no/ceph.conf"}, "/no/ceph.conf: No such file"),
        ({"probe_after_ms": 0}, "probe_after_ms is 0; it must be between 1 and 250"),
    ):
        with pytest.raises(OSError, match=says):
            Pool("data", **options)
    with pytest.raises(FileNotFoundError, match="pool other: .*`ceph osd pool ls`"):
        Pool("other")


@needs_headers
def test_pool_rejects_values_that_do_not_fit(rados: FakeRados) -> None:
    for options, says in (
        ({"agent_port": 65536}, "agent_port is 65536; it must be between 0 and 65535"),
        ({"fresh_ms": -1}, "fresh_ms is -1"),
        ({"user": "a\0b"}, "user is .*; a name has no zero byte"),
        ({"mode": "guess"}, "mode is 'guess'; it must be one of observe, choose$"),
    ):
        with pytest.raises(ValueError, match=says):
            Pool("data", **options)
    with pytest.raises(TypeError, match=r"^Pool\(\) got an unexpected keyword argument 'hedge_us'"):
        Pool("data", **{"hedge_us": 1})
    with pytest.raises(ValueError, match="pool is .*; a name has no zero byte"):
        Pool("data\0")
    with Pool("data") as pool:
        for arguments, says in (
            (("a", -1), "length is -1;"),
            (("a", 1, -1), "offset is -1;"),
            (("a", 1, 1 << 64), "offset is 18446744073709551616;"),
            (("a\0b", 1), "object is 'a.x00b'; a name has no zero byte"),
        ):
            with pytest.raises(ValueError, match=says):
                pool.read(*arguments)
        with pytest.raises(ValueError, match="object is .*; a name has no zero byte"):
            pool.wrote(b"\0")
        with pytest.raises(
            OSError, match="object a: the read has 2147483648 bytes; it must have 1 to 2147483647"
        ):
            pool.read("a", 1 << 31)
        for call in (lambda: pool.read("", 1), lambda: pool.wrote(b""), lambda: pool.osds("")):
            with pytest.raises(OSError, match="the name of the object is empty") as raised:
                call()
            assert raised.value.errno == errno.EINVAL
        with pytest.raises(ValueError, match="osd is -1;"):
            pool.osd_stats(-1)
        with pytest.raises(OSError, match="node is 1000000; it must be between 0 and"):
            pool.osd_stats(1_000_000)
        assert not rados.requests() and not pool.stats().reads


@needs_headers
def test_unwritable_buffers_are_refused(rados: FakeRados) -> None:
    with Pool("data") as pool:
        with pytest.raises(TypeError, match="not writable"):
            pool.readinto("a", b"1234")
        with pytest.raises(TypeError):
            pool.readinto("a", np.zeros((8, 8))[:, ::2])
        assert pool.readinto("a", bytearray()) == 0
        assert not rados.requests() and not pool.stats().reads


@needs_headers
def test_close_waits_for_reads_of_other_threads(
    rados: FakeRados, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, close = Pool("data"), rados.linnos_ceph_close
    inside: list[int] = []
    monkeypatch.setattr(
        rados, "linnos_ceph_close", lambda handle: (inside.append(pool._n_calls), close(handle))
    )
    one = Reading(rados, pool, "a", 16)
    closing = threading.Thread(target=pool.close)
    closing.start()
    until = time.monotonic() + 60
    while not pool._is_closing:
        assert time.monotonic() < until
    for call in (
        lambda: pool.read("a", 1), lambda: pool.wrote("a"), lambda: pool.osds("a"),
        *(pool.stats, pool.client_stats, lambda: pool.osd_stats(0)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="the pool is closed"):
            call()
    closing.join(0.2)
    assert closing.is_alive()
    assert one.ended(16) == b"x" * 16
    closing.join(60)
    assert not closing.is_alive()
    pool.close()
    assert inside == [0]


@needs_headers
def test_close_can_be_repeated_after_an_interrupt(
    rados: FakeRados, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, close, closed = Pool("data"), rados.linnos_ceph_close, []
    monkeypatch.setattr(
        rados, "linnos_ceph_close", lambda handle: (closed.append(1), close(handle))
    )
    one = Reading(rados, pool, "a", 16)

    def interrupt() -> None:
        with contextlib.suppress(ValueError):  # raised once the pool is closing
            while True:
                pool.osds("a")
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        pool.close()
    interrupting.join()
    assert not closed
    with pytest.raises(ValueError, match="the pool is closed"):
        pool.stats()
    assert one.ended(16) == b"x" * 16
    pool.close()
    pool.close()
    assert closed == [1]


@needs_headers
def test_forked_process_cannot_use_the_pool(rados: FakeRados) -> None:
    with Pool("data") as pool:
        child = os.fork()
        if not child:
            code = 1
            try:
                pool.read("a", 1)
            except ValueError as error:
                # it must not wait for threads that do not exist
                pool.close()
                del pool
                code = 0 if "before this process was forked" in str(error) else 2
            finally:
                os._exit(code)
        until = time.monotonic() + 60
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < until:
            time.sleep(0.01)
        if ended == (0, 0):
            os.kill(child, 9)
        assert ended == (child, 0)
        assert Reading(rados, pool, "a", 16).ended(16)


def test_missing_library_error_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LINNOS_CLUSTER_LIB", str(tmp_path / "none.so"))
    binding._cluster_library.cache_clear()
    with pytest.raises(LinnappError, match="none.so: .*make cluster.*LINNOS_CLUSTER_LIB"):
        binding._cluster_library()
    binding._cluster_library.cache_clear()


def test_library_of_another_version_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It has all functions, but its structures may differ."""
    CLUSTER.make("all")
    version = (CLUSTER.source / "liblinnos-cluster.map").read_text()
    (tmp_path / "next.map").write_text(version.replace("CLUSTER_1", "CLUSTER_2"))
    subprocess.run(
        ["gcc", "-shared", f"-Wl,--version-script={tmp_path}/next.map", "-Wl,--whole-archive",
         CLUSTER.out / "liblinnos-cluster.a", "-Wl,--no-whole-archive", "-lsodium", "-lm",
         "-o", tmp_path / "next.so"],
        check=True,
    )  # fmt: skip
    monkeypatch.setenv("LINNOS_CLUSTER_LIB", str(tmp_path / "next.so"))
    binding._cluster_library.cache_clear()
    with pytest.raises(
        LinnappError, match=r"has no linnos_cluster_\w+ of LIBLINNOS_CLUSTER_1; run"
    ):
        binding._cluster_library()
    binding._cluster_library.cache_clear()


def test_options_are_those_of_the_header() -> None:
    library = binding._cluster_library()
    members = {name for name, _ in library.ffi.typeof("struct linnos_cluster_options").fields}
    given = set(binding.Choosing.__annotations__)
    # OSDs serve no hedges.
    assert given - {"unguarded"} == members - {"size", "flags", "key_bytes", "hedge_percent"}
    defaults = library.defaults("linnos_cluster.h", "linnos_cluster_options")
    assert defaults["margin_percent"] == 5 and defaults["query_percent"] == 100


def test_functions_of_the_header_are_used() -> None:
    """Except the asynchronous reads and the function that returns librados' own handle."""
    used = set(re.findall(r"\b(linnos_ceph_\w+)\b[=(.,)]", Path(binding.__file__).read_text()))
    others = {"linnos_ceph_aio_read", "linnos_ceph_aio_read_from", "linnos_ceph_pool"}
    assert used == CODE["ceph"].functions - others
