# SPDX-License-Identifier: MIT
"""Sums of replays by blocks of time, and intervals of the statistics computed from them.

Reads become sums and histograms of blocks of time, so that memory is bounded and a statistic of all
seeds together can be computed again with other weights of the blocks. The intervals are those of
:mod:`linnapp.stats`, which has the rules: three or more seeds are left out one after the other
(Student's t of jackknife pseudo-values), two have no interval, and the blocks of a single one are
resampled. A block is weighted for all policies at once: they replayed the same reads, so the
difficulty of a block cancels in their differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnapp import stats
from linnapp.stats import LEVEL, Floats, Interval

#: The number of slower reads that a percentile needs.
MIN_READS_BEYOND = 100

#: The maximum number of blocks of a replay.
BLOCKS = stats.MAX_BLOCKS

#: The shortest block. Emulated drives pause for some milliseconds, and injected bursts last 10 ms;
#: the second of :mod:`linnapp.stats` is for real drives.
BLOCK_S = 0.1

#: Bins of the histograms that percentiles are read from: 1 % wide.
_N_BINS = 1800
_LOWEST_US = 1.0
_STEP = math.log(1.01)


def percentile(
    latency_us: NDArray[Any], percent: float, n_beyond: int = MIN_READS_BEYOND
) -> float | None:
    """Return a percentile, or None if fewer than `n_beyond` reads lie beyond it."""
    if len(latency_us) * (100 - percent) < 100 * n_beyond * (1 - 1e-9):
        return None
    return float(np.percentile(latency_us, percent))


def interval_over_seeds(
    values: Mapping[int, Sequence[float]], *, positive: bool = False
) -> Interval:
    """Return the interval of a mean over seeds, each of which has one value per drive.

    Drives of one seed share a workload, so the mean of each seed is one independent value. The
    drives (or blocks of time) of a single seed are treated as independent: the interval then refers
    to other drives under the same load. `positive` values, such as rates, differ by factors.
    """
    interval = stats.positive_mean_interval if positive else stats.mean_interval
    if len(values) == 1:
        return interval(next(iter(values.values())))
    of_each = [np.asarray([v for v in same if not math.isnan(v)]) for same in values.values()]
    return interval([float(known.mean()) for known in of_each if len(known)])


class Blocks:
    """The reads of one seed's replays, added up by block of time and policy.

    `due_us` says when the workload wants each read, `length_us` how long the replay is. It is cut
    into ``BLOCKS``, but none shorter than ``BLOCK_S``, unless `n_blocks` says otherwise.
    """

    def __init__(self, due_us: NDArray[Any], length_us: float, n_blocks: int | None = None) -> None:
        if n_blocks is None:
            n_blocks = max(1, min(BLOCKS, int(length_us / (BLOCK_S * 1e6))))
        self.n_blocks = n_blocks
        self.block: NDArray[np.int64] = np.minimum(
            due_us * (n_blocks / length_us), n_blocks - 1
        ).astype(np.int64)
        self.count: dict[str, Floats] = {}
        self.total_us: dict[str, Floats] = {}
        self.histogram: dict[str, NDArray[np.float32]] = {}

    def add(
        self, policy: str, latency_us: NDArray[Any], among: NDArray[np.bool_] | None = None
    ) -> None:
        """Add a policy's latencies of the reads ``due_us``, or of those `among` them that count."""
        if len(latency_us) != len(self.block):
            raise ValueError(
                f"{policy}: {len(latency_us)} latencies of {len(self.block)} reads; policies can "
                "be compared only on the same reads"
            )
        block: NDArray[Any] = self.block
        latency = np.asarray(latency_us, np.float64)
        if among is not None:
            block, latency = block[among], latency[among]
        self.count[policy] = np.bincount(block, minlength=self.n_blocks).astype(np.float64)
        self.total_us[policy] = np.bincount(block, latency, self.n_blocks).astype(np.float64)
        bins = np.log(np.maximum(latency, _LOWEST_US) / _LOWEST_US) / _STEP
        cells = block * _N_BINS + np.minimum(bins.astype(np.int64), _N_BINS - 1)
        self.histogram[policy] = (
            np.bincount(cells, minlength=self.n_blocks * _N_BINS)
            .reshape(self.n_blocks, _N_BINS)
            .astype(np.float32)
        )

    @property
    def policies(self) -> list[str]:
        """The policies that were added."""
        return list(self.count)


class Pooled:
    """Means and percentiles of all seeds' replays together, with their intervals.

    Parameters
    ----------
    seeds : sequence of Blocks
        One a seed; only policies that all of them have are compared.
    """

    def __init__(self, seeds: Sequence[Blocks], percents: Sequence[float] = ()) -> None:
        if not seeds:
            raise ValueError("no replay to compute from")
        self.policies = [
            policy for policy in seeds[0].policies if all(policy in s.count for s in seeds)
        ]
        self.percents = tuple(percents)
        self._n_seeds = len(seeds)
        sizes = [s.n_blocks for s in seeds]
        self._n_blocks = sizes[0]
        if self._n_seeds == 1:
            others = stats.resamples(self._n_blocks)
        else:
            others = np.repeat(1.0 - np.eye(self._n_seeds), sizes, axis=1)
        # The first row counts each block once.
        self._weights = np.concatenate([np.ones((1, sum(sizes))), others])
        self._sums = {
            policy: np.concatenate(
                [np.stack([s.total_us[policy], s.count[policy]], axis=1) for s in seeds]
            )
            for policy in self.policies
        }
        self._histograms = {
            policy: np.concatenate([s.histogram[policy] for s in seeds])
            for policy in (self.policies if percents else ())
        }
        self._mean = {policy: _means(self._weights @ sums) for policy, sums in self._sums.items()}
        self._percentile = {
            policy: percentiles(self._weights, blocks, self.percents)
            for policy, blocks in self._histograms.items()
        }

    def _interval(self, value: float, found: Floats) -> Interval:
        """Return the interval around a value, from the statistic with each row of weights."""
        if self._n_seeds == 1:
            return stats.block_interval(value, found[1:], self._n_blocks)
        around = stats.jackknife_interval(float(found[0]), found[1:])
        moved = value - around.value
        return Interval(value, around.low + moved, around.high + moved)

    def _latency_interval(self, value: float, found: Floats) -> Interval:
        """Return the interval of a latency or a ratio of latencies, computed on logarithms."""
        with np.errstate(divide="ignore", invalid="ignore"):
            of_log = self._interval(float(np.log(value)), np.log(found))
        return Interval(value, *np.exp([of_log.low, of_log.high]).tolist())

    def _reduction(self, ratio: float, found: Floats, is_different: Callable[[], bool]) -> Interval:
        """Return the relative difference of two policies, computed from their ratio."""
        around = self._latency_interval(ratio, found)
        interval = Interval(1 - ratio, 1 - around.high, 1 - around.low)
        # With one seed, a test that exchanges the two policies' blocks must agree.
        return interval.agreeing_with(
            self._n_seeds > 1 or not interval.excludes_zero or is_different()
        )

    def mean(self, policy: str) -> Interval:
        """Return a policy's mean latency in us."""
        found = self._mean[policy]
        return self._latency_interval(float(found[0]), found)

    def percentile(self, policy: str, percent: float, value: float) -> Interval:
        """Return the interval of a percentile around `value`, the percentile of all reads."""
        return self._latency_interval(value, self._percentile[policy][self.percents.index(percent)])

    def mean_reduction(self, policy: str, reference: str) -> Interval:
        """Return the share by which a policy's mean is lower than a reference's."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self._mean[policy] / self._mean[reference]

        def is_different() -> bool:
            both = np.concatenate([self._sums[policy], self._sums[reference]])
            return _differ(*(np.log(_means(side @ both)) for side in _exchanges(len(both) // 2)))

        return self._reduction(float(ratio[0]), ratio, is_different)

    def percentile_reduction(
        self, policy: str, reference: str, percent: float, values: tuple[float, float]
    ) -> Interval:
        """Return the share by which a policy's percentile is lower than a reference's.

        `values` are the percentiles of all reads of the policy and of the reference.
        """
        at = self.percents.index(percent)
        ratio = self._percentile[policy][at] / self._percentile[reference][at]

        def is_different() -> bool:
            both = np.concatenate([self._histograms[policy], self._histograms[reference]])
            sides = _exchanges(len(both) // 2)
            return _differ(*(np.log(percentiles(side, both, [percent])[0]) for side in sides))

        return self._reduction(values[0] / values[1], ratio, is_different)

    def share(self, policy: str, bound: str, reference: str = "baseline") -> Interval:
        """Return the share of a bound's gain over the reference that a policy has."""
        p, o, b = (self._mean[name] for name in (policy, bound, reference))
        with np.errstate(divide="ignore", invalid="ignore"):
            found = (b - p) / (b - o)
        return self._interval(float(found[0]), found)


def _exchanges(n_blocks: int) -> tuple[Floats, Floats]:
    """Return weights of the blocks of two policies, one after the other, for each of two sides.

    In the first row each side has the blocks of its policy. In the others, blocks are exchanged
    between the sides at random.
    """
    exchanged = stats.exchanges(n_blocks)
    moved = np.vstack([np.zeros(n_blocks), exchanged])
    return np.hstack([1 - moved, moved]), np.hstack([moved, 1 - moved])


def _differ(first: Floats, second: Floats) -> bool:
    """Return whether the difference in the first row exceeds that of randomly exchanged blocks."""
    found = np.abs(first - second)
    return stats.p_value(float(found[0]), found[1:]) <= 1 - LEVEL


def _means(sums: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums[..., 0] / sums[..., 1], np.float64)


def percentiles(weights: Floats, blocks: NDArray[Any], percents: Sequence[float]) -> Floats:
    """Return percentiles of histograms that are added up with weights.

    The reads in a bin are taken to be evenly spread over it. The sums over all bins are not
    computed: the bin of a percentile is found by a binary search, in all rows at once.

    Parameters
    ----------
    weights : array, shape (rows, blocks)
        How often each block is counted; not negative.
    blocks : array, shape (blocks, bins)
    percents : sequence of float

    Returns
    -------
    array, shape (percents, rows)
        In us.
    """
    # The reads of each block that are in a bin or in a lower one, by bin.
    upto = np.cumsum(blocks, axis=1, dtype=np.float64).T.copy()

    def count_upto(bins: NDArray[np.int64]) -> Floats:
        return np.asarray(np.einsum("rb,rb->r", weights, upto[bins]))

    total = weights @ upto[-1]
    found = []
    for percent in percents:
        wanted = total * (percent / 100)
        low = np.zeros(len(weights), np.int64)
        high = np.full(len(weights), len(upto) - 1)
        while (low < high).any():
            middle = (low + high) // 2
            is_reached = count_upto(middle) >= wanted
            low, high = np.where(is_reached, low, middle + 1), np.where(is_reached, middle, high)
        before = np.where(low > 0, count_upto(np.maximum(low - 1, 0)), 0.0)
        inside = count_upto(low) - before
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(inside > 0, (wanted - before) / inside, 0.5)
        found.append(_LOWEST_US * np.exp((low + part) * _STEP))
    return np.stack(found)
