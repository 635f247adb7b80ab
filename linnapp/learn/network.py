# SPDX-License-Identifier: MIT
"""Train a drive's network, choose its bias, and quantise it for the kernel.

**Network.** It is the one of sections 4.3 and 4.4 of Hao et al., OSDI 2020: 31 digits, 256 hidden
units with ReLU, 2 outputs, categorical hinge loss. The loss of false submits (slow reads that are
predicted fast) is multiplied by a bias (:func:`hinge`), because the user waits for such a read,
while a false revoke costs only a failover. Digits are not normalised, so that the kernel needs no
normalisation. Synthetic examples (:mod:`linnapp.learn.examples`) can be added to the training reads
and to the validation reads.

**Slices.** The trace is split into three slices, in order of time (:func:`split`). The first is for
training. The second, for validation, selects the epoch: training stops when the validation loss no
longer decreases, and keeps the weights of the best epoch. The last, for testing, contributes to no
decision, so results on it are an estimate for future reads. Equal seeds give equal models, bit for
bit, on the same machine type and TensorFlow version.

**Speed.** TensorFlow is imported only for training. The network is so small that any operation per
read in Python or in an input pipeline would dominate the training time. Keras therefore processes
many batches per call of the graph, from arrays that are shuffled beforehand.

**Bias.** By default, the candidate is chosen with which the array has the lowest mean read latency
(:func:`choose_bias`). A network is trained for each candidate, and its decisions on the validation
slice determine the expected latency (:func:`~linnapp.learn.judge.expected_mean_us`). The drive
represents its replicas, as in labelling with a single trace. A refused read in a synthetic burst is
assumed to have its recorded latency on a replica without the burst.

**Quantisation.** Hidden weights, hidden biases and output weights are rounded at scale s, output
biases at scale s * s. The inputs are plain digits, so every hidden sum has scale s and every output
has scale s * s: the integer network is exactly the float network with the rounded weights. The
scale is 1000, or less if the kernel's sums of 16 bits could overflow.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import ModelError, TraceError, errors_about, needs
from linnapp.learn.examples import BurstReads, Split, check_enough, load_reads, sample_bursts, split
from linnapp.learn.judge import (
    EQUAL_RATIO,
    REMEDY,
    Confusion,
    ScoredReads,
    area_under_roc,
    choose_margin,
    expected_mean_us,
    score_reads,
)
from linnapp.learn.labels import InflectionPoint, SlowLimits
from linnapp.learn.options import Observer, Recipe, TrainingOptions
from linnapp.model import SCALE, Model, NotNarrowError
from linnapp.signals import signals_held
from linnapp.trace.blktrace import Rows, TraceStats
from linnapp.trace.reads import Recorded, drive_name

#: Minimum number of epochs before training stops early. On a validation slice with few slow reads,
#: the loss can increase for some epochs by chance before the network has learned bursts.
SETTLED_EPOCHS = 15

#: Limits of the default number of epochs. Within these limits, training ends after `READ_BUDGET`
#: reads in total, because a long trace needs fewer epochs than a short one.
MIN_EPOCHS, MAX_EPOCHS = 8, 60
READ_BUDGET = 40_000_000

#: Approximate number of steps per epoch, and limits of the batch size.
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

    #: In the form that :func:`linnapp.learn.network.quantise` expects.
    weights: Weights
    epochs: list[Epoch]
    #: True if ctrl-C ended training early.
    interrupted: bool

    @property
    def best(self) -> Epoch:
        """The epoch whose weights were kept."""
        return [epoch for epoch in self.epochs if epoch.best][-1]


def epoch_limit(n_train: int, options: TrainingOptions) -> int:
    """Return the maximum number of epochs."""
    by_length = min(MAX_EPOCHS, max(MIN_EPOCHS, READ_BUDGET // max(n_train, 1)))
    return options.max_epochs or by_length


def batch_size(n_train: int) -> int:
    """Return the number of reads per step, a power of two: an epoch has a few hundred steps."""
    wanted = max(1, n_train // _STEPS_PER_EPOCH)
    return int(min(_MAX_BATCH, max(_MIN_BATCH, 1 << (wanted.bit_length() - 1))))


@dataclasses.dataclass(frozen=True)
class Examples(Rows):
    """Training or validation examples."""

    #: uint8 array, shape (n, n_inputs): inputs. bool array, shape (n,): labels.
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
    """Train a network on a drive's reads. Ctrl-C ends training with the best epoch so far.

    `digits` are the inputs for the reads in order of arrival, and `slow` their labels.
    :func:`split` divides them into slices. `on_epoch` is called after each epoch. Examples can be
    added to those for training, and to those for validation.

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
            f"all {first} reads to train on are {'slow' if n_slow else 'fast'}, so there is no "
            "difference to learn; record longer, under the load that makes the drive slow"
        )
    training = Examples(digits[:first], slow[:first])
    if added:
        training = Examples.joined((training, added))
    validation = [Examples(digits[parts.validation], slow[parts.validation])]
    if added_validation:
        validation.append(added_validation)
    import_tensorflow()  # This takes seconds and can be interrupted.
    # A training step cannot be interrupted safely, because TensorFlow then fails with an error of
    # its own. SIGINT is therefore held and handled between steps, where training has a result.
    # Other signals that end the process need no result.
    with signals_held(signal.SIGINT) as deliver_signals:
        return _train(training, validation, options, on_epoch, deliver_signals)


def _train(
    training: Examples,
    validation: list[Examples],
    options: TrainingOptions,
    on_epoch: Callable[[Epoch], None] | None,
    deliver_signals: Callable[[], None],
) -> TrainedNetwork:
    """Train and keep the best epoch.

    `validation` has the recorded reads, then the synthetic bursts, if there are any. Ctrl-C is
    handled when `deliver_signals` is called, between two steps.
    """
    keras = import_tensorflow().keras
    network = build(training.digits.shape[1], options)
    history: list[Epoch] = []
    latest: Epoch

    def evaluate(index: int, logs: dict[str, float]) -> None:
        nonlocal latest
        confusion, loss = _evaluate(network, validation[0], options)
        bursts = Confusion(0, 0, 0, 0)
        if len(validation) > 1:
            bursts, burst_loss = _evaluate(network, validation[1], options)
            loss = (1 - options.burst_share) * loss + options.burst_share * burst_loss
        # Rounded to 32 bits, because Keras compares 32-bit values and the history must select the
        # same best epoch.
        logs["val_loss"] = loss = float(np.float32(loss))
        best = loss < min((e.validation_loss for e in history if e.best), default=np.inf)
        latest = Epoch(index + 1, logs["loss"], loss, confusion, bursts, best)

    def finish(index: int, _: dict[str, float]) -> None:
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
            batches(training.digits, training.slow, batch_size(len(training)), options.seed),
            epochs=epoch_limit(len(training), options),
            shuffle=False,
            verbose=0,
            callbacks=[
                keras.callbacks.LambdaCallback(
                    on_train_batch_end=lambda batch, logs: deliver_signals()
                ),
                keras.callbacks.LambdaCallback(on_epoch_end=evaluate),
                stopping,
                keras.callbacks.LambdaCallback(on_epoch_end=finish),
            ],
        )
    except KeyboardInterrupt:
        if not any(epoch.best for epoch in history):
            raise
        interrupted = True
    if not any(epoch.best for epoch in history):
        raise TraceError("training diverged: the loss was never a number; lower `learning_rate`")
    weights = dict(zip(_NAMES, stopping.best_weights, strict=True))
    return TrainedNetwork(weights, history, interrupted)


def _evaluate(
    network: Any, examples: Examples, options: TrainingOptions
) -> tuple[Confusion, float]:
    """Return the confusion matrix and mean loss of a network during training on examples."""
    outputs = outputs_now(network, examples.digits)
    loss = hinge(np, examples.slow.astype(np.float32), outputs, options.bias, options.loss)
    confusion = Confusion.of(examples.slow, outputs[:, 1] > outputs[:, 0])
    return confusion, float(loss.mean(dtype=np.float64))


#: Number of threads. Models depend on it, because with more threads sums are divided differently,
#: which changes their last bits. The network is so small that a second thread would not be faster.
#: Several drives are trained in several processes.
THREADS = 1

#: Batches per call of the graph. Ctrl-C is handled between calls.
_STEPS_PER_CALL = 128

#: Number of digits that are converted to floats at a time (16 MB).
_FLOATS_AT_A_TIME = 1 << 22

#: Number of reads whose outputs are computed at a time.
_OUTPUT_ROWS = 1 << 15

#: The mean of a digit is 4.5, not 0. Initial weights are smaller than for normalised inputs.
_INPUT_MEAN = 4.5

#: Parameters of mallopt() in glibc (malloc.h).
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

Weights = dict[str, npt.NDArray[np.float32]]

#: In the order in which Keras lists the variables.
_NAMES = ("hidden_weights", "hidden_bias", "output_weights", "output_bias")


def import_tensorflow() -> Any:
    """Import TensorFlow without messages, with the threads and determinism that training needs."""
    # These are read once, at import. They prevent messages, and oneDNN code that differs between
    # CPUs.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    # Keras supports other backends. The user's choice among them is for the user's own models.
    os.environ["KERAS_BACKEND"] = "tensorflow"
    # TensorFlow reports missing GPUs before any of its own settings can prevent the message.
    with needs("training needs TensorFlow", "'linnapp[train]'"), _silenced_stderr():
        import tensorflow as tf
    # Can be set once per process. A second call, after the first use, fails and is not needed.
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(THREADS)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()
    _keep_freed_memory()
    return tf


def _keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next batch, which needs the same amount.

    Returning the memory to the kernel and receiving zeroed pages again, with a page fault for each,
    took a third of the CPU time of training. Other C libraries do not have this function.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        libc.mallopt(_M_TRIM_THRESHOLD, 256 << 20)


@contextlib.contextmanager
def _silenced_stderr() -> Iterator[None]:
    """Discard the output of C++ code to file descriptor 2."""
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


def build(n_inputs: int, options: TrainingOptions) -> Any:
    """Build a Keras network that can be trained with ``fit`` on the result of :func:`batches`."""
    tf = import_tensorflow()
    keras = tf.keras
    seeds = np.random.default_rng([options.seed, 1]).integers(2**31, size=2)

    def glorot(scale: float, seed: np.int64) -> Any:
        return keras.initializers.VarianceScaling(scale, "fan_avg", "uniform", int(seed))

    def loss(slow: Any, outputs: Any) -> Any:
        return hinge(tf, slow, outputs, options.bias, options.loss)

    network = keras.Sequential(
        [
            keras.Input((n_inputs,)),
            keras.layers.Dense(
                options.n_hidden, "relu", kernel_initializer=glorot(1 / _INPUT_MEAN**2, seeds[0])
            ),
            keras.layers.Dense(2, kernel_initializer=glorot(1.0, seeds[1])),
        ]
    )
    network.compile(
        keras.optimizers.Adam(options.learning_rate),
        loss,
        steps_per_execution=_STEPS_PER_CALL,
        jit_compile=False,
    )
    # If the variables were created with the graph, TensorFlow would build the graph twice.
    network.optimizer.build(network.trainable_variables)
    return network


def hinge(library: Any, slow: Any, outputs: Any, bias: float, loss: str) -> Any:
    """Return the categorical hinge loss of each read, max(0, 1 - (right - wrong)) for two classes.

    The set of false submits is treated as a constant when the loss is differentiated. The loss of a
    slow read therefore has a slope of `bias` until the read is predicted slow, and a slope of 1
    from there to the margin.

    `library` is numpy or tensorflow, and `loss` names the reads whose loss is multiplied by `bias`.
    The labels `slow` are 0 or 1. The columns of `outputs` are those for fast and for slow. Equal
    outputs predict a fast read, as in the kernel.
    """
    margin = (2 * slow - 1) * (outputs[:, 1] - outputs[:, 0])
    biased = slow
    if loss == "false-submits":
        biased = library.where(margin <= 0, slow, library.zeros_like(slow))
    return (1 + (bias - 1) * biased) * library.maximum(1 - margin, 0)


def batches(
    digits: npt.NDArray[np.uint8], slow: npt.NDArray[np.bool_], size: int, seed: int
) -> Any:
    """Return a dataset of batches in a different random order in each epoch.

    Reads that do not fill a batch are left out of the epoch. Digits and labels are floats of shapes
    (size, n_inputs) and (size,). The arrays are not copied. (Keras can shuffle arrays itself, but
    copies them first, and with a seed it repeats the same order in all epochs.)
    """
    tf = import_tensorflow()
    rng = np.random.default_rng(seed)
    n_inputs = digits.shape[1]
    n_batches = len(slow) // size

    # Many batches are converted to floats at a time: for a single batch, the call from TensorFlow
    # to the conversion function takes as long as a third of a training step.
    at_a_time = max(1, min(_STEPS_PER_CALL, _FLOATS_AT_A_TIME // (size * n_inputs)))

    def shuffled() -> Iterator[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
        order = rng.permutation(len(slow))[: n_batches * size].reshape(n_batches, size)
        for start in range(0, n_batches, at_a_time):
            rows = order[start : start + at_a_time]
            yield digits[rows].astype(np.float32), slow[rows].astype(np.float32)

    many = tf.data.Dataset.from_generator(
        shuffled,
        output_signature=(
            tf.TensorSpec((None, size, n_inputs), tf.float32),
            tf.TensorSpec((None, size), tf.float32),
        ),
    )
    each = many.flat_map(lambda *columns: tf.data.Dataset.from_tensor_slices(columns))
    return each.apply(tf.data.experimental.assert_cardinality(n_batches))


def outputs_now(network: Any, digits: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Return the outputs of a network during training, shape (n, 2)."""
    return _in_batches(network.predict_on_batch, digits)


def outputs_of(weights: Weights, digits: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Return the outputs of the float network, computed in numpy, shape (n, 2)."""

    def compute(batch: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        hidden = np.maximum(batch @ weights["hidden_weights"] + weights["hidden_bias"], 0)
        return np.asarray(hidden @ weights["output_weights"] + weights["output_bias"])

    return _in_batches(compute, digits)


def _in_batches(
    compute: Callable[[npt.NDArray[np.float32]], Any], digits: npt.NDArray[np.uint8]
) -> npt.NDArray[np.float32]:
    out = np.empty((len(digits), 2), np.float32)
    for start in range(0, len(digits), _OUTPUT_ROWS):
        part = slice(start, start + _OUTPUT_ROWS)
        out[part] = compute(digits[part].astype(np.float32))
    return out


#: Spaced by a factor of 2, because the mean is flat around its minimum.
CANDIDATES = (0.5, 1.0, 2.0, 4.0, 8.0)

#: Limits on reads and epochs that are sufficient to compare candidates. The final training has
#: none.
SEARCH_READS = 100_000
SEARCH_EPOCHS = 12

#: Assumed share of the reads that arrive during a burst.
BURST_PREVALENCE = 0.05


@dataclasses.dataclass(frozen=True)
class BiasChoice:
    """The chosen bias, and the array's expected mean latency in us for each candidate."""

    bias: float
    expected_mean_us: dict[float, float]


def choose_bias(
    digits: npt.NDArray[np.uint8],
    slow: npt.NDArray[np.bool_],
    latency_us: npt.NDArray[np.uint32],
    options: TrainingOptions,
    *,
    failover_us: float,
    replicas: int,
    pages: npt.NDArray[Any],
    added: Examples | None = None,
    bursts: BurstReads | None = None,
    on_candidate: Callable[[float, float], None] | None = None,
) -> BiasChoice:
    """Train with each candidate and choose the bias with the lowest expected mean latency.

    Among candidates within 0.1 % of the best, the one closest to 1 is chosen. The parameters are
    those of :func:`train` and of :func:`~linnapp.learn.judge.expected_mean_us`. The mean latency of
    `bursts`, synthetic bursts of the validation slice, has the weight :data:`BURST_PREVALENCE`, and
    that of the recorded reads has the remaining weight. `on_candidate` is called with each
    candidate and its mean latency in us.

    Raises
    ------
    KeyboardInterrupt
        If ctrl-C is received. An incomplete search has no result.
    """
    step = -(-len(latency_us) // SEARCH_READS)
    digits, slow, latency_us = digits[::step], slow[::step], latency_us[::step]
    pages = pages[::step]
    if added is not None:
        added = added.take(slice(None, None, step))
    validation = split(len(slow), options).validation
    means: dict[float, float] = {}
    for candidate in CANDIDATES:
        tried = dataclasses.replace(
            options,
            bias=candidate,
            max_epochs=min(options.max_epochs or SEARCH_EPOCHS, SEARCH_EPOCHS),
        )
        network = train(digits, slow, tried, added=added)
        if network.interrupted:
            raise KeyboardInterrupt
        outputs = outputs_of(network.weights, digits[validation])
        means[candidate] = expected_mean_us(
            latency_us[validation],
            outputs[:, 1] > outputs[:, 0],
            failover_us=failover_us,
            replicas=replicas,
            pages=pages[validation],
        )
        if bursts:
            outputs = outputs_of(network.weights, bursts.inputs)
            refused = outputs[:, 1] > outputs[:, 0]
            burst_us = np.where(refused, failover_us + bursts.recorded_us, bursts.latency_us)
            means[candidate] += BURST_PREVALENCE * (float(burst_us.mean()) - means[candidate])
        if on_candidate is not None:
            on_candidate(candidate, means[candidate])
    best = min(means.values())
    good = [candidate for candidate, mean in means.items() if mean <= best * EQUAL_RATIO]
    return BiasChoice(min(good, key=lambda bias: abs(np.log(bias))), means)


#: Scales that are tried, from the largest. The published weights have 1000.
SCALES = tuple(range(SCALE, 0, -50))


def quantise(
    weights: dict[str, npt.NDArray[Any]], threshold_us: int, scale: int | None = None
) -> Model:
    """Make a model from float weights, or from integer weights, which must already be scaled.

    The arrays are ``hidden_weights`` (N_INPUTS, H), ``hidden_bias`` (H,), ``output_weights`` (H, 2)
    and ``output_bias`` (2,). The default `scale` for floats is the largest of `SCALES` without
    overflow.

    Raises
    ------
    ModelError
        If an array is missing, integers and floats are mixed, or a value is not finite.
    NotNarrowError
        If a sum could overflow at this scale, or at all scales.
    """
    missing = [name for name in _NAMES if name not in weights]
    if missing:
        raise ModelError(f"weights: {', '.join(missing)} missing; expected {', '.join(_NAMES)}")
    arrays = {name: np.asarray(weights[name]) for name in _NAMES}
    kinds = {array.dtype.kind for array in arrays.values()}
    if kinds <= {"i", "u"}:
        return Model(**arrays, threshold_us=threshold_us, scale=scale or SCALE)
    if kinds != {"f"}:
        raise ModelError(
            "weights: all arrays must be float (to be quantised) or all integer (quantised), not "
            + ", ".join(f"{name} {array.dtype}" for name, array in arrays.items())
        )
    *larger, smallest = [scale] if scale else SCALES
    for each in larger:
        with contextlib.suppress(NotNarrowError):
            return _quantised(arrays, threshold_us, each)
    return _quantised(arrays, threshold_us, smallest)


def _quantised(arrays: dict[str, npt.NDArray[Any]], threshold_us: int, scale: int) -> Model:
    integers: dict[str, npt.NDArray[Any]] = {
        name: _rounded(array, scale * scale if name == "output_bias" else scale, name)
        for name, array in arrays.items()
    }
    return Model(**integers, threshold_us=threshold_us, scale=scale)


def _rounded(array: npt.NDArray[Any], scale: int, name: str) -> npt.NDArray[np.int64]:
    scaled = np.rint(array.astype(np.float64) * scale)
    if not np.all(np.isfinite(scaled)):
        raise ModelError(f"weights: {name} holds a value that is not finite; did training diverge?")
    if np.any(np.abs(scaled) >= 2.0**62):
        raise ModelError(f"weights: {name} is too large for scale {scale}")
    return scaled.astype(np.int64)


#: Maximum number of reads. Longer traces are thinned to every second, third, ... read, which limits
#: memory use to about 500 MB. A network of this size does not learn more from more reads.
MAX_READS = 8_000_000


#: The decisions to which each slice of a trace contributes. The more decisions a slice contributes
#: to, the more optimistic are the results on it.
DECIDED_BY = {
    "training": ["threshold_us", "labels", "weights"],
    "validation": ["bias", "epoch", "margin"],
    "test": [],
}


def train_network(
    trace: Recorded, point: InflectionPoint, recipe: Recipe, observer: Observer
) -> tuple[Model, dict[str, Any], TraceStats]:
    """Train one drive's network; return it with its part of the record and the trace's counts."""
    name = drive_name(trace)
    options = recipe.training
    reads = load_reads(trace, **recipe.reader)
    parts = split(len(reads), options)
    training = reads.take(parts.training)
    limits = SlowLimits.find(
        *(recipe.labels, point.threshold_us, training.latency_us, training.pages),
        recipe.labelling.failover_us,
    )
    #: Synthetic bursts for training, for validation and for testing; none if they have no share.
    bursts: tuple[BurstReads, ...] = ()
    if options.burst_share:
        bursts = sample_bursts(
            *(trace, parts, options.burst_share, point.threshold_us, options.seed, limits),
            **recipe.reader,
        )
    if len(reads) > MAX_READS:
        step = -(-len(reads) // MAX_READS)
        reads = reads.take(slice(None, None, step)).each(np.copy)  # Frees the other reads.
    digits, slow = reads.digits(), limits.slow(reads.latency_us, reads.pages)
    examples = [Examples(each.inputs, each.slow) for each in bursts]
    added, added_validation = examples[:2] or (None, None)
    choice = None
    with errors_about(trace):
        if recipe.auto_bias:
            choice = choose_bias(
                *(digits, slow, reads.latency_us, options),
                failover_us=recipe.labelling.failover_us,
                replicas=point.replicas,
                pages=reads.pages,
                added=added,
                bursts=bursts[1] if bursts else None,
                on_candidate=functools.partial(observer.candidate, name),
            )
            options = dataclasses.replace(options, bias=choice.bias)
        network = train(
            *(digits, slow, options, functools.partial(observer.epoch, name)),
            added=added,
            added_validation=added_validation,
        )
    model = quantise(dict(network.weights), point.threshold_us)
    scored = ScoredReads(
        score_reads(model, digits)[0],
        *(reads.latency_us, reads.pages, point.threshold_us, recipe.labelling.failover_us),
        point.replicas,
    )
    parts = split(len(slow), options)
    with errors_about(trace):
        margin = choose_margin(
            scored.take(parts.training),
            scored.take(parts.validation),
            recipe.refused_limit,
            even_if_worse=recipe.even_if_worse,
        )
    # A read is refused if its output for slow exceeds that for fast by more than the margin. Adding
    # the margin to the output for fast has the same effect.
    model = dataclasses.replace(model, output_bias=model.output_bias + np.array([margin, 0]))
    floats = outputs_of(network.weights, digits)
    disagree = int(np.count_nonzero(scored.refused(0) != (floats[:, 1] > floats[:, 0])))
    results = {
        # The definition of a slow read, which also applies to every confusion matrix below.
        "labels": recipe.labels,
        "labelled_slow_ratio": float(np.mean(slow)),
        "scale": model.scale,
        **_record_of_margin(scored, slow, margin, parts),
        "decided_by": DECIDED_BY,
        "quantisation": {"reads": len(slow), "integer_differs_from_float": disagree},
        "max_refused": recipe.refused_limit,
        "options": dataclasses.asdict(options),
        **_record_of_epochs(network),
    }
    if choice is not None:
        results["bias_search"] = {str(b): mean for b, mean in choice.expected_mean_us.items()}
    if bursts:
        added_rows, validation, test = bursts
        results["bursts"] = {
            "training_rows": len(added_rows),
            "training_slow": int(np.count_nonzero(added_rows.slow)),
            "validation_rows": len(validation),
            "rows": len(test),
            "slow": int(np.count_nonzero(test.slow)),
            **Confusion.of(test.slow, score_reads(model, test.inputs)[1]).to_json(),
        }
    return model, results, reads.stats


def _record_of_margin(
    scored: ScoredReads, slow: npt.NDArray[np.bool_], margin: int, parts: Split
) -> dict[str, Any]:
    """Return the results of the integer model by slice.

    In the confusion matrices, slow reads are those with this label. In `quality` and `auc`, they
    are those above the inflection point, as in ``linnapp evaluate`` and in the record of a latency
    model.
    """
    refused = scored.refused(margin)
    by_slice = {name: Confusion.of(slow[rows], refused[rows]) for name, rows in vars(parts).items()}
    ratios = ("accuracy", "false_submit_ratio", "false_revoke_ratio", "slow_recall")
    validation, test = scored.take(parts.validation), scored.take(parts.test)
    return {
        # The test slice contributed to no decision.
        **{name: getattr(by_slice["test"], name) for name in ratios},
        "auc": area_under_roc(test.score, ~test.fast),
        **{name: confusion.to_json() for name, confusion in by_slice.items()},
        "reads": len(slow),
        **{f"{name}_reads": confusion.total for name, confusion in by_slice.items()},
        "margin": margin,
        "remedy": REMEDY if validation.refuses_almost_nothing(margin) else None,
        "quality": {
            "as_trained": validation.quality(0),
            "validation": validation.quality(margin),
            "test": test.quality(margin),
        },
    }


def _record_of_epochs(network: TrainedNetwork) -> dict[str, Any]:
    return {
        "interrupted": network.interrupted,
        "best_epoch": network.best.number,
        "epochs": [
            {
                "epoch": epoch.number,
                "loss": epoch.loss,
                "validation_loss": epoch.validation_loss,
                "false_submit": epoch.confusion.false_submit,
                "false_revoke": epoch.confusion.false_revoke,
                "burst_false_submit": epoch.bursts.false_submit,
                "burst_false_revoke": epoch.bursts.false_revoke,
            }
            for epoch in network.epochs
        ],
    }
