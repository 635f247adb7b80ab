# SPDX-License-Identifier: MIT
"""Improvement and share of the oracle's gain, at their edges."""

from __future__ import annotations

import math

import pytest

from eval.experiments import table3
from eval.metrics import improvement, oracle_share, percent, quantiles


def test_improvement_is_negative_for_a_loss() -> None:
    assert improvement(50, 100) == pytest.approx(0.5)
    assert improvement(120, 100) == pytest.approx(-0.2)


def test_oracle_share() -> None:
    assert oracle_share(100, 100, 60) == 0
    assert oracle_share(60, 100, 60) == 1
    assert oracle_share(80, 100, 60) == pytest.approx(0.5)
    assert oracle_share(140, 100, 60) == pytest.approx(-1)


def test_no_share_where_there_is_nothing_to_gain() -> None:
    assert math.isnan(oracle_share(90, 100, 99.5))
    assert math.isnan(oracle_share(90, 100, 101))
    assert percent(math.nan) == "-"


def test_quantiles_pass_over_what_does_not_exist() -> None:
    assert quantiles([1, math.nan, 3], (0, 50, 100)) == [1, 2, 3]
    assert all(math.isnan(q) for q in quantiles([math.nan]))


def test_the_mean_recall_is_of_rows_with_slow_reads() -> None:
    shape = {"model": "A", "accuracy": 1.0, "false_submit_ratio": 0.0, "false_revoke_ratio": 0.0}
    rows = [{**shape, "slow_recall": None}, {**shape, "slow_recall": 0.25}]
    mean = table3.averages({"rows": rows, "shape": {"A": (31, 256)}})
    assert mean["A"]["slow_recall"] == 0.25
    without = table3.averages({"rows": rows[:1], "shape": {"A": (31, 256)}})
    assert percent(without["A"]["slow_recall"]) == "-"
