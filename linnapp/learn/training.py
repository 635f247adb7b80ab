# SPDX-License-Identifier: MIT
"""Trains a drive's network with TensorFlow.

31 digits -> 256 ReLU -> 2, categorical hinge loss, sections 4.3 and 4.4 of Hao et al., OSDI 2020.
The loss of truly slow reads is multiplied by a bias: predicting one of them fast (a false submit)
costs the user the slow read, while a false revoke costs a failover. Digits go in as they are:
no normalisation, so that the kernel needs none.

Examples made otherwise than by recording (:mod:`linnapp.learn.augmentation`) can be added, to the
training and to the validation reads each of their own.

The trace is split in three, in order of time (:func:`split`). The first part is trained on. The
second, for validation, chooses: training stops when the loss there no longer falls and keeps the
weights of the best epoch. The last, for testing, decides nothing, so that figures on it say what to
expect of reads still to come. Equal seeds give equal models, bit for bit, on one machine type and
TensorFlow version.

The graph takes many batches per call from arrays that are shuffled beforehand: with a network
this small, anything done per sample in Python or in an input pipeline would take most of the time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError

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

#: Part of the recipe, not of the machine: threads would share sums out and change their last bits.
#: The network is so small that a second thread gains nothing; several drives use several processes.
THREADS = 1

#: enough steps per epoch to learn from a short trace, batches large enough to be fast on a long
_STEPS_PER_EPOCH = 256
_MIN_BATCH = 64
_MAX_BATCH = 4096

#: steps per call of the graph; ctrl-C is noticed between calls
_STEPS_PER_CALL = 128

Weights = dict[str, npt.NDArray[np.float32]]


@dataclasses.dataclass(frozen=True)
class Confusion:
    """Counts of reads by truth and prediction.

    Attributes
    ----------
    true_fast, true_slow : int
        Predicted as they were.
    false_submit : int
        Slow, predicted fast: submitted to a busy drive.
    false_revoke : int
        Fast, predicted slow: revoked for nothing.
    """

    true_fast: int
    true_slow: int
    false_submit: int
    false_revoke: int

    @classmethod
    def of(cls, slow: npt.NDArray[np.bool_], predicted: npt.NDArray[np.bool_]) -> Confusion:
        """Count; both arrays have shape (n,)."""
        return cls(
            true_fast=int(np.count_nonzero(~slow & ~predicted)),
            true_slow=int(np.count_nonzero(slow & predicted)),
            false_submit=int(np.count_nonzero(slow & ~predicted)),
            false_revoke=int(np.count_nonzero(~slow & predicted)),
        )

    @property
    def total(self) -> int:
        """All reads."""
        return self.true_fast + self.true_slow + self.false_submit + self.false_revoke

    @property
    def accuracy(self) -> float:
        """Share of reads predicted as they were."""
        return (self.true_fast + self.true_slow) / self.total if self.total else 0.0

    @property
    def false_submit_ratio(self) -> float:
        """False submits per read (the paper's rate)."""
        return self.false_submit / self.total if self.total else 0.0

    @property
    def false_revoke_ratio(self) -> float:
        """False revokes per read."""
        return self.false_revoke / self.total if self.total else 0.0

    @property
    def slow_recall(self) -> float | None:
        """Share of slow reads that were predicted; None without slow reads."""
        slow = self.true_slow + self.false_submit
        return self.true_slow / slow if slow else None

    def to_json(self) -> dict[str, float | None]:
        """Counts and ratios by name."""
        return {
            **dataclasses.asdict(self),
            "accuracy": self.accuracy,
            "false_submit_ratio": self.false_submit_ratio,
            "false_revoke_ratio": self.false_revoke_ratio,
            "slow_recall": self.slow_recall,
        }


@dataclasses.dataclass(frozen=True)
class Epoch:
    """One line of a training's history.

    Attributes
    ----------
    number : int
        From 1.
    loss, validation_loss : float
        Per example; that on validation weighs recorded reads and added bursts.
    confusion : Confusion
        On the validation slice of the recording.
    bursts : Confusion
        On the added bursts of the validation slice; empty without them.
    best : bool
        Whether no earlier epoch had a lower validation loss.
    """

    number: int
    loss: float
    validation_loss: float
    confusion: Confusion
    bursts: Confusion
    best: bool


@dataclasses.dataclass(frozen=True)
class TrainedNetwork:
    """Float weights of the best epoch, and how training went.

    Attributes
    ----------
    weights : dict of str to float32 array
        As :func:`linnapp.learn.quantisation.quantise` takes them.
    epochs : list of Epoch
    interrupted : bool
        Whether ctrl-C ended training early.
    test : Confusion
        Of these weights on the test slice.
    """

    weights: Weights
    epochs: list[Epoch]
    interrupted: bool
    test: Confusion

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
    seed : int
    n_hidden : int
    max_epochs : int, optional
        At most so many; from the length of the trace unless given.
    patience_epochs : int
        Stop after so many without a better validation loss.
    validation_share, test_share : float
        Shares of the reads that are kept for validation and for testing; see :func:`split`.
    learning_rate : float
        Of Adam.
    burst_share : float
        Share of added bursts among the training examples, and their weight in the validation
        loss; 0 trains on the recording alone, as the paper does.
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


@dataclasses.dataclass(frozen=True)
class Split:
    """Three parts of a trace's reads, in order of time.

    Attributes
    ----------
    training, validation, test : slice
    """

    training: slice
    validation: slice
    test: slice


def split(n: int, options: TrainingOptions) -> Split:
    """Split `n` reads: what is trained on, then what chooses, then what only judges."""
    first_test = n - max(1, round(n * options.test_share))
    first_validation = first_test - max(1, round(n * options.validation_share))
    return Split(
        slice(0, max(0, first_validation)),
        slice(max(0, first_validation), first_test),
        slice(first_test, n),
    )


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
class Examples:
    """Feature vectors, shape (n, n_inputs), and labels, shape (n,)."""

    digits: npt.NDArray[np.uint8]
    slow: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.slow)


def train(
    digits: npt.NDArray[np.uint8],
    slow: npt.NDArray[np.bool_],
    options: TrainingOptions | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    *,
    added: Examples | None = None,
    added_validation: Examples | None = None,
) -> TrainedNetwork:
    """Train a network on a drive's reads.

    Parameters
    ----------
    digits : uint8 array, shape (n, n_inputs)
        Feature vectors in arrival order; :func:`split` says what each serves for.
    slow : bool array, shape (n,)
        Labels.
    options : TrainingOptions, optional
    on_epoch : callable, optional
        Called after each epoch.
    added, added_validation : Examples, optional
        More examples to train on, and to validate on.

    Returns
    -------
    TrainedNetwork
        When interrupted by ctrl-C, what was best so far.

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
    if first < _MIN_BATCH:
        raise TraceError(
            f"{len(slow)} reads are too few to learn from: at least {2 * _MIN_BATCH} are needed, "
            "some ten thousand make a useful model; trace longer"
        )
    n_slow = int(np.count_nonzero(slow[:first]))
    if not 0 < n_slow < first:
        raise TraceError(
            f"all {first} reads to learn from are {'slow' if n_slow else 'fast'}: the drive showed "
            "no change to be learnt; trace longer, under the load that it is slow under"
        )
    network = _Network(digits.shape[1], options)
    validation = network.tensors(digits[parts.validation], slow[parts.validation])
    weigh_added = added_validation is not None and len(added_validation) > 0
    if added_validation is not None and weigh_added:
        burst_validation = network.tensors(added_validation.digits, added_validation.slow)
        burst_slow = added_validation.slow
    training_digits, training_slow = digits[:first], slow[:first]
    if added is not None and len(added):
        training_digits = np.concatenate((training_digits, added.digits))
        training_slow = np.concatenate((training_slow, added.slow))
    n_train = len(training_slow)
    rng = np.random.default_rng(options.seed)
    size = batch_size(n_train)
    history: list[Epoch] = []
    best = network.weights()
    best_loss = np.inf
    interrupted = False
    try:
        limit = epoch_limit(n_train, options)
        for number in range(1, limit + 1):
            order = rng.permutation(n_train)[: n_train // size * size]
            loss = network.fit(training_digits, training_slow, order, size)
            outputs, validation_loss = network.evaluate(*validation)
            confusion = Confusion.of(slow[parts.validation], outputs[:, 1] > outputs[:, 0])
            bursts = Confusion(0, 0, 0, 0)
            if weigh_added:
                outputs, burst_loss = network.evaluate(*burst_validation)
                bursts = Confusion.of(burst_slow, outputs[:, 1] > outputs[:, 0])
                share = options.burst_share
                validation_loss = (1 - share) * validation_loss + share * burst_loss
            better = validation_loss < best_loss
            if better:
                best, best_loss = network.weights(), validation_loss
            history.append(Epoch(number, loss, validation_loss, confusion, bursts, better))
            if on_epoch is not None:
                on_epoch(history[-1])
            last_best = max((e.number for e in history if e.best), default=number)
            if number >= SETTLED_EPOCHS and number - last_best >= options.patience_epochs:
                break
    except KeyboardInterrupt:
        if not any(epoch.best for epoch in history):
            raise
        interrupted = True
    if not any(epoch.best for epoch in history):
        raise TraceError("training diverged: the loss was never a number; lower --learning-rate")
    outputs = outputs_of(best, digits[parts.test])
    test = Confusion.of(slow[parts.test], outputs[:, 1] > outputs[:, 0])
    return TrainedNetwork(best, history, interrupted, test)


def outputs_of(weights: Weights, digits: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Outputs of the float network, computed in numpy; shape (n, 2)."""
    out = np.empty((len(digits), 2), np.float32)
    for start in range(0, len(digits), 1 << 16):
        part = slice(start, start + (1 << 16))
        hidden = digits[part].astype(np.float32) @ weights["hidden_weights"]
        hidden = np.maximum(hidden + weights["hidden_bias"], 0)
        out[part] = hidden @ weights["output_weights"] + weights["output_bias"]
    return out


def import_tensorflow() -> Any:
    """Import TensorFlow, quietly, with the threads and determinism that training needs.

    Raises
    ------
    TraceError
        If it is not installed.
    """
    # Read once at import: no banner on each start, no oneDNN path that differs between CPUs.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    try:
        # It reports missing GPUs before any setting of its own can keep it from that.
        with _silenced_stderr():
            import tensorflow as tf
    except ImportError as error:
        raise TraceError(
            f"training needs TensorFlow ({error}); install it with: pip install tensorflow"
        ) from error
    # Set once per process; a second call, after first use, is refused and not needed.
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(THREADS)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()
    return tf


@contextlib.contextmanager
def _silenced_stderr() -> Iterator[None]:
    """Send what C++ code writes to file descriptor 2 to nowhere."""
    sys.stderr.flush()
    saved = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


class _Network:
    """Variables and compiled functions of one training."""

    def __init__(self, n_inputs: int, options: TrainingOptions) -> None:
        tf = self._tf = import_tensorflow()
        rng = np.random.default_rng([options.seed, 1])

        def glorot(rows: int, columns: int) -> npt.NDArray[np.float32]:
            limit = np.sqrt(6 / (rows + columns))
            return rng.uniform(-limit, limit, (rows, columns)).astype(np.float32)

        # Digits average 4.5, not 0: start smaller, as normalised inputs would have it.
        initial = {
            "hidden_weights": glorot(n_inputs, options.n_hidden) / np.float32(4.5),
            "hidden_bias": np.zeros(options.n_hidden, np.float32),
            "output_weights": glorot(options.n_hidden, 2),
            "output_bias": np.zeros(2, np.float32),
        }
        self._variables = {name: tf.Variable(value) for name, value in initial.items()}
        variables = list(self._variables.values())
        first = [tf.Variable(tf.zeros_like(v)) for v in variables]
        second = [tf.Variable(tf.zeros_like(v)) for v in variables]
        beta1, beta2, epsilon = 0.9, 0.999, 1e-7
        beta1_power, beta2_power = tf.Variable(1.0), tf.Variable(1.0)
        bias = tf.constant(options.bias, tf.float32)
        rate = tf.constant(options.learning_rate, tf.float32)

        def forward(digits: Any) -> Any:
            w1, b1, w2, b2 = variables
            hidden = tf.nn.relu(tf.linalg.matmul(tf.cast(digits, tf.float32), w1) + b1)
            return tf.linalg.matmul(hidden, w2) + b2

        def loss_sum(outputs: Any, slow: Any) -> Any:
            # Of two classes the categorical hinge is max(0, 1 - (right - wrong)).
            sign = tf.where(slow, 1.0, -1.0)
            hinge = tf.nn.relu(1.0 - sign * (outputs[:, 1] - outputs[:, 0]))
            return tf.reduce_sum(tf.where(slow, bias, 1.0) * hinge)

        @tf.function(  # type: ignore[untyped-decorator]
            input_signature=[
                tf.TensorSpec([None, None, n_inputs], tf.uint8),
                tf.TensorSpec([None, None], tf.bool),
            ]
        )
        def fit(digits: Any, slow: Any) -> Any:
            size = tf.cast(tf.shape(slow)[1], tf.float32)
            total = tf.constant(0.0)
            for step in tf.range(tf.shape(slow)[0]):
                with tf.GradientTape() as tape:
                    loss = loss_sum(forward(digits[step]), slow[step])
                gradients = tape.gradient(loss, variables)
                beta1_power.assign(beta1_power * beta1)
                beta2_power.assign(beta2_power * beta2)
                for variable, m, v, gradient in zip(
                    variables, first, second, gradients, strict=True
                ):
                    tf.raw_ops.ResourceApplyAdam(
                        var=variable.handle,
                        m=m.handle,
                        v=v.handle,
                        beta1_power=beta1_power,
                        beta2_power=beta2_power,
                        lr=rate,
                        beta1=beta1,
                        beta2=beta2,
                        epsilon=epsilon,
                        grad=gradient / size,
                    )
                total += loss
            return total

        @tf.function(  # type: ignore[untyped-decorator]
            input_signature=[
                tf.TensorSpec([None, n_inputs], tf.uint8),
                tf.TensorSpec([None], tf.bool),
            ]
        )
        def evaluate(digits: Any, slow: Any) -> Any:
            outputs = forward(digits)
            return outputs, loss_sum(outputs, slow)

        self._fit = fit
        self._evaluate = evaluate

    def weights(self) -> Weights:
        """A copy of the current weights."""
        return {name: variable.numpy().copy() for name, variable in self._variables.items()}

    def tensors(
        self, digits: npt.NDArray[np.uint8], slow: npt.NDArray[np.bool_]
    ) -> tuple[Any, Any]:
        """Copy arrays into TensorFlow once, for repeated use."""
        return self._tf.constant(digits), self._tf.constant(slow)

    def fit(
        self,
        digits: npt.NDArray[np.uint8],
        slow: npt.NDArray[np.bool_],
        order: npt.NDArray[np.int64],
        size: int,
    ) -> float:
        """One epoch over the rows in `order`, a multiple of `size`; the mean loss per read."""
        total = 0.0
        per_call = _STEPS_PER_CALL * size
        for start in range(0, len(order), per_call):
            rows = order[start : start + per_call]
            total += float(
                self._fit(
                    digits[rows].reshape(-1, size, digits.shape[1]), slow[rows].reshape(-1, size)
                )
            )
        return total / len(order)

    def evaluate(self, digits: Any, slow: Any) -> tuple[npt.NDArray[np.float32], float]:
        """Outputs of shape (n, 2), and the mean loss per read."""
        n = int(slow.shape[0])
        outputs = np.empty((n, 2), np.float32)
        total = 0.0
        for start in range(0, n, 1 << 15):
            part = slice(start, start + (1 << 15))
            out, loss = self._evaluate(digits[part], slow[part])
            outputs[part] = out.numpy()
            total += float(loss)
        return outputs, total / n
