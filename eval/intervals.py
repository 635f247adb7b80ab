# SPDX-License-Identifier: MIT
"""How sure a number is: 95 % intervals by a bootstrap over blocks of time, of all seeds.

Reads that follow each other have their fate in common (a burst, a garbage collection), so single
reads must not be drawn. What is drawn is, first, seeds (each has drives, workload and models of its
own), then blocks of time of the replays of each seed drawn; both with replacement. A block is drawn
for all policies at once: they replayed the same reads, so that what a block has of hardness cancels
in their differences.

An interval from few seeds would be too narrow. It is taken further out in the distribution of
the resamples, by as much as Student's t with so many seeds is wider than the normal distribution
(the expanded percentile interval of Hesterberg, "What Teachers Should Know About the Bootstrap",
The American Statistician 69:4, 2015, section 5.3). With one seed only its blocks are drawn: the
interval then is of these drives and this stretch of the workload.

Memory is bounded: reads become sums and histograms of blocks at once, and resamples are made a few
hundred at a time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
RESAMPLES = 4000

#: A percentile is given when at least so many reads lie beyond it.
RESTS_ON = 100

#: Blocks that a replay is cut into.
BLOCKS = 20

#: Resamples made at a time.
_CHUNK = 250

#: Bins of the histograms that percentiles of resamples are read from: 1 % wide.
_N_BINS = 1800
_LOWEST_US = 1.0
_STEP = math.log(1.01)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A number and the interval that holds it with a chance of ``LEVEL``."""

    value: float
    low: float
    high: float

    @property
    def is_above(self) -> bool:
        """Above zero, the whole of it."""
        return self.low > 0

    @property
    def is_below(self) -> bool:
        """Below zero, the whole of it."""
        return self.high < 0

    @property
    def is_apart(self) -> bool:
        """Zero is not in it: a difference that may be called one."""
        return self.is_above or self.is_below

    def to_json(self) -> list[float | None]:
        """Value, low, high; null for what is not a number."""
        return [v if math.isfinite(v) else None for v in (self.value, self.low, self.high)]

    @classmethod
    def from_json(cls, numbers: Sequence[float | None]) -> Interval:
        """The opposite of :meth:`to_json`."""
        value, low, high = (math.nan if v is None else v for v in numbers)
        return cls(value, low, high)


def percentile(latency_us: NDArray[Any], percent: float) -> float | None:
    """A percentile; None when it would rest on fewer than ``RESTS_ON`` reads."""
    if len(latency_us) * (100 - percent) < 100 * RESTS_ON * (1 - 1e-9):
        return None
    return float(np.percentile(latency_us, percent))


def of_values(values: Sequence[float], statistic: Callable[..., Any] = np.mean) -> Interval:
    """The interval of a statistic of values that were drawn independently (seeds, windows).

    Parameters
    ----------
    values : sequence of float
        What is not a number is left out.
    statistic : callable
        Takes an array and ``axis``; the mean unless given.
    """
    known = np.asarray([v for v in values if not math.isnan(v)], float)
    if not len(known):
        return Interval(math.nan, math.nan, math.nan)
    value = float(statistic(known, axis=0))
    if len(known) < 2:
        return Interval(value, math.nan, math.nan)
    rng = np.random.default_rng(1)
    drawn = statistic(known[rng.integers(len(known), size=(RESAMPLES, len(known)))], axis=1)
    # Of ranks, so that infinite values may be among them.
    return _around(value, drawn, tail(len(known)), method="nearest")


def _around(value: float, drawn: NDArray[Any], beyond: float, **how: Any) -> Interval:
    """A value and the interval that leaves a share of what was drawn beyond each end."""
    low, high = np.quantile(drawn, [beyond, 1 - beyond], **how)
    return Interval(value, min(float(low), value), max(float(high), value))


def of_seeds(values: Mapping[int, Sequence[float]]) -> Interval:
    """The interval of a mean over drives: drives of one seed share a workload, so seeds are drawn.

    The values are by seed, of its drives (or blocks of time). Of one seed alone these are drawn.
    """
    if len(values) == 1:
        return of_values(next(iter(values.values())))
    of_each = [np.asarray([v for v in same if not math.isnan(v)]) for same in values.values()]
    return of_values([float(known.mean()) for known in of_each if len(known)])


def of_ratio(parts: Sequence[float], wholes: Sequence[float], *, seed: int = 1) -> Interval:
    """The interval of a share, counted by blocks of time: sum of the parts over sum of the wholes.

    Blocks are drawn.
    """
    part, whole = np.asarray(parts, float), np.asarray(wholes, float)
    # A block without any of the whole says nothing of the share, and is no block to draw.
    part, whole = part[whole > 0], whole[whole > 0]
    if not len(whole):
        return Interval(math.nan, math.nan, math.nan)
    value = float(part.sum() / whole.sum())
    if len(whole) < 2:
        return Interval(value, math.nan, math.nan)
    rows = np.random.default_rng(seed).integers(len(whole), size=(RESAMPLES, len(whole)))
    drawn = part[rows].sum(axis=1) / whole[rows].sum(axis=1)
    return _around(value, drawn, tail(len(whole)))


class Blocks:
    """The reads of one seed's replays, added up by block of time and policy.

    `due_us` says when the workload wants each read, `length_us` how long the replay is.
    """

    def __init__(self, due_us: NDArray[Any], length_us: float, n_blocks: int = BLOCKS) -> None:
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
        """All that were added."""
        return list(self.count)


def _weights(
    seeds: Sequence[Blocks], rng: np.random.Generator, n_resamples: int
) -> Iterator[list[NDArray[np.float64]]]:
    """How often each resample holds each block: for each seed an array (resamples, blocks)."""
    n = len(seeds)
    for first in range(0, n_resamples, _CHUNK):
        size = min(_CHUNK, n_resamples - first)
        times = rng.multinomial(n, [1 / n] * n, size)
        yield [
            rng.multinomial(times[:, i] * blocks.n_blocks, [1 / blocks.n_blocks] * blocks.n_blocks)
            .astype(np.float64)
            for i, blocks in enumerate(seeds)
        ]  # fmt: skip


def tail(n: int) -> float:
    """The share of the resamples that lies beyond each end of an interval.

    So many are drawn independently: seeds, or the blocks of a single one.
    """
    if n < 2:
        return 0.0
    t = student_t(1 - (1 - LEVEL) / 2, n - 1)
    return statistics.NormalDist().cdf(-t * math.sqrt(n / (n - 1)))


def student_t(share: float, freedom: int) -> float:
    """Quantile of Student's t distribution."""
    # Loaded with scikit-learn anyway; a second of start-up for those who need no interval.
    from scipy.stats import t

    return float(t.ppf(share, freedom))


class Resamples:
    """Means and percentiles of resamples of some seeds' replays, policy by policy.

    Parameters
    ----------
    seeds : sequence of Blocks
        One a seed; only policies that all of them have are resampled.
    """

    def __init__(
        self,
        seeds: Sequence[Blocks],
        percents: Sequence[float] = (),
        *,
        n_resamples: int | None = None,
        seed: int = 1,
    ) -> None:
        if not seeds:
            raise ValueError("no replay to draw from")
        n_resamples = n_resamples or RESAMPLES
        rng = np.random.default_rng(seed)
        self.policies = [
            policy for policy in seeds[0].policies if all(policy in s.count for s in seeds)
        ]
        self.percents = tuple(percents)
        n = len(seeds) if len(seeds) > 1 else seeds[0].n_blocks
        self.tail = tail(n)
        columns = [[s.count[p] for p in self.policies] for s in seeds]
        counts = [np.stack(c, axis=1) for c in columns]
        totals = [np.stack([s.total_us[p] for p in self.policies], axis=1) for s in seeds]
        self._value = _means(sum(t.sum(0) for t in totals), sum(c.sum(0) for c in counts))
        self._mean = np.empty((n_resamples, len(self.policies)))
        self._percentile = np.full((len(self.percents), n_resamples, len(self.policies)), np.nan)
        pools = [
            _Pool([s.histogram[policy] for s in seeds])
            for policy in (self.policies if self.percents else ())
        ]
        done = 0
        for weights in _weights(seeds, rng, n_resamples):
            rows = slice(done, done + len(weights[0]))
            done = rows.stop
            self._mean[rows] = _means(
                sum(w @ t for w, t in zip(weights, totals, strict=True)),
                sum(w @ c for w, c in zip(weights, counts, strict=True)),
            )
            if not self.percents:
                continue
            times = np.concatenate(weights, axis=1).astype(np.float32)
            for column, pool in enumerate(pools):
                self._percentile[:, rows, column] = pool.percentiles(times, self.percents)

    def _column(self, policy: str) -> int:
        return self.policies.index(policy)

    def _interval(self, value: float, resampled: NDArray[Any]) -> Interval:
        known = resampled[np.isfinite(resampled)]
        if not len(known) or not math.isfinite(value):
            return Interval(value, math.nan, math.nan)
        return _around(value, known, self.tail)

    def mean(self, policy: str) -> Interval:
        """A policy's mean latency in us."""
        column = self._column(policy)
        return self._interval(float(self._value[column]), self._mean[:, column])

    def percentile(self, policy: str, percent: float, value: float) -> Interval:
        """The interval of a percentile, around its value among all reads."""
        drawn = self._percentile[self.percents.index(percent)][:, self._column(policy)]
        return self._interval(value, drawn)

    def below(self, policy: str, reference: str) -> Interval:
        """By what share a policy's mean is below a reference's; negative when above."""
        a, b = self._column(policy), self._column(reference)
        return self._interval(
            float(1 - self._value[a] / self._value[b]), 1 - self._mean[:, a] / self._mean[:, b]
        )

    def percentile_below(
        self, policy: str, reference: str, percent: float, values: tuple[float, float]
    ) -> Interval:
        """The same of a percentile, whose values among all reads are given."""
        drawn = self._percentile[self.percents.index(percent)]
        a, b = drawn[:, self._column(policy)], drawn[:, self._column(reference)]
        return self._interval(1 - values[0] / values[1], 1 - a / b)

    def share(self, policy: str, bound: str, reference: str = "baseline") -> Interval:
        """Share of what a bound gains over the reference that a policy gains."""
        p, o, b = (self._column(name) for name in (policy, bound, reference))
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn = (self._mean[:, b] - self._mean[:, p]) / (self._mean[:, b] - self._mean[:, o])
            value = (self._value[b] - self._value[p]) / (self._value[b] - self._value[o])
        return self._interval(float(value), drawn)


def _means(total: Any, count: Any) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(total / count, np.float64)


class _Pool:
    """Histograms of all blocks, one a row of each seed's array: of the bins that hold a read."""

    def __init__(self, histograms: Sequence[NDArray[np.float32]]) -> None:
        blocks = np.concatenate(histograms)
        # The first bin as well, so that where there is no read there is a bin.
        self._bins = np.flatnonzero(blocks.any(axis=0) | (np.arange(_N_BINS) == 0))
        self._blocks = blocks[:, self._bins]

    def percentiles(self, times: NDArray[np.float32], percents: Sequence[float]) -> Floats:
        """Percentiles of resamples, in each of which each block is so many `times`.

        What is in a bin is evenly spread there.
        """
        pooled = times @ self._blocks
        upto = np.cumsum(pooled, axis=1, dtype=np.float64)
        rows = np.arange(len(upto))
        found = np.empty((len(percents), len(upto)))
        for i, percent in enumerate(percents):
            wanted = upto[:, -1] * (percent / 100)
            columns = np.minimum((upto < wanted[:, None]).sum(axis=1), len(self._bins) - 1)
            inside = pooled[rows, columns]
            before = upto[rows, columns] - inside
            with np.errstate(divide="ignore", invalid="ignore"):
                part = np.where(inside > 0, (wanted - before) / inside, 0.5)
            found[i] = _LOWEST_US * np.exp((self._bins[columns] + part) * _STEP)
        return found
