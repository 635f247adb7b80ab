# SPDX-License-Identifier: MIT
"""Clustering and predictability of slow reads in a recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eval.experiments import clustering
from linnapp.trace.reads import load


def write_log(path: Path, slow: np.ndarray) -> None:
    """Write a log of reads, one at a time, some of which take ten times as long."""
    path.write_text(
        "".join(
            f"0,{1000 if is_slow else 100 + k % 7},1,4096,{4096 * k},{8 * k}.000,4096\n"
            for k, is_slow in enumerate(slow)
        )
    )


def test_slow_reads_in_long_runs_follow_each_other_and_are_predicted(tmp_path: Path) -> None:
    write_log(tmp_path / "d.trace", np.arange(6000) // 50 % 4 == 3)
    found = clustering.of_table(load(tmp_path / "d.trace"), 1)
    assert found["slow"] == pytest.approx(0.25)
    assert found["after_answer"] == pytest.approx(0.98, abs=0.01)
    assert found["after_arrival"] == pytest.approx(0.98, abs=0.01)
    assert found["auc"] > 0.95 and found["auc_last"] > 0.95


def test_slow_reads_at_random_are_as_frequent_after_slow_ones(tmp_path: Path) -> None:
    write_log(tmp_path / "d.trace", np.random.default_rng(1).random(6000) < 0.2)
    found = clustering.of_table(load(tmp_path / "d.trace"), 1)
    assert found["after_answer"] == pytest.approx(found["slow"], abs=0.05)
    assert found["after_arrival"] == pytest.approx(found["slow"], abs=0.05)
    assert abs(found["auc"] - 0.5) < 0.05
