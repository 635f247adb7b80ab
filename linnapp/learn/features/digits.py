# SPDX-License-Identifier: MIT
"""Feature vectors: what the network sees of a read, as decimal digits (docs/formats.md)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from linnapp.model.engine import library
from linnapp.model.model_file import N_INPUTS
from linnapp.native import HISTORY

UInt32Array = npt.NDArray[np.uint32]
DigitArray = npt.NDArray[np.uint8]


def digits(
    pending: UInt32Array,
    hist_pending: UInt32Array,
    hist_latency_us: UInt32Array,
) -> DigitArray:
    """Write features as digits from 0 to 9, most significant first; shape (n, N_INPUTS).

    Past pending pages at arrival come first, then those now, the read's own included, then past
    latencies in us; what is past is of shape (n, HISTORY), oldest first.
    """
    n = len(pending)
    for name, array in (("hist_pending", hist_pending), ("hist_latency_us", hist_latency_us)):
        if array.shape != (n, HISTORY):
            raise ValueError(f"{name} has shape {array.shape}, expected {(n, HISTORY)}")
    columns = [
        np.ascontiguousarray(array, np.uint32) for array in (pending, hist_pending, hist_latency_us)
    ]
    out = np.empty((n, N_INPUTS), np.uint8)
    library().linnos_features_batch(*(column.ctypes.data for column in columns), out.ctypes.data, n)
    return out
