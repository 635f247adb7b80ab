# SPDX-License-Identifier: MIT
"""linnapp.stats: intervals cover, and tests reject, at the stated rates.

The data are normal, or skewed like blocks of time with a few long bursts. A tolerance of two
binomial errors follows from the number of trials; the random draws are always the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats as scipy_stats

from linnapp import stats
from linnapp.stats import Interval

TRIALS = 2000

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return normal values with mean 10."""
    return rng.normal(10, 1, shape)


def bursts(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return blocks of 1; three in ten have a burst that adds 5 on average; mean 2.5."""
    return 1 + (rng.random(shape) < 0.3) * rng.exponential(5, shape)


MEANS: dict[Draw, float] = {normal: 10.0, bursts: 2.5}


def two_errors(rate: float) -> float:
    return 2 * math.sqrt(rate * (1 - rate) / TRIALS)


def coverage(intervals: list[Interval], truth: float) -> float:
    return float(np.mean([found.low <= truth <= found.high for found in intervals]))


def test_mean_interval_gives_no_ends_for_two_values_and_leaves_unknown_ones_out() -> None:
    assert stats.mean_interval([]).ends == (None, None)
    two = stats.mean_interval([1.0, 3.0, math.nan])
    assert two.value == 2 and two.ends == (None, None) and not two.excludes_zero
    three = stats.mean_interval([1.0, 2.0, 3.0, math.nan])
    expected = scipy_stats.t.interval(0.95, 2, 2, scipy_stats.sem([1, 2, 3]))
    assert (three.low, three.high) == pytest.approx(expected)


@pytest.mark.parametrize("n", [3, 5, 20])
def test_jackknife_interval_of_a_ratio_covers_nearly_at_the_stated_rate(n: int) -> None:
    """Give each seed its own ratio, and its own size, which is its weight in the total."""
    rng = np.random.default_rng(n)
    whole = rng.uniform(90, 110, (TRIALS, n))
    part = whole * rng.normal(0.7, 0.05, (TRIALS, n))
    found = [
        stats.jackknife_interval(p.sum() / w.sum(), (p.sum() - p) / (w.sum() - w))
        for p, w in zip(part, whole, strict=True)
    ]
    assert abs(coverage(found, 0.7) - stats.LEVEL) <= two_errors(stats.LEVEL) + 0.01


def test_jackknife_interval_of_a_mean_is_student_t() -> None:
    values = np.array([3.0, 4.0, 8.0, 9.5])
    found = stats.jackknife_interval(values.mean(), (values.sum() - values) / 3)
    assert found.to_json() == pytest.approx(stats.mean_interval(values).to_json())


def test_positive_mean_interval_covers_values_that_differ_by_factors() -> None:
    values = np.random.default_rng(1).lognormal(-0.08, 0.4, (TRIALS, 5))
    found = [stats.positive_mean_interval(row) for row in values]
    assert all(0 < interval.low < interval.value < interval.high for interval in found)
    # The true value is a mean; few samples of such values have a lower one.
    assert abs(coverage(found, 1.0) - stats.LEVEL) <= 0.04
    assert stats.positive_mean_interval([1.0, 2.0]).ends == (None, None)


@pytest.mark.parametrize(("n", "share"), [(6, 0.5), (20, 0.5), (40, 0.5), (40, 0.25)])
def test_quantile_interval_covers_at_least_at_the_stated_rate(n: int, share: float) -> None:
    values = np.random.default_rng(n).exponential(1, (TRIALS, n))
    found = [stats.quantile_interval(row, share) for row in values]
    covered = coverage(found, -math.log(1 - share))
    # The interval is not too wide: its ends are order statistics, which are discrete.
    assert stats.LEVEL - two_errors(stats.LEVEL) <= covered <= 0.985
    assert stats.quantile_interval(np.arange(5.0)).ends == (None, None)
    assert stats.quantile_interval([]).ends == (None, None)


def block_coverage(draw: Draw, n_blocks: int) -> float:
    values = draw(np.random.default_rng(n_blocks), (TRIALS, n_blocks))
    drawn = values @ stats.resamples(n_blocks).T / n_blocks
    found = [
        stats.block_interval(row.mean(), resampled, n_blocks)
        for row, resampled in zip(values, drawn, strict=True)
    ]
    return coverage(found, MEANS[draw])


def stated_coverage(what: str, n: int, draw: Draw) -> float:
    """Return a coverage that the module's docstring states."""
    found = re.search(rf"{what} +{n} \w+: .*\b{draw.__name__} ([\d.]+) %", stats.__doc__ or "")
    assert found is not None
    return float(found[1]) / 100


@pytest.mark.parametrize("n_blocks", [8, 20])
@pytest.mark.parametrize("draw", [normal, bursts])
def test_block_interval_covers_as_often_as_the_module_says(draw: Draw, n_blocks: int) -> None:
    covered = block_coverage(draw, n_blocks)
    assert covered == pytest.approx(stated_coverage("block bootstrap", n_blocks, draw), abs=0.006)
    if draw is normal:
        assert covered >= stats.LEVEL - 0.015


@pytest.mark.parametrize("n", [3, 5, 20])
def test_mean_interval_covers_skewed_values_as_often_as_the_module_says(n: int) -> None:
    rng = np.random.default_rng(n)
    for draw in (normal, bursts):
        found = [stats.mean_interval(row) for row in draw(rng, (TRIALS, n))]
        covered = coverage(found, MEANS[draw])
        assert covered == pytest.approx(stated_coverage("Student's t", n, draw), abs=0.006)


def test_block_interval_gives_no_ends_for_too_few_blocks() -> None:
    resampled = np.linspace(1, 3, 1000)
    assert stats.block_interval(2, resampled, stats.MIN_BLOCKS - 1).ends == (None, None)
    assert stats.block_interval(2, resampled, stats.MIN_BLOCKS).ends != (None, None)
    assert stats.block_interval(math.nan, resampled, 20).ends == (None, None)


def test_ratio_interval_leaves_blocks_without_the_whole_out() -> None:
    parts, wholes = np.tile([3.0, 4.0, 0.0], 10), np.tile([6.0, 6.0, 0.0], 10)
    found = stats.ratio_interval(parts, wholes)
    assert found.value == 7 / 12 and found.low < found.value < found.high
    assert found == stats.ratio_interval(parts[wholes > 0], wholes[wholes > 0])
    assert stats.ratio_interval([0.0], [0.0]).ends == (None, None)
    assert stats.ratio_interval([1.0, 2.0], [3.0, 3.0]).value == 0.5


@pytest.mark.parametrize("n_blocks", [(8, 8), (20, 20), (8, 20)])
@pytest.mark.parametrize("draw", [normal, bursts])
def test_differences_have_the_stated_false_positive_rate(
    draw: Draw, n_blocks: tuple[int, int]
) -> None:
    """With bursts in recordings of two lengths, the bootstrap alone has a rate of 9 %."""
    rng = np.random.default_rng(n_blocks)
    sides = [draw(rng, (TRIALS, n)) for n in n_blocks]
    sums = [np.stack([np.full_like(means, 50.0), 50 * means], axis=-1) for means in sides]
    found = [stats.differences(*pair)[0] for pair in zip(*sums, strict=True)]
    assert np.mean([interval.excludes_zero for interval in found]) <= 0.05 + two_errors(0.05)


def test_differences_hold_jointly_and_find_real_ones() -> None:
    rng = np.random.default_rng(3)
    means = bursts(rng, (60, 2, 20)) + np.array([[0.0], [10.0]])
    sums = np.stack([np.full_like(means, 50), 50 * means], axis=-1)
    single, many = ([stats.differences(*pair, n)[0] for pair in sums] for n in (1, 20))
    assert np.mean([found.is_above for found in single]) > 0.99
    wider = [b.high - b.low > a.high - a.low for a, b in zip(single, many, strict=True)]
    assert np.mean(wider) > 0.95
    assert coverage(many, 10) > 0.95


def test_a_test_that_does_not_reject_widens_the_interval_to_zero() -> None:
    found = Interval(3.0, 1.0, 5.0)
    assert found.agreeing_with(True) == found
    assert found.agreeing_with(False) == Interval(3.0, 0.0, 5.0)
    assert Interval(-3.0, -5.0, -1.0).agreeing_with(False).excludes_zero is False
    across = Interval(1.0, -1.0, 3.0)
    assert across.agreeing_with(False) is across


@pytest.mark.parametrize("n_blocks", [8, 15, 20])
@pytest.mark.parametrize("draw", [normal, bursts])
def test_paired_p_value_has_the_stated_false_positive_rate(draw: Draw, n_blocks: int) -> None:
    values = draw(np.random.default_rng(n_blocks), (TRIALS, 2, n_blocks))
    p = np.array([stats.paired_p_value(a - b) for a, b in values])
    for nominal in (0.025, 0.05, 0.2):
        assert np.mean(p <= nominal) <= nominal + two_errors(nominal)
    # The rate is also not much lower, unless blocks without a burst tie.
    assert draw is bursts or np.mean(p <= 0.2) >= 0.2 - 2 * two_errors(0.2)


def test_paired_p_value_of_few_pairs_is_exact() -> None:
    """Only one of all 2^8 exchanges, that of no pair, is as large."""
    differences = np.arange(1.0, 9.0)
    assert stats.paired_p_value(differences) == 1 / 256
    assert stats.paired_p_value(-differences) == 1
    every = np.vstack([np.zeros((1, 5)), stats.exchanges(5)])
    assert len(np.unique(every, axis=0)) == 32
    assert stats.exchanges(20).shape == (stats.N_RESAMPLES, 20)


def test_p_value_counts_what_was_found_among_the_outcomes() -> None:
    by_chance = np.array([1.0, 2.0, 3.0, 3.0 - 1e-12])
    assert stats.p_value(4.0, by_chance) == 1 / 5
    assert stats.p_value(3.0, by_chance) == 3 / 5
    assert stats.p_value(0.0, by_chance) == 1


def test_holm_adjusts_p_values_as_computed_by_hand() -> None:
    assert stats.holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert stats.holm([0.5, 0.9]).tolist() == [1.0, 1.0]
    assert stats.holm([]).tolist() == []


def test_holm_has_the_stated_family_wise_error_rate() -> None:
    p = np.random.default_rng(1).random((TRIALS, 24))
    assert np.mean([stats.holm(row).min() <= 0.05 for row in p]) <= 0.05 + two_errors(0.05)
    # A rejected null relaxes the limit of the others, unlike Bonferroni's correction.
    assert stats.holm([1e-6, 0.025]).tolist() == pytest.approx([2e-6, 0.025])


def test_p_value_of_an_interval_is_that_of_the_values() -> None:
    values = np.random.default_rng(2).normal(1, 1, (50, 5))
    for row in values:
        expected = scipy_stats.ttest_1samp(row, 0.3).pvalue
        assert stats.p_value_of(stats.mean_interval(row), 0.3, 5) == pytest.approx(expected)
    assert stats.p_value_of(Interval(1.0, 1.0, 1.0), 1.0, 5) == 1
    assert stats.p_value_of(Interval(1.0, 1.0, 1.0), 2.0, 5) == 0


def test_blocks_have_a_least_length_in_time_and_a_least_number_of_rows() -> None:
    def count(seconds: float, rows: int, min_rows: int = 1) -> int:
        found = stats.block_numbers(np.linspace(0, seconds * 1e9 - 1, rows), min_rows)
        return 0 if found is None else int(found.max()) + 1

    assert stats.BLOCK_S == 1
    assert [count(s, 10_000) for s in (0.5, 7.9, 8, 15.5, 20, 3600)] == [0, 0, 8, 15, 20, 20]
    assert [count(60, rows, 100) for rows in (799, 800, 1550, 5000)] == [0, 8, 15, 20]
    assert stats.block_numbers(np.array([])) is None
    assert stats.count_blocks(7.9e9) == 0 and stats.count_blocks(8e9) == 8


def test_blocks_without_rows_do_not_count() -> None:
    """Reads in three of twenty seconds make three blocks, which is too few."""
    assert stats.block_numbers(np.repeat([0, 9e9, 20e9 - 1], 10)) is None
    at = np.repeat([*(np.arange(9) * 1e9), 20e9 - 1], 2)
    numbers = stats.block_numbers(at)
    assert numbers is not None and numbers.tolist() == np.repeat(np.arange(10), 2).tolist()
    sums = stats.block_sums(numbers, 1.0, at)
    assert sums[:, 0].tolist() == [2] * 10 and sums[:, 1].tolist() == (2 * at[::2]).tolist()


def test_json_keeps_an_interval() -> None:
    found = Interval(1.0, 0.5, 2.0)
    assert Interval.from_json(found.to_json()) == found and found.is_above
    nothing = Interval.from_json(Interval.unknown().to_json())
    assert math.isnan(nothing.value) and not nothing.excludes_zero
