# SPDX-License-Identifier: MIT
"""Intervals hold what they should as often as they say, and no difference is seen where none is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eval import intervals
from eval.intervals import Blocks, Interval, Resamples

N_SEEDS = 5
LENGTH_US = 1e6
TRIALS = 100
FEW = 400

#: Of a seed: drives and workload of its own make all its reads slower or faster.
SEED_SPREAD = 0.2


def _bursts(rng: np.random.Generator, due_us: NDArray[Any]) -> NDArray[np.float64]:
    """A factor of the latency that stretches of time have in common, mean 1."""
    stretch = (due_us // 25_000).astype(int)
    return np.asarray(rng.exponential(1.0, stretch.max() + 1)[stretch])


def _due(rng: np.random.Generator, n: int = 2000) -> NDArray[np.float64]:
    return np.sort(rng.uniform(0, LENGTH_US, n))


def _seed(
    rng: np.random.Generator, mean_us: dict[str, float], spread: float = SEED_SPREAD
) -> Blocks:
    """One seed: policies share its hardness and its bursts, and each has its own luck."""
    due_us = _due(rng)
    hardness = rng.lognormal(-(spread**2) / 2, spread) * _bursts(rng, due_us)
    blocks = Blocks(due_us, LENGTH_US)
    for policy, mean in mean_us.items():
        blocks.add(policy, mean * hardness * rng.exponential(1.0, len(due_us)))
    return blocks


def _trials(mean_us: dict[str, float], n_seeds: int) -> list[Resamples]:
    rng = np.random.default_rng(20)
    return [
        Resamples([_seed(rng, mean_us) for _ in range(n_seeds)], n_resamples=FEW, seed=trial)
        for trial in range(TRIALS)
    ]


def test_the_mean_lies_in_its_interval_as_often_as_said() -> None:
    found = [trial.mean("a") for trial in _trials({"a": 100.0}, N_SEEDS)]
    held = np.mean([i.low <= 100.0 <= i.high for i in found])
    assert 0.91 <= held <= 1.0
    # Not by being as wide as can be: the seeds' spread alone asks for 2.78 * 0.2 / sqrt(5).
    assert np.median([i.high - i.low for i in found]) < 2 * 100 * 0.45


def test_a_difference_is_seldom_called_where_there_is_none() -> None:
    called = [trial.below("a", "b").is_apart for trial in _trials({"a": 100, "b": 100}, N_SEEDS)]
    assert np.mean(called) <= 0.08


def test_a_true_difference_is_called_though_the_seeds_differ_more() -> None:
    found = [trial.below("a", "b") for trial in _trials({"a": 80, "b": 100}, N_SEEDS)]
    assert np.mean([i.is_above for i in found]) > 0.9
    assert np.mean([i.low <= 0.2 <= i.high for i in found]) >= 0.9
    # Unpaired they could not be told apart: each one's own interval is wider than the difference.
    wide = [trial.mean("b") for trial in _trials({"a": 80, "b": 100}, N_SEEDS)[:20]]
    assert np.median([i.high - i.low for i in wide]) > 20


def test_one_seed_draws_its_blocks() -> None:
    rng = np.random.default_rng(3)
    held = 0
    for trial in range(TRIALS):
        blocks = _seed(rng, {"a": 100.0}, spread=0.0)
        interval = Resamples([blocks], n_resamples=FEW, seed=trial).mean("a")
        held += interval.low <= 100.0 <= interval.high
    assert held / TRIALS >= 0.88


def test_drawing_single_reads_would_have_promised_too_much() -> None:
    """With as many blocks as reads nothing is left of what neighbours have in common."""
    rng = np.random.default_rng(4)
    held = 0
    for trial in range(TRIALS):
        due_us = _due(rng, 500)
        latency_us = 100.0 * _bursts(rng, due_us)
        blocks = Blocks(np.arange(500.0), 500.0, n_blocks=500)
        blocks.add("a", latency_us)
        interval = Resamples([blocks], n_resamples=300, seed=trial).mean("a")
        held += interval.low <= 100.0 <= interval.high
    assert held / TRIALS < 0.7


def test_percentiles_of_resamples_agree_with_the_reads() -> None:
    rng = np.random.default_rng(5)
    due_us = _due(rng, 50_000)
    latency_us = 80 + rng.pareto(2.5, len(due_us)) * 200
    blocks = Blocks(due_us, LENGTH_US)
    blocks.add("a", latency_us)
    drawn = Resamples([blocks], (50.0, 99.0), n_resamples=FEW)
    for percent in (50.0, 99.0):
        true_us = float(np.percentile(latency_us, percent))
        interval = drawn.percentile("a", percent, true_us)
        assert interval.low <= true_us <= interval.high
        middle = np.median(drawn._percentile[drawn.percents.index(percent)])
        assert middle == pytest.approx(true_us, rel=0.02)
        assert (interval.high - interval.low) / true_us < 0.2


def test_a_percentile_rests_on_a_hundred_reads_or_is_not_given() -> None:
    latency_us = np.arange(99_999.0)
    assert intervals.percentile(latency_us, 99.9) is None
    assert intervals.percentile(np.arange(100_000.0), 99.9) == pytest.approx(99_899.0, abs=1)
    assert intervals.percentile(latency_us, 99) is not None
    assert intervals.percentile(np.arange(999.0), 90) is None


def test_reads_that_tell_of_a_policy_are_its_alone() -> None:
    blocks = Blocks(np.arange(100.0), 100.0, n_blocks=10)
    latency_us = np.where(np.arange(100) % 2 == 0, 10.0, 30.0)
    blocks.add("all", latency_us)
    blocks.add("even", latency_us, np.arange(100) % 2 == 0)
    drawn = Resamples([blocks], n_resamples=50)
    assert drawn.mean("all").value == 20
    assert drawn.mean("even").value == 10
    assert drawn.below("even", "all").value == pytest.approx(0.5)
    assert drawn.share("even", "even", "all").value == pytest.approx(1)


def test_other_reads_are_refused() -> None:
    blocks = Blocks(np.arange(100.0), 100.0)
    with pytest.raises(ValueError, match="hedge: 99 latencies of 100 reads"):
        blocks.add("hedge", np.ones(99))


def test_few_seeds_reach_further_out() -> None:
    assert intervals.tail(1000) == pytest.approx(0.025, abs=0.001)
    assert intervals.tail(5) < 0.0015
    assert intervals.tail(1) == 0


def test_equal_seeds_give_equal_intervals_and_json_keeps_them() -> None:
    blocks = _seed(np.random.default_rng(6), {"a": 100.0, "b": 90.0})
    first, again = (Resamples([blocks], n_resamples=100, seed=9).below("b", "a") for _ in range(2))
    assert first == again
    assert Interval.from_json(first.to_json()) == first
    nothing = Interval.from_json(Interval(math.nan, math.nan, math.nan).to_json())
    assert math.isnan(nothing.value) and not nothing.is_apart


def test_a_share_is_as_sure_as_its_blocks_are_alike() -> None:
    rng = np.random.default_rng(7)
    held = 0
    for trial in range(TRIALS):
        wholes = rng.integers(5, 50, 40)
        # Blocks are alike within and differ from each other: found all, or hardly any.
        parts = np.where(rng.random(40) < 0.5, wholes, 0)
        found = intervals.of_ratio(parts, wholes, seed=trial)
        held += found.low <= 0.5 <= found.high
    assert 0.9 <= held / TRIALS <= 1.0
    assert intervals.of_ratio([3, 0], [6, 0]).value == 0.5
    assert math.isnan(intervals.of_ratio([0, 0], [0, 0]).value)


def test_independent_values_have_an_interval_that_few_make_wide() -> None:
    few, many = ([1.0, 2.0, 3.0] * n for n in (1, 30))
    assert intervals.of_values(few).value == intervals.of_values(many).value == 2
    assert intervals.of_values(many).high - intervals.of_values(many).low < 0.5
    assert intervals.of_values(few).high - intervals.of_values(few).low > 1.9
    assert math.isnan(intervals.of_values([4.0]).low)
    assert math.isnan(intervals.of_values([math.nan]).value)


def test_drives_of_a_seed_are_not_independent_values() -> None:
    of_drives = {1: [0.10, 0.11, 0.12], 2: [0.30, 0.31, 0.32], 3: [0.20, 0.21, 0.22]}
    found = intervals.of_seeds(of_drives)
    assert found.value == pytest.approx(0.21)
    as_if_independent = intervals.of_values([v for drives in of_drives.values() for v in drives])
    assert found.high - found.low > 1.3 * (as_if_independent.high - as_if_independent.low)
    # One seed has nothing but its drives; a seed without a number says nothing.
    assert intervals.of_seeds({1: [0.10, 0.12]}) == intervals.of_values([0.10, 0.12])
    assert intervals.of_seeds({**of_drives, 4: [math.nan]}) == found
