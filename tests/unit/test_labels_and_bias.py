# SPDX-License-Identifier: MIT
"""The labels of slow reads, and the choice of the bias."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from linnapp.learn import network as training
from linnapp.learn.examples import BurstReads
from linnapp.learn.judge import expected_mean_us
from linnapp.learn.labels import SlowLimits
from linnapp.learn.network import TrainedNetwork, choose_bias, hinge, import_tensorflow
from linnapp.learn.options import LOSSES, TrainingOptions


def test_paper_labels_are_the_threshold() -> None:
    limits = SlowLimits.of_paper(100)
    slow = limits.slow(np.array([99, 100, 101, 5000]), np.array([1, 1, 64, 65535]))
    assert slow.tolist() == [False, False, True, True]


def test_a_read_that_is_only_large_is_not_avoidable() -> None:
    latency = np.array([80] * 10 + [200] * 10)
    pages = np.array([1] * 10 + [32] * 10)
    limits = SlowLimits.find("avoidable", 100, latency, pages, failover_us=15.0)
    assert not limits.slow(np.array([200, 215]), np.array([32, 17])).any()
    assert limits.slow(np.array([216, 101, 101]), np.array([32, 1, 8])).all()
    assert not limits.slow(np.array([100]), np.array([1])).any()  # below the point is never slow


#: Reads as (slow, output for fast, output for slow), and by hand: the hinge loss without a bias,
#: its derivative by the output for slow (that by the output for fast is the opposite), and whether
#: the read is a false submit.
BY_HAND = (
    (1, 2.0, 0.5, 2.5, -1, True),  # slow, predicted fast
    (1, 1.0, 1.0, 1.0, -1, True),  # equal outputs predict fast
    (1, 0.5, 1.25, 0.25, -1, False),  # slow, predicted slow, within the margin
    (1, 0.0, 3.0, 0.0, 0, False),  # slow, predicted slow, beyond the margin
    (0, 0.0, 2.0, 3.0, 1, False),  # a false revoke
    (0, 0.75, 0.5, 0.75, 1, False),  # fast, predicted fast, within the margin
    (0, 3.0, 0.0, 0.0, 0, False),  # fast, predicted fast, beyond the margin
)


@pytest.mark.parametrize("loss", ["false-submits", "slow-reads"])
@pytest.mark.parametrize("bias", [1.0, 5.0, 0.5])
def test_hinge_and_its_gradient_equal_a_reference_by_hand(loss: str, bias: float) -> None:
    tf = import_tensorflow()
    slow = np.array([row[0] for row in BY_HAND], np.float32)
    outputs = np.array([row[1:3] for row in BY_HAND], np.float32)
    weights = [bias if (row[5] if loss == "false-submits" else row[0]) else 1.0 for row in BY_HAND]
    expected = [weight * row[3] for weight, row in zip(weights, BY_HAND, strict=True)]
    slopes = [weight * row[4] for weight, row in zip(weights, BY_HAND, strict=True)]
    in_numpy = hinge(np, slow, outputs, bias, loss)
    assert in_numpy.dtype == np.float32 and in_numpy.tolist() == pytest.approx(expected)
    variable = tf.Variable(outputs)
    with tf.GradientTape() as tape:
        in_tensorflow = hinge(tf, tf.constant(slow), variable, bias, loss)
    assert in_tensorflow.numpy().tolist() == pytest.approx(expected)
    gradient = tape.gradient(in_tensorflow, variable).numpy()
    assert gradient[:, 1].tolist() == pytest.approx(slopes)
    assert gradient[:, 0].tolist() == pytest.approx([-slope for slope in slopes])


def test_default_loss_is_the_paper_s_and_lets_more_slow_reads_pass_than_a_weight_on_all() -> None:
    """Classes overlap, so that the bias on every slow read moves the decision further."""
    rng = np.random.default_rng(3)
    digits = rng.integers(0, 10, (8000, 31), dtype=np.uint8)
    slow = rng.random(8000) < np.where(digits[:, 27] >= 5, 0.3, 0.05)
    assert TrainingOptions().loss == "false-submits"
    found = {
        loss: training.train(digits, slow, TrainingOptions(bias=5.0, max_epochs=8, loss=loss)).best
        for loss in LOSSES
    }
    paper, every = (found[loss].confusion for loss in LOSSES)
    assert paper.false_revoke < every.false_revoke
    assert paper.false_submit > every.false_submit


def test_expected_mean_is_the_mean_over_all_outcomes() -> None:
    latency = np.array([100, 100, 900, 120], np.uint32)
    revoked = np.array([False, False, True, True])
    total = 0.0
    for drawn in itertools.product(range(4), repeat=3):
        for hop, read in enumerate(drawn):
            if hop == 2 or not revoked[read]:
                total += (hop * 15.0 + latency[read]) / 4**3
                break

    def mean_us(pages: list[int]) -> float:
        return expected_mean_us(
            latency, revoked, failover_us=15.0, replicas=3, pages=np.array(pages, np.uint16)
        )

    assert mean_us([1, 1, 1, 1]) == pytest.approx(total)
    # The large class has only revoked reads: two failovers, then its mean.
    assert mean_us([1, 1, 9, 9]) == pytest.approx((100 + 30 + 510) / 2)


def test_bias_is_evaluated_with_the_share_of_reads_in_bursts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The network refuses reads with a high digit, whatever the bias."""
    digits = np.zeros((1000, 31), np.uint8)
    digits[::10, 0] = 9
    latency = np.where(digits[:, 0] > 5, 2000, 100).astype(np.uint32)
    bursts = BurstReads(
        inputs=digits[:20],
        slow=digits[:20, 0] > 5,
        latency_us=np.full(20, 4000, np.int64),
        recorded_us=np.full(20, 80, np.int64),
        place=np.arange(20),
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
    fields = {"failover_us": 15.0, "replicas": 2, "pages": np.ones(1000, np.uint16)}
    options = TrainingOptions()
    calm = choose_bias(digits, digits[:, 0] > 5, latency, options, **fields)
    both = choose_bias(digits, digits[:, 0] > 5, latency, options, bursts=bursts, **fields)
    # Two of the twenty are refused, and have the recording's latencies on another drive.
    burst_us = (2 * (15 + 80) + 18 * 4000) / 20
    for bias, mean_us in calm.expected_mean_us.items():
        expected = 0.95 * mean_us + 0.05 * burst_us
        assert both.expected_mean_us[bias] == pytest.approx(expected)
