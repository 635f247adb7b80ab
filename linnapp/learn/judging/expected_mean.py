# SPDX-License-Identifier: MIT
"""What refusing reads makes of an array's mean latency."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from linnapp.learn.judging.chance import Refusals

#: Means that differ by so little are taken for equal.
FLAT = 1.001


def expected_mean_us(
    latency_us: npt.NDArray[np.uint32],
    revoked: npt.NDArray[np.bool_],
    *,
    failover_us: float,
    replicas: int,
    pages: npt.NDArray[np.uint16] | None = None,
) -> float:
    """Mean latency of an array whose drives all behave like this one.

    With `pages` replicas serve reads of the same size class.
    """
    if pages is None:
        pages = np.ones(len(latency_us), np.uint16)
    refusals = Refusals(latency_us, pages, revoked.astype(np.int64), 1, failover_us, replicas)
    return float(refusals.means_us()[1])
