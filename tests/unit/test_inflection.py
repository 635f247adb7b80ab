# SPDX-License-Identifier: MIT
"""Inflection points: the closed form, and the search around the knee."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from linnapp.errors import TraceError
from linnapp.learn.labels import (
    LatencyDistribution,
    _Exact,
    find_inflection_points,
    slope_one_percentile,
)
from linnapp.learn.options import LabellingOptions, Search


def bimodal(seed: int, slow_ratio: float = 0.05, n: int = 50_000) -> LatencyDistribution:
    rng = np.random.default_rng(seed)
    fast = 80 + rng.gamma(2, 10 + 5 * seed, n)
    slow = 1000 + rng.exponential(500, n)
    return LatencyDistribution(np.where(rng.random(n) < slow_ratio, slow, fast).astype(np.uint32))


def sum_over_orders(
    drives: list[list[int]], thresholds: list[float], replicas: int, failover_us: float
) -> float:
    """Sum over the drives of the mean latency, by enumerating orders and outcomes."""
    total = 0.0
    for first in range(len(drives)):
        others = [drive for drive in range(len(drives)) if drive != first]
        orders = list(itertools.permutations(others, replicas - 1))
        for order in orders:
            visited = [first, *order]
            outcomes = list(itertools.product(*(drives[drive] for drive in visited)))
            for drawn in outcomes:
                latency = 0.0
                for hop, value in enumerate(drawn):
                    if hop == replicas - 1 or value <= thresholds[visited[hop]]:
                        latency += value
                        break
                    latency += failover_us
                total += latency / len(outcomes) / len(orders)
    return total


UNEQUAL = [[100, 200, 900], [100, 700], [50, 60, 70, 2000], [10, 3000], [400, 500, 600]]


@pytest.mark.parametrize(
    ("n_drives", "replicas"), [(2, 2), (3, 2), (3, 3), (4, 3), (5, 2), (5, 3), (5, 4), (5, 5)]
)
def test_exact_mean_is_the_expectation_over_orders_and_outcomes(
    n_drives: int, replicas: int
) -> None:
    drives, thresholds = UNEQUAL[:n_drives], [250.0, 300.0, 65.0, 20.0, 450.0][:n_drives]
    exact = _Exact([LatencyDistribution(np.array(d)) for d in drives], [1] * n_drives, replicas, 15)
    expected = sum_over_orders(drives, thresholds, replicas, 15.0)
    assert exact.mean_sum(thresholds) == pytest.approx(expected, rel=1e-12)


def test_exact_mean_counts_equal_drives_as_if_they_were_listed() -> None:
    drives, thresholds = [UNEQUAL[0]] * 3 + [UNEQUAL[1]], [250.0] * 3 + [300.0]
    kinds = [LatencyDistribution(np.array(UNEQUAL[i])) for i in (0, 1)]
    expected = sum_over_orders(drives, thresholds, 3, 15.0)
    assert _Exact(kinds, [3, 1], 3, 15).mean_sum([250.0, 300.0]) == pytest.approx(expected)


def unequal_drives(n: int = 5_000) -> list[LatencyDistribution]:
    """Return three drives of the same make: the second is slow, the third has a heavy tail."""
    rng = np.random.default_rng(3)
    drives = []
    for median_us, slow_ratio, tail_us in ((60, 0.05, 500), (400, 0.25, 2500), (90, 0.1, 900)):
        latency_us = median_us * np.exp(rng.normal(size=n) * 0.25)
        tail = np.where(rng.random(n) < slow_ratio, rng.exponential(tail_us, n), 0)
        drives.append(LatencyDistribution((latency_us + tail).astype(int)))
    return drives


@pytest.mark.parametrize("search", ["wide", "paper"])
def test_permuting_drives_permutes_their_inflection_points(search: Search) -> None:
    drives = unequal_drives()
    drives += [drives[1], bimodal(4, n=5_000)]
    options = LabellingOptions(search=search)
    points = find_inflection_points(drives, options)
    for order in list(itertools.permutations(range(len(drives))))[1::17]:
        permuted = find_inflection_points([drives[i] for i in order], options)
        assert permuted == [points[i] for i in order]


def test_inflection_point_below_the_median_has_a_warning() -> None:
    points = find_inflection_points(unequal_drives())
    warnings = [point.warning("sdb") for point in points]
    assert warnings[0] is None and points[1].percentile < 50 and warnings[1] is not None
    for words in ("sdb", f"p{points[1].percentile:.1f}", "may refuse most", "`threshold_us=`"):
        assert words in warnings[1]
    (alone,) = find_inflection_points([unequal_drives()[1]])
    assert alone.warning("sdb") is None


def test_many_unequal_drives_are_labelled_in_bounded_time() -> None:
    """Twelve other drives have 95,040 orders of five; they are not enumerated."""
    drives = [bimodal(seed, 0.02 + seed / 200, n=1000) for seed in range(12)]
    begin = time.process_time()
    find_inflection_points(drives, LabellingOptions(replicas=6))
    assert time.process_time() - begin < 30


def test_search_prefers_the_candidate_nearest_to_the_start_in_ties() -> None:
    """Ten different latencies give runs of 100 equally good candidates."""
    latency_us = np.repeat([100, 110, 120, 130, 140, 150, 900, 1000, 3000, 9000], 10)
    (point,) = find_inflection_points([LatencyDistribution(latency_us)])
    equals = np.flatnonzero(point.candidate_areas_us == point.candidate_areas_us.max())
    distances = np.abs(point.candidate_percentiles - point.start_percentile)
    assert len(equals) > 50
    assert abs(point.percentile - point.start_percentile) == distances[equals].min()
    assert distances[equals[0]] != distances[equals].min()


def test_inflection_point_separates_two_modes() -> None:
    (point,) = find_inflection_points([bimodal(1)])
    assert 100 < point.threshold_us < 1000
    assert 0.04 < point.slow_ratio < 0.2
    assert abs(point.percentile - point.start_percentile) <= 10.01
    assert point.boost_area_us == pytest.approx(max(point.candidate_areas_us))
    steps = np.diff(point.candidate_percentiles)
    assert np.allclose(steps, 0.1)


def test_no_other_candidate_of_one_drive_beats_its_inflection_point() -> None:
    drives = [bimodal(1), bimodal(2), bimodal(3)]
    points = find_inflection_points(drives)
    judge = _Exact(drives, [1] * 3, 3, 15.0)
    chosen = [float(point.threshold_us) for point in points]
    best = judge.mean_sum(chosen)
    for drive, point in enumerate(points):
        for candidate in drives[drive].percentile_us(point.candidate_percentiles):
            tried = list(chosen)
            tried[drive] = float(candidate)
            assert judge.mean_sum(tried) >= best - 1e-9


def test_equal_replicas_get_equal_points() -> None:
    single = find_inflection_points([bimodal(1)])[0]
    three = find_inflection_points([bimodal(1)] * 3)
    assert {point.threshold_us for point in three} == {single.threshold_us}
    assert {point.replicas for point in (single, *three)} == {3}
    # The gain is summed over the drives of the array.
    assert three[0].boost_area_us == pytest.approx(3 * single.boost_area_us)


def long_tailed(n: int = 20_000) -> LatencyDistribution:
    """Return a CDF of slope one at p85.6, with enough slow reads that more revocation pays."""
    return LatencyDistribution((100 + np.random.default_rng(1).exponential(1000, n)).astype(int))


@pytest.mark.parametrize("n_drives", [1, 3])
def test_search_widens_until_the_best_point_is_inside(n_drives: int) -> None:
    drives = [long_tailed()] * n_drives
    points = find_inflection_points(drives)
    judge = _Exact(drives[:1], [3], 3, 15.0)
    chosen = [float(points[0].threshold_us)]
    for drive, point in enumerate(points):
        assert point.start_percentile - point.percentile > 30
        assert not point.at_edge
        best = int(np.argmax(point.candidate_areas_us))
        assert 0 < best < len(point.candidate_areas_us) - 1
        assert np.allclose(np.diff(point.candidate_percentiles), 0.1)
        # Compared with all percentiles, not only the tried ones.
        everywhere = drives[drive].percentile_us(np.arange(1, 1000) / 10)
        means = judge.mean_sums(chosen, 0, everywhere)
        assert judge.mean_sum(chosen) <= means.min() + 1e-9


def test_search_goes_up_when_failovers_are_expensive_and_reports_its_end() -> None:
    # Failovers are so expensive that at most the slowest read in a thousand justifies one.
    (point,) = find_inflection_points([long_tailed()], LabellingOptions(failover_us=1e4))
    assert point.at_edge
    assert point.percentile == pytest.approx(99.9)
    (point,) = find_inflection_points([long_tailed()], LabellingOptions(failover_us=2500))
    assert not point.at_edge
    assert point.start_percentile + 5 < point.percentile < 99.8


def test_the_papers_search_stays_within_ten_percentiles() -> None:
    (wide,) = find_inflection_points([long_tailed()])
    (paper,) = find_inflection_points([long_tailed()], LabellingOptions(search="paper"))
    assert paper.start_percentile == wide.start_percentile
    assert paper.percentile == pytest.approx(paper.start_percentile - 10, abs=0.1)
    assert paper.at_edge
    assert paper.boost_area_us < wide.boost_area_us


def test_number_of_replicas_is_at_most_the_number_of_drives() -> None:
    drives = [bimodal(1), bimodal(2, 0.1)]
    points = find_inflection_points(drives, LabellingOptions(replicas=3))
    assert [point.replicas for point in points] == [2, 2]
    two = find_inflection_points(drives, LabellingOptions(replicas=2))
    assert [p.threshold_us for p in points] == [p.threshold_us for p in two]


def test_slope_one_percentile_is_the_knee_of_the_cdf() -> None:
    # 90 % at 100 us, then a line up to 1000 us: the CDF's slope drops at 90 %.
    latency = np.concatenate([np.full(9000, 100), np.linspace(100, 1000, 1000)])
    assert slope_one_percentile(LatencyDistribution(latency)) == pytest.approx(90, abs=0.3)


def test_constant_latency_has_a_point_and_no_latency_is_an_error() -> None:
    (point,) = find_inflection_points([LatencyDistribution(np.full(100, 80))])
    assert point.threshold_us == 80
    assert point.slow_ratio == 0
    with pytest.raises(TraceError, match="no read latencies"):
        LatencyDistribution(np.array([]))
    with pytest.raises(ValueError, match="at least 2"):
        find_inflection_points([bimodal(1)], LabellingOptions(replicas=1))
