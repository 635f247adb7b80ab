# SPDX-License-Identifier: MIT
"""The model files and the integer engines that run them."""

from linnapp.model.file import (
    HEADER_BYTES,
    LATENCY_SUFFIX,
    MAGIC,
    N_OUTPUTS,
    SCALE,
    SUFFIX,
    VERSION,
    LatencyModel,
    Model,
    find_model,
    load_model,
    model_from_bytes,
)

__all__ = [
    "HEADER_BYTES",
    "LATENCY_SUFFIX",
    "MAGIC",
    "N_OUTPUTS",
    "SCALE",
    "SUFFIX",
    "VERSION",
    "LatencyModel",
    "Model",
    "find_model",
    "load_model",
    "model_from_bytes",
]
