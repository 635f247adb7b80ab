# SPDX-License-Identifier: MIT
"""No network is made for a drive with unpredictable latencies, whatever is chosen on the way.

Bias, epoch and margin are all chosen on the validation slice, on which the guard then decides.
Each choice makes a useless network look better than it is, so the guard is tested on the whole of
:func:`linnapp.fit_network`. TensorFlow would take minutes for this many drives, so numpy makes
networks of the same shape in its place.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linnapp
from linnapp.errors import NoGainError
from linnapp.learn import fit
from linnapp.learn import network as training
from linnapp.learn.examples import split
from linnapp.learn.judge import Confusion
from linnapp.learn.network import Epoch, Examples, TrainedNetwork, hinge, outputs_of
from linnapp.learn.options import TrainingOptions


def train_by_numpy(
    digits: np.ndarray,
    slow: np.ndarray,
    options: TrainingOptions,
    on_epoch: object = None,
    *,
    added: Examples | None = None,
    added_validation: Examples | None = None,
) -> TrainedNetwork:
    """Return the best of several networks of random features, as :func:`training.train` does.

    Each epoch draws other features, and fits the outputs by weighted least squares.
    """
    parts = split(len(slow), options)
    of_drive = [Examples(digits[part], slow[part]) for part in (parts.training, parts.validation)]
    taught = Examples.joined([of_drive[0], *([added] if added is not None else [])])
    judged = [of_drive[1], *([added_validation] if added_validation else [])]
    rng = np.random.default_rng([options.seed, 1])
    x, sign = taught.digits.astype(float), 2.0 * taught.slow - 1
    weight = np.sqrt(np.where(sign > 0, options.bias, 1))[:, None]
    history: list[Epoch] = []
    best: dict[str, np.ndarray] = {}
    for number in range(1, training.epoch_limit(len(taught), options) + 1):
        hidden = rng.normal(scale=0.1, size=(digits.shape[1], options.n_hidden))
        bias = rng.normal(size=options.n_hidden)
        above = np.column_stack([np.maximum(x @ hidden + bias, 0), np.ones(len(x))]) * weight
        ridge = np.eye(above.shape[1]) * len(x) / 100
        fitted = np.linalg.solve(above.T @ above + ridge, above.T @ (sign[:, None] * weight)) / 2
        outputs = np.column_stack([-fitted, fitted])
        weights = dict(
            hidden_weights=hidden, hidden_bias=bias,
            output_weights=outputs[:-1], output_bias=outputs[-1],
        )  # fmt: skip
        losses, confusions = [], []
        for each in judged:
            found = outputs_of(weights, each.digits)
            labels = each.slow.astype(np.float32)
            losses.append(float(np.mean(hinge(np, labels, found, options.bias, options.loss))))
            confusions.append(Confusion.of(each.slow, found[:, 1] > found[:, 0]))
        loss = float(np.average(losses, weights=(1 - options.burst_share, options.burst_share)
                                if len(losses) > 1 else None))  # fmt: skip
        is_best = loss < min((e.validation_loss for e in history), default=np.inf)
        history.append(Epoch(number, 0.0, loss, confusions[0], confusions[-1], is_best))
        best = weights if is_best else best
    return TrainedNetwork(best, history, False)


class NoTensorFlow:
    """A stand-in for the module, for the version in the record."""

    __version__ = "none"


@pytest.fixture
def by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "train", train_by_numpy)
    monkeypatch.setattr(fit, "import_tensorflow", lambda: NoTensorFlow)


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


def gets_a_model(path: Path, seed: int, **options: Any) -> bool:
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
    assert sum(gets_a_model(path, seed + 1) for seed, path in enumerate(drives)) <= 1


def test_fit_network_makes_a_model_of_a_drive_whose_slow_reads_come_together(
    by_numpy: None, tmp_path: Path
) -> None:
    """Without this, the test above would also pass with a network that learns nothing."""
    drives = [drive(tmp_path / f"d{seed}.csv", seed, stretch=10, n=16_000) for seed in range(2)]
    assert all(gets_a_model(path, seed + 1) for seed, path in enumerate(drives))
