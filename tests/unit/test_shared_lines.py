# SPDX-License-Identifier: MIT
"""What CPUs that read from one drive take from one another, counted on CPUs that are made up."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from eval.bench import MODEL, kernel

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the shim is for x86-64")


def test_a_cpu_alone_takes_no_line_and_many_take_few(tmp_path: Path) -> None:
    results = tmp_path / "lines.json"
    # It fails, too, if its account does not end at zero, wherever the I/Os were completed.
    kernel.run("shared_lines", "--most", "8", "--json", str(results), str(MODEL), quiet=True)
    moved = {
        (row["drive"], row["load"], row["cpus"]): row["transfers_per_io"]
        for row in json.loads(results.read_text())
    }
    assert all(n == 0 for (_, _, cpus), n in moved.items() if cpus == 1)
    # Where CPUs meet all the time. Were each read counted and recorded where all see it at once,
    # these would be 4.5, 6.2 and 6.1.
    for load in ("plain reads", "hinted reads", "hinted reads, completed elsewhere"):
        assert 0 < moved["8 us", load, 8] < 2.5, load
