# SPDX-License-Identifier: MIT
"""Feature vectors: what the network sees of a read, as decimal digits (docs/formats.md)."""

from __future__ import annotations

import ctypes
import dataclasses

import numpy as np
import numpy.typing as npt

from linnapp.arguments import check_number
from linnapp.native import native

UInt32Array = npt.NDArray[np.uint32]
DigitArray = npt.NDArray[np.uint8]


@dataclasses.dataclass(frozen=True)
class FeatureLayout:
    """How many past reads and digits make a feature vector.

    Attributes
    ----------
    history : int
        Past reads; the paper's R.
    pending_digits : int
        Digits of a count of pending 4 KiB pages; larger counts are capped.
    latency_digits : int
        Digits of a latency in us; longer latencies are capped.
    """

    history: int = 4
    pending_digits: int = 3
    latency_digits: int = 4

    def __post_init__(self) -> None:
        check_number("history", self.history, 1, 64, whole=True)
        check_number("pending_digits", self.pending_digits, 1, 9, whole=True)
        check_number("latency_digits", self.latency_digits, 1, 9, whole=True)

    @property
    def n_inputs(self) -> int:
        """Digits in a feature vector."""
        return (self.history + 1) * self.pending_digits + self.history * self.latency_digits


def digits(
    pending: UInt32Array,
    hist_pending: UInt32Array,
    hist_latency_us: UInt32Array,
    layout: FeatureLayout | None = None,
) -> DigitArray:
    """Write features as digits, most significant first.

    Parameters
    ----------
    pending : uint32 array, shape (n,)
        Pending pages at arrival, the read's own included.
    hist_pending, hist_latency_us : uint32 array, shape (n, history)
        Pending pages at arrival, and latencies in us, of the last completed reads, oldest first.
    layout : FeatureLayout, optional
        The paper's 31 digits unless given.

    Returns
    -------
    uint8 array, shape (n, layout.n_inputs)
        Digits 0 to 9: past pending counts, pending now, past latencies.
    """
    layout = layout or FeatureLayout()
    n = len(pending)
    for name, array in (("hist_pending", hist_pending), ("hist_latency_us", hist_latency_us)):
        if array.shape != (n, layout.history):
            raise ValueError(f"{name} has shape {array.shape}, expected {(n, layout.history)}")
    columns = [
        np.ascontiguousarray(array, np.uint32) for array in (pending, hist_pending, hist_latency_us)
    ]
    out = np.empty((n, layout.n_inputs), np.uint8)
    native().lt_digits(
        ctypes.c_int64(n),
        layout.history,
        layout.pending_digits,
        layout.latency_digits,
        *(ctypes.c_void_p(column.ctypes.data) for column in columns),
        ctypes.c_void_p(out.ctypes.data),
    )
    return out
