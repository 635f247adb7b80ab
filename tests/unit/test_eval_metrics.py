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


def test_mean_recall_uses_only_rows_with_slow_reads() -> None:
    shape = {"model": "A", "accuracy": 1.0, "false_submit_ratio": 0.0, "false_revoke_ratio": 0.0}
    rows = [{**shape, "slow_recall": None}, {**shape, "slow_recall": 0.25}]
    mean = table3.averages({"rows": rows})
    assert mean["A"]["slow_recall"] == 0.25
    without = table3.averages({"rows": rows[:1]})
    assert percent(without["A"]["slow_recall"]) == "-"


def test_shapes_have_the_feature_counts_of_the_paper() -> None:
    inputs = {name: shape.n_inputs for name, shape in table3.MODELS.items()}
    assert inputs == {"LinnOS": 31, "A": 17, "B": 24, "C": 31, "D": 73, "E": 2048}


def test_gain_of_a_model_uses_common_workloads_only() -> None:
    def row(model: str, workload: str, right: float) -> dict[str, object]:
        blocks = [right, right + 0.1] * 9
        return {"model": model, "workload": workload, "seed": 1, "accuracy_by_block": blocks}

    rows = [row("LinnOS", "az-e", 0.5), row("LinnOS", "bi-e", 0.1), row("E", "az-e", 0.55)]
    found = table3.gain({"rows": rows}, "E")
    # bi-e does not count, because E was not trained on it.
    assert found.value == pytest.approx(0.05) and found.is_above
