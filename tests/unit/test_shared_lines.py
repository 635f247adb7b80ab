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
    # It fails, too, if its account does not end at zero, wherever the I/Os were completed.
    kernel.run("shared_lines", "-m", "8", "-j", str(results), str(MODEL), quiet=True)
    moved = {
        (row["drive"], row["load"], row["cpus"]): row["transfers_per_io"]
        for row in json.loads(results.read_text())
    }
    assert all(n == 0 for (_, _, cpus), n in moved.items() if cpus == 1)
    # Where CPUs meet all the time: what is in flight, and the history, its lock beside it.
    assert 0 < moved["8 us", "plain reads", 8] < 7
    for load in ("hinted reads", "hinted reads, completed elsewhere"):
        assert 0 < moved["8 us", load, 8] < 9, load
    assert 0 < moved["8 us", "writes", 8] < 2
