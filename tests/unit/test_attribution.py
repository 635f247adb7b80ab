# SPDX-License-Identifier: MIT
"""Parts add up to a predictor's output exactly, and the nearest change is the nearest."""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from test_model_format import random_model

from linnapp.errors import ModelError
from linnapp.learn.attribution import NetworkPredictor, attribute, smallest_changes, whole
from linnapp.learn.features import digits
from linnapp.model import Model, engine

LIMITS = [999] * 5 + [9999] * 4


def outputs(model: Model, rows: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """By the engine that is not the kernel's, past everything that is tested here."""
    return engine.infer(model, digits(rows[:, 4], rows[:, :4], rows[:, 5:]), "numpy")


class Product:
    """A predictor that is no network: the product of its numbers, less ten."""

    def margins(self, numbers: npt.NDArray[np.uint32]) -> list[int]:
        return [int(row.prod()) - 10 for row in numbers.astype(np.int64)]

    def slow(self, numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        return np.array([margin > 0 for margin in self.margins(numbers)])


@pytest.mark.parametrize("seed", range(5))
def test_parts_add_up_to_the_margin_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(seed)
    predictor = NetworkPredictor(model)
    rows = rng.integers(0, np.array(LIMITS) + 1, (2, 9)).astype(np.uint32)
    (fast, slow), (reference_fast, reference_slow) = outputs(model, rows).tolist()
    x, reference = rows.tolist()
    parts = attribute(predictor, x, reference)
    assert sum(parts) == (slow - fast) - (reference_slow - reference_fast)
    integers = whole(parts)
    assert sum(integers) == sum(parts)
    assert all(abs(i - part) < 1 for i, part in zip(integers, parts, strict=True))
    assert len(set(parts)) > 5


def test_parts_are_the_mean_over_all_orders_for_any_predictor() -> None:
    x, reference = [3, 5, 7, 4], [1, 2, 7, 0]
    expected = [Fraction(0)] * 4
    orders = list(itertools.permutations(range(4)))
    for order in orders:
        now = list(reference)
        for i in order:
            (before,) = Product().margins(np.array([now]))
            now[i] = x[i]
            (after,) = Product().margins(np.array([now]))
            expected[i] += Fraction(after - before, len(orders))
    parts = attribute(Product(), x, reference)
    assert parts == expected
    assert parts[2] == 0
    assert sum(whole(parts)) == 3 * 5 * 7 * 4


def test_an_input_that_is_the_reference_has_no_parts() -> None:
    assert attribute(Product(), [1, 2], [1, 2]) == [0, 0]


def test_too_many_numbers_are_refused() -> None:
    with pytest.raises(ModelError, match=r"16 numbers has 2\*\*16 mixtures"):
        attribute(Product(), [1] * 16, [0] * 16)
    assert sum(attribute(Product(), [1] * 15, [0] * 15)) == 1


@pytest.mark.parametrize("seed", range(2))
def test_the_nearest_change_is_the_nearest(seed: int) -> None:
    model = random_model(seed)
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, np.array(LIMITS) + 1, (400, 9)).astype(np.uint32)
    # undecided about the middle one
    middle = np.median(np.subtract(*outputs(model, rows).T)).astype(np.int64)
    model = dataclasses.replace(model, output_bias=model.output_bias + np.array([0, middle]))
    margin = np.abs(np.subtract(*outputs(model, rows).T.astype(object)))
    x = rows[margin.argmin()].tolist()  # one that something can turn
    lowest = [0] * 4 + [min(3, x[4])] + [0] * 4
    found = smallest_changes(NetworkPredictor(model), x, lowest, LIMITS)
    assert any(value is not None for value in found)

    def verdicts(i: int, values: range) -> set[bool]:
        rows = np.array([[*x[:i], value, *x[i + 1 :]] for value in values], np.uint32)
        out = outputs(model, rows.reshape(-1, 9))
        return set((out[:, 1] > out[:, 0]).tolist())

    (now,) = verdicts(0, range(x[0], x[0] + 1))
    for i, value in enumerate(found):
        away = LIMITS[i] + 1 if value is None else abs(value - x[i])
        assert verdicts(
            i, range(max(lowest[i], x[i] - away + 1), min(LIMITS[i] + 1, x[i] + away))
        ) == {now}
        if value is not None:
            assert value >= lowest[i]
            assert verdicts(i, range(value, value + 1)) == {not now}
