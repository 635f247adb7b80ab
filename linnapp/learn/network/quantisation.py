# SPDX-License-Identifier: MIT
"""Quantise float weights to the integers of the kernel.

Hidden weights and biases are rounded at scale s, output weights at s, and output biases at s * s.
The inputs are plain digits, so every hidden sum has scale s and every output has scale s * s: the
integer network is exactly the float network with the rounded weights. The scale is 1000, or less if
the kernel's sums of 16 bits could overflow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import ModelError
from linnapp.model import SCALE, Model
from linnapp.model.model_file import NotNarrowError

#: Scales that are tried, from the largest. The published weights have 1000.
SCALES = tuple(range(SCALE, 0, -50))

_NAMES = ("hidden_weights", "hidden_bias", "output_weights", "output_bias")


def quantise(
    weights: dict[str, npt.NDArray[Any]],
    threshold_us: int,
    scale: int | None = None,
) -> Model:
    """Make a model from float or integer weights.

    Parameters
    ----------
    weights : dict of str to array
        ``hidden_weights`` (N_INPUTS, H), ``hidden_bias`` (H,), ``output_weights`` (H, 2) and
        ``output_bias`` (2,). Floats are rounded at their scales. Integers must already be scaled.
    threshold_us : int
        The inflection point.
    scale : int, optional
        Fixed-point scale s. The default for floats is the largest of `SCALES` without overflow.

    Returns
    -------
    Model

    Raises
    ------
    ModelError
        If an array is missing, integers and floats are mixed, or a value is not finite.
    NotNarrowError
        If a sum could overflow at this scale, or at all scales.
    """
    missing = [name for name in _NAMES if name not in weights]
    if missing:
        raise ModelError(f"weights: {', '.join(missing)} missing; expected {', '.join(_NAMES)}")
    arrays = {name: np.asarray(weights[name]) for name in _NAMES}
    kinds = {array.dtype.kind for array in arrays.values()}
    if kinds <= {"i", "u"}:
        return Model(**arrays, threshold_us=threshold_us, scale=scale or SCALE)
    if kinds != {"f"}:
        raise ModelError(
            "weights: all arrays must be float (to be quantised) or all integer (quantised), not "
            + ", ".join(f"{name} {array.dtype}" for name, array in arrays.items())
        )
    scales = [scale] if scale else SCALES
    for each in scales:
        integers: dict[str, npt.NDArray[Any]] = {
            name: _rounded(array, each * each if name == "output_bias" else each, name)
            for name, array in arrays.items()
        }
        try:
            return Model(**integers, threshold_us=threshold_us, scale=each)
        except NotNarrowError:
            if each == scales[-1]:
                raise
    raise AssertionError("no scale to try")


def _rounded(array: npt.NDArray[Any], scale: int, name: str) -> npt.NDArray[np.int64]:
    scaled = np.rint(array.astype(np.float64) * scale)
    if not np.all(np.isfinite(scaled)):
        raise ModelError(f"weights: {name} holds a value that is not finite; did training diverge?")
    if np.any(np.abs(scaled) >= 2.0**62):
        raise ModelError(f"weights: {name} is too large for scale {scale}")
    return scaled.astype(np.int64)
