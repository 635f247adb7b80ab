# SPDX-License-Identifier: MIT
"""The processor time that an OSD of Debian's Ceph takes for a read of 4 KiB, on this machine.

A monitor and one OSD with BlueStore on a file in a temporary folder, set as the lab sets them
(linnapp/lab/engines/ceph.py), without keys and over the loopback interface; `rados bench` reads
objects of 4 KiB at random. What the OSD does while nobody reads is taken off.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from eval.bench import OUT, BenchError
from eval.bench.watching import cpu_s
from eval.work import write_json
from linnapp.lab.engines.ceph import OSD_SETTINGS
from linnapp.stats import mean_interval

#: Reads at a time.
AT_A_TIME = (1, 8)
READ_BYTES, DATA_MB = 4096, 1024
PERIODS, PERIOD_S = 8, 4
#: They give up on what is not there.
_STARTS_S = 60

_NEEDED = ("ceph", "ceph-mon", "ceph-osd", "monmaptool", "rados")
_CONFIGURATION = """\
[global]
fsid = {fsid}
mon host = [v1:127.0.0.1:{port}]
public addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
mon data = {folder}/mon
osd data = {folder}/osd
run dir = {folder}
log file = {folder}/$name.log
pid file =
admin socket =
osd pool default size = 1
osd pool default min size = 1
mon allow pool size one = true
osd crush chooseleaf type = 0
bluestore block size = {bytes}
{settings}
"""


@dataclass
class _Ceph:
    """A monitor and an OSD, until the context is left."""

    folder: Path
    osd_pid: int = 0

    def run(self, *command: object) -> str:
        """Output of a command of Ceph's; it must succeed."""
        program, *words = map(str, command)
        try:
            ran = subprocess.run(
                [program, "-c", str(self.folder / "ceph.conf"), *words],
                cwd=self.folder, capture_output=True, text=True, timeout=_STARTS_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise BenchError(f"{program} {' '.join(words)}: no end after {_STARTS_S} s") from None
        if ran.returncode:
            raise BenchError(f"{program} {' '.join(words)}: {ran.stderr.strip()[-300:]}")
        return ran.stdout

    def bench(self, *words: object) -> str:
        """`rados bench`, of the pool that is read."""
        return self.run("rados", "-p", "data", "bench", *words)


@contextlib.contextmanager
def _started() -> Iterator[_Ceph]:
    absent = [name for name in _NEEDED if shutil.which(name) is None]
    if absent:
        raise BenchError(f"not installed: {', '.join(absent)}; `make deps-ceph` installs them")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    fsid, uuid = (f"{secrets.token_hex(4)}-0000-4000-8000-{k:012}" for k in range(2))
    with tempfile.TemporaryDirectory(prefix="linnos-osd-") as name, contextlib.ExitStack() as ends:
        ceph = _Ceph(Path(name))
        size = 2 * DATA_MB << 20
        (ceph.folder / "ceph.conf").write_text(
            _CONFIGURATION.format(
                fsid=fsid, port=port, folder=name, bytes=size, settings="\n".join(OSD_SETTINGS)
            )
        )
        (ceph.folder / "osd").mkdir()

        def daemon(*words: str) -> int:
            with (ceph.folder / "out").open("ab") as out:
                command = [words[0], "-c", f"{name}/ceph.conf", *words[1:], "-f"]
                process = subprocess.Popen(command, cwd=name, stdout=out, stderr=out)
            ends.callback(process.wait)
            ends.callback(process.kill)
            return process.pid

        address = f"[v1:127.0.0.1:{port}]"
        ceph.run("monmaptool", "--create", "--addv", "x", address, "--fsid", fsid, "monmap")
        ceph.run("ceph-mon", "--mkfs", "-i", "x", "--monmap", "monmap")
        daemon("ceph-mon", "-i", "x")
        ceph.run("ceph", "osd", "new", uuid, 0)
        ceph.run("ceph-osd", "-i", 0, "--mkfs", "--osd-uuid", uuid)
        ceph.osd_pid = daemon("ceph-osd", "-i", "0")
        until = time.monotonic() + _STARTS_S
        while "1 up" not in ceph.run("ceph", "osd", "stat"):
            if time.monotonic() > until:
                raise BenchError(f"the OSD is not up after {_STARTS_S} s")
            time.sleep(0.2)
        ceph.run("ceph", "osd", "pool", "create", "data", 8, 8)
        yield ceph


def _read_us(ceph: _Ceph, at_a_time: int, idle: float) -> tuple[float, int]:
    """Of a period: processor time a read, us, and how many reads there were."""
    began_s, used_s = time.monotonic(), cpu_s(ceph.osd_pid)
    said = ceph.bench(PERIOD_S, "rand", "-t", at_a_time)
    used_s = cpu_s(ceph.osd_pid) - used_s - idle * (time.monotonic() - began_s)
    made = re.search(r"Total reads made:\s+(\d+)", said)
    assert made, said
    return 1e6 * used_s / int(made[1]), int(made[1])


def osd() -> None:
    """What an OSD of Ceph takes of a core for a read of 4 KiB."""
    rows = []
    with _started() as ceph:
        ceph.bench(PERIOD_S, "write", "-b", READ_BYTES, "-t", 16, "--no-cleanup")
        time.sleep(PERIOD_S)
        used_s = cpu_s(ceph.osd_pid)
        time.sleep(PERIOD_S)
        idle = (cpu_s(ceph.osd_pid) - used_s) / PERIOD_S
        for at_a_time in AT_A_TIME:
            periods = [_read_us(ceph, at_a_time, idle) for _ in range(PERIODS)]
            took = mean_interval([us for us, _ in periods])
            n_reads = sum(n for _, n in periods)
            rows.append({"at_a_time": at_a_time, "reads": n_reads, "cpu_us": took.to_json()})
            print(f"{at_a_time} at a time: {took.value:.0f} us of a core a read "
                  f"[{took.low:.0f}, {took.high:.0f}], {n_reads} reads")  # fmt: skip
    print(f"idle: {100 * idle:.1f} % of a core, taken off")
    write_json(OUT / "osd.json", {"read_bytes": READ_BYTES, "idle": idle, "rows": rows})
