# SPDX-License-Identifier: MIT
"""liblinnos-ceph on a real Ceph with cephx: a monitor, four OSDs in memory."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from c_library import CLibrary
from ceph_pool import Pool

ROOT = Path(__file__).parents[2]
PROGRAMS = ("ceph", "ceph-authtool", "ceph-mon", "ceph-osd", "monmaptool", "rados")
N_OBJECTS = 12
#: Host of each OSD; two OSDs are on one host.
HOSTS = ("a", "b", "c", "a")

CONFIGURATION = """\
[global]
fsid = {fsid}
mon host = [v1:127.0.0.1:{port}]
public addr = 127.0.0.1
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
keyring = {folder}/keyring
mon data = {folder}/mon
osd data = {folder}/osd.$id
run dir = {folder}
log file = {folder}/$name.log
pid file =
admin socket =
osd objectstore = memstore
osd crush update on start = false
memstore device bytes = 134217728
osd pool default size = 3
osd pool default min size = 1
"""
#: All users of the cluster; the monitor gets them when it is created.
USERS = {
    "mon.": ("mon=allow *",),
    "client.admin": ("mon=allow *", "osd=allow *"),
    "client.reader": ("mon=allow r", "osd=allow r pool=data, allow r pool=flat"),
    "client.other": ("mon=allow r", "osd=allow r pool=flat"),
    **{f"osd.{k}": ("mon=allow profile osd", "osd=allow *") for k in range(len(HOSTS))},
}
COMMANDS = """\
osd crush rule create-replicated byosd default osd
osd erasure-code-profile set p21 k=2 m=1 crush-failure-domain=osd
osd pool create data 8 8
osd pool create flat 8 8 replicated byosd
osd pool create coded 8 8 erasure p21
"""

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not all(map(shutil.which, PROGRAMS)) or not Path("/usr/include/rados/librados.h").exists(),
        reason="no Ceph: `make deps-ceph`",
    ),
]


class Ceph:
    """Daemons for this test only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.configuration = folder / "ceph.conf"
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.fsid = "6c696e6e-6f73-4c41-8000-000000000001"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.configuration.write_text(
            CONFIGURATION.format(fsid=self.fsid, port=self.port, folder=folder)
        )

    def run(self, *command: object, stdin: bytes = b"") -> str:
        """Run a command, which must succeed; return its output."""
        words = list(map(str, command))
        result = subprocess.run(
            words, cwd=self.folder, input=stdin, capture_output=True, timeout=60, check=False
        )
        # `ceph` continues after a failed command when it reads commands from stdin
        assert result.returncode == 0 and b"Error" not in result.stderr, (
            words,
            result.stdout,
            result.stderr,
        )
        return result.stdout.decode()

    def ceph(self, commands: str) -> str:
        """Run commands of the administrator, one per line."""
        return self.run("ceph", "-c", self.configuration, stdin=commands.encode())

    def daemon(self, name: str) -> None:
        kind, number = name.split(".")
        with (self.folder / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen(
                [f"ceph-{kind}", "-c", self.configuration, "-i", number, "-f"],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip

    def begin(self) -> None:
        """Start the monitor and the OSDs, and make pools with objects."""
        new = ["--create-keyring"]
        for name, capabilities in USERS.items():
            caps = [word for cap in capabilities for word in ("--cap", *cap.split("=", 1))]
            self.run("ceph-authtool", "keyring", *new, "--gen-key", "-n", name, *caps)
            new = []
        address = f"[v1:127.0.0.1:{self.port}]"
        self.run("monmaptool", "--create", "--addv", "x", address, "--fsid", self.fsid, "monmap")
        self.run("ceph-mon", "-c", self.configuration, "--mkfs", "-i", "x",
                 "--monmap", "monmap", "--keyring", "keyring")  # fmt: skip
        self.daemon("mon.x")
        ids = [f"{secrets.token_hex(4)}-0000-4000-8000-{k:012}" for k in range(len(HOSTS))]
        places = (f"osd crush add {k} 1 host={host} root=default" for k, host in enumerate(HOSTS))
        self.ceph("\n".join((*(f"osd new {uuid}" for uuid in ids), *places, "")))
        for k, uuid in enumerate(ids):
            (self.folder / f"osd.{k}").mkdir()
            self.run("ceph-osd", "-c", self.configuration, "-i", k, "--mkfs", "--osd-uuid", uuid)
            self.daemon(f"osd.{k}")
        self.wait_for(len(HOSTS))
        self.ceph(COMMANDS)
        for pool in ("data", "flat"):
            for k in range(1, N_OBJECTS + 1):
                content = chr(ord("@") + k).encode() * 16384
                self.run("rados", "-c", self.configuration, "-p", pool, "put", f"object{k}", "-",
                         stdin=content)  # fmt: skip

    def wait_for(self, n_up: int) -> None:
        """Wait until this many OSDs are up."""
        until = time.monotonic() + 240
        while f"{n_up} up" not in self.ceph("osd stat\n"):
            assert time.monotonic() < until, self.ceph("osd tree\n")
            time.sleep(0.5)

    def end(self) -> None:
        for daemon in self.daemons.values():
            daemon.kill()
            daemon.wait()


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    CLibrary(ROOT / "cluster" / "client", ROOT / "build" / "cluster").make("all")
    CLibrary(ROOT / "cluster" / "ceph", ROOT / "build" / "ceph").make("all")


@pytest.fixture(scope="module")
def ceph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ceph]:
    running = Ceph(tmp_path_factory.mktemp("ceph"))
    try:
        running.begin()
        yield running
    finally:
        running.end()


def opened(ceph: Ceph, pool: str = "data", user: str = "reader", **options: Any) -> Pool:
    return Pool(pool, configuration=ceph.configuration, user=user, **options)


def content(k: int, n_bytes: int) -> bytes:
    return chr(ord("@") + k).encode() * n_bytes


def test_reads_of_many_threads_and_errors(ceph: Ceph) -> None:
    def read(pool: Pool, k: int) -> None:
        for at in (0, 4096, 12288):
            assert pool.read(f"object{k}", 4096, at) == content(k, 4096)
        assert pool.read(f"object{k}", 1 << 20) == content(k, 16384)
        assert pool.read(f"object{k}", 16, 16380) == content(k, 4)
        assert pool.read(f"object{k}", 16, 1 << 40) == b""

    with opened(ceph) as pool, ThreadPoolExecutor(4) as threads:
        for k in range(1, N_OBJECTS + 1):
            assert len(pool.osds(f"object{k}")) == len(set(pool.osds(f"object{k}"))) > 1
        for _ in range(5):
            list(threads.map(read, [pool] * N_OBJECTS, range(1, N_OBJECTS + 1)))
        assert pool.read("object1", 16, 16376) == b"A" * 8
        stats, client = pool.stats(), pool.client_stats()
        assert stats.reads == 5 * 6 * N_OBJECTS + 1 == client.reads
        assert not stats.unknown and not stats.misplaced and stats.handles == 4
        # replicas do not redirect reads of objects that are not written
        assert stats.bounced <= stats.replica_reads + client.copies
        answered = [pool.osd_stats(osd).answered for osd in range(len(HOSTS))]
        # reads that return no data do not change the statistics
        assert sum(answered) >= 5 * 5 * N_OBJECTS and not client.errors
        with pytest.raises(FileNotFoundError, match=r"object none of pool data: No such file"):
            pool.read("none", 1)
        with pytest.raises(OSError, match="object x{128} of pool data: "):
            pool.read("x" * 300, 1)
        with pytest.raises(OSError, match=r"object x{128} of pool data: File name too long"):
            pool.read("x" * 3000, 1)
    with opened(ceph, user="other") as pool, pytest.raises(PermissionError) as raised:
        pool.read("object1", 1)
    assert "client.other needs `osd 'allow r pool=data'`" in str(raised.value)
    for pool_name, user, message in (
        ("none", "reader", "pool none: .*ceph osd pool ls"),
        ("coded", "reader", "pool coded is erasure-coded"),
        ("data", "nobody", "the monitors as client.nobody: .*keyring"),
    ):
        with pytest.raises(OSError, match=message):
            opened(ceph, pool_name, user)


@contextlib.contextmanager
def stopped(ceph: Ceph) -> Iterator[None]:
    """Stop all OSDs meanwhile."""
    osds = [daemon for name, daemon in ceph.daemons.items() if name.startswith("osd.")]
    for daemon in osds:
        daemon.send_signal(signal.SIGSTOP)
        # its threads continue for a moment
        os.waitid(os.P_PID, daemon.pid, os.WSTOPPED)
    try:
        yield
    finally:
        for daemon in osds:
            daemon.send_signal(signal.SIGCONT)


def test_reads_wait_for_stopped_osds_and_op_timeout_ends_them(ceph: Ceph, tmp_path: Path) -> None:
    short = tmp_path / "ceph.conf"
    short.write_text(ceph.configuration.read_text() + "rados osd op timeout = 5\n")
    with (
        ThreadPoolExecutor(1) as threads,
        opened(ceph) as pool,
        Pool("data", configuration=short, user="reader") as hurried,
    ):
        for opened_pool in (pool, hurried):
            opened_pool.osds("object1")
            assert opened_pool.read("object1", 1) == b"A"
        with stopped(ceph):
            reading = threads.submit(pool.read, "object1", 4096)
            time.sleep(0.5)
            with pytest.raises(TimeoutError, match="object1 of pool data: .*rados_osd_op_timeout"):
                hurried.read("object1", 1)
            assert not reading.done()
        assert reading.result(60) == content(1, 4096)
        assert hurried.read("object1", 1) == b"A"


def test_only_one_osd_per_host_is_read_from(ceph: Ceph) -> None:
    with opened(ceph, "flat") as pool:
        held = [[HOSTS[osd] for osd in pool.osds(f"object{k + 1}")] for k in range(N_OBJECTS)]
    assert all(len(set(hosts)) == len(hosts) for hosts in held)
    # no coincidence: the placement groups contain two OSDs of one host
    assert min(map(len, held)) == 2


def test_reads_are_right_while_an_osd_is_killed_and_restarted(ceph: Ceph) -> None:
    over = threading.Event()

    def read_on(pool: Pool) -> int:
        for n in itertools.count():
            if over.is_set():
                return n
            k = n % N_OBJECTS + 1
            assert pool.read(f"object{k}", 4096) == content(k, 4096)
        raise AssertionError

    with opened(ceph) as pool, ThreadPoolExecutor(1) as threads:
        reading = threads.submit(read_on, pool)
        try:
            ceph.daemons["osd.2"].send_signal(signal.SIGKILL)
            ceph.daemons["osd.2"].wait()
            ceph.wait_for(len(HOSTS) - 1)
            ceph.daemon("osd.2")
            ceph.wait_for(len(HOSTS))
        finally:
            over.set()
        assert reading.result(300) > 100
