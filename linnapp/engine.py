# SPDX-License-Identifier: MIT
"""Predict reads with a network or a latency model.

There are two engines, which give the same answers. ``c`` is core/, the C code that the kernel runs,
built as a shared library. ``numpy`` is independent of it and accepts a network with any number of
hidden units.
"""

from __future__ import annotations

import time
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linnapp.arguments import check_choice
from linnapp.errors import LinnappError, ModelError
from linnapp.model import (
    CAP,
    DEPTH,
    FEATURES,
    FRACTION_BITS,
    KERNEL_HIDDEN,
    LATENCIES,
    MAX_TREES,
    MIN_TREES,
    N_FEATURES,
    N_INPUTS,
    N_OUTPUTS,
    N_SPLITS,
    PLACE,
    LatencyModel,
    Model,
)
from linnapp.native import HISTORY, Library, declare, load_library, loaded_once

Engine = Literal["numpy", "c"]
ENGINES: tuple[Engine, ...] = ("numpy", "c")

#: Declarations of the functions of core/ that are used, with standard C types in place of core's.
_FUNCTIONS = """
const char *linnos_model_error_string(int error);
void linnos_features_batch(const uint32_t *pending, const uint32_t *hist_pending,
                           const uint32_t *hist_latency_us, uint8_t *digits, long n);
size_t linnos_network_sizeof(void);
int linnos_network_parse(void *network, const void *data, size_t bytes);
long linnos_network_batch(const void *network, const uint8_t *digits, long n, int64_t *out,
                          int64_t *margins);
size_t linnos_latency_sizeof(size_t file_bytes);
int linnos_latency_parse(void *model, const void *data, size_t bytes);
long linnos_latency_batch(const void *model, const uint32_t *features, long n, uint32_t *us);
"""


@loaded_once
def _library() -> Library:
    """Return the kernel's code as a shared library, which is loaded once."""
    return load_library("liblinnos_engine.so", "LINNOS_ENGINE", declare(more=_FUNCTIONS))


def _parse_in_c(data: bytes, n_bytes: int, parse: Any) -> Any:
    ffi, lib = _library()
    model = ffi.new("char[]", n_bytes)
    error = parse(model, data, len(data))
    if error:
        reason = ffi.string(lib.linnos_model_error_string(error)).decode()
        raise ModelError(f"model: the kernel rejects it: {reason}")
    return model


def parse_network_in_c(data: bytes) -> Any:
    """Parse a network's file as the kernel does, or raise ModelError. Return the parsed network."""
    lib = _library().lib
    return _parse_in_c(data, lib.linnos_network_sizeof(), lib.linnos_network_parse)


def parse_latency_in_c(data: bytes) -> Any:
    """Parse a latency model's file as :func:`parse_network_in_c` parses that of a network."""
    lib = _library().lib
    return _parse_in_c(data, lib.linnos_latency_sizeof(len(data)), lib.linnos_latency_parse)


def digits(
    pending: npt.NDArray[np.uint32],
    hist_pending: npt.NDArray[np.uint32],
    hist_latency_us: npt.NDArray[np.uint32],
) -> npt.NDArray[np.uint8]:
    """Encode features as decimal digits, the inputs of a network.

    Parameters
    ----------
    pending : uint32 array, shape (n,)
        Pending pages at arrival, including those of the read itself.
    hist_pending, hist_latency_us : uint32 array, shape (n, HISTORY)
        Pending pages and latencies of the last completed reads, oldest first.

    Returns
    -------
    uint8 array, shape (n, N_INPUTS)
        Digits 0 to 9 of `hist_pending`, `pending` and `hist_latency_us`, in this order, the most
        significant digit of each number first.

    Raises
    ------
    ValueError
        If an array has another shape.
    """
    n = len(pending)
    for name, array in (("hist_pending", hist_pending), ("hist_latency_us", hist_latency_us)):
        if array.shape != (n, HISTORY):
            raise ValueError(f"{name} has shape {array.shape}, expected {(n, HISTORY)}")
    columns = [
        np.ascontiguousarray(array, np.uint32) for array in (pending, hist_pending, hist_latency_us)
    ]
    out = np.empty((n, N_INPUTS), np.uint8)
    engine = _library()
    addresses = [engine.address(column, "uint32_t *") for column in columns]
    engine.lib.linnos_features_batch(*addresses, engine.address(out, "uint8_t *"), n)
    return out


def infer(
    model: Model, digits: npt.NDArray[Any], engine: Engine | None = None
) -> npt.NDArray[np.int64]:
    """Compute the two outputs of a network for each feature vector.

    Parameters
    ----------
    model : Model
    digits : integer array, shape (n, N_INPUTS)
        Decimal digits, 0 to 9.
    engine : {"numpy", "c"}, optional
        By default the kernel's code, unless it does not accept a network of that size.

    Returns
    -------
    int64 array, shape (n, 2)
        Fixed-point outputs (fast, slow) with scale ``model.scale ** 2``.

    Raises
    ------
    LinnappError
        If `digits` has the wrong shape or type, or holds values outside 0 to 9.
    ModelError
        If the kernel's code rejects the model (engine ``c`` only).
    """
    _check_inputs(digits, model.n_inputs, model.n_inputs, 9)
    rows = np.ascontiguousarray(digits, np.uint8)
    if _uses_c(engine, model.n_hidden == KERNEL_HIDDEN):
        return outputs_and_margins(model, rows)[0]
    return _infer_numpy(model, rows)


def _uses_c(engine: Engine | None, accepted: bool) -> bool:
    if engine is None:
        return accepted
    check_choice("engine", engine, ENGINES)
    return engine == "c"


def _check_inputs(inputs: npt.NDArray[Any], least: int, most: int, highest: int) -> None:
    """Raise LinnappError unless there are `least` to `most` columns of integers 0 to `highest`."""
    if inputs.ndim != 2 or not least <= inputs.shape[1] <= most:
        widths = f"{least}" if least == most else f"{least} to {most}"
        raise LinnappError(f"features of shape {inputs.shape}: the model takes (n, {widths})")
    if inputs.dtype.kind not in "iu":
        raise LinnappError(f"features of type {inputs.dtype}: expected integers 0 to {highest}")
    if inputs.size and (int(inputs.min()) < 0 or int(inputs.max()) > highest):
        raise LinnappError(
            f"features hold values from {inputs.min()} to {inputs.max()}: expected 0 to {highest}"
        )


def predict(
    model: Model, digits: npt.NDArray[Any], engine: Engine | None = None
) -> npt.NDArray[np.bool_]:
    """Predict whether each read will be slow. Parameters and errors are those of :func:`infer`."""
    outputs = infer(model, digits, engine)
    return np.asarray(outputs[:, 1] > outputs[:, 0])


#: Number of rows that are computed at a time, so that intermediate results stay in a CPU's cache.
_NETWORK_ROWS, _TREE_ROWS = 1 << 12, 1 << 14


def _infer_numpy(model: Model, digits: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    # Doubles are used so that BLAS can compute the matrix products. They represent all sums
    # exactly, because the hidden sums and the output weights of a model fit into 16 bits.
    weights = model.hidden_weights.astype(np.float64)
    output_weights = model.output_weights.astype(np.float64)
    out = np.empty((len(digits), N_OUTPUTS), np.int64)
    for start in range(0, len(digits), _NETWORK_ROWS):
        part = slice(start, start + _NETWORK_ROWS)
        hidden = np.maximum(digits[part].astype(np.float64) @ weights + model.hidden_bias, 0)
        out[part] = (hidden @ output_weights).astype(np.int64) + model.output_bias
    return out


def outputs_and_margins(
    model: Model, digits: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Compute the outputs and the margins of a network with the kernel's code.

    The margin is the output for slow minus that for fast. The kernel decides by it.
    """
    engine = _library()
    network = parse_network_in_c(model.to_bytes())
    out, margins = np.empty((len(digits), N_OUTPUTS), np.int64), np.empty(len(digits), np.int64)
    results = [engine.address(array, "int64_t *") for array in (out, margins)]
    inputs = engine.address(digits, "uint8_t *")
    engine.lib.linnos_network_batch(network, inputs, len(digits), *results)
    return out, margins


def predict_us(
    model: LatencyModel, features: npt.NDArray[Any], engine: Engine | None = None
) -> npt.NDArray[np.uint32]:
    """Predict the latency of each read in us.

    Columns of features that the model does not use may be absent. Parameters and errors are those
    of :func:`infer`.

    Returns
    -------
    uint32 array, shape (n,)
    """
    _check_inputs(features, model.n_features, N_FEATURES, CAP)
    if missing := N_FEATURES - features.shape[1]:
        features = np.pad(features, ((0, 0), (0, missing)))
    rows = np.ascontiguousarray(features, np.uint32)
    if not _uses_c(engine, MIN_TREES <= model.n_trees <= MAX_TREES):
        return _predict_numpy(model, rows)
    library, us = _library(), np.empty(len(rows), np.uint32)
    parsed = parse_latency_in_c(model.to_bytes())
    inputs, result = (library.address(array, "uint32_t *") for array in (rows, us))
    library.lib.linnos_latency_batch(parsed, inputs, len(rows), result)
    return us


def predict_hinted_us(
    model: LatencyModel, features: npt.NDArray[np.uint32]
) -> npt.NDArray[np.uint32]:
    """Predict the latency of reads in us as the kernel does for reads that it can refuse.

    Parameters and errors are those of :func:`infer`.

    Returns
    -------
    uint32 array, shape (n,)
    """
    us = np.empty(len(features), np.uint32)
    for start in range(0, len(features), _TREE_ROWS):
        part = slice(start, start + _TREE_ROWS)
        us[part] = predict_us(model, without_location(features[part]))
    return us


def without_location(features: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return the features of reads with the hint: the same, but the location is unknown.

    With their location, a program that can read only one file could infer from refusals which
    locations other programs read.
    """
    features = np.array(features, np.uint32)
    features[:, PLACE:] = CAP
    return features


def _predict_numpy(model: LatencyModel, features: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    if model.n_trees:
        us = np.empty(len(features), np.int64)
        for start in range(0, len(features), _TREE_ROWS):
            part = slice(start, start + _TREE_ROWS)
            leaves = leaves_of(model, features[part])
            us[part] = power(model.base + leaves.sum(axis=1, dtype=np.int64))
    else:
        us = recent_mean_us(features)
    oldest_us = features[:, FEATURES.index("oldest_us")].astype(np.int64)
    return np.maximum(us, oldest_us - model.overdue_us).astype(np.uint32)


def recent_mean_us(features: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """Return the mean latency of the last reads in us, rounded down and at least 1."""
    latencies = features[:, list(LATENCIES)].sum(axis=1, dtype=np.int64)
    return np.asarray(np.maximum(latencies // len(LATENCIES), 1))


def leaves_of(model: LatencyModel, features: npt.NDArray[Any]) -> npt.NDArray[np.int16]:
    """Return the value of the leaf that each read reaches in each tree, shape (n, n_trees)."""
    place, threshold = model.splits >> 24, model.splits & np.uint32(CAP)
    rows = np.arange(len(features))
    leaves = np.empty((len(features), model.n_trees), np.int16)
    for tree in range(model.n_trees):
        node = np.zeros(len(features), np.intp)
        for _ in range(DEPTH):
            right = features[rows, place[tree, node]] > threshold[tree, node]
            node = 2 * node + 1 + right
        leaves[:, tree] = model.leaves[tree, node - N_SPLITS]
    return leaves


#: Table of 2^(k / 32) with 16 fractional bits. Values between two entries are interpolated
#: linearly.
_STEP_BITS = 5
_POWER_BITS = 16
_POWER = np.rint(2.0 ** (np.arange(2**_STEP_BITS + 1) / 2**_STEP_BITS + _POWER_BITS)).astype(
    np.int64
)


def power(log: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return 2 to the power of fixed-point numbers, rounded and limited to the range 1 to `CAP`."""
    log = np.clip(log, 0, 24 << FRACTION_BITS)
    whole, fraction = log >> FRACTION_BITS, log & ((1 << FRACTION_BITS) - 1)
    within = FRACTION_BITS - _STEP_BITS
    low, high = _POWER[fraction >> within], _POWER[(fraction >> within) + 1]
    value = low + ((high - low) * (fraction & ((1 << within) - 1)) >> within)
    rounded = ((value << whole) + (1 << (_POWER_BITS - 1))) >> _POWER_BITS
    return np.asarray(np.minimum(rounded, CAP))


#: Predictions per batch, and number of batches, of which the fastest counts.
_TIMED_ROWS, _TIMED_BATCHES = 1000, 20


def measure_prediction_ns(model: LatencyModel) -> float:
    """Return the time in ns that the kernel's code needs on this machine to evaluate the trees.

    It barely depends on the read. Caches are warm, and the time for computing the features is not
    included.
    """
    engine, parsed = _library(), parse_latency_in_c(model.to_bytes())
    features, us = np.zeros((_TIMED_ROWS, N_FEATURES), np.uint32), np.empty(_TIMED_ROWS, np.uint32)
    inputs, result = (engine.address(array, "uint32_t *") for array in (features, us))
    times_ns = []
    for _ in range(_TIMED_BATCHES):
        begin_ns = time.perf_counter_ns()
        engine.lib.linnos_latency_batch(parsed, inputs, _TIMED_ROWS, result)
        times_ns.append(time.perf_counter_ns() - begin_ns)
    return min(times_ns) / _TIMED_ROWS
