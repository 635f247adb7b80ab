# SPDX-License-Identifier: MIT
"""Run a latency model on features, in numpy or with the C code that the kernel runs.

The engine ``c`` is core/ built as a shared library. The engine ``numpy`` is
independent of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.arguments import check_choice
from linnapp.model.engine import ENGINES, Engine, check_features, library, parse_model
from linnapp.model.latency_model import (
    CAP,
    DEPTH,
    FEATURES,
    FRACTION_BITS,
    LATENCIES,
    N_FEATURES,
    N_SPLITS,
    PLACE,
    LatencyModel,
)

#: Number of rows that are computed at a time.
_CHUNK_ROWS = 1 << 14

#: Table of 2^(k / 32) with 16 fractional bits. Values between two entries are interpolated
#: linearly.
_STEP_BITS = 5
_POWER_BITS = 16
_POWER = np.rint(2.0 ** (np.arange(2**_STEP_BITS + 1) / 2**_STEP_BITS + _POWER_BITS)).astype(
    np.int64
)


def predict_us(
    model: LatencyModel, features: npt.NDArray[Any], engine: Engine = "numpy"
) -> npt.NDArray[np.uint32]:
    """Predict the latency of each read in us.

    Columns of features that the model does not use may be absent. Parameters and errors are those
    of :func:`linnapp.model.engine.infer`.

    Returns
    -------
    uint32 array, shape (n,)
    """
    check_choice("engine", engine, ENGINES)
    check_features(features, model.n_features, N_FEATURES, CAP)
    rows = np.zeros((len(features), N_FEATURES), np.uint32)
    rows[:, : features.shape[1]] = features
    return _predict_c(model, rows) if engine == "c" else _predict_numpy(model, rows)


def predict_hinted_us(
    model: LatencyModel, features: npt.NDArray[np.uint32]
) -> npt.NDArray[np.uint32]:
    """Predict reads like a kernel that can refuse them: the location of a read is not used.

    Otherwise a program that may read only one file could infer from refusals where others read.
    """
    features = np.array(features, np.uint32)
    features[:, PLACE:] = CAP
    return predict_us(model, features)


def _predict_numpy(model: LatencyModel, features: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    if model.n_trees:
        us = np.empty(len(features), np.int64)
        for start in range(0, len(features), _CHUNK_ROWS):
            part = slice(start, start + _CHUNK_ROWS)
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
    """Return the leaf that each read reaches in each tree, shape (n, n_trees)."""
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
