# SPDX-License-Identifier: MIT
"""The cost of a read with liblinnos, compared with pread(2).

The files of 16 MiB are in the page cache, so only the program and the kernel take time. Processor
time is measured, which other programs barely change; the scaling of two threads is measured by
processor time and by the clock. The instructions of the program are counted by valgrind, with a
clock that counts its calls, and the futex calls of eight threads by strace.
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from eval.bench import OUT, BenchError, check_built, compare, in_turn, write
from eval.cache import ROOT

LIBRARY = ROOT / "build" / "liblinnos" / "liblinnos.a"
MODELS = [ROOT / "models" / "example" / "latency" / f"flash{k}.linnos" for k in range(3)]
_SOURCE = Path(__file__).with_suffix(".c")
_READS = 200_000
_BYTES = 16 << 20

#: The cases: function, with models. They run with one thread and, except for the fixed hedge, two.
CASES = {
    "pread": ("pread", False),
    "no models": ("library", False),
    "three models": ("library", True),
    "three models, hedged": ("fixed", True),
    "by gain": ("gain", True),
}
TWO = ", 2 threads"

#: How reads are hedged in the cases that are counted.
HEDGES = {
    "library": "not hedged",
    "fixed": "hedged after a fixed time",
    "percentile": "hedged by percentile",
    "gain": "hedged by gain",
}
#: Reads of a counted run; one of a tenth is subtracted, so that opening the array does not count.
_COUNTED = 20_000
_FUTEX_THREADS, _FUTEX_READS = 8, 50_000


def _build(program: Path, *options: str) -> None:
    subprocess.run(
        ["gcc", "-O2", "-D_GNU_SOURCE", *options, f"-I{ROOT / 'liblinnos' / 'include'}", "-o",
         program, _SOURCE, LIBRARY, "-luring", "-lm", "-pthread"],
        check=True,
    )  # fmt: skip


def _run(*command: object) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if result.returncode:
        raise BenchError(f"{_SOURCE.name}: {result.stderr or result.returncode}")
    return result


def _instructions(program: Path, files: list[Path], how: str) -> float:
    """Count the user instructions of a read."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    totals = []
    for reads in (_COUNTED // 10, _COUNTED):
        result = _run(*valgrind, program, 1, reads, how, *files, *MODELS)
        collected = re.search(r"Collected : (\d+)", result.stderr)
        if not collected:
            raise BenchError(f"valgrind printed no count: {result.stderr[-500:]}")
        totals.append(int(collected[1]))
    return (totals[1] - totals[0]) / (_COUNTED - _COUNTED // 10)


def _futex_calls(program: Path, files: list[Path], how: str) -> int:
    """Count the futex calls of eight threads."""
    traced = ["strace", "-f", "-c", "-e", "trace=futex"]
    result = _run(*traced, program, _FUTEX_THREADS, _FUTEX_READS, how, *files, *MODELS)
    counted = re.search(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s.*futex$", result.stderr, re.MULTILINE)
    return int(counted[1]) if counted else 0


def _count(folder: Path, files: list[Path]) -> dict[str, Any]:
    """Print and return the instructions of a read, and the futex calls."""
    missing = [name for name in ("valgrind", "strace") if not shutil.which(name)]
    if missing:
        print(f"instructions and futex calls: not counted, without {' and '.join(missing)}")
        return {}
    counted = folder / "counted"
    _build(counted, "-DCOUNTED_CLOCK")
    pread = _instructions(counted, files, "pread")
    instructions = {HEDGES[how]: _instructions(counted, files, how) - pread for how in HEDGES}
    print(f"user instructions of a read in addition to the {pread:.0f} of a loop with pread():")
    compare(instructions, lambda _: HEDGES["library"])
    futex = {title: _futex_calls(folder / "library", files, how) for how, title in HEDGES.items()}
    print(f"futex calls of {_FUTEX_THREADS} threads with {_FUTEX_READS} reads each: {futex}")
    return {"instructions": instructions, "futex_calls": futex}


def library() -> None:
    """Processor time of a read by linnos_pread() compared with pread(2), and with two threads."""
    check_built(LIBRARY, "liblinnos")
    with tempfile.TemporaryDirectory(dir=OUT) as folder:
        program, files = Path(folder) / "library", [Path(folder) / f"r{k}" for k in range(3)]
        for file in files:
            file.write_bytes(b"\1" * _BYTES)
        _build(program)

        def measure(case: str) -> tuple[float, float]:
            how, with_models = CASES[case.removesuffix(TWO)]
            files_and_models = [*files, *(MODELS if with_models else ())]
            result = _run(program, 1 + case.endswith(TWO), _READS, how, *files_and_models)
            cpu_ns, thousands = map(float, result.stdout.split())
            return cpu_ns, thousands

        with_two = [f"{case}{TWO}" for case in CASES if CASES[case][0] != "fixed"]
        found = in_turn(measure, [*CASES, *with_two])
        counts = _count(Path(folder), files)
    cpu_ns = {case: statistics.median(ns for ns, _ in runs) for case, runs in found.items()}
    rate = {case: max(thousands for _, thousands in runs) for case, runs in found.items()}
    print("processor time of a read:")
    compare(cpu_ns, lambda case: f"pread{TWO if case.endswith(TWO) else ''}", " ns")
    for case in with_two:
        single = case.removesuffix(TWO)
        print(
            f"two threads, {single}: {2 * cpu_ns[single] / cpu_ns[case]:.2f} times one by "
            f"processor time, {rate[case] / rate[single]:.2f} by the clock"
        )
    write("library", {"cpu_ns": cpu_ns, "thousand_reads_per_s": rate, **counts})
