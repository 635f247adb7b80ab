# SPDX-License-Identifier: MIT
"""The sampling error of an inflection point's shift; a real shift exceeds it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from linnapp.drive.recalibration import SHIFT_PERCENTILES, Decision, decide
from linnapp.drive.resampling import LatencyBlocks, sampling_percentiles
from linnapp.learn.labels import (
    LabellingOptions,
    LatencyDistribution,
    find_inflection_points,
)

OPTIONS = LabellingOptions()


def recording(seed: int, n: int = 8000, slow_us: float = 400.0) -> np.ndarray:
    """Return a steady load on a drive whose garbage collection slows hundreds of reads each."""
    rng = np.random.default_rng(seed)
    lengths = rng.geometric(1 / 200, n // 50)
    slow = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)[:n]
    return (80 + rng.gamma(2, 15, n) + slow * rng.exponential(slow_us, n)).astype(np.uint32)


def decided(old: np.ndarray, new: np.ndarray, *, by_chance: bool = True) -> Decision:
    """Return the decision about a model of one recording, from another recording."""
    (active,) = find_inflection_points([LatencyDistribution(old)], OPTIONS)
    blocks = [LatencyBlocks(new)]
    (point,) = find_inflection_points([blocks[0].distribution()], OPTIONS)
    sampling = sampling_percentiles(blocks, OPTIONS, 1)[0] if by_chance else 0.0
    return decide(
        "sda", active.threshold_us, blocks[0].distribution(), point, SHIFT_PERCENTILES, sampling
    )


def test_only_a_new_load_retrains_not_noise() -> None:
    recordings = [recording(seed) for seed in range(16)]
    pairs = list(itertools.pairwise(recordings))
    naive = [decided(*pair, by_chance=False).retrain for pair in pairs]
    assert sum(naive) >= 3  # five percentiles alone mistake noise for change
    decisions = [decided(*pair) for pair in pairs]
    assert not any(decision.retrain for decision in decisions)
    for seed, old in enumerate(recordings[:4]):
        aged = decided(old, recording(100 + seed, slow_us=3000.0) + 300)
        assert aged.retrain, aged.reason
        assert aged.sampling_percentiles is not None and aged.sampling_percentiles > 0
        assert f"{aged.sampling_percentiles:.1f} that sampling explains" in aged.reason


def test_reads_in_bursts_are_less_informative_than_independent_reads() -> None:
    latency_us = recording(1)
    (bursty,) = sampling_percentiles([LatencyBlocks(latency_us)], OPTIONS, 1)
    alone = np.random.default_rng(1).permutation(latency_us)
    (independent,) = sampling_percentiles([LatencyBlocks(alone)], OPTIONS, 1)
    assert bursty > 1.5 * independent > 0
    assert sampling_percentiles([LatencyBlocks(latency_us)], OPTIONS, 1) == [bursty]
    given = LabellingOptions(threshold_us=200)
    assert sampling_percentiles([LatencyBlocks(latency_us)], given, 1) == [0.0]


def test_a_resample_is_its_blocks_put_together() -> None:
    rng = np.random.default_rng(1)
    latency_us = rng.integers(50, 500, 1000).astype(np.uint32)
    blocks = LatencyBlocks(latency_us, n_blocks=10)
    times = np.array([0, 3, 1, 0, 0, 2, 0, 1, 1, 2])
    rows = np.concatenate(
        [np.arange(100 * b, 100 * b + 100).repeat(t) for b, t in enumerate(times)]
    )
    for got, chosen in ((blocks.distribution(), slice(None)), (blocks.distribution(times), rows)):
        expected = LatencyDistribution(latency_us[chosen])
        assert len(got) == len(expected) == 1000
        assert got.mean_us == pytest.approx(expected.mean_us)
        percentiles = np.arange(1, 100)
        assert np.array_equal(got.percentile_us(percentiles), expected.percentile_us(percentiles))
        for t in (60.0, 200.0, 450.0):
            assert got.admitted(t) == pytest.approx(expected.admitted(t))


def test_fewer_reads_than_blocks_are_left_as_they_are() -> None:
    few = LatencyBlocks(np.array([100, 200], np.uint32))
    assert sampling_percentiles([few], OPTIONS, 1) == [0.0]
