# SPDX-License-Identifier: MIT
"""Feature vectors: the network's view of a read, as decimal digits (docs/formats.md)."""

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
    """Encode features as digits from 0 to 9, most significant first.

    Parameters
    ----------
    pending : uint32 array, shape (n,)
        Pending pages at arrival, including those of the read itself.
    hist_pending, hist_latency_us : uint32 array, shape (n, HISTORY)
        Pending pages and latencies (us) of the last completed reads, oldest first.

    Returns
    -------
    uint8 array, shape (n, N_INPUTS)
        The digits of `hist_pending`, then of `pending`, then of `hist_latency_us`.

    Raises
    ------
    ValueError
        If an array has the wrong shape.
    """
    n = len(pending)
    for name, array in (("hist_pending", hist_pending), ("hist_latency_us", hist_latency_us)):
        if array.shape != (n, HISTORY):
            raise ValueError(f"{name} has shape {array.shape}, expected {(n, HISTORY)}")
    columns = [
        np.ascontiguousarray(array, np.uint32) for array in (pending, hist_pending, hist_latency_us)
    ]
    out = np.empty((n, N_INPUTS), np.uint8)
    engine = library()
    addresses = [engine.address(column, "uint32_t *") for column in columns]
    engine.lib.linnos_features_batch(*addresses, engine.address(out, "uint8_t *"), n)
    return out
