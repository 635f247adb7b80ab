# SPDX-License-Identifier: MIT
"""Find inflection points, and label slow reads.

The inflection point of a drive is the latency above which reading from another replica is faster
(section 4.2 of Hao et al., OSDI 2020). A read that would take longer on its drive than the drive's
inflection point is revoked and sent to the next replica. The last replica always serves the read.
For a candidate point, the *boost area* is the area between the CDFs of read latency without and
with this admission control. The candidate with the largest area is chosen.

The search begins at the percentile at which the slope of the CDF is one. The first candidates are
the percentiles within ten of it, in steps of 0.1. While the lowest or the highest candidate is the
best one, ten percentiles beyond it are added. The result therefore lies between worse candidates,
unless the search reaches p0.1 or p99.9. `search="paper"` disables this extension.

The area between the two CDFs is the difference of their means. Latencies on different replicas are
assumed to be independent, so the mean has a closed form. Let A(t) be the sum of the latencies of
admitted reads divided by the number of all reads, S(t) the share of revoked reads, c the cost of a
failover, and M the mean latency of the last replica. With three replicas,

    mean = A1(t1) + S1(t1) (c + A2(t2) + S2(t2) (c + M3))

A revoked read is "failed over to another randomly selected node" (section 4.2.1), so the mean is
the expectation over all orders in which the other drives can follow. A point therefore does not
depend on the order in which the drives are given, and identical drives have the same point. The
paper estimates the same quantity from random reads, each with a random order of drives.

The closed form has two limitations. It does not model load: the best point of a drive that is
slower than its replicas can be so low that most of its reads count as slow
(:meth:`InflectionPoint.warning` reports this). And, as in the paper, a revoked read has the latency
of any read of the other replica, although it has the same size there. A point can therefore have a
large boost area only because large reads are exchanged for small ones.

The labels define the reads that a network is trained to classify as slow. With ``paper``, these are
the reads that took longer than the drive's inflection point. With ``avoidable``, they are those of
these reads that also took longer than the median read of the same size class plus a failover. A
failover repeats the same read, so it does not help a read that is slow only because it is large.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError
from linnapp.learn.options import LabellingOptions, Labels

#: Initial number of candidates on each side, as in the paper, and number of candidates that each
#: extension adds: ten percentiles.
_EXTENSION = 100
STEP_PERCENTILES = 0.1

#: Highest candidate. The latency axis is also scaled by this percentile, so that a single outlier
#: does not change the point where the slope is one.
_HIGHEST_PERCENTILE = 99.9

#: The thresholds of different drives depend slightly on each other. They converge in two or three
#: rounds.
_MAX_ROUNDS = 4

#: If the point is at a lower percentile, most reads of the drive are slow.
LOWEST_PERCENTILE = 50.0

FloatArray = npt.NDArray[np.float64]


def size_classes(pages: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the size class of each read: 0, 1, 2, 3, ... for 1, 2, 3 to 4, 5 to 8, ... pages."""
    return np.asarray(np.ceil(np.log2(np.maximum(pages, 1))), np.int64)


class LatencyDistribution:
    """Empirical distribution of a drive's read latencies, stored as counts of whole microseconds.

    Memory use is proportional to the number of different latencies, not of reads. Without any
    latency, TraceError is raised.
    """

    def __init__(self, latency_us: npt.NDArray[Any]) -> None:
        if not len(latency_us):
            raise TraceError("no read latencies to find an inflection point from")
        self._values_us, counts = np.unique(latency_us, return_counts=True)
        self._below = np.concatenate(([0], np.cumsum(counts)))
        sums = np.cumsum(self._values_us * counts.astype(np.float64))
        self._prefix_us = np.concatenate(([0.0], sums))

    def __len__(self) -> int:
        return int(self._below[-1])

    @functools.cached_property
    def contents(self) -> tuple[bytes, bytes]:
        """Sort key that is equal for equal distributions."""
        return self._values_us.astype(np.float64).tobytes(), self._below.tobytes()

    @property
    def mean_us(self) -> float:
        """Mean latency in us."""
        return float(self._prefix_us[-1] / len(self))

    def percentile_us(self, percentile: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return percentiles of the latency in us, by nearest rank, that is, uninterpolated."""
        rank = np.ceil(np.asarray(percentile) / 100 * len(self) - 1e-9).astype(np.int64)
        index = np.searchsorted(self._below, np.clip(rank, 1, len(self)), side="left") - 1
        return np.asarray(self._values_us[index])

    def share_at_most(self, latency_us: npt.ArrayLike) -> FloatArray:
        """Return the CDF: the share of reads that take at most `latency_us`."""
        count = self._below[np.searchsorted(self._values_us, latency_us, side="right")]
        return np.asarray(count / len(self), np.float64)

    def admitted(self, threshold_us: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return A(t) in us and S(t) for each threshold; see the closed form in the module."""
        index = np.searchsorted(self._values_us, threshold_us, side="right")
        n = len(self)
        return self._prefix_us[index] / n, 1 - self._below[index] / n

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw the latencies of `n` random reads, in us."""
        rank = rng.integers(1, len(self) + 1, n)
        return self._values_us[np.searchsorted(self._below, rank) - 1].astype(np.float64)


@dataclasses.dataclass(frozen=True)
class InflectionPoint:
    """A drive's inflection point and how it was chosen.

    Attributes
    ----------
    threshold_us : int
        A read that takes longer is slow.
    percentile : float
        Percentile of the threshold among the drive's latencies.
    start_percentile : float
        Percentile at which the CDF's slope is one.
    slow_ratio : float
        Share of reads slower than the threshold.
    boost_area_us : float
        Reduction of the mean latency by admission control in us, summed over the drives.
    searched_percentiles : tuple of float
        The lowest and the highest candidate.
    candidate_percentiles, candidate_areas_us : float array
        All candidates and their boost areas.
    at_edge : bool
        True if the lowest or the highest candidate is as good as the point, so that a better point
        can lie beyond. In a wide search, this candidate is p0.1 or p99.9. False if the point was
        given.
    replicas : int
        Number of drives that hold each block, as used by the search.
    """

    threshold_us: int
    percentile: float
    start_percentile: float
    slow_ratio: float
    boost_area_us: float
    searched_percentiles: tuple[float, float]
    candidate_percentiles: FloatArray = dataclasses.field(repr=False, compare=False)
    candidate_areas_us: FloatArray = dataclasses.field(repr=False, compare=False)
    at_edge: bool
    replicas: int

    def warning(self, drive: str) -> str | None:
        """Return a warning if most reads of the drive count as slow, or None."""
        if self.percentile >= LOWEST_PERCENTILE:
            return None
        return (
            f"{drive}: WARNING: the inflection point, {self.threshold_us} us, is at "
            f"p{self.percentile:.1f}, which is less than the median: {100 * self.slow_ratio:.1f} % "
            "of this drive's reads take longer, and its model may refuse most of its reads. The "
            "search does not take into account that the other drives become slower when they "
            "serve these reads, too. If the drives of this array have different speeds, train "
            "each of them from its own recording alone, or choose another point with "
            "`threshold_us=` (`linnapp label --search paper` stays within ten percentiles of the "
            f"knee of the drive's CDF, p{self.start_percentile:.1f})"
        )


def slope_one_percentile(distribution: LatencyDistribution) -> float:
    """Return the percentile at which the slope of the scaled CDF is one, that is, its knee.

    The latency axis is scaled so that the minimum is 0 and p99.9 is 1. At the knee, the CDF is
    farthest above the diagonal.
    """
    percentiles = np.arange(1, 1000) / 10.0
    latency_us = distribution.percentile_us(percentiles).astype(np.float64)
    low, high = distribution.percentile_us([0, _HIGHEST_PERCENTILE]).astype(np.float64)
    if high <= low:
        return _HIGHEST_PERCENTILE
    return float(percentiles[np.argmax(percentiles / 100 - (latency_us - low) / (high - low))])


def find_inflection_points(
    distributions: Sequence[LatencyDistribution], options: LabellingOptions | None = None
) -> list[InflectionPoint]:
    """Find the inflection points of an array's drives, in the order of `distributions`.

    The results do not depend on this order.
    """
    options = options or LabellingOptions()
    n_drives = len(distributions)
    # A single drive represents all of its replicas.
    replicas = options.replicas if n_drives == 1 else min(options.replicas, n_drives)
    # The search processes the drives one after another, so it needs an order that is independent of
    # the caller's. Equal drives share one point.
    by_contents = sorted(distributions, key=lambda distribution: distribution.contents)
    kinds = {distribution.contents: distribution for distribution in by_contents}
    places = {contents: place for place, contents in enumerate(kinds)}
    different = list(kinds.values())
    found = Counter(distribution.contents for distribution in distributions)
    counts = [replicas] if n_drives == 1 else [found[contents] for contents in kinds]
    share = n_drives / sum(counts)
    evaluate = _Exact(different, counts, replicas, options.failover_us)
    baseline = evaluate.mean_sum([np.inf] * len(different))
    windows = [_Window(distribution, options) for distribution in different]
    thresholds = [float(window.thresholds_us[window.best]) for window in windows]

    def areas_us(place: int, tried_us: npt.NDArray[Any]) -> FloatArray:
        return share * (baseline - evaluate.mean_sums(thresholds, place, tried_us))

    for _ in range(_MAX_ROUNDS):
        before = list(thresholds)
        for place, window in enumerate(windows):
            window.search(functools.partial(areas_us, place))
            thresholds[place] = float(window.thresholds_us[window.best])
        if thresholds == before or len(windows) == 1:
            break
    points = []
    for distribution in distributions:
        window = windows[places[distribution.contents]]
        best = window.best
        threshold_us = max(1, int(window.thresholds_us[best]))
        points.append(
            InflectionPoint(
                threshold_us=threshold_us,
                percentile=float(window.percentiles[best]),
                start_percentile=window.start,
                slow_ratio=float(distribution.admitted(threshold_us)[1]),
                boost_area_us=float(window.areas_us[best]),
                searched_percentiles=(float(window.percentiles[0]), float(window.percentiles[-1])),
                candidate_percentiles=window.percentiles,
                candidate_areas_us=window.areas_us,
                at_edge=options.threshold_us is None and any(window.best_at_ends()),
                replicas=replicas,
            )
        )
    return points


class _Window:
    """A drive's candidates: percentiles in equal steps around the start, or the given point."""

    def __init__(self, distribution: LatencyDistribution, options: LabellingOptions) -> None:
        self._widens = options.search == "wide" and options.threshold_us is None
        self.start = slope_one_percentile(distribution)
        self._distribution = distribution
        # Candidate i is i steps above the start. Rounding keeps the lowest and the highest one
        # between p0.1 and p99.9.
        self._lowest = -int((self.start - STEP_PERCENTILES / 2) / STEP_PERCENTILES)
        self._highest = int((_HIGHEST_PERCENTILE - self.start) / STEP_PERCENTILES + 0.5)
        if options.threshold_us is None:
            self._first = max(self._lowest, -_EXTENSION)
            last = min(self._highest, _EXTENSION)
            self.percentiles, self.thresholds_us = self._candidates(self._first, last)
        else:
            self._first = 0
            self.percentiles = 100 * distribution.share_at_most([options.threshold_us])
            self.thresholds_us = np.array([options.threshold_us])
        self.areas_us = np.zeros(len(self.percentiles))
        self.best = -self._first

    def _candidates(self, first: int, last: int) -> tuple[FloatArray, npt.NDArray[Any]]:
        steps = np.arange(first, last + 1) * STEP_PERCENTILES
        percentiles = np.asarray(self.start + steps, np.float64)
        return percentiles, self._distribution.percentile_us(percentiles)

    def search(self, areas_of: Callable[[npt.NDArray[Any]], FloatArray]) -> None:
        """Compute the areas of all candidates. Extend a wide search while an end is the best."""
        self.areas_us = areas_of(self.thresholds_us)
        while self._widens:
            low, high = self.best_at_ends()
            first = max(self._lowest, self._first - _EXTENSION) if low else self._first
            last = self._first + len(self.percentiles) - 1
            new_last = min(self._highest, last + _EXTENSION) if high else last
            if (first, new_last) == (self._first, last):
                break
            below, below_us = self._candidates(first, self._first - 1)
            above, above_us = self._candidates(last + 1, new_last)
            self.percentiles = np.concatenate((below, self.percentiles, above))
            self.thresholds_us = np.concatenate((below_us, self.thresholds_us, above_us))
            self.areas_us = np.concatenate((areas_of(below_us), self.areas_us, areas_of(above_us)))
            self._first = first
        equals = np.flatnonzero(self.areas_us == self.areas_us.max())
        self.best = int(equals[np.argmin(np.abs(equals + self._first))])

    def best_at_ends(self) -> tuple[bool, bool]:
        """Return two flags: if the lowest and if the highest candidate is as good as the best."""
        best = self.areas_us.max()
        return bool(self.areas_us[0] == best), bool(self.areas_us[-1] == best)


class _Exact:
    """The closed form, averaged over all orders of the drives.

    `distributions` are those of the different drives, and `counts` the numbers of drives with each,
    which share one threshold.
    """

    def __init__(
        self,
        distributions: Sequence[LatencyDistribution],
        counts: Sequence[int],
        replicas: int,
        failover_us: float,
    ) -> None:
        self._distributions = distributions
        self._counts = counts
        self._hops = replicas - 1
        self._failover_us = failover_us

    def mean_sum(self, thresholds: Sequence[float]) -> float:
        """Return the mean latencies with these thresholds, summed over the drives."""
        return float(self.mean_sums(thresholds, 0, np.asarray(thresholds[:1]))[0])

    def mean_sums(
        self, thresholds: Sequence[float], place: int, candidates: npt.NDArray[Any]
    ) -> FloatArray:
        """Return :meth:`mean_sum` for each candidate threshold of the drive `place`."""
        tried = [candidates if i == place else us for i, us in enumerate(thresholds)]
        admitted = [
            distribution.admitted(us)
            for distribution, us in zip(self._distributions, tried, strict=True)
        ]
        total = np.zeros(len(candidates))
        for first, count in enumerate(self._counts):
            total += count * self._mean(first, admitted)
        return total

    def _mean(
        self, first: int, admitted: Sequence[tuple[FloatArray, FloatArray]]
    ) -> FloatArray | float:
        """Return the mean latency of reads that go to drive `first`, then to random other drives.

        Let o1, o2, ... be the other drives in the order of the failovers. After the first failover,
        a read takes B(o1) + S(o1) B(o2) + S(o1) S(o2) B(o3) + ... on average, where B = A + c S. At
        the last replica, its mean latency M takes the place of B. The expectation of the product
        S(o1)...S(oj) B(oj+1) over random orders is its mean over all choices of a set of j drives
        and of one more drive, whose sums are coefficients of a polynomial. The orders themselves
        would be too many.
        """
        own_us, revoked = admitted[first]
        # Element j is a sum over all sets of j drives. The terms of `sets` are the products of
        # their S. In `with_visit` and `with_last`, the products are multiplied by the B or the M of
        # one more drive.
        sets: list[FloatArray | float] = [1.0, *[0.0] * (self._hops - 1)]
        with_visit: list[FloatArray | float] = [0.0] * self._hops
        with_last: list[FloatArray | float] = [0.0] * self._hops
        for i, (admitted_us, share) in enumerate(admitted):
            visit_us = admitted_us + self._failover_us * share
            last_us = self._distributions[i].mean_us
            for _ in range(self._counts[i] - (i == first)):
                for size in reversed(range(self._hops)):
                    smaller = size - 1
                    with_visit[size] = with_visit[size] + visit_us * sets[size]
                    with_last[size] = with_last[size] + last_us * sets[size]
                    if size:
                        with_visit[size] = with_visit[size] + share * with_visit[smaller]
                        with_last[size] = with_last[size] + share * with_last[smaller]
                        sets[size] = sets[size] + share * sets[smaller]
        others = sum(self._counts) - 1
        mean: FloatArray | float = 0.0
        for size in range(self._hops):
            sums = with_last if size == self._hops - 1 else with_visit
            mean = mean + sums[size] / (math.comb(others, size) * (others - size))
        return own_us + revoked * (self._failover_us + mean)


#: Classes of up to 2**16 pages, which is more than any read.
_N_CLASSES = 17


@dataclasses.dataclass(frozen=True)
class SlowLimits:
    """The latency beyond which a read is labelled slow, by size class."""

    #: float array, shape (17,). Indexed by :func:`size_classes`.
    limit_us: npt.NDArray[np.float64]

    @classmethod
    def of_paper(cls, threshold_us: int) -> SlowLimits:
        """Return limits that equal the inflection point for all sizes."""
        return cls(np.full(_N_CLASSES, float(threshold_us)))

    @classmethod
    def find(
        cls,
        labels: Labels,
        threshold_us: int,
        latency_us: npt.NDArray[Any],
        pages: npt.NDArray[Any],
        failover_us: float,
    ) -> SlowLimits:
        """Return the limits of a definition of a slow read, given the reads to train on.

        If only avoidable reads are slow, a limit is the median of the class plus a failover, but at
        least the inflection point.
        """
        found = cls.of_paper(threshold_us)
        kinds = size_classes(pages)
        for kind in np.unique(kinds) if labels == "avoidable" else ():
            median_us = float(np.median(latency_us[kinds == kind]))
            found.limit_us[kind] = max(float(threshold_us), median_us + failover_us)
        return found

    def slow(self, latency_us: npt.NDArray[Any], pages: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return true for slow reads. Both arrays have shape (n,)."""
        kinds = np.minimum(size_classes(pages), _N_CLASSES - 1)
        return np.asarray(latency_us > self.limit_us[kinds])
