# SPDX-License-Identifier: MIT
"""Gains of policies, relative to each other and to the oracle."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

#: A gain of less is none.
_FLOOR = 0.01


def improvement(latency_us: float, reference_us: float) -> float:
    """Return the share by which a latency is lower than a reference."""
    return (reference_us - latency_us) / reference_us


def oracle_share(latency_us: float, baseline_us: float, oracle_us: float) -> float:
    """Share of the oracle's gain that a policy reaches, from means of the same workload.

    Where the oracle gains less than 1 % of the baseline there is nothing to have, and the quotient
    would only be noise: NaN.
    """
    if baseline_us - oracle_us < _FLOOR * baseline_us:
        return math.nan
    return (baseline_us - latency_us) / (baseline_us - oracle_us)


def ranked_share(latency_us: float, baseline_us: float, oracle_us: float) -> float:
    """The oracle's share for a rank statistic: no case drops out.

    Where there was nothing to gain a tie is 0, a loss minus infinity, and a gain 1.
    """
    share = oracle_share(latency_us, baseline_us, oracle_us)
    if not math.isnan(share):
        return share
    difference = improvement(latency_us, baseline_us)
    return 0.0 if abs(difference) <= _FLOOR else 1.0 if difference > 0 else -math.inf


def quantiles(values: Sequence[float], of: Sequence[float] = (10, 50, 90)) -> list[float]:
    """Percentiles without the NaNs; NaN when nothing is left."""
    array = np.asarray(values, float)
    array = array[~np.isnan(array)]
    if not len(array):
        return [math.nan] * len(of)
    # If a value is infinite, there is nothing between it and the next one.
    if np.isfinite(array).all():
        return [float(q) for q in np.percentile(array, of)]
    return [float(q) for q in np.percentile(array, of, method="nearest")]


def percent(share: float, digits: int = 1) -> str:
    """A share as text; one that is infinitely low is a loss that has no number."""
    if math.isinf(share):
        return "a loss" if share < 0 else "a gain"
    return "-" if math.isnan(share) else f"{100 * share:.{digits}f} %"
