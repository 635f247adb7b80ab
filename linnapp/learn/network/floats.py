# SPDX-License-Identifier: MIT
"""The float network, in Keras: 31 digits -> 256 ReLU -> 2.

TensorFlow is imported only for training. The network is so small that any operation per read in
Python or in an input pipeline would dominate the training time. Keras therefore processes many
batches per call of the graph, from arrays that are shuffled beforehand.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import needs

#: A property of the algorithm, not of the machine: with more threads, sums are split differently
#: and their last bits change. The network is so small that a second thread has no benefit. Several
#: drives are trained in several processes.
THREADS = 1

#: Batches per call of the graph. Ctrl-C is handled between calls.
_STEPS_PER_CALL = 128

#: Number of digits that are converted to floats at a time (16 MB).
_FLOATS_AT_A_TIME = 1 << 22

#: Number of reads whose outputs are computed at a time.
_OUTPUT_ROWS = 1 << 15

#: The mean of a digit is 4.5, not 0. Initial weights are smaller than for normalised inputs.
_INPUT_MEAN = 4.5

#: Standard deviation of a digit that is 9 in one read of a hundred and 0 otherwise.
_LEAST_DEVIATION = 0.9

#: Parameters of mallopt() in glibc (malloc.h).
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

Weights = dict[str, npt.NDArray[np.float32]]

#: In the order in which Keras lists the variables.
_NAMES = ("hidden_weights", "hidden_bias", "output_weights", "output_bias")


@dataclasses.dataclass(frozen=True)
class Scaling:
    """Scaling of digits during training: (digit - mean) * factor."""

    #: `mean`, `factor`: float32 array, shape (n_inputs,).
    mean: npt.NDArray[np.float32]
    factor: npt.NDArray[np.float32]

    @classmethod
    def of(cls, digits: npt.NDArray[np.uint8]) -> Scaling:
        """Return the scaling to mean 0 and standard deviation 1 over `digits`, shape (n, n_inputs).

        A digit that is almost constant is not magnified (:data:`_LEAST_DEVIATION`). A constant
        digit has a factor of 0 and therefore no weight. Otherwise its random initial weight alone
        would determine the effect of a different value in later reads.
        """
        mean = digits.mean(axis=0, dtype=np.float64)
        deviation = digits.std(axis=0, dtype=np.float64)
        factor = np.where(deviation > 0, 1 / np.maximum(deviation, _LEAST_DEVIATION), 0)
        return cls(mean.astype(np.float32), factor.astype(np.float32))

    def folded(self, weights: Weights) -> Weights:
        """Return weights with the same outputs for plain digits as `weights` for scaled ones."""
        first = weights["hidden_weights"].astype(np.float64) * self.factor[:, np.newaxis]
        bias = weights["hidden_bias"] - self.mean.astype(np.float64) @ first
        return {
            **weights,
            "hidden_weights": first.astype(np.float32),
            "hidden_bias": bias.astype(np.float32),
        }


def import_tensorflow() -> Any:
    """Import TensorFlow without messages, with the threads and determinism that training needs.

    Raises
    ------
    LinnappError
        If TensorFlow is not installed.
    """
    # These are read once, at import: no banner on each start, and no oneDNN code that differs
    # between CPUs.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    # Keras supports other backends. The user's choice among them is for the user's own models.
    os.environ["KERAS_BACKEND"] = "tensorflow"
    # TensorFlow reports missing GPUs before any of its own settings can prevent the message.
    with needs("training needs TensorFlow", "tensorflow"), _silenced_stderr():
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


def build(
    n_inputs: int,
    n_hidden: int,
    bias: float,
    learning_rate: float,
    seed: int,
    *,
    scaling: Scaling | None = None,
    weight_decay: float = 0.0,
) -> Any:
    """Build a network that can be trained with ``fit`` on the result of :func:`batches`.

    Parameters
    ----------
    n_inputs, n_hidden : int
    bias : float
        Multiplies the loss of slow reads.
    learning_rate : float
    seed : int
    scaling : Scaling, optional
        Scaling of the digits before the first weights.
    weight_decay : float
        Share by which each step reduces the weights, at a learning rate of 1. Biases do not decay.

    Returns
    -------
    keras.Sequential
    """
    tf = import_tensorflow()
    keras = tf.keras
    seeds = np.random.default_rng([seed, 1]).integers(2**31, size=2)

    def glorot(scale: float, seed: np.int64) -> Any:
        return keras.initializers.VarianceScaling(scale, "fan_avg", "uniform", int(seed))

    def loss(slow: Any, outputs: Any) -> Any:
        return hinge(tf, slow, outputs, bias)

    first_scale = 1 / _INPUT_MEAN**2
    scaled = []
    if scaling is not None:
        first_scale = 1.0
        scaled = [keras.layers.Rescaling(scaling.factor, -scaling.mean * scaling.factor)]
    network = keras.Sequential(
        [
            keras.Input((n_inputs,)),
            *scaled,
            keras.layers.Dense(n_hidden, "relu", kernel_initializer=glorot(first_scale, seeds[0])),
            keras.layers.Dense(2, kernel_initializer=glorot(1.0, seeds[1])),
        ]
    )
    optimizer = keras.optimizers.Adam(learning_rate, weight_decay=weight_decay or None)
    if weight_decay:
        optimizer.exclude_from_weight_decay(var_names=["bias"])
    network.compile(
        optimizer,
        loss,
        steps_per_execution=_STEPS_PER_CALL,
        jit_compile=False,
    )
    # If the variables were created with the graph, TensorFlow would build the graph twice.
    network.optimizer.build(network.trainable_variables)
    return network


def hinge(library: Any, slow: Any, outputs: Any, bias: float) -> Any:
    """Return the categorical hinge loss of each read, max(0, 1 - (right - wrong)) for two classes.

    The loss of slow reads is multiplied by `bias`.
    """
    margin = (2 * slow - 1) * (outputs[:, 1] - outputs[:, 0])
    return (1 + (bias - 1) * slow) * library.maximum(1 - margin, 0)


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
    out = np.empty((len(digits), 2), np.float32)
    for start in range(0, len(digits), _OUTPUT_ROWS):
        part = slice(start, start + _OUTPUT_ROWS)
        out[part] = network.predict_on_batch(digits[part].astype(np.float32))
    return out


def named_weights(arrays: list[npt.NDArray[np.float32]]) -> Weights:
    """Return the weights of a network by name, given the arrays in the order of Keras."""
    return dict(zip(_NAMES, arrays, strict=True))


def outputs_of(weights: Weights, digits: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Return the outputs of the float network, computed in numpy, shape (n, 2)."""
    out = np.empty((len(digits), 2), np.float32)
    for start in range(0, len(digits), _OUTPUT_ROWS):
        part = slice(start, start + _OUTPUT_ROWS)
        hidden = digits[part].astype(np.float32) @ weights["hidden_weights"]
        hidden = np.maximum(hidden + weights["hidden_bias"], 0)
        out[part] = hidden @ weights["output_weights"] + weights["output_bias"]
    return out
