# SPDX-License-Identifier: MIT
"""From float weights to the kernel's integers.

Hidden weights and biases are rounded at scale s, output weights at s, output biases at s * s. The
inputs are plain digits, so every hidden sum carries s and every output s * s: the integer network
is the float network of the rounded weights, exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import ModelError
from linnapp.learn.features import FeatureLayout
from linnapp.model import SCALE, Model

_NAMES = ("hidden_weights", "hidden_bias", "output_weights", "output_bias")


def quantise(
    weights: dict[str, npt.NDArray[Any]],
    threshold_us: int,
    layout: FeatureLayout | None = None,
    scale: int = SCALE,
) -> Model:
    """Make a model of float or integer weights.

    Parameters
    ----------
    weights : dict of str to array
        ``hidden_weights`` (n_inputs, H), ``hidden_bias`` (H,), ``output_weights`` (H, 2) and
        ``output_bias`` (2,). Floats are rounded at their scales; integers carry them already.
    threshold_us : int
        The inflection point.
    layout : FeatureLayout, optional
    scale : int
        Fixed-point scale s.

    Raises
    ------
    ModelError
        If an array is missing, mixed kinds are given, a value is not finite, or a sum could
        overflow.
    """
    layout = layout or FeatureLayout()
    missing = [name for name in _NAMES if name not in weights]
    if missing:
        raise ModelError(f"weights: {', '.join(missing)} missing; expected {', '.join(_NAMES)}")
    arrays = {name: np.asarray(weights[name]) for name in _NAMES}
    kinds = {array.dtype.kind for array in arrays.values()}
    if kinds <= {"i", "u"}:
        integers = arrays
    elif kinds == {"f"}:
        integers = {
            name: _rounded(array, scale * scale if name == "output_bias" else scale, name)
            for name, array in arrays.items()
        }
    else:
        raise ModelError(
            "weights: all arrays must be float (to be quantised) or all integer (quantised), not "
            + ", ".join(f"{name} {array.dtype}" for name, array in arrays.items())
        )
    return Model(
        **integers,
        threshold_us=threshold_us,
        history=layout.history,
        pending_digits=layout.pending_digits,
        latency_digits=layout.latency_digits,
        scale=scale,
    )


def _rounded(array: npt.NDArray[Any], scale: int, name: str) -> npt.NDArray[np.int64]:
    scaled = np.rint(array.astype(np.float64) * scale)
    if not np.all(np.isfinite(scaled)):
        raise ModelError(f"weights: {name} holds a value that is not finite; did training diverge?")
    if np.any(np.abs(scaled) >= 2.0**62):
        raise ModelError(f"weights: {name} is too large for scale {scale}")
    return scaled.astype(np.int64)
