# SPDX-License-Identifier: MIT
"""Cache lines that CPUs transfer when they read from one drive, counted on simulated CPUs."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from eval.bench import MODEL, kernel

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
    # Lines that all CPUs use: the in-flight count, and the history next to its lock.
    assert 0 < moved["8 us", "plain reads", 8] < 7
    for load in ("hinted reads", "hinted reads, completed elsewhere"):
        assert 0 < moved["8 us", load, 8] < 9, load
    assert 0 < moved["8 us", "writes", 8] < 2
