# SPDX-License-Identifier: MIT
"""Trains a drive's network (:mod:`linnapp.learn.network.floats`).

31 digits -> 256 ReLU -> 2, categorical hinge loss, sections 4.3 and 4.4 of Hao et al., OSDI 2020.
The loss of truly slow reads is multiplied by a bias: predicting one of them fast (a false submit)
costs the user the slow read, while a false revoke costs a failover. Digits go in as they are,
so that the kernel needs no normalisation; where training is asked to standardise them, what that
does is folded into the weights (:class:`~linnapp.learn.network.floats.Scaling`).

Examples made otherwise than by recording (:mod:`linnapp.learn.features.augmentation`) can be added,
to the training and to the validation reads each of their own.

The trace is split in three, in order of time (:func:`split`). The first part is trained on. The
second, for validation, chooses: training stops when the loss there no longer falls and keeps the
weights of the best epoch. The last, for testing, decides nothing, so that figures on it say what to
expect of reads still to come. Equal seeds give equal models, bit for bit, on one machine type and
TensorFlow version.
"""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.arguments import check_flag, check_number
from linnapp.errors import TraceError
from linnapp.learn.features.split import check_enough, split
from linnapp.learn.judging.confusion import Confusion
from linnapp.learn.network.floats import (
    Scaling,
    Weights,
    batches,
    build,
    hinge,
    import_tensorflow,
    named_weights,
    outputs_now,
)
from linnapp.signals import signals_held
from linnapp.trace.rows import Rows

N_HIDDEN = 256
DEFAULT_BIAS = 2.0
VALIDATION_SHARE = 0.15
TEST_SHARE = 0.15
BURST_SHARE = 0.3
PATIENCE_EPOCHS = 5

#: Training does not stop before so many epochs: a calm validation slice has few slow reads, and its
#: loss may rise for a while, by chance, before bursts have been learnt at all.
SETTLED_EPOCHS = 15
MAX_EPOCHS = 60

#: Training stops by itself after so many reads in all (but not before MIN_EPOCHS): a long trace
#: has learnt in few epochs what a short one needs many for.
READ_BUDGET = 40_000_000
MIN_EPOCHS = 8
LEARNING_RATE = 1e-3

#: enough steps per epoch to learn from a short trace, batches large enough to be fast on a long
_STEPS_PER_EPOCH = 256
_MIN_BATCH = 64
_MAX_BATCH = 4096


@dataclasses.dataclass(frozen=True)
class Epoch:
    """One line of a training's history."""

    #: From 1.
    number: int
    #: `loss`, `validation_loss`: per example; that on validation weighs recorded reads and added
    #: bursts.
    loss: float
    validation_loss: float
    #: On the validation slice of the recording.
    confusion: Confusion
    #: On the added bursts of the validation slice; empty without them.
    bursts: Confusion
    #: Whether no earlier epoch had a lower validation loss.
    best: bool


@dataclasses.dataclass(frozen=True)
class TrainedNetwork:
    """Float weights of the best epoch, and how training went."""

    #: As :func:`linnapp.learn.network.quantisation.quantise` takes them.
    weights: Weights
    epochs: list[Epoch]
    #: Whether ctrl-C ended training early.
    interrupted: bool

    @property
    def best(self) -> Epoch:
        """The epoch whose weights were kept."""
        return [epoch for epoch in self.epochs if epoch.best][-1]


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """How to train; the defaults are the module's constants.

    Attributes
    ----------
    bias : float
        Multiplies the loss of truly slow reads.
    max_epochs : int, optional
        At most so many; from the length of the trace unless given.
    patience_epochs : int
        Stop after so many without a better validation loss.
    validation_share, test_share : float
        Shares of the reads that are kept for validation and for testing; see :func:`split`.
    burst_share : float
        Share of added bursts among the training examples, and their weight in the validation
        loss; 0 trains on the recording alone, as the paper does.
    standardise : bool
        Train on digits of mean 0 and deviation 1, and fold that into the weights afterwards.
    weight_decay : float
        Share by which each step makes weights smaller, times the learning rate.
    """

    bias: float = DEFAULT_BIAS
    seed: int = 1
    n_hidden: int = N_HIDDEN
    max_epochs: int | None = None
    patience_epochs: int = PATIENCE_EPOCHS
    validation_share: float = VALIDATION_SHARE
    test_share: float = TEST_SHARE
    learning_rate: float = LEARNING_RATE
    burst_share: float = BURST_SHARE
    standardise: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_number("bias", self.bias, 0, open_ends="low")
        check_number("seed", self.seed, 0, 2**32 - 1, whole=True)
        check_number("n_hidden", self.n_hidden, 1, whole=True)
        if self.max_epochs is not None:
            check_number("max_epochs", self.max_epochs, 1, whole=True)
        check_number("patience_epochs", self.patience_epochs, 1, whole=True)
        check_number("validation_share", self.validation_share, 0, 1, open_ends="low high")
        check_number("test_share", self.test_share, 0, 1, open_ends="low high")
        both = self.validation_share + self.test_share
        check_number("validation_share + test_share", both, 0, 1, open_ends="high")
        check_number("learning_rate", self.learning_rate, 0, open_ends="low")
        check_number("burst_share", self.burst_share, 0, 1, open_ends="high")
        check_flag("standardise", self.standardise)
        check_number("weight_decay", self.weight_decay, 0)


def epoch_limit(n_train: int, options: TrainingOptions) -> int:
    """How many epochs there may be."""
    if options.max_epochs is not None:
        return options.max_epochs
    return min(MAX_EPOCHS, max(MIN_EPOCHS, READ_BUDGET // max(n_train, 1)))


def batch_size(n_train: int) -> int:
    """Reads per step: a power of two, so that an epoch has some hundreds of steps."""
    wanted = max(1, n_train // _STEPS_PER_EPOCH)
    return int(min(_MAX_BATCH, max(_MIN_BATCH, 1 << (wanted.bit_length() - 1))))


@dataclasses.dataclass(frozen=True)
class Examples(Rows):
    """Feature vectors, shape (n, n_inputs), and labels, shape (n,)."""

    digits: npt.NDArray[np.uint8]
    slow: npt.NDArray[np.bool_]


def train(
    digits: npt.NDArray[np.uint8],
    slow: npt.NDArray[np.bool_],
    options: TrainingOptions | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    *,
    added: Examples | None = None,
    added_validation: Examples | None = None,
) -> TrainedNetwork:
    """Train a network on a drive's reads; when interrupted by ctrl-C, what was best so far.

    Parameters
    ----------
    digits : uint8 array, shape (n, n_inputs)
        Feature vectors in arrival order; :func:`split` says what each serves for.
    added, added_validation : Examples, optional
        More examples to train on, and to validate on.

    Raises
    ------
    TraceError
        If there are too few reads, or none of one class, to learn from.
    KeyboardInterrupt
        If ctrl-C comes before the first epoch is over.
    """
    options = options or TrainingOptions()
    parts = split(len(slow), options)
    first = parts.training.stop
    check_enough(len(slow))
    n_slow = int(np.count_nonzero(slow[:first]))
    if not 0 < n_slow < first:
        raise TraceError(
            f"all {first} reads to learn from are {'slow' if n_slow else 'fast'}: the drive showed "
            "no change to be learnt; trace longer, under the load that it is slow under"
        )
    taught = Examples(digits[:first], slow[:first])
    if added is not None and len(added):
        taught = Examples.joined((taught, added))
    judged = [Examples(digits[parts.validation], slow[parts.validation])]
    if added_validation is not None and len(added_validation):
        judged.append(added_validation)
    import_tensorflow()  # which takes seconds, and may be left in the middle
    # A step may not: TensorFlow answers with an error of its own. That is nothing to who is told
    # to end; ctrl-C has a result.
    with signals_held(signal.SIGINT) as let_in:
        return _train(taught, judged, options, on_epoch, let_in)


def _train(
    taught: Examples,
    judged: list[Examples],
    options: TrainingOptions,
    on_epoch: Callable[[Epoch], None] | None,
    let_in: Callable[[], None],
) -> TrainedNetwork:
    """Train and keep the best epoch.

    What validates are recorded reads, then added bursts if there are any. Ctrl-C may come where
    `let_in` is called: between two steps.
    """
    scaling = Scaling.of(taught.digits) if options.standardise else None
    keras = import_tensorflow().keras
    network = build(
        taught.digits.shape[1],
        options.n_hidden,
        options.bias,
        options.learning_rate,
        options.seed,
        scaling=scaling,
        weight_decay=options.weight_decay,
    )
    history: list[Epoch] = []
    latest: Epoch

    def judge(index: int, logs: dict[str, float]) -> None:
        nonlocal latest
        confusion, loss = _judged(network, judged[0], options.bias)
        bursts = Confusion(0, 0, 0, 0)
        if len(judged) > 1:
            bursts, burst_loss = _judged(network, judged[1], options.bias)
            loss = (1 - options.burst_share) * loss + options.burst_share * burst_loss
        # In 32 bits: Keras compares in them, and the history must call the same epoch best.
        logs["val_loss"] = loss = float(np.float32(loss))
        best = loss < min((e.validation_loss for e in history if e.best), default=np.inf)
        latest = Epoch(index + 1, logs["loss"], loss, confusion, bursts, best)

    def settle(index: int, _: dict[str, float]) -> None:
        history.append(latest)
        if index + 1 < SETTLED_EPOCHS:
            network.stop_training = False
        if on_epoch is not None:
            on_epoch(latest)

    stopping = keras.callbacks.EarlyStopping(
        "val_loss", mode="min", patience=options.patience_epochs, restore_best_weights=True
    )
    interrupted = False
    try:
        network.fit(
            batches(taught.digits, taught.slow, batch_size(len(taught)), options.seed),
            epochs=epoch_limit(len(taught), options),
            shuffle=False,
            verbose=0,
            callbacks=[
                keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: let_in()),
                keras.callbacks.LambdaCallback(on_epoch_end=judge),
                stopping,
                keras.callbacks.LambdaCallback(on_epoch_end=settle),
            ],
        )
    except KeyboardInterrupt:
        if not any(epoch.best for epoch in history):
            raise
        interrupted = True
    if not any(epoch.best for epoch in history):
        raise TraceError("training diverged: the loss was never a number; lower `learning_rate`")
    weights = named_weights(stopping.best_weights)
    if scaling is not None:
        weights = scaling.folded(weights)
    return TrainedNetwork(weights, history, interrupted)


def _judged(network: Any, examples: Examples, bias: float) -> tuple[Confusion, float]:
    """How a network in training does on examples, and the mean loss there."""
    outputs = outputs_now(network, examples.digits)
    loss = hinge(np, examples.slow.astype(np.float32), outputs, bias)
    confusion = Confusion.of(examples.slow, outputs[:, 1] > outputs[:, 0])
    return confusion, float(loss.mean(dtype=np.float64))
