# SPDX-License-Identifier: MIT
"""The cost of `linnapp watch` for watched programs, and the number of calls that it can record.

`watch-redis` repeats the measurement of DIO's paper (Esteves et al., 2023, section IV-D):
redis-benchmark, with its 50 clients over loopback, against a redis-server that is watched or not.
Only Redis' folder is watched (`--path`), as in the paper, and so not the clients' sockets. One
server, which writes nothing, is watched and not watched in turn, so that other load of the machine
affects both. The ratios of such pairs are those of the elapsed time, of the processor time of the
server, and of the processor time of server and clients.

In `watch-rate` one program reads and writes at a constant rate. The result is how many of its
calls are in the tables, and which part of a core the reader used, without the calls' arguments and
with them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from eval.bench import OUT, BenchError
from linnapp.insight.calls import Filters, Reader
from linnapp.insight.watch import check_can_watch
from linnapp.lab.work import write_json
from linnapp.stats import quantile_interval

#: Pairs of a turn with and one without; requests of each test in a turn.
TURNS, REQUESTS = 20, 1_000
#: Calls a second, and for how long.
RATES, RATE_S = (100_000, 200_000), 10.0
#: How arguments are recorded; see ``linnapp watch --arguments``.
ARGUMENTS = (None, "raw", "detailed")
_STEADY_CALLS = """
import os, sys, time
rate, seconds, path = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
fd = os.open(path, os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b"x" * 4096, 0)
print(flush=True)
sys.stdin.readline()
# A hundred at a time: to wait for each would take longer than the call.
step, made, start = 100, 0, time.perf_counter()
while made < rate * seconds:
    for _ in range(step // 2):
        os.pwrite(fd, b"y" * 512, 512)
        os.pread(fd, 512, 0)
    made += step
    late = time.perf_counter() - start - made / rate
    if late < 0:
        time.sleep(-late)
print(made, time.perf_counter() - start, flush=True)
sys.stdin.readline()
"""

#: Timeout for the start of a program, and the interval of checks.
_READY_S, _LOOK_S = 60.0, 0.05
#: Counts of the summary for records that are missing in the tables.
_DROPPED = (
    *("lost_calls", "lost_names", "lost_ios", "untracked_calls", "untracked_ios"),
    *("untracked_processes", "missed_events"),
)


@dataclass(frozen=True)
class Run:
    """One run of redis-benchmark."""

    #: Elapsed time.
    seconds: float
    #: Processor time of the server and of redis-benchmark.
    server_cpu_s: float
    client_cpu_s: float
    #: Calls in the tables.
    calls: int = 0
    #: Missing calls, names and I/Os.
    dropped: int = 0


#: The compared values.
RATIOS: dict[str, Callable[[Run], float]] = {
    "time": lambda run: run.seconds,
    "server's CPU": lambda run: run.server_cpu_s,
    "all CPU": lambda run: run.server_cpu_s + run.client_cpu_s,
}


@dataclass
class Pairs:
    """Runs without and with a tracer, right after each other."""

    bare: list[Run] = field(default_factory=list)
    traced: list[Run] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Every run; the medians of the ratios, with intervals; calls and what was dropped."""
        ratios = {}
        for name, of in RATIOS.items():
            values = [of(t) / of(b) for t, b in zip(self.traced, self.bare, strict=True)]
            ratios[name] = quantile_interval(values).to_json()
        return {
            "ratios": ratios,
            "bare_s": statistics.median(run.seconds for run in self.bare),
            "calls": sum(run.calls for run in self.traced),
            "dropped": sum(run.dropped for run in self.traced),
            "runs": {"bare": [*map(asdict, self.bare)], "traced": [*map(asdict, self.traced)]},
        }


def _check(*programs: str) -> None:
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        raise BenchError(
            f"{', '.join(missing)}: not installed; packaging/apt/redis.txt has the packages"
        )
    check_can_watch()


def cpu_s(pid: int) -> float:
    """Processor's time of a process: of its threads, in ns, where its own are of 10 ms."""
    total_ns = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # it has just ended
            total_ns += int(path.read_text().split()[0])
    return total_ns / 1e9


def _wait_until(
    is_ready: Callable[[], bool], name: str, process: subprocess.Popen[Any], log: Path
) -> None:
    deadline = time.monotonic() + _READY_S
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            said = log.read_text(errors="replace")[-500:] if log.exists() else ""
            raise BenchError(f"{name} did not start: {said.strip()}")
        time.sleep(_LOOK_S)


@contextlib.contextmanager
def _started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Run a program that is terminated when the context ends."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


@contextlib.contextmanager
def _redis(folder: Path, options: Sequence[str]) -> Iterator[tuple[int, int]]:
    """A redis-server in a folder: its process, and its port on loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "redis.log"
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)]
    command += ["--logfile", str(log), *options]
    ping = ["redis-cli", "-p", str(port), "ping"]
    with _started(command) as server:

        def answers() -> bool:
            return b"PONG" in subprocess.run(ping, capture_output=True, check=False).stdout

        _wait_until(answers, "redis-server", server, log)
        yield server.pid, port


def _is_watching(reader: int) -> bool:
    """Return true if ``linnapp watch`` follows its process: then it waits for the end of it."""
    for fd in Path(f"/proc/{reader}/fd").glob("*"):
        with contextlib.suppress(OSError):
            if "pidfd" in str(fd.readlink()):
                return True
    return False


@contextlib.contextmanager
def _watched(pid: int, options: Sequence[str], folder: Path) -> Iterator[tuple[int, Path]]:
    """``linnapp watch`` of a process: its own process, and where its summary will be."""
    summary, log = folder / "summary.json", folder / "watch.log"
    command = [sys.executable, "-m", "linnapp", "watch", "-o", str(folder / "seen"), "--json"]
    command += ["--pid", str(pid), *options]
    with (
        summary.open("w") as out,
        log.open("w") as error,
        _started(command, stdout=out, stderr=error) as tracer,
    ):
        _wait_until(lambda: _is_watching(tracer.pid), "linnapp watch", tracer, log)
        yield tracer.pid, summary
        # It ends when the watched process ends.
        tracer.wait(_READY_S)


def redis(path: Path = OUT / "watch-redis.json") -> None:
    """Cost of `linnapp watch --path` for a watched Redis server."""
    _check("redis-server", "redis-cli", "redis-benchmark")
    found = Pairs()
    with tempfile.TemporaryDirectory(prefix="linnapp-bench-") as name:
        folder = Path(name)
        with _redis(folder, ["--appendonly", "no", "--save", ""]) as (pid, port):
            command = ["redis-benchmark", "-p", str(port), "-n", str(REQUESTS), "-q"]
            for k in range(TURNS):
                for watch in (False, True) if k % 2 else (True, False):
                    ran = _turn(pid, command, folder, watch=watch)
                    (found.traced if watch else found.bare).append(ran)
    result = found.to_json()
    ratios = (
        f"{name} {value:.2f} [{low:.2f}, {high:.2f}]"
        for name, (value, low, high) in result["ratios"].items()
    )
    load = os.getloadavg()[0]
    print(f"{TURNS} turns of {REQUESTS} requests, load average {load:.1f}: with to without")
    print(f"{', '.join(ratios)}; {result['calls']} calls, {result['dropped']} dropped")
    write_json(path, {**result, "load_average": load, "cpus": os.cpu_count()})


def _turn(pid: int, command: Sequence[str], folder: Path, *, watch: bool) -> Run:
    with contextlib.ExitStack() as stack:
        reader = None
        if watch:
            reader = stack.enter_context(Reader())
            reader.choose(Filters(paths=[str(folder)]))
            reader.attach(16 << 20)
            reader.follow(pid)
        before, start = cpu_s(pid), time.monotonic()
        # The client writes to no watched path, and the buffer has room for the few calls.
        client = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(client.pid, 0)
        client.returncode = os.waitstatus_to_exitcode(status)
        seconds, after = time.monotonic() - start, cpu_s(pid)
        calls, counts = 0, dict[str, int]()
        if reader is not None:
            reader.stop()
            reader.read(0)
            calls, counts = len(reader.take()[0]), reader.counts()
    if client.returncode:
        raise BenchError(f"redis-benchmark ended with status {client.returncode}")
    return Run(
        seconds=seconds,
        server_cpu_s=after - before,
        client_cpu_s=used.ru_utime + used.ru_stime,
        calls=calls,
        dropped=sum(counts.get(name, 0) for name in _DROPPED),
    )


def run_rate(rate: int, seconds: float, arguments: str | None) -> dict[str, Any]:
    """Watch a program that makes this number of calls per second."""
    options = [] if arguments is None else ["--arguments", arguments]
    # On a file system in memory: what is measured is the recording.
    with tempfile.TemporaryDirectory(prefix="linnapp-bench-", dir="/dev/shm") as name:
        folder = Path(name)
        file = folder / "file"
        command = [sys.executable, "-S", "-E", "-c", _STEADY_CALLS, str(rate), str(seconds)]
        with _started(
            [*command, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as program:
            begin, told = program.stdin, program.stdout
            assert begin is not None and told is not None
            told.readline()
            with _watched(program.pid, options, folder) as (reader, summary):
                before = cpu_s(reader)
                begin.write("\n")
                begin.flush()
                made, took_s = told.readline().split()
                used_s = cpu_s(reader) - before
                begin.close()
        found = json.loads(summary.read_text())
        stored = sum(row["calls"] for row in found["by_path"] if row["path"] == str(file))
        return {
            "rate": rate,
            "arguments": arguments,
            "reached": int(made) / float(took_s),
            "made": int(made),
            "stored": stored,
            "dropped": sum(found[name] for name in _DROPPED),
            "reader_cores": used_s / float(took_s),
        }


def rate(
    path: Path = OUT / "watch-rate.json",
    *,
    rates: Sequence[int] = RATES,
    seconds: float = RATE_S,
    repeats: int = 3,
) -> None:
    """Calls per second that `linnapp watch` can record, and the processor time of its reader."""
    _check()
    results = []
    for each, arguments in itertools.product(rates, ARGUMENTS):
        for _ in range(repeats):
            found = run_rate(each, seconds, arguments)
            missing = found["made"] - found["stored"]
            share = missing / found["made"]
            print(
                f"{each:,} calls/s for {seconds:g} s, {arguments or 'no'} arguments: "
                f"{found['reached']:,.0f} a second, "
                f"{found['made']:,} made, {missing:,} not in the tables ({100 * share:.3f} %), "
                f"{found['dropped']:,} counted as dropped; "
                f"reader {found['reader_cores']:.2f} cores",
                flush=True,
            )
            results.append(found)
    load = os.getloadavg()[0]
    print(f"load average at the end: {load:.1f}, {os.cpu_count()} CPUs")
    write_json(path, {"results": results, "load_average": load, "cpus": os.cpu_count()})
