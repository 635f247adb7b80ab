# SPDX-License-Identifier: MIT
"""liblinnos-gluster and a real GlusterFS: three bricks of this test alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from c_library import CLibrary

from linnapp.lab.engines import gluster

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).parent / "gluster_client" / "reads.c"
OBSERVE, CHOOSE, HEDGE = range(3)
#: In ms: a file that was written is read by the ordinary handle.
FRESH_MS = 1500
N_BYTES = 256 * 4096

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        shutil.which("glusterfsd") is None
        or not Path("/usr/include/glusterfs/api/glfs.h").exists(),
        reason="no GlusterFS: `make gluster`",
    ),
    pytest.mark.skipif(os.geteuid() != 0, reason="bricks keep what only root may write"),
]


class Volume:
    """Bricks, of which each is served by a process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.addresses = [f"127.0.{k}.2" for k in range(3)]
        with socket.socket() as probe:
            probe.bind((self.addresses[0], 0))
            self.port: int = probe.getsockname()[1]
        self.servers: dict[int, subprocess.Popen[bytes]] = {}
        for k in range(3):
            (folder / f"brick{k}").mkdir()
            self.serve(k)

    def serve(self, k: int) -> None:
        brick = str(self.folder / f"brick{k}")
        volfile = self.written(f"server{k}", gluster.server_volfile(brick, self.addresses[k]))
        self.servers[k] = subprocess.Popen(
            ["glusterfsd", "-N", "-f", volfile, "-l", self.folder / f"server{k}.log",
             "-p", self.folder / f"server{k}.pid"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until = time.monotonic() + 20
        while time.monotonic() < until:
            with socket.socket() as client:
                if not client.connect_ex((self.addresses[k], self.port)):
                    return
            time.sleep(0.05)
        raise TimeoutError(volfile)

    def kill(self, k: int) -> None:
        self.servers[k].kill()
        self.servers[k].wait()

    def written(self, name: str, volfile: str) -> Path:
        path = self.folder / f"{name}.vol"
        path.write_text(volfile.replace(str(gluster.PORT), str(self.port)))
        return path

    def client(self, name: str, by: Wire | None = None) -> Path:
        """A client's volume file, with caches, as a real one has; the last brick is by a wire, and
        read from."""
        volume = gluster.client_volfile(self.addresses, read_node=2 if by else None)
        volume = volume.replace("replicas", "data-replicate-0")
        if by:
            address = f"remote-host {self.addresses[-1]}\n  option remote-port"
            assert address in volume
            volume = volume.replace(
                f"{address} {gluster.PORT}",
                f"remote-host 127.0.0.1\n  option remote-port {by.port}",
            )
        below = "data-replicate-0"
        for kind in ("write-behind", "io-cache", "quick-read", "md-cache"):
            volume += f"\nvolume data-{kind}\n  type performance/{kind}\n  subvolumes {below}\n"
            volume += "end-volume\n"
            below = f"data-{kind}"
        return self.written(name, volume)

    def on_brick(self, k: int) -> bytes:
        """What of the file there is."""
        return (self.folder / f"brick{k}" / "data").read_bytes()


class Wire:
    """Forwards connections, until it is cut."""

    def __init__(self, to: tuple[str, int]) -> None:
        self.to = to
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listening.getsockname()[1]
        self.ends: list[socket.socket] = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listening.accept()
                far = socket.create_connection(self.to)
                self.ends += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self.forward, args=pair, daemon=True).start()

    def forward(self, source: socket.socket, to: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                to.sendall(data)

    def cut(self) -> None:
        for one in (self.listening, *self.ends):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class Client:
    """A program that reads; reads.c."""

    def __init__(self, program: Path, ordinary: Path, replicas: Path, mode: int) -> None:
        self.process = subprocess.Popen(
            [program, ordinary, replicas, str(mode), str(FRESH_MS), "0"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        assert self.line() == "open"

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def says(self, command: str) -> list[int]:
        assert self.process.stdin
        self.process.stdin.write(f"{command}\n")
        return list(map(int, self.line().split()))

    def write(self, letter: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"w {letter}\n")
        assert self.line() == "written"

    def read(self, n: int) -> None:
        """All are right."""
        assert self.says(f"r {n}") == [n, 0, 0]

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        assert self.line() == "closed" and self.process.wait(60) == 0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("client") / "reads"
    CLibrary(ROOT / "cluster" / "client", ROOT / "build" / "cluster").make("all")
    CLibrary(ROOT / "cluster" / "gluster", ROOT / "build" / "gluster").make("all")
    subprocess.run(
        ["gcc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", built, SOURCE,
         *(f"-I{ROOT / folder}" for folder in ("cluster/gluster", "cluster/client", "liblinnos")),
         ROOT / "build" / "gluster" / "liblinnos-gluster.a",
         ROOT / "build" / "cluster" / "liblinnos-cluster.a", "-lgfapi", "-lm", "-pthread"],
        check=True,
    )  # fmt: skip
    return built


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    volume = Volume(tmp_path)
    yield volume
    for k in volume.servers:
        volume.kill(k)


def pass_fresh() -> None:
    time.sleep(FRESH_MS / 1e3 + 0.2)


@pytest.mark.parametrize("mode", [OBSERVE, CHOOSE, HEDGE])
def test_reads_are_right_while_a_brick_is_killed_and_comes_back(
    volume: Volume, program: Path, mode: int
) -> None:
    usual = volume.client("usual")
    client = Client(program, usual, usual, mode)
    client.read(3000)
    client.write("b")
    client.read(100)
    pass_fresh()
    client.read(1000)
    n_reads, fresh, _, looked, moved, _, *answered = client.says("s")
    assert n_reads == 4100 and fresh == 100 and looked == 1
    assert sum(answered) >= 4000 and (mode == OBSERVE) == (moved == 0)
    volume.kill(2)
    client.read(1000)
    client.write("c")
    client.read(1000)
    pass_fresh()
    client.read(1000)
    # nobody heals it: it is read where it is whole
    volume.serve(2)
    time.sleep(5)
    client.read(3000)
    assert volume.on_brick(0) == b"c" * N_BYTES and volume.on_brick(2) == b"b" * N_BYTES
    client.write("d")
    pass_fresh()
    client.read(1000)
    client.end()


def test_what_the_ordinary_handle_could_not_write_is_read_where_it_could(
    volume: Volume, program: Path
) -> None:
    """Those of the replicas have all bricks all the time, and no reason to look by themselves."""
    wire = Wire((volume.addresses[2], volume.port))
    client = Client(program, volume.client("by-wire", wire), volume.client("usual"), OBSERVE)
    client.read(100)
    wire.cut()
    client.write("e")
    client.read(100)
    pass_fresh()
    client.read(1000)
    _, fresh, _, looked, *_ = client.says("s")
    assert fresh == 100 and looked == 1
    assert volume.on_brick(0) == b"e" * N_BYTES and volume.on_brick(2) == b"a" * N_BYTES
    client.end()
