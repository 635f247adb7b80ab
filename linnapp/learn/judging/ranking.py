# SPDX-License-Identifier: MIT
"""Measure how well a score distinguishes slow reads from fast ones, regardless of a threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def area_under_roc(score: npt.NDArray[Any], slow: npt.NDArray[np.bool_]) -> float | None:
    """Return the probability that a slow read has a higher score than a fast one. Ties count half.

    This is the area under the ROC curve and the Mann-Whitney statistic (Hanley and McNeil,
    Radiology 143, 1982). It is None if all reads are slow or all are fast.
    """
    n_slow = int(np.count_nonzero(slow))
    n_fast = len(slow) - n_slow
    if not n_slow or not n_fast:
        return None
    _, value, count = np.unique(score, return_inverse=True, return_counts=True)
    # Equal scores share the mean of their ranks, which start at 1.
    mean_rank = np.cumsum(count) - (count - 1) / 2
    rank_sum = float(mean_rank[value[slow]].sum())
    return (rank_sum - n_slow * (n_slow + 1) / 2) / (n_slow * n_fast)
