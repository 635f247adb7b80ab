# SPDX-License-Identifier: MIT
"""Train a drive's network (:mod:`linnapp.learn.network.floats`).

31 digits -> 256 ReLU -> 2, categorical hinge loss, sections 4.3 and 4.4 of Hao et al., OSDI 2020.
The loss of slow reads is multiplied by a bias: if a slow read is predicted fast (a false submit),
the user waits for the slow read, while a false revoke costs a failover. Digits are not normalised,
so that the kernel needs no normalisation. If training standardises them, the scaling is folded into
the weights afterwards (:class:`~linnapp.learn.network.floats.Scaling`).

Synthetic examples (:mod:`linnapp.learn.features.augmentation`) can be added to the training reads
and to the validation reads, different examples for each.

The trace is split into three parts, in order of time (:func:`split`). The first part is for
training. The second, for validation, selects the epoch: training stops when the validation loss no
longer decreases and keeps the weights of the best epoch. The last, for testing, contributes to no
decision, so that results on it predict the results on future reads. Equal seeds give equal models,
bit for bit, on the same machine type and TensorFlow version.
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

#: Minimum number of epochs before training stops early. A validation slice with few slow reads can
#: have a rising loss for a while, by chance, before bursts have been learned at all.
SETTLED_EPOCHS = 15
MAX_EPOCHS = 60

#: Training stops after this number of reads in total (but not before MIN_EPOCHS), because a long
#: trace needs few epochs where a short one needs many.
READ_BUDGET = 40_000_000
MIN_EPOCHS = 8
LEARNING_RATE = 1e-3

#: Enough steps per epoch to learn from a short trace, and large enough batches for a long trace.
_STEPS_PER_EPOCH = 256
_MIN_BATCH = 64
_MAX_BATCH = 4096


@dataclasses.dataclass(frozen=True)
class Epoch:
    """One epoch of the training history."""

    #: Numbered from 1.
    number: int
    #: `loss`, `validation_loss`: mean per example. The validation loss is a weighted mean over
    #: recorded reads and synthetic bursts.
    loss: float
    validation_loss: float
    #: Confusion matrix of the validation slice of the recording.
    confusion: Confusion
    #: Confusion matrix of the synthetic bursts of the validation slice. Empty if there are none.
    bursts: Confusion
    #: True if no earlier epoch had a lower or equal validation loss.
    best: bool


@dataclasses.dataclass(frozen=True)
class TrainedNetwork:
    """The float weights of the best epoch, and the training history."""

    #: In the form that :func:`linnapp.learn.network.quantisation.quantise` expects.
    weights: Weights
    epochs: list[Epoch]
    #: True if ctrl-C ended training early.
    interrupted: bool

    @property
    def best(self) -> Epoch:
        """The epoch whose weights were kept."""
        return [epoch for epoch in self.epochs if epoch.best][-1]


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """Training options. The defaults are the constants of the module.

    Attributes
    ----------
    bias : float
        Multiplies the loss of slow reads.
    seed : int
        Seed of all random choices.
    n_hidden : int
        Number of hidden units.
    max_epochs : int, optional
        Maximum number of epochs. The default depends on the length of the trace.
    patience_epochs : int
        Stop after this number of epochs without a lower validation loss.
    validation_share, test_share : float
        Shares of the reads that are reserved for validation and for testing; see :func:`split`.
    learning_rate : float
        Learning rate of Adam.
    burst_share : float
        Share of synthetic bursts among the training examples, and their weight in the validation
        loss. 0 trains on the recording alone, as in the paper.
    standardise : bool
        Train on digits scaled to mean 0 and standard deviation 1, and fold the scaling into the
        weights afterwards.
    weight_decay : float
        Share by which each step reduces the weights, multiplied by the learning rate.
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
    """Return the maximum number of epochs."""
    if options.max_epochs is not None:
        return options.max_epochs
    return min(MAX_EPOCHS, max(MIN_EPOCHS, READ_BUDGET // max(n_train, 1)))


def batch_size(n_train: int) -> int:
    """Return the number of reads per step, a power of two: an epoch has a few hundred steps."""
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
    """Train a network on a drive's reads. If ctrl-C interrupts it, return the best epoch so far.

    Parameters
    ----------
    digits : uint8 array, shape (n, n_inputs)
        Feature vectors in arrival order, which are split by :func:`split`.
    slow : bool array, shape (n,)
        Labels.
    options : TrainingOptions, optional
    on_epoch : callable, optional
        Called after each epoch.
    added, added_validation : Examples, optional
        More examples for training, and for validation.

    Returns
    -------
    TrainedNetwork

    Raises
    ------
    TraceError
        If there are too few reads, all reads have the same label, or training diverges.
    KeyboardInterrupt
        If ctrl-C is received before the end of the first epoch.
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
    import_tensorflow()  # This takes seconds and can be interrupted.
    # A training step cannot be interrupted safely, because TensorFlow then fails with an error of
    # its own. SIGINT is therefore held and handled between steps, where training has a result.
    # Other signals that end the process need no result.
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

    The validation sets in `judged` are the recorded reads, then the synthetic bursts, if there are
    any. Ctrl-C is handled when `let_in` is called, between two steps.
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
        # Rounded to 32 bits, because Keras compares 32-bit values and the history must select the
        # same best epoch.
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
    """Return the confusion matrix and mean loss of a network during training on examples."""
    outputs = outputs_now(network, examples.digits)
    loss = hinge(np, examples.slow.astype(np.float32), outputs, bias)
    confusion = Confusion.of(examples.slow, outputs[:, 1] > outputs[:, 0])
    return confusion, float(loss.mean(dtype=np.float64))
