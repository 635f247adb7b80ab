# SPDX-License-Identifier: MIT
"""Inflection points: the latency beyond which it pays to ask another replica.

Section 4.2 of Hao et al., OSDI 2020. An array holds each block on several drives. A read that its
drive would serve slower than the drive's inflection point is revoked and goes to the next
replica, the last of which always serves it. For a candidate point, the *boost area* is the area
between the CDFs of read latency without and with this admission control; the point with the
largest area wins. Candidates lie within ten percentiles, in steps of 0.1, of the point where the
CDF's slope is one.

The area between the two CDFs is the difference of their means. Draws on different replicas are
independent, so the mean has a closed form: with A(t) the mean latency of admitted reads times
their share, S(t) the share revoked, c the cost of a failover, and M the mean of the last replica,

    mean = A1(t1) + S1(t1) (c + A2(t2) + S2(t2) (c + M3))

``exact`` evaluates it over the empirical distributions; ``simulate`` draws a million random reads
as the paper does. Both return the same quantity.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError

#: what a failover costs besides the next replica's latency, the paper's figure
FAILOVER_US = 15.0

REPLICAS = 3
SPAN_PERCENTILES = 10.0
STEP_PERCENTILES = 0.1
N_SIMULATED = 1_000_000

#: The latency axis is scaled by this percentile to give "slope one" a meaning that a single
#: outlier cannot change.
_SCALE_PERCENTILE = 99.9
_HIGHEST_PERCENTILE = 99.9

#: thresholds of different drives depend on each other a little; two or three rounds settle them
_MAX_ROUNDS = 4

Method = Literal["exact", "simulate"]
FloatArray = npt.NDArray[np.float64]


class LatencyDistribution:
    """Empirical distribution of a drive's read latencies.

    Parameters
    ----------
    latency_us : array, shape (n,)
        In any order.
    """

    def __init__(self, latency_us: npt.NDArray[Any]) -> None:
        if not len(latency_us):
            raise TraceError("no read latencies to find an inflection point from")
        self.sorted_us = np.sort(latency_us)
        self._prefix_us = np.concatenate(([0.0], np.cumsum(self.sorted_us, dtype=np.float64)))

    def __len__(self) -> int:
        return len(self.sorted_us)

    @property
    def mean_us(self) -> float:
        """Mean latency."""
        return float(self._prefix_us[-1] / len(self))

    def percentile_us(self, percentile: npt.ArrayLike) -> npt.NDArray[Any]:
        """Smallest latency that at least this percentage of reads do not exceed."""
        rank = np.ceil(np.asarray(percentile) / 100 * len(self) - 1e-9).astype(np.int64)
        return np.asarray(self.sorted_us[np.clip(rank - 1, 0, len(self) - 1)])

    def admitted(self, threshold_us: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """A(t) in us and S(t): admitted share of the mean latency, and share revoked."""
        count = np.searchsorted(self.sorted_us, threshold_us, side="right")
        n = len(self)
        return self._prefix_us[count] / n, 1 - count / n


@dataclasses.dataclass(frozen=True)
class InflectionPoint:
    """A drive's inflection point and how it was chosen.

    Attributes
    ----------
    threshold_us : int
        A read that takes longer is slow.
    percentile : float
        Of the drive's latencies.
    start_percentile : float
        Where the CDF's slope is one.
    slow_ratio : float
        Share of reads slower than the threshold.
    boost_area_us : float
        The array's mean latency without admission control minus that with it, in us, summed
        over its drives.
    candidate_percentiles, candidate_areas_us : float array
        All that was tried.
    """

    threshold_us: int
    percentile: float
    start_percentile: float
    slow_ratio: float
    boost_area_us: float
    candidate_percentiles: FloatArray
    candidate_areas_us: FloatArray


def slope_one_percentile(distribution: LatencyDistribution) -> float:
    """Where the CDF's slope is one, its latency axis scaled from the minimum to p99.9.

    That is where the CDF is farthest above the diagonal: its knee.
    """
    percentiles = np.arange(1, 1000) / 10.0
    latency_us = distribution.percentile_us(percentiles).astype(np.float64)
    low = float(distribution.sorted_us[0])
    high = float(distribution.percentile_us(_SCALE_PERCENTILE))
    if high <= low:
        return _HIGHEST_PERCENTILE
    return float(percentiles[np.argmax(percentiles / 100 - (latency_us - low) / (high - low))])


def find_inflection_points(
    distributions: Sequence[LatencyDistribution],
    *,
    method: Method = "exact",
    replicas: int = REPLICAS,
    failover_us: float = FAILOVER_US,
    span_percentiles: float = SPAN_PERCENTILES,
    step_percentiles: float = STEP_PERCENTILES,
    n_simulated: int = N_SIMULATED,
    seed: int = 1,
) -> list[InflectionPoint]:
    """Find the inflection points of an array's drives.

    Parameters
    ----------
    distributions : sequence of LatencyDistribution
        One per drive. A single drive stands for all its replicas.
    method : {"exact", "simulate"}
        Closed form, or random reads as in the paper.
    replicas : int
        Drives that hold each block; drive i's replicas are the drives that follow it.
    failover_us : float
        Cost of each revocation, in us.
    span_percentiles, step_percentiles : float
        Extent and spacing of the candidates around the start.
    n_simulated : int
        Random reads per drive, for "simulate".
    seed : int
        For "simulate".

    Returns
    -------
    list of InflectionPoint
        In the order of the drives.
    """
    if replicas < 2:
        raise ValueError(f"{replicas} replicas: revocation needs at least 2")
    n_drives = len(distributions)
    evaluate: _Exact | _Simulation
    if method == "exact":
        evaluate = _Exact(distributions, replicas, failover_us)
    elif method == "simulate":
        evaluate = _Simulation(distributions, replicas, failover_us, n_simulated, seed)
    else:
        raise ValueError(f"method {method!r}: expected exact or simulate")
    starts = [slope_one_percentile(distribution) for distribution in distributions]
    candidates = [_candidates(start, span_percentiles, step_percentiles) for start in starts]
    tables = [
        distribution.percentile_us(percentiles)
        for distribution, percentiles in zip(distributions, candidates, strict=True)
    ]
    thresholds = [float(d.percentile_us(s)) for d, s in zip(distributions, starts, strict=True)]
    areas: list[FloatArray] = [np.zeros(0)] * n_drives
    baseline = sum(distribution.mean_us for distribution in distributions)
    if method == "simulate":
        baseline = evaluate.mean_sum([np.inf] * n_drives)
    for _ in range(_MAX_ROUNDS):
        before = list(thresholds)
        for drive in range(n_drives):
            areas[drive] = baseline - evaluate.mean_sums(thresholds, drive, tables[drive])
            thresholds[drive] = float(tables[drive][np.argmax(areas[drive])])
        if thresholds == before or n_drives == 1:
            break
    points = []
    for drive, distribution in enumerate(distributions):
        best = int(np.argmax(areas[drive]))
        threshold_us = max(1, int(tables[drive][best]))
        points.append(
            InflectionPoint(
                threshold_us=threshold_us,
                percentile=float(candidates[drive][best]),
                start_percentile=starts[drive],
                slow_ratio=float(distribution.admitted(threshold_us)[1]),
                boost_area_us=float(areas[drive][best]),
                candidate_percentiles=candidates[drive],
                candidate_areas_us=areas[drive],
            )
        )
    return points


def _candidates(start: float, span: float, step: float) -> FloatArray:
    n = round(span / step)
    percentiles = start + np.arange(-n, n + 1) * step
    within = (percentiles >= step / 2) & (percentiles <= _HIGHEST_PERCENTILE + step / 2)
    return np.asarray(percentiles[within], np.float64)


def _ring(n_drives: int, first: int, replicas: int) -> list[int]:
    """The drives that a read of drive `first` may visit; with fewer drives some stand twice."""
    return [(first + hop) % n_drives for hop in range(replicas)]


class _Exact:
    """The closed form."""

    def __init__(
        self, distributions: Sequence[LatencyDistribution], replicas: int, failover_us: float
    ) -> None:
        self._distributions = distributions
        self._replicas = replicas
        self._failover_us = failover_us

    def mean_sum(self, thresholds: Sequence[float]) -> float:
        """Sum over the drives of the mean latency with these thresholds."""
        return float(self.mean_sums(thresholds, 0, np.asarray(thresholds[:1]))[0])

    def mean_sums(
        self, thresholds: Sequence[float], drive: int, candidates: npt.NDArray[Any]
    ) -> FloatArray:
        """The same for each candidate in place of `drive`'s threshold."""
        n_drives = len(self._distributions)
        parts = [
            distribution.admitted(candidates if i == drive else thresholds[i])
            for i, distribution in enumerate(self._distributions)
        ]
        total = np.zeros(len(candidates))
        for first in range(n_drives):
            ring = _ring(n_drives, first, self._replicas)
            mean: FloatArray | float = self._distributions[ring[-1]].mean_us
            for hop in reversed(ring[:-1]):
                admitted_us, revoked = parts[hop]
                mean = admitted_us + revoked * (self._failover_us + mean)
            total += mean
        return total


class _Simulation:
    """Random reads: each replica's latency is drawn, the same draws for every candidate."""

    def __init__(
        self,
        distributions: Sequence[LatencyDistribution],
        replicas: int,
        failover_us: float,
        n_simulated: int,
        seed: int,
    ) -> None:
        rng = np.random.default_rng(seed)
        self._n_drives = len(distributions)
        self._replicas = replicas
        self._failover_us = failover_us
        self._draws = [
            [
                distributions[drive]
                .sorted_us[rng.integers(0, len(distributions[drive]), n_simulated)]
                .astype(np.float64)
                for drive in _ring(self._n_drives, first, replicas)
            ]
            for first in range(self._n_drives)
        ]

    def mean_sum(self, thresholds: Sequence[float]) -> float:
        """Sum over the drives of the mean latency with these thresholds."""
        total = 0.0
        for first, draws in enumerate(self._draws):
            ring = _ring(self._n_drives, first, self._replicas)
            latency_us = draws[-1]
            for hop, drawn in zip(reversed(ring[:-1]), reversed(draws[:-1]), strict=True):
                latency_us = np.where(
                    drawn > thresholds[hop], self._failover_us + latency_us, drawn
                )
            total += float(latency_us.mean())
        return total

    def mean_sums(
        self, thresholds: Sequence[float], drive: int, candidates: npt.NDArray[Any]
    ) -> FloatArray:
        """The same for each candidate in place of `drive`'s threshold."""
        tried = list(thresholds)
        means = np.empty(len(candidates))
        for i, candidate in enumerate(candidates):
            tried[drive] = float(candidate)
            means[i] = self.mean_sum(tried)
        return means
