# SPDX-License-Identifier: MIT
"""The labels of slow reads, and the choice of the bias."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

from linnapp.learn import network as training
from linnapp.learn.examples import BurstReads
from linnapp.learn.judge import expected_mean_us
from linnapp.learn.labels import SlowLimits
from linnapp.learn.network import TrainedNetwork, TrainingOptions, choose_bias


def test_paper_labels_are_the_threshold() -> None:
    limits = SlowLimits.of_paper(100)
    slow = limits.slow(np.array([99, 100, 101, 5000]), np.array([1, 1, 64, 65535]))
    assert slow.tolist() == [False, False, True, True]


def test_a_read_that_is_only_large_is_not_avoidable() -> None:
    latency = np.array([80] * 10 + [200] * 10)
    pages = np.array([1] * 10 + [32] * 10)
    limits = SlowLimits.of_avoidable(100, latency, pages, failover_us=15.0)
    assert not limits.slow(np.array([200, 215]), np.array([32, 17])).any()
    assert limits.slow(np.array([216, 101, 101]), np.array([32, 1, 8])).all()
    assert not limits.slow(np.array([100]), np.array([1])).any()  # below the point is never slow


def test_expected_mean_is_the_mean_over_all_outcomes() -> None:
    latency = np.array([100, 100, 900, 120], np.uint32)
    revoked = np.array([False, False, True, True])
    total = 0.0
    for drawn in itertools.product(range(4), repeat=3):
        for hop, read in enumerate(drawn):
            if hop == 2 or not revoked[read]:
                total += (hop * 15.0 + latency[read]) / 4**3
                break
    got = expected_mean_us(latency, revoked, failover_us=15.0, replicas=3)
    assert got == pytest.approx(total)
    pages = np.array([1, 1, 9, 9], np.uint16)
    # The large class has only revoked reads: two failovers, then its mean.
    by_size = expected_mean_us(latency, revoked, failover_us=15.0, replicas=3, pages=pages)
    assert by_size == pytest.approx((100 + 30 + 510) / 2)


def test_bias_is_evaluated_with_the_share_of_reads_in_bursts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The network refuses reads with a high digit, whatever the bias."""
    digits = np.zeros((1000, 31), np.uint8)
    digits[::10, 0] = 9
    latency = np.where(digits[:, 0] > 5, 2000, 100).astype(np.uint32)
    bursts = BurstReads(
        digits=digits[:20],
        slow=digits[:20, 0] > 5,
        latency_us=np.full(20, 4000, np.int64),
        recorded_us=np.full(20, 80, np.int64),
    )

    def trained(*_: object, **__: object) -> TrainedNetwork:
        weights = {
            "hidden_weights": np.eye(31, 1, dtype=np.float32),
            "hidden_bias": np.zeros(1, np.float32),
            "output_weights": np.array([[0.0, 1.0]], np.float32),
            "output_bias": np.array([5.0, 0.0], np.float32),
        }
        return TrainedNetwork(weights, [], False)

    monkeypatch.setattr(training, "train", trained)
    given = {"failover_us": 15.0, "replicas": 2}
    options = TrainingOptions()
    calm = choose_bias(digits, digits[:, 0] > 5, latency, options, **given)
    both = choose_bias(digits, digits[:, 0] > 5, latency, options, bursts=bursts, **given)
    # Two of the twenty are refused, and have the recording's latencies on another drive.
    burst_us = (2 * (15 + 80) + 18 * 4000) / 20
    for bias, mean_us in calm.expected_mean_us.items():
        expected = 0.95 * mean_us + 0.05 * burst_us
        assert both.expected_mean_us[bias] == pytest.approx(expected)


def test_expensive_failovers_lead_to_a_low_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    digits = rng.integers(0, 10, (8000, 31), dtype=np.uint8)
    slow = rng.random(8000) < np.where(digits[:, 27] >= 7, 0.5, 0.02)
    latency = np.where(slow, 2000, 100).astype(np.uint32)
    train = training.train

    # Training does not depend on the cost of a failover, so candidates share networks.
    @functools.cache
    def trained(options: TrainingOptions) -> TrainedNetwork:
        return train(digits, slow, options)

    monkeypatch.setattr(training, "train", lambda digits, slow, options, added: trained(options))
    for failover_us, low, high in ((0.0, 2.0, 8.0), (5000.0, 0.5, 1.0)):
        choice = choose_bias(
            digits,
            slow,
            latency,
            TrainingOptions(max_epochs=5),
            failover_us=failover_us,
            replicas=3,
        )
        assert low <= choice.bias <= high
        assert len(choice.expected_mean_us) == 5
    assert trained.cache_info().misses == 5
