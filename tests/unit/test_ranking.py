# SPDX-License-Identifier: MIT
"""The area under the ROC curve, compared with its definition pair by pair."""

from __future__ import annotations

import numpy as np
import pytest

from linnapp.learn import evaluate as evaluation
from linnapp.learn.judge import area_under_roc


@pytest.mark.parametrize("n_values", [2, 5, 1000])
def test_every_pair(n_values: int) -> None:
    rng = np.random.default_rng(n_values)
    score, slow = rng.integers(0, n_values, 200), rng.random(200) < 0.3
    pairs = score[slow][:, None] - score[~slow][None, :]
    expected = np.mean(np.where(pairs > 0, 1.0, np.where(pairs == 0, 0.5, 0.0)))
    assert area_under_roc(score, slow) == pytest.approx(expected)


def test_perfect_inverted_and_undefined() -> None:
    slow = np.array([False, False, True])
    assert area_under_roc(np.array([1, 2, 3]), slow) == 1
    assert area_under_roc(np.array([3, 2, 1]), slow) == 0
    assert area_under_roc(np.array([1, 2, 3]), np.zeros(3, bool)) is None
    assert area_under_roc(np.array([1, 2, 3]), np.ones(3, bool)) is None


def test_large_64_bit_scores_are_not_rounded() -> None:
    score = np.array([2**62, 2**62 + 1])
    assert area_under_roc(score, np.array([False, True])) == 1


def test_thinning_keeps_every_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "MAX_RANKED_READS", 10)
    scores = evaluation._Scores()
    numbers = np.arange(97)
    for part in np.split(numbers, [3, 4, 20, 41, 90]):
        scores.add(part)
    (kept,) = scores.columns()
    step = kept[1] - kept[0]
    assert step == 16
    assert kept.tolist() == list(range(0, 97, step))
