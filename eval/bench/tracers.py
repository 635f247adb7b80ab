# SPDX-License-Identifier: MIT
"""The cost of a system call under `linnapp watch` and under other tracers.

This repeats a comparison of DIO's paper (Esteves et al., 2023, section V-B) with the tracers that
Debian has: strace, perf trace and bpftrace, which write one line of text for each call. Debian's
Sysdig needs a module that cannot be built for each kernel. All files are in memory. In each turn
the programs of `traced_calls.c` run without a tracer and under each of them. The results are ratios
of processor times to those without a tracer: of the program alone, and of the program and the
tracer together. The time of a run with few calls is subtracted from the latter, because it is the
cost of starting the tracer. Other load of the machine affects all runs of a turn.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eval.bench import BenchError, write
from eval.bench.kernel import FOLDER
from eval.bench.watching import check_watching, machine
from linnapp.insight.calls import Filters
from linnapp.insight.query import summary
from linnapp.insight.watch import watch

TURNS = 5
#: Programs of `traced_calls`, and their loops; the runs with the cost of the start have FEW.
PROGRAMS, FEW = {"fileserver": 3_000, "reads": 30_000}, 10
#: MiB of the buffers of all tracers that have one: no calls are lost in it.
BUFFER_MIB = 64

_SOURCE = Path(__file__).with_name("traced_calls.c")
#: Prints what strace and perf trace print for a call, without names.
_BPFTRACE = """
tracepoint:raw_syscalls:sys_enter /comm == "traced_calls"/ {
    @begin[tid] = nsecs; @a[tid] = args->args[0]; @b[tid] = args->args[1]; @c[tid] = args->args[2];
}
tracepoint:raw_syscalls:sys_exit /@begin[tid]/ {
    printf("%llu %llu %s/%d %ld(%lx, %lx, %lx) = %ld\\n", @begin[tid], nsecs - @begin[tid], comm,
           tid, args->id, @a[tid], @b[tid], @c[tid], args->ret);
    delete(@begin[tid]);
}
"""


def _run(command: list[str], result: Path, **options: str) -> None:
    """Run a command whose output is that of the program."""
    with result.open("w") as out:
        subprocess.run(
            command, stdout=out, stderr=subprocess.PIPE, check=True, env={**os.environ, **options}
        )


def _watched(program: list[str], result: Path, log: Path, **options: Any) -> None:
    """Run a command under `linnapp watch` in this process, with its summary."""
    with result.open("w") as out:
        os.dup2(out.fileno(), 1)
    found = watch(log, command=program, buffer_mib=BUFFER_MIB, **options)
    counts = {**summary(log, 20), **found.counts}
    result.with_suffix(".json").write_text(json.dumps(counts, default=str))


def tracers_of(program: list[str], result: Path, log: Path) -> dict[str, Callable[[], None]]:
    """Return how to run a program under each tracer, which writes to `log`."""
    as_text = ["strace", "-f", "-ttt", "-T", "-o", str(log), *program]
    perf = ["perf", "trace", "-m", f"{BUFFER_MIB}M", "-o", str(log), *program]
    bpftrace = ["bpftrace", "-q", "-o", str(log), "-c", " ".join(program), "-e", _BPFTRACE]
    pages = str((BUFFER_MIB << 20) // 4096)
    elsewhere = Filters(paths=["/run/lock"])
    return {
        "no tracer": lambda: _run(program, result),
        "strace": lambda: _run(as_text, result),
        "perf trace": lambda: _run(perf, result),
        "bpftrace": lambda: _run(bpftrace, result, BPFTRACE_PERF_RB_PAGES=pages),
        "watch": lambda: _watched(program, result, log),
        "watch --arguments detailed": lambda: _watched(program, result, log, arguments="detailed"),
        "watch --hash": lambda: _watched(program, result, log, hashes=True),
        "watch --path elsewhere": lambda: _watched(program, result, log, filters=elsewhere),
    }


def _in_child(work: Callable[[], None]) -> float:
    """Run work in a child; return the processor time of all its processes in s."""
    child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    _, status, used = os.wait4(child, 0)
    if status:
        raise BenchError(f"a run failed with status {status}")
    return used.ru_utime + used.ru_stime


def _recorded(log: Path, name: str, result: Path) -> int:
    """Return the number of calls that a tracer recorded."""
    if name == "no tracer":
        return 0
    if log.is_dir():
        counts = json.loads(result.with_suffix(".json").read_text())
        return sum(row["calls"] for row in counts["by_path"])
    with log.open(errors="replace") as lines:
        return sum(1 for _ in lines)


def run_one(binary: Path, program: str, loops: int, name: str) -> dict[str, Any]:
    """Run a program under a tracer; return its calls and processor times."""
    with tempfile.TemporaryDirectory(prefix="linnapp-bench-", dir="/dev/shm") as folder:
        files, result, log = (Path(folder) / each for each in ("files", "result", "log"))
        files.mkdir()
        command = [str(binary), program, str(files), str(loops)]
        total_s = _in_child(tracers_of(command, result, log)[name])
        calls, program_ns = map(int, result.read_text().split())
        if name == "perf trace":
            total_s += program_ns / 1e9  # It does not wait for the program, whose time it lacks.
        recorded = _recorded(log, name, result)
    return {"calls": calls, "program_s": program_ns / 1e9, "total_s": total_s, "recorded": recorded}


def turn(binary: Path) -> dict[tuple[str, str], dict[str, float]]:
    """Run both programs under each tracer; return ratios and the share of recorded calls."""
    found, bare_s = {}, dict[str, float]()
    for name in tracers_of([], Path(), Path()):
        few = run_one(binary, "reads", FEW, name)
        for program, loops in PROGRAMS.items():
            many = run_one(binary, program, loops, name)
            bare_s.setdefault(program, many["program_s"])
            found[program, name] = {
                "program": many["program_s"] / bare_s[program],
                "total": (many["total_s"] - few["total_s"]) / bare_s[program],
                "us": 1e6 * (many["total_s"] - few["total_s"] - bare_s[program]) / many["calls"],
                "recorded": (many["recorded"] - few["recorded"]) / (many["calls"] - few["calls"]),
            }
    return found


def tracers() -> None:
    """Processor time of system calls under `linnapp watch`, strace, perf trace and bpftrace."""
    check_watching("tracers.txt", "strace", "perf", "bpftrace")
    if not Path("/sys/kernel/tracing/events").exists():
        raise BenchError("bpftrace needs tracefs: mount -t tracefs none /sys/kernel/tracing")
    # All runs of `watch` have loaded these.
    for module in ("duckdb", "pyarrow.compute", "pyarrow.parquet"):
        __import__(module)
    FOLDER.mkdir(parents=True, exist_ok=True)
    binary = FOLDER / _SOURCE.stem
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-o", binary, _SOURCE], check=True)
    turns = [turn(binary) for _ in range(TURNS)]
    rows = []
    print("processor time without a tracer = 1, of the program and with the tracer's")
    for program, name in turns[0]:
        values = {
            which: [times[program, name][which] for times in turns]
            for which in turns[0][program, name]
        }
        rows.append({"program": program, "tracer": name, "turns": values})
        shown = ", ".join(
            f"{which} {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            for which, ratios in values.items()
        )
        print(f"  {program:10} {name:26} {shown}", flush=True)
    write("watch-tracers", {"rows": rows, **machine()})
