# SPDX-License-Identifier: MIT
"""Programs of kernel/bench that check the policy: shared lines, races, stale data, probes."""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path

import pytest

from eval.bench import MODEL, kernel
from eval.cache import ROOT

CORE = ROOT / "core"

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the shim is for x86-64")


def test_single_cpu_shares_no_cache_lines_and_many_share_few(tmp_path: Path) -> None:
    results = tmp_path / "lines.json"
    # It also fails if the in-flight count does not end at zero, whichever CPU completes I/Os.
    kernel.run("shared_lines", "-m", "8", "-j", str(results), str(MODEL), quiet=True)
    moved = {
        (row["drive"], row["load"], row["cpus"]): row["transfers_per_io"]
        for row in json.loads(results.read_text())
    }
    assert all(n == 0 for (_, _, cpus), n in moved.items() if cpus == 1)
    # All CPUs use these cache lines: the in-flight count, and the history next to its lock.
    assert 0 < moved["8 us", "plain reads", 8] < 7
    for load in ("hinted reads", "hinted reads, completed elsewhere"):
        assert 0 < moved["8 us", load, 8] < 9, load
    assert 0 < moved["8 us", "writes", 8] < 2


def test_concurrent_queries_do_not_lose_a_probe() -> None:
    kernel.run("probe_race", quiet=True)


def test_decisions_contain_no_stale_stack_data() -> None:
    latency = ROOT / "models" / "example" / "latency" / "flash1.linnos"
    kernel.run("all_written", str(latency), str(MODEL), quiet=True)


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_core_admits_few_probes_under_threads(tmp_path: Path, sanitizer: str) -> None:
    program = tmp_path / "probe_stress"
    subprocess.run(
        [
            *("gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"),
            *(f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-DLINNOS_THREADS"),
            *(f"-I{CORE}", Path(__file__).with_name("probe_stress.c")),
            *(CORE / name for name in ("linnos_drive.c", "linnos_probe.c")),
            *("-o", program),
        ],
        check=True,
    )
    for seed in range(1, 4):
        result = subprocess.run([program, str(seed)], capture_output=True, text=True, timeout=300)
        assert result.returncode == 0 and not result.stderr, result.stdout + result.stderr[-3000:]
