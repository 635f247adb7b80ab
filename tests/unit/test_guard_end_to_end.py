# SPDX-License-Identifier: MIT
"""No network is made for a drive with unpredictable latencies, whatever is chosen on the way.

Bias, epoch and margin are all chosen on the validation slice, on which the guard then decides.
Each choice makes a useless network look better than it is, so the guard is tested on the whole of
:func:`linnapp.fit_network`. TensorFlow would take minutes for this many drives, so numpy trains
the same network in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linnapp
from linnapp.errors import NoGainError
from linnapp.learn import fit as drive_training
from linnapp.learn import network as training
from linnapp.learn.judge import Confusion
from linnapp.learn.network import (
    Epoch,
    Examples,
    TrainedNetwork,
    TrainingOptions,
    hinge,
    outputs_of,
)
from linnapp.trace.rows import split

NAMES = ("hidden_weights", "hidden_bias", "output_weights", "output_bias")


class Adam:
    """The optimiser; it changes the parameters in place."""

    def __init__(self, parameters: list[np.ndarray], rate: float) -> None:
        self._parameters = parameters
        self._rate = rate
        self._means = [np.zeros_like(each) for each in parameters]
        self._squares = [np.zeros_like(each) for each in parameters]
        self._steps = 0

    def step(self, gradients: list[np.ndarray]) -> None:
        self._steps += 1
        rate = self._rate * np.sqrt(1 - 0.999**self._steps) / (1 - 0.9**self._steps)
        for parameter, mean, square, gradient in zip(
            self._parameters, self._means, self._squares, gradients, strict=True
        ):
            mean += np.float32(0.1) * (gradient - mean)
            square += np.float32(0.001) * (gradient**2 - square)
            parameter -= np.float32(rate) * mean / (np.sqrt(square) + np.float32(1e-7))


def train_by_numpy(
    digits: np.ndarray,
    slow: np.ndarray,
    options: TrainingOptions | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    *,
    added: Examples | None = None,
    added_validation: Examples | None = None,
) -> TrainedNetwork:
    """Train as :func:`training.train` does: same network, loss, optimiser and choice of epoch."""
    options = options or TrainingOptions()
    parts = split(len(slow), options)
    taught = Examples(digits[parts.training], slow[parts.training])
    if added is not None and len(added):
        taught = Examples.joined((taught, added))
    judged = [Examples(digits[parts.validation], slow[parts.validation])]
    if added_validation is not None and len(added_validation):
        judged.append(added_validation)
    rng = np.random.default_rng([options.seed, 1])
    n_inputs, n_hidden = digits.shape[1], options.n_hidden
    # Digits are from 0 to 9, so that hidden weights are small at first.
    hidden = np.sqrt(6 / 4.5**2 / (n_inputs + n_hidden))
    output = np.sqrt(6 / (n_hidden + 2))
    parameters = [
        rng.uniform(-hidden, hidden, (n_inputs, n_hidden)).astype(np.float32),
        np.zeros(n_hidden, np.float32),
        rng.uniform(-output, output, (n_hidden, 2)).astype(np.float32),
        np.zeros(2, np.float32),
    ]
    adam = Adam(parameters, options.learning_rate)
    x, sign = taught.digits.astype(np.float32), 2 * taught.slow.astype(np.float32) - 1
    size = training.batch_size(len(taught))
    history: list[Epoch] = []
    best: dict[str, np.ndarray] = {}
    for number in range(1, training.epoch_limit(len(taught), options) + 1):
        order = rng.permutation(len(taught))
        for first in range(0, len(order) // size * size, size):
            rows = order[first : first + size]
            below = x[rows] @ parameters[0] + parameters[1]
            above = np.maximum(below, 0)
            outputs = above @ parameters[2] + parameters[3]
            wrong = 1 - sign[rows] * (outputs[:, 1] - outputs[:, 0]) > 0
            submitted = (sign[rows] > 0) & (outputs[:, 1] <= outputs[:, 0])
            weight = np.where(submitted, np.float32(options.bias), np.float32(1))
            slope = weight * wrong * -sign[rows] / np.float32(size)
            at_output = np.stack((-slope, slope), 1)
            at_hidden = (at_output @ parameters[2].T) * (below > 0)
            adam.step(
                [
                    x[rows].T @ at_hidden,
                    at_hidden.sum(0),
                    above.T @ at_output,
                    at_output.sum(0),
                ]
            )
        weights = {name: each.copy() for name, each in zip(NAMES, parameters, strict=True)}
        losses, confusions = [], []
        for each in judged:
            outputs = outputs_of(weights, each.digits)
            labels = each.slow.astype(np.float32)
            losses.append(float(np.mean(hinge(np, labels, outputs, options.bias, options.loss))))
            confusions.append(Confusion.of(each.slow, outputs[:, 1] > outputs[:, 0]))
        loss = losses[0]
        if len(losses) > 1:
            loss = (1 - options.burst_share) * loss + options.burst_share * losses[1]
        is_best = loss < min((e.validation_loss for e in history if e.best), default=np.inf)
        history.append(Epoch(number, 0.0, loss, confusions[0], confusions[-1], is_best))
        if is_best:
            best = weights
        last = max(epoch.number for epoch in history if epoch.best)
        if number >= training.SETTLED_EPOCHS and number - last >= options.patience_epochs:
            break
    return TrainedNetwork(best, history, False)


class NoTensorFlow:
    """A stand-in for the module, for the version in the record."""

    __version__ = "none"


@pytest.fixture
def by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "train", train_by_numpy)
    monkeypatch.setattr(drive_training, "import_tensorflow", lambda: NoTensorFlow)


def drive(path: Path, seed: int, *, stretch: int = 1, n: int = 2000) -> Path:
    """Return a drive with a twentieth of its reads slow, in runs of this length."""
    rng = np.random.default_rng([seed, n])
    slow = np.repeat(rng.random(n // stretch) < 0.05, stretch)
    latency_us = 80 * np.exp(0.2 * rng.normal(size=n)) + slow * (200 + rng.exponential(800, n))
    arrival_ms = np.cumsum(rng.exponential(0.5, n))
    offset = rng.integers(0, 1 << 20, n) * 4096
    path.write_text(
        "".join(
            f"{ms:.6f},{us:.0f},1,4096,{at},{ms:.6f},4096\n"
            for ms, us, at in zip(arrival_ms, latency_us, offset, strict=True)
        )
    )
    return path


def made(path: Path, seed: int, **options: Any) -> bool:
    """Return true if a network is made for a drive; each candidate trains for a few epochs."""
    try:
        linnapp.fit_network(path, seed=seed, n_hidden=32, max_epochs=20, **options)
    except NoGainError:
        return False
    return True


def test_fit_network_makes_no_model_of_a_drive_with_independent_latencies(
    by_numpy: None, tmp_path: Path
) -> None:
    """At a probability of 1/200 each, two models for 16 drives would occur once in 350 runs."""
    drives = [drive(tmp_path / f"d{seed}.csv", seed) for seed in range(16)]
    assert sum(made(path, seed + 1) for seed, path in enumerate(drives)) <= 1


def test_fit_network_makes_a_model_of_a_drive_whose_slow_reads_come_together(
    by_numpy: None, tmp_path: Path
) -> None:
    """Without this, the test above would also pass with a network that learns nothing."""
    drives = [drive(tmp_path / f"d{seed}.csv", seed, stretch=10, n=16_000) for seed in range(2)]
    assert all(made(path, seed + 1) for seed, path in enumerate(drives))
