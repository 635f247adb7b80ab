# SPDX-License-Identifier: MIT
"""Improvement and share of the oracle's gain, including edge cases."""

from __future__ import annotations

import math

import pytest

from eval.experiments import table3
from eval.metrics import improvement, oracle_share, percent, quantiles, ranked_share


def test_improvement_is_negative_for_a_loss() -> None:
    assert improvement(50, 100) == pytest.approx(0.5)
    assert improvement(120, 100) == pytest.approx(-0.2)


def test_oracle_share() -> None:
    assert oracle_share(100, 100, 60) == 0
    assert oracle_share(60, 100, 60) == 1
    assert oracle_share(80, 100, 60) == pytest.approx(0.5)
    assert oracle_share(140, 100, 60) == pytest.approx(-1)


def test_share_is_undefined_without_a_possible_gain() -> None:
    assert math.isnan(oracle_share(90, 100, 99.5))
    assert math.isnan(oracle_share(90, 100, 101))
    assert percent(math.nan) == "-"


def test_ranked_share_without_a_possible_gain_is_a_tie_or_a_loss() -> None:
    assert ranked_share(80, 100, 60) == pytest.approx(0.5)
    assert ranked_share(100.5, 100, 99.5) == 0
    assert ranked_share(150, 100, 99.5) == -math.inf
    assert ranked_share(90, 100, 99.5) == 1
    shares = [ranked_share(latency, 100, 99.5) for latency in (150, 160, 170)] + [0.4, 0.5]
    assert quantiles(shares, (50,)) == [-math.inf]
    assert quantiles(shares, (100,)) == [0.5]
    assert percent(-math.inf) == "a loss"


def test_quantiles_skip_missing_values() -> None:
    assert quantiles([1, math.nan, 3], (0, 50, 100)) == [1, 2, 3]
    assert all(math.isnan(q) for q in quantiles([math.nan]))


def test_shapes_have_the_feature_counts_of_the_paper() -> None:
    inputs = {name: shape.n_inputs for name, shape in table3.MODELS.items()}
    assert inputs == {"LinnOS": 31, "A": 17, "B": 24, "C": 31, "D": 73, "E": 2048}
