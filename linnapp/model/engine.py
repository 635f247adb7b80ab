# SPDX-License-Identifier: MIT
"""Predict reads with a network or a latency model.

There are two engines. ``c`` is core/, the C code that the kernel runs, built as a shared library.
``numpy`` is independent of it and accepts a network with any number of hidden units.
"""

from __future__ import annotations

import time
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linnapp.arguments import check_choice
from linnapp.errors import LinnappError, ModelError
from linnapp.model import Model
from linnapp.model.file import (
    CAP,
    DEPTH,
    FEATURES,
    FRACTION_BITS,
    LATENCIES,
    MAX_TREES,
    MIN_TREES,
    N_FEATURES,
    N_SPLITS,
    PLACE,
    LatencyModel,
)
from linnapp.native import Library, declare, load_library, loaded_once

Engine = Literal["numpy", "c"]
ENGINES: tuple[Engine, ...] = ("numpy", "c")

#: Number of rows that are computed at a time. With 256 hidden sums of 8 bytes each, they fit into
#: the cache levels of a CPU.
_CHUNK_ROWS = 4096


def infer(
    model: Model, digits: npt.NDArray[Any], engine: Engine = "numpy"
) -> npt.NDArray[np.int64]:
    """Compute the two outputs for each feature vector.

    Parameters
    ----------
    model : Model
    digits : integer array, shape (n, N_INPUTS)
        Decimal digits, 0 to 9.
    engine : {"numpy", "c"}

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
    check_choice("engine", engine, ENGINES)
    check_features(digits, model.n_inputs, model.n_inputs, 9)
    rows = np.ascontiguousarray(digits, np.uint8)
    return outputs_and_margins(model, rows)[0] if engine == "c" else _infer_numpy(model, rows)


def check_features(features: npt.NDArray[Any], least: int, most: int, highest: int) -> None:
    """Raise LinnappError unless `features` has integers in valid columns.

    The number of columns must be `least` to `most`, and the integers 0 to `highest`.
    """
    if features.ndim != 2 or not least <= features.shape[1] <= most:
        raise LinnappError(f"features of shape {features.shape}: the model takes (n, {least})")
    if features.dtype.kind not in "iu":
        raise LinnappError(f"features of type {features.dtype}: expected integers 0 to {highest}")
    if features.size and (int(features.min()) < 0 or int(features.max()) > highest):
        raise LinnappError(
            f"features hold values from {features.min()} to {features.max()}: expected 0 to "
            f"{highest}"
        )


def predict(
    model: Model, digits: npt.NDArray[Any], engine: Engine = "numpy"
) -> npt.NDArray[np.bool_]:
    """Predict whether each read will be slow. Parameters and errors are those of :func:`infer`."""
    outputs = infer(model, digits, engine)
    return np.asarray(outputs[:, 1] > outputs[:, 0])


def _infer_numpy(model: Model, digits: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    # Doubles are used so that BLAS can compute the matrix products. They represent all sums
    # exactly, because the hidden sums and the output weights of a model fit into 16 bits.
    weights = model.hidden_weights.astype(np.float64)
    output_weights = model.output_weights.astype(np.float64)
    out = np.empty((len(digits), output_weights.shape[1]), np.int64)
    for start in range(0, len(digits), _CHUNK_ROWS):
        part = slice(start, start + _CHUNK_ROWS)
        hidden = np.maximum(digits[part].astype(np.float64) @ weights + model.hidden_bias, 0)
        out[part] = (hidden @ output_weights).astype(np.int64) + model.output_bias
    return out


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
def library() -> Library:
    """Return the kernel's code as a shared library, which is loaded once."""
    return load_library("liblinnos_engine.so", "LINNOS_ENGINE", declare(more=_FUNCTIONS))


def parse_model(data: bytes, n_bytes: int, parse: Any) -> Any:
    """Parse a model file with a parser of the kernel's code, and return the parsed model.

    Raises
    ------
    ModelError
        If the parser rejects the file.
    """
    ffi, lib = library()
    model = ffi.new("char[]", n_bytes)
    error = parse(model, data, len(data))
    if error:
        reason = ffi.string(lib.linnos_model_error_string(error)).decode()
        raise ModelError(f"model: the kernel rejects it: {reason}")
    return model


def check_kernel_accepts(data: bytes) -> Any:
    """Parse the file of a network as the kernel does, and return the parsed network."""
    lib = library().lib
    return parse_model(data, lib.linnos_network_sizeof(), lib.linnos_network_parse)


def outputs_and_margins(
    model: Model, digits: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Compute the outputs and the margins of a network with the kernel's code.

    The margin is the output for slow minus that for fast. The kernel decides by it.
    """
    engine = library()
    network = check_kernel_accepts(model.to_bytes())
    out = np.empty((len(digits), 2), np.int64)
    margins = np.empty(len(digits), np.int64)
    engine.lib.linnos_network_batch(
        network,
        engine.address(digits, "uint8_t *"),
        len(digits),
        engine.address(out, "int64_t *"),
        engine.address(margins, "int64_t *"),
    )
    return out, margins


#: Number of rows that are computed at a time.
_TREE_ROWS = 1 << 14

#: Table of 2^(k / 32) with 16 fractional bits. Values between two entries are interpolated
#: linearly.
_STEP_BITS = 5
_POWER_BITS = 16
_POWER = np.rint(2.0 ** (np.arange(2**_STEP_BITS + 1) / 2**_STEP_BITS + _POWER_BITS)).astype(
    np.int64
)


def predict_us(
    model: LatencyModel, features: npt.NDArray[Any], engine: Engine | None = None
) -> npt.NDArray[np.uint32]:
    """Predict the latency of each read in us.

    Columns of features that the model does not use may be absent. Parameters and errors are those
    of :func:`linnapp.model.engine.infer`. By default the kernel's code predicts, unless the kernel
    does not accept models with that number of trees. Both engines give the same answers.

    Returns
    -------
    uint32 array, shape (n,)
    """
    if engine is None:
        engine = "c" if MIN_TREES <= model.n_trees <= MAX_TREES else "numpy"
    check_choice("engine", engine, ENGINES)
    check_features(features, model.n_features, N_FEATURES, CAP)
    if features.shape[1] == N_FEATURES and features.dtype == np.uint32:
        rows = np.ascontiguousarray(features)
    else:
        rows = np.zeros((len(features), N_FEATURES), np.uint32)
        rows[:, : features.shape[1]] = features
    return _predict_c(model, rows) if engine == "c" else _predict_numpy(model, rows)


def predict_hinted_us(
    model: LatencyModel, features: npt.NDArray[np.uint32]
) -> npt.NDArray[np.uint32]:
    """Predict the latency of reads in us as the kernel does for reads that it can refuse.

    The location of a read is not used. Otherwise a program that can read only one file could infer
    from refusals which locations other programs read.
    """
    features = np.array(features, np.uint32)
    features[:, PLACE:] = CAP
    return predict_us(model, features)


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


def leaves_of(model: LatencyModel, features: npt.NDArray[np.uint32]) -> npt.NDArray[np.int16]:
    """Return the value of the leaf that each read reaches in each tree, shape (n, n_trees)."""
    place, threshold = model.splits >> 24, model.splits & np.uint32(CAP)
    here = np.arange(len(features))
    leaves = np.empty((len(features), model.n_trees), np.int16)
    for tree in range(model.n_trees):
        node = np.zeros(len(features), np.intp)
        for _ in range(DEPTH):
            right = features[here, place[tree, node]] > threshold[tree, node]
            node = 2 * node + 1 + right
        leaves[:, tree] = model.leaves[tree, node - N_SPLITS]
    return leaves


def power(log: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return 2 to the power of fixed-point numbers, rounded and limited to the range 1 to `CAP`."""
    log = np.clip(log, 0, 24 << FRACTION_BITS)
    whole, fraction = log >> FRACTION_BITS, log & ((1 << FRACTION_BITS) - 1)
    within = FRACTION_BITS - _STEP_BITS
    low, high = _POWER[fraction >> within], _POWER[(fraction >> within) + 1]
    value = low + ((high - low) * (fraction & ((1 << within) - 1)) >> within)
    rounded = ((value << whole) + (1 << (_POWER_BITS - 1))) >> _POWER_BITS
    return np.asarray(np.minimum(rounded, CAP))


def parse_in_c(data: bytes) -> Any:
    """Parse a model file as the kernel does, and return the parsed model."""
    lib = library().lib
    return parse_model(data, lib.linnos_latency_sizeof(len(data)), lib.linnos_latency_parse)


def _predict_c(model: LatencyModel, features: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    engine = library()
    parsed = parse_in_c(model.to_bytes())
    out = np.empty(len(features), np.uint32)
    engine.lib.linnos_latency_batch(
        parsed,
        engine.address(features, "uint32_t *"),
        len(features),
        engine.address(out, "uint32_t *"),
    )
    return out


#: Predictions of a batch, and batches, of which the fastest one counts.
_TIMED_ROWS, _TIMED_BATCHES = 1000, 20


def measure_prediction_ns(model: LatencyModel) -> float:
    """Return the time in ns that the kernel's code needs on this machine to evaluate the trees.

    It barely depends on the read. Caches are warm, and the time for computing the features is not
    included.
    """
    engine = library()
    parsed = parse_in_c(model.to_bytes())
    features = np.zeros((_TIMED_ROWS, N_FEATURES), np.uint32)
    us = np.empty(_TIMED_ROWS, np.uint32)
    columns = engine.address(features, "uint32_t *"), engine.address(us, "uint32_t *")
    times_ns = []
    for _ in range(_TIMED_BATCHES):
        begin_ns = time.perf_counter_ns()
        engine.lib.linnos_latency_batch(parsed, columns[0], _TIMED_ROWS, columns[1])
        times_ns.append(time.perf_counter_ns() - begin_ns)
    return min(times_ns) / _TIMED_ROWS
