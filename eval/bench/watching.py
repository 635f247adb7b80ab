# SPDX-License-Identifier: MIT
"""The cost of `linnapp watch` for watched programs, and the number of calls that it can record.

`watch-redis` repeats the measurement of DIO's paper (Esteves et al., 2023, section IV-D):
redis-benchmark, with its 50 clients over loopback, against a redis-server that is watched or not.
Only Redis' folder is watched (`--path`), as in the paper, and so not the clients' sockets. One
server, which writes nothing, runs in turns with and without a watch, so that other load of the
machine affects both. The ratios of such pairs are those of the elapsed time, of the processor time
of the server, and of the processor time of server and clients.

In `watch-rate` one program reads and writes at a constant rate. The results are the number of its
calls that are in the tables, and the share of a core that the reader used, both without and with
the calls' arguments.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from eval.bench import BenchError, write
from linnapp.insight.calls import Filters, Reader
from linnapp.insight.watch import check_can_watch
from linnapp.stats import quantile_interval

#: Pairs of a turn with and one without; requests of each test in a turn.
TURNS, REQUESTS = 20, 1_000
#: Calls a second, and for how long.
RATES, RATE_S = (100_000, 200_000), 10.0
#: The same for `watch-loss`, and MiB of the buffer.
LOSS_RATES, LOSS_S, BUFFERS_MIB = (25_000, 50_000, 100_000, 200_000), 3.0, (1, 4, 16, 64)
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


class Run(NamedTuple):
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


def compare_pairs(bare: Sequence[Run], traced: Sequence[Run]) -> dict[str, Any]:
    """Return the median ratios of pairs of runs, with intervals, and the number of lost records."""
    pairs = [*zip(traced, bare, strict=True)]
    return {
        "ratios": {
            name: quantile_interval([time_of(t) / time_of(b) for t, b in pairs]).to_json()
            for name, time_of in RATIOS.items()
        },
        "calls": sum(run.calls for run in traced),
        "dropped": sum(run.dropped for run in traced),
    }


def check_watching(packages: str, *programs: str) -> None:
    """Check that programs of a list of packages are there, and that watching is possible."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        raise BenchError(
            f"{', '.join(missing)}: not installed; packaging/apt/{packages} has the packages"
        )
    check_can_watch()


def cpu_s(pid: int) -> float:
    """Return the processor time of a process: the sum over its threads."""
    # A thread's own time has a resolution of 1 ns.
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
            log_text = log.read_text(errors="replace")[-500:] if log.exists() else ""
            raise BenchError(f"{name} did not start: {log_text.strip()}")
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
    """Run a redis-server in a folder; yield its process, and its port on loopback."""
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
    """Run ``linnapp watch`` on a process; yield its own process, and the path of its summary."""
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


def redis() -> None:
    """Cost of `linnapp watch --path` for a watched Redis server."""
    check_watching("redis.txt", "redis-server", "redis-cli", "redis-benchmark")
    runs: dict[bool, list[Run]] = {False: [], True: []}
    with tempfile.TemporaryDirectory(prefix="linnapp-bench-") as name:
        folder = Path(name)
        with _redis(folder, ["--appendonly", "no", "--save", ""]) as (pid, port):
            command = ["redis-benchmark", "-p", str(port), "-n", str(REQUESTS), "-q"]
            for k in range(TURNS):
                for watch in (False, True) if k % 2 else (True, False):
                    runs[watch].append(_turn(pid, command, folder, watch=watch))
    found = compare_pairs(runs[False], runs[True])
    ratios = (
        f"{name} {value:.2f} [{low:.2f}, {high:.2f}]"
        for name, (value, low, high) in found["ratios"].items()
    )
    print(f"{TURNS} turns of {REQUESTS} requests, load average {os.getloadavg()[0]:.1f}:")
    print(f"{', '.join(ratios)}; {found['calls']} calls, {found['dropped']} dropped")
    write("watch-redis", {**found, **machine()})


def _turn(pid: int, command: Sequence[str], folder: Path, *, watch: bool) -> Run:
    with contextlib.ExitStack() as stack:
        reader = None
        if watch:
            reader = stack.enter_context(Reader())
            reader.attach(16 << 20, Filters(paths=[str(folder)]))
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


def run_rate(
    rate: int, seconds: float, arguments: str | None, buffer_mib: int = 16
) -> dict[str, Any]:
    """Watch a program that makes this number of calls per second."""
    options = [] if arguments is None else ["--arguments", arguments]
    options += ["--buffer-mib", str(buffer_mib)]
    # The file is in memory, because the recording is measured and not the drive.
    with tempfile.TemporaryDirectory(prefix="linnapp-bench-", dir="/dev/shm") as name:
        folder = Path(name)
        file = folder / "file"
        command = [sys.executable, "-S", "-E", "-c", _STEADY_CALLS, str(rate), str(seconds)]
        with _started(
            [*command, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as program:
            begin, answers = program.stdin, program.stdout
            assert begin is not None and answers is not None
            answers.readline()
            with _watched(program.pid, options, folder) as (reader, summary):
                before = cpu_s(reader)
                begin.write("\n")
                begin.flush()
                made, took_s = answers.readline().split()
                used_s = cpu_s(reader) - before
                begin.close()
        found = json.loads(summary.read_text())
        stored = sum(row["calls"] for row in found["by_path"] if row["path"] == str(file))
        return {
            "rate": rate,
            "arguments": arguments,
            "buffer_mib": buffer_mib,
            "reached": int(made) / float(took_s),
            "made": int(made),
            "stored": stored,
            "dropped": sum(found[name] for name in _DROPPED),
            "reader_cores": used_s / float(took_s),
        }


def rate() -> None:
    """Calls per second that `linnapp watch` can record, and the processor time of its reader."""
    cases = itertools.product(RATES, ARGUMENTS, (16,), range(3))
    _measure_rates("watch-rate", RATE_S, [case[:3] for case in cases])


def losses() -> None:
    """Calls that `linnapp watch` loses, by their rate and the size of its buffer."""
    cases = itertools.product(LOSS_RATES, (None,), BUFFERS_MIB)
    _measure_rates("watch-loss", LOSS_S, list(cases))


def _measure_rates(name: str, seconds: float, cases: list[tuple[int, str | None, int]]) -> None:
    check_can_watch()
    results = []
    for each, arguments, buffer_mib in cases:
        found = run_rate(each, seconds, arguments, buffer_mib)
        print(
            f"{each:,} calls/s for {seconds:g} s ({found['reached']:,.0f} reached), "
            f"{arguments or 'no'} arguments, {buffer_mib} MiB: {found['made']:,} made, "
            f"{1 - found['stored'] / found['made']:.3%} not in the tables, "
            f"{found['dropped']:,} counted as dropped; reader {found['reader_cores']:.2f} cores",
            flush=True,
        )
        results.append(found)
    write(name, {"results": results, **machine()})


def machine() -> dict[str, Any]:
    """Return the load average and the number of CPUs, since other load affects the results."""
    return {"load_average": os.getloadavg()[0], "cpus": os.cpu_count()}
