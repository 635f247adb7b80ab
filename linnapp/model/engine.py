# SPDX-License-Identifier: MIT
"""Runs a model on feature vectors: in numpy, or with the kernel's own C code.

``c`` is kernel/linnos/core built as a shared library, the files that the kernel runs; ``numpy``
is independent of it and takes any shape of network.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linnapp.arguments import check_choice
from linnapp.errors import LinnappError, ModelError
from linnapp.model import Model
from linnapp.native import declared, load_library

Engine = Literal["numpy", "c"]
ENGINES: tuple[Engine, ...] = ("numpy", "c")

#: rows at a time; 256 hidden sums of 8 bytes each keep this within a CPU's cache levels
_CHUNK_ROWS = 4096


def infer(
    model: Model, digits: npt.NDArray[Any], engine: Engine = "numpy"
) -> npt.NDArray[np.int64]:
    """Compute the two outputs for each vector of digits: int64, shape (n, 2), scale squared."""
    check_choice("engine", engine, ENGINES)
    check_features(digits, model.n_inputs, model.n_inputs, 9)
    rows = np.ascontiguousarray(digits, np.uint8)
    return outputs_and_margins(model, rows)[0] if engine == "c" else _infer_numpy(model, rows)


def check_features(features: npt.NDArray[Any], least: int, most: int, highest: int) -> None:
    """Refuse what is no table of so many numbers a read, 0 to `highest`."""
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
    """Whether each read is predicted slow; parameters and errors as for :func:`infer`."""
    outputs = infer(model, digits, engine)
    return np.asarray(outputs[:, 1] > outputs[:, 0])


def _infer_numpy(model: Model, digits: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    # Doubles hold sums of a narrow model exactly, and the matrix products may run in BLAS.
    weights = model.hidden_weights.astype(np.float64)
    output_weights = model.output_weights.astype(np.float64)
    out = np.empty((len(digits), output_weights.shape[1]), np.int64)
    for start in range(0, len(digits), _CHUNK_ROWS):
        part = slice(start, start + _CHUNK_ROWS)
        hidden = np.maximum(digits[part].astype(np.float64) @ weights + model.hidden_bias, 0)
        out[part] = (hidden @ output_weights).astype(np.int64) + model.output_bias
    return out


@functools.cache
def library() -> ctypes.CDLL:
    """The kernel's code; loaded once."""
    data, n, error = ctypes.c_void_p, ctypes.c_long, ctypes.c_int
    return declared(
        load_library("liblinnos_engine.so", "LINNOS_ENGINE"),
        linnos_model_error_string=(ctypes.c_char_p, error),
        linnos_features_batch=(None, data, data, data, data, n),
        linnos_network_sizeof=(ctypes.c_size_t,),
        linnos_network_parse=(error, data, data, ctypes.c_size_t),
        linnos_network_batch=(n, data, data, n, data, data),
        linnos_latency_sizeof=(ctypes.c_size_t, ctypes.c_size_t),
        linnos_latency_parse=(error, data, data, ctypes.c_size_t),
        linnos_latency_is_validated=(ctypes.c_bool, data),
        linnos_latency_batch=(n, data, data, n, data),
    )


def check_kernel_accepts(data: bytes) -> ctypes.Array[ctypes.c_char]:
    """Have the kernel's own parser look at a network's file; what it made of it."""
    engine = library()
    network = ctypes.create_string_buffer(engine.linnos_network_sizeof())
    error = engine.linnos_network_parse(network, data, len(data))
    if error:
        reason = engine.linnos_model_error_string(error).decode()
        raise ModelError(f"model: the kernel would refuse it: {reason}")
    return network


def outputs_and_margins(
    model: Model, digits: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Both outputs by the kernel's code, and the margin, which is what it decides by."""
    network = check_kernel_accepts(model.to_bytes())
    out = np.empty((len(digits), 2), np.int64)
    margins = np.empty(len(digits), np.int64)
    library().linnos_network_batch(
        network, digits.ctypes.data, len(digits), out.ctypes.data, margins.ctypes.data
    )
    return out, margins
