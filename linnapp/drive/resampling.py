# SPDX-License-Identifier: MIT
"""Estimate the random variation of inflection points under a constant load.

A recording is a sample: another one of the same drive under the same load has another point. So
blocks of consecutive reads are resampled (:func:`linnapp.stats.resamples`), the same blocks on
every drive of the array. The points of these samples vary like those of real recordings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import stats
from linnapp.learn.labels import (
    LabellingOptions,
    LatencyDistribution,
    find_inflection_points,
)

#: Blocks long enough to contain a burst, and enough of them to resample: 1 s in a minute's
#: recording.
N_BLOCKS = 42
N_RESAMPLES = 40

_LATENCY_BITS = 32


class LatencyBlocks:
    """A drive's read latencies, in order of arrival, in blocks of consecutive reads."""

    def __init__(self, latency_us: npt.NDArray[Any], n_blocks: int = N_BLOCKS) -> None:
        self.n_reads = n = len(latency_us)
        self.n_blocks = n_blocks
        block = np.arange(n, dtype=np.int64) * n_blocks // max(n, 1)
        key = block << _LATENCY_BITS | latency_us.astype(np.int64)
        different, self._counts = np.unique(key, return_counts=True)
        self._latency_us = different & ((1 << _LATENCY_BITS) - 1)
        self._block = different >> _LATENCY_BITS

    def distribution(self, times: npt.NDArray[np.int64] | None = None) -> LatencyDistribution:
        """Return the latencies with each block repeated `times` times, once each by default.

        `times` has shape (n_blocks,). If there are fewer reads than blocks, it is ignored.
        """
        counts = self._counts
        if times is not None and self.n_reads >= self.n_blocks:
            counts = counts * times[self._block]
        return LatencyDistribution(self._latency_us, counts)


def sampling_percentiles(
    drives: Sequence[LatencyBlocks], options: LabellingOptions, seed: int
) -> list[float]:
    """Return the difference in percentiles between points of two recordings that chance explains.

    There is one value for each drive of the array; all drives need the same number of blocks. 95 of
    100 pairs of recordings differ by no more.
    """
    whole = [drive.distribution() for drive in drives]
    found = []
    for times in stats.resamples(drives[0].n_blocks, N_RESAMPLES, seed).astype(np.int64):
        points = find_inflection_points([drive.distribution(times) for drive in drives], options)
        found.append(
            [
                100 * float(distribution.share_at_most(point.threshold_us))
                for distribution, point in zip(whole, points, strict=True)
            ]
        )
    one, other = np.triu_indices(N_RESAMPLES, 1)
    differences = np.abs(np.array(found)[one] - np.array(found)[other])
    return [float(d) for d in np.quantile(differences, stats.LEVEL, axis=0)]
