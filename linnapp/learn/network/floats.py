# SPDX-License-Identifier: MIT
"""The float network, in Keras: 31 digits -> 256 ReLU -> 2.

TensorFlow is imported by what trains and by nothing else. The network is so small that anything
done per read in Python or in an input pipeline would take most of the time: Keras takes many
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

#: Part of the recipe, not of the machine: threads would share sums out and change their last bits.
#: The network is so small that a second thread gains nothing; several drives use several processes.
THREADS = 1

#: batches per call of the graph; ctrl-C is noticed between calls
_STEPS_PER_CALL = 128

#: digits that are made floats at a time, 16 MB of them
_FLOATS_AT_A_TIME = 1 << 22

#: reads whose outputs are computed at a time
_OUTPUT_ROWS = 1 << 15

#: Digits average 4.5, not 0: weights start smaller, as normalised inputs would have it.
_INPUT_MEAN = 4.5

#: Of a digit that was 9 in one read of a hundred and else 0.
_LEAST_DEVIATION = 0.9

#: glibc's names (malloc.h) for what mallopt() sets
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

Weights = dict[str, npt.NDArray[np.float32]]

#: in the order in which Keras lists the variables
_NAMES = ("hidden_weights", "hidden_bias", "output_weights", "output_bias")


@dataclasses.dataclass(frozen=True)
class Scaling:
    """What a digit is to the first weights while they are trained: (digit - mean) * factor."""

    #: `mean`, `factor`: float32 array, shape (n_inputs,)
    mean: npt.NDArray[np.float32]
    factor: npt.NDArray[np.float32]

    @classmethod
    def of(cls, digits: npt.NDArray[np.uint8]) -> Scaling:
        """Standardise: mean 0 and deviation 1 over these digits, shape (n, n_inputs).

        A digit that is nearly always the same is not blown up (:data:`_LEAST_DEVIATION`). One that
        is always the same gets a factor of 0, and so no weight: else what its first, random weight
        says would be all that there is when it is another one day.
        """
        mean = digits.mean(axis=0, dtype=np.float64)
        deviation = digits.std(axis=0, dtype=np.float64)
        factor = np.where(deviation > 0, 1 / np.maximum(deviation, _LEAST_DEVIATION), 0)
        return cls(mean.astype(np.float32), factor.astype(np.float32))

    def folded(self, weights: Weights) -> Weights:
        """Weights that make of plain digits what `weights` make of scaled ones."""
        first = weights["hidden_weights"].astype(np.float64) * self.factor[:, np.newaxis]
        bias = weights["hidden_bias"] - self.mean.astype(np.float64) @ first
        return {
            **weights,
            "hidden_weights": first.astype(np.float32),
            "hidden_bias": bias.astype(np.float32),
        }


def import_tensorflow() -> Any:
    """Import TensorFlow, quietly, with the threads and determinism that training needs."""
    # Read once at import: no banner on each start, no oneDNN path that differs between CPUs.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    # Keras runs on other libraries too; a user's choice among them is for the user's own models.
    os.environ["KERAS_BACKEND"] = "tensorflow"
    # It reports missing GPUs before any setting of its own can keep it from that.
    with needs("training needs TensorFlow", "tensorflow"), _silenced_stderr():
        import tensorflow as tf
    # Set once per process; a second call, after first use, is refused and not needed.
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(THREADS)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()
    _keep_freed_memory()
    return tf


def _keep_freed_memory() -> None:
    """Tell glibc to keep what is freed for the next batch, which asks for as much again.

    Handing it back to the kernel and getting it anew, zeroed, a page fault for each page, took a
    third of the processor's time in training. Other C libraries have no such call.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        libc.mallopt(_M_TRIM_THRESHOLD, 256 << 20)


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
    """Make a network, ready for ``fit`` on what :func:`batches` makes.

    `bias` multiplies the loss of truly slow reads; `scaling` is of the digits, before the first
    weights. `weight_decay` is the share by which each step, at a learning rate of 1, makes weights
    smaller; biases keep.
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
    # Were its variables made while the graph is, TensorFlow would make the graph twice.
    network.optimizer.build(network.trainable_variables)
    return network


def hinge(library: Any, slow: Any, outputs: Any, bias: float) -> Any:
    """Loss of each read: of two classes, the categorical hinge is max(0, 1 - (right - wrong))."""
    margin = (2 * slow - 1) * (outputs[:, 1] - outputs[:, 0])
    return (1 + (bias - 1) * slow) * library.maximum(1 - margin, 0)


def batches(
    digits: npt.NDArray[np.uint8], slow: npt.NDArray[np.bool_], size: int, seed: int
) -> Any:
    """A dataset of batches, in another order in each epoch; what fills no batch waits for the next.

    The digits and labels are floats, of shape (size, n_inputs) and (size,). The arrays stay where
    they are. (Keras shuffles arrays itself, but copies them first, and with a seed repeats one
    order in all epochs.)
    """
    tf = import_tensorflow()
    rng = np.random.default_rng(seed)
    n_inputs = digits.shape[1]
    n_batches = len(slow) // size

    # Floats are made of many batches at a time: of one, TensorFlow's call of a function to do it
    # takes as long as a third of a training step.
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
    """Outputs of a network in training; shape (n, 2)."""
    out = np.empty((len(digits), 2), np.float32)
    for start in range(0, len(digits), _OUTPUT_ROWS):
        part = slice(start, start + _OUTPUT_ROWS)
        out[part] = network.predict_on_batch(digits[part].astype(np.float32))
    return out


def named_weights(arrays: list[npt.NDArray[np.float32]]) -> Weights:
    """What Keras calls the weights of a network, by name."""
    return dict(zip(_NAMES, arrays, strict=True))


def outputs_of(weights: Weights, digits: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Outputs of the float network, computed in numpy; shape (n, 2)."""
    out = np.empty((len(digits), 2), np.float32)
    for start in range(0, len(digits), _OUTPUT_ROWS):
        part = slice(start, start + _OUTPUT_ROWS)
        hidden = digits[part].astype(np.float32) @ weights["hidden_weights"]
        hidden = np.maximum(hidden + weights["hidden_bias"], 0)
        out[part] = hidden @ weights["output_weights"] + weights["output_bias"]
    return out
