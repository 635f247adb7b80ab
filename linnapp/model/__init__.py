# SPDX-License-Identifier: MIT
"""The model file and the integer engine that runs it."""

from linnapp.model.model_file import (
    HEADER_BYTES,
    MAGIC,
    N_OUTPUTS,
    SCALE,
    SUFFIX,
    VERSION,
    Model,
    find_model,
)

__all__ = [
    "HEADER_BYTES",
    "MAGIC",
    "N_OUTPUTS",
    "SCALE",
    "SUFFIX",
    "VERSION",
    "Model",
    "find_model",
]
