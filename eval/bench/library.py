# SPDX-License-Identifier: MIT
"""The cost of a read with liblinnos, compared with pread(2).

The files of 16 MiB are in the page cache, so only the program and the kernel take time. Processor
time is measured, which other programs barely change; the scaling of two threads is measured by
processor time and by the clock. The instructions of the program are counted by valgrind, with a
clock that counts its calls, and the futex calls of eight threads by strace.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from eval.bench import OUT, BenchError
from eval.cache import ROOT

LIBRARY = ROOT / "build" / "liblinnos" / "liblinnos.a"
MODELS = [ROOT / "models" / "example" / "latency" / f"flash{k}.linnos" for k in range(3)]
_SOURCE = Path(__file__).with_suffix(".c")
_READS = 200_000
_ROUNDS = 7
_BYTES = 16 << 20

#: The cases: function, with models, number of threads.
CASES = {
    "pread": ("pread", False, 1),
    "pread, 2 threads": ("pread", False, 2),
    "no models": ("library", False, 1),
    "no models, 2 threads": ("library", False, 2),
    "three models": ("library", True, 1),
    "three models, 2 threads": ("library", True, 2),
    "three models, hedged": ("fixed", True, 1),
    "by gain": ("gain", True, 1),
    "by gain, 2 threads": ("gain", True, 2),
}

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


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(list(command), capture_output=True, text=True, check=False)
    if ran.returncode:
        raise BenchError(f"{_SOURCE.name}: {ran.stderr or ran.returncode}")
    return ran


def _instructions(program: Path, files: list[Path], how: str) -> float:
    """Count the user instructions of a read."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    totals = []
    for reads in (_COUNTED // 10, _COUNTED):
        ran = _run(*valgrind, program, "1", str(reads), how, *files, *MODELS)
        collected = re.search(r"Collected : (\d+)", ran.stderr)
        if not collected:
            raise BenchError(f"valgrind printed no count: {ran.stderr[-500:]}")
        totals.append(int(collected[1]))
    return (totals[1] - totals[0]) / (_COUNTED - _COUNTED // 10)


def _futex_calls(program: Path, files: list[Path], how: str) -> int:
    """Count the futex calls of eight threads."""
    threads, reads = str(_FUTEX_THREADS), str(_FUTEX_READS)
    traced = ["strace", "-f", "-c", "-e", "trace=futex"]
    ran = _run(*traced, program, threads, reads, how, *files, *MODELS)
    counted = re.search(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s.*futex$", ran.stderr, re.MULTILINE)
    return int(counted[1]) if counted else 0


def _count(folder: Path, files: list[Path]) -> dict[str, dict[str, float]]:
    """Print and return the instructions of a read, and the futex calls."""
    missing = [name for name in ("valgrind", "strace") if not shutil.which(name)]
    if missing:
        print(f"instructions and futex calls: not counted, without {' and '.join(missing)}")
        return {}
    counted, plain = folder / "counted", folder / "library"
    _build(counted, "-DCOUNTED_CLOCK")
    pread = _instructions(counted, files, "pread")
    instructions = {how: _instructions(counted, files, how) - pread for how in HEDGES}
    futex = {how: _futex_calls(plain, files, how) for how in HEDGES}
    print(f"user instructions of a read in addition to the {pread:.0f} of a loop with pread(), and")
    print(f"futex calls of {_FUTEX_THREADS} threads with {_FUTEX_READS} reads each:")
    for how, title in HEDGES.items():
        ratio = instructions[how] / instructions["library"]
        print(f"  {title:26}{instructions[how]:8.0f}  {ratio:.2f} times{futex[how]:8}")
    return {"instructions": instructions, "futex_calls": dict(futex)}


def _measure(program: Path, files: list[Path], case: str) -> tuple[float, float]:
    how, with_models, threads = CASES[case]
    given = [*files, *(MODELS if with_models else ())]
    ran = _run(program, str(threads), str(_READS), how, *given)
    cpu_ns, thousands = map(float, ran.stdout.split())
    return cpu_ns, thousands


def library() -> None:
    """Processor time of a read by linnos_pread() compared with pread(2), and with two threads."""
    if not LIBRARY.exists():
        raise BenchError(f"{LIBRARY}: not there; `make liblinnos` builds it")
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=OUT) as folder:
        program, files = Path(folder) / "library", [Path(folder) / f"r{k}" for k in range(3)]
        for file in files:
            file.write_bytes(b"\1" * _BYTES)
        _build(program)
        # In turn, so that other load of the machine affects all cases alike.
        rounds = [{case: _measure(program, files, case) for case in CASES} for _ in range(_ROUNDS)]
        counts = _count(Path(folder), files)
    cpu_ns = {case: statistics.median(one[case][0] for one in rounds) for case in CASES}
    rate = {case: max(one[case][1] for one in rounds) for case in CASES}
    print(f"{'':26}{'ns a read':>10}{'above pread':>13}{'thousand/s':>12}")
    for case in CASES:
        plain_ns = cpu_ns["pread, 2 threads" if "2 threads" in case else "pread"]
        print(f"{case:26}{cpu_ns[case]:10.0f}{cpu_ns[case] - plain_ns:13.0f}{rate[case]:12.0f}")
    for case in ("pread", "no models", "three models", "by gain"):
        both = f"{case}, 2 threads"
        print(
            f"two threads, {case}: {2 * cpu_ns[case] / cpu_ns[both]:.2f} times one by processor "
            f"time, {rate[both] / rate[case]:.2f} by the clock"
        )
    (OUT / "library.json").write_text(
        json.dumps({"cpu_ns": cpu_ns, "thousand_reads_per_s": rate, **counts}, indent=1) + "\n"
    )
