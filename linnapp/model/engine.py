# SPDX-License-Identifier: MIT
"""Run a network on feature vectors, in numpy or with the kernel's own C code.

The engine ``c`` is core/, the source files that the kernel runs, built as a shared
library. The engine ``numpy`` is independent of it and accepts a network of any shape.
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
    """Check that `features` is an integer table of shape (n, `least` to `most`), 0 to `highest`.

    Raises
    ------
    LinnappError
        If it is not.
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
    # Doubles represent the sums of a narrow model exactly, and the matrix products can run in BLAS.
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
    """Return the kernel's code as a shared library, which is loaded once."""
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
    """Parse the file of a network with the kernel's own parser.

    Returns
    -------
    ctypes array of char
        The parsed network.

    Raises
    ------
    ModelError
        If the kernel would reject the file.
    """
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
    """Compute the outputs and the margins, by which the kernel decides, with the kernel's code."""
    network = check_kernel_accepts(model.to_bytes())
    out = np.empty((len(digits), 2), np.int64)
    margins = np.empty(len(digits), np.int64)
    library().linnos_network_batch(
        network, digits.ctypes.data, len(digits), out.ctypes.data, margins.ctypes.data
    )
    return out, margins
