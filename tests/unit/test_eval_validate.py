# SPDX-License-Identifier: MIT
"""The measures of the drive validation, on latencies with a known result."""

from __future__ import annotations

import numpy as np
import pytest

from eval.experiments.validate import ALONE, compare, describe
from eval.long_table import LongTable


def _rows(latency_us: np.ndarray) -> np.ndarray:
    return np.column_stack([np.arange(len(latency_us)) * 0.2, latency_us])


def test_a_steady_drive_has_no_slack_and_no_tail() -> None:
    found = describe(_rows(np.full(10_000, 90.0)), alone=True)
    assert found["median_us"] == found["p999_us"] == 90
    assert found["slack_pct"] == pytest.approx(0)
    assert found["p99_over_mean"] == pytest.approx(1)


def test_slack_is_how_far_windows_drift() -> None:
    # 500 reads fill 100 ms; half of the windows are at 90 us, half at 110 us.
    latency_us = np.where(np.arange(10_000) // 500 % 2, 110.0, 90.0)
    assert describe(_rows(latency_us), alone=True)["slack_pct"] == pytest.approx(10)


def test_tail_begins_where_it_begins() -> None:
    rng = np.random.default_rng(1)
    latency_us = rng.uniform(85, 95, 20_000)
    slow = rng.random(20_000) < 0.1
    latency_us[slow] = rng.uniform(900, 1100, slow.sum())
    found = describe(_rows(latency_us), alone=False)
    assert found["tail_from_percentile"] == pytest.approx(90, abs=0.7)
    assert found["inflection_percentile"] == pytest.approx(90, abs=1)
    # Slow reads came by chance: one in ten follows another.
    assert found["burstiness_pct"] == pytest.approx(10, abs=2)


def test_comparison_names_measures_outside_of_their_range() -> None:
    rng = np.random.default_rng(2)
    calm = rng.uniform(85, 95, 5_000)
    bursty = calm.copy()
    bursty[np.arange(5_000) % 100 < 10] = 1000  # ten slow in a row of every hundred
    table = LongTable(("profile", "load"))
    for load, latency_us in ((ALONE, calm), ("heavy", bursty)):
        for name, value in describe(_rows(latency_us), alone=load == ALONE).items():
            table.add(("consumer", load), "", name, value)
    (made,) = compare(table).values()
    outside = {row[2]: row[3] for row in made.rows if row[-1] == "**no**"}
    assert outside["burstiness_pct"].startswith("90") and "median_us" not in outside
    assert {row[1] for row in made.rows if row[2] == "median_us"} == {ALONE}
