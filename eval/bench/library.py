# SPDX-License-Identifier: MIT
"""The cost of a read with liblinnos, compared with pread(2).

The files of 16 MiB are in the page cache, so only the program and the kernel take time. Processor
time is measured, which other programs barely change; the scaling of two threads is measured by
processor time and by the clock.
"""

from __future__ import annotations

import json
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
    "three models, hedged": ("hedged", True, 1),
}


def _measure(program: Path, files: list[Path], case: str) -> tuple[float, float]:
    how, with_models, threads = CASES[case]
    given = [*files, *(MODELS if with_models else ())]
    ran = subprocess.run(
        [program, str(threads), str(_READS), how, *given],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise BenchError(f"{_SOURCE.name}: {ran.stderr or ran.returncode}")
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
        subprocess.run(
            ["gcc", "-O2", "-D_GNU_SOURCE", f"-I{ROOT / 'liblinnos' / 'include'}", "-o", program,
             _SOURCE, LIBRARY, "-luring", "-lm", "-pthread"],
            check=True,
        )  # fmt: skip
        # In turn, so that other load of the machine affects all cases alike.
        rounds = [{case: _measure(program, files, case) for case in CASES} for _ in range(_ROUNDS)]
    cpu_ns = {case: statistics.median(one[case][0] for one in rounds) for case in CASES}
    rate = {case: max(one[case][1] for one in rounds) for case in CASES}
    print(f"{'':26}{'ns a read':>10}{'above pread':>13}{'thousand/s':>12}")
    for case in CASES:
        plain_ns = cpu_ns["pread, 2 threads" if "2 threads" in case else "pread"]
        print(f"{case:26}{cpu_ns[case]:10.0f}{cpu_ns[case] - plain_ns:13.0f}{rate[case]:12.0f}")
    for case in ("pread", "no models", "three models"):
        both = f"{case}, 2 threads"
        print(
            f"two threads, {case}: {2 * cpu_ns[case] / cpu_ns[both]:.2f} times one by processor "
            f"time, {rate[both] / rate[case]:.2f} by the clock"
        )
    (OUT / "library.json").write_text(
        json.dumps({"cpu_ns": cpu_ns, "thousand_reads_per_s": rate}, indent=1) + "\n"
    )
