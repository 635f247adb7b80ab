# SPDX-License-Identifier: MIT
"""Networks whose predictions are known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from linnapp.model import Model


def network(
    weights: Mapping[int, int] | None = None,
    bias: tuple[int, int] = (1, 0),
    threshold_us: int = 150,
) -> Model:
    """Return a network that compares the weighted sum of some input digits with a limit.

    It predicts slow if 1000 times the sum plus ``bias[1]`` exceeds ``bias[0]``. Without weights the
    prediction is constant: slow with (0, 1), fast with (1, 0).
    """
    hidden_weights = np.zeros((31, 256), np.int32)
    output_weights = np.zeros((256, 2), np.int32)
    for digit, weight in (weights or {}).items():
        hidden_weights[digit, 0] = weight
        output_weights[0, 1] = 1000
    return Model(
        hidden_weights=hidden_weights,
        hidden_bias=np.zeros(256, np.int32),
        output_weights=output_weights,
        output_bias=np.array(bias, np.int64),
        threshold_us=threshold_us,
    )
