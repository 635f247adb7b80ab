# SPDX-License-Identifier: MIT
"""Statistics: the one module that says how certain a number is, and whether a difference is chance.

All functions take arrays. There are four rules:

- *Three or more seeds*: Student's t over the seeds' values (:func:`mean_interval`). Each seed has
  its own drives, load and models, so seeds are the only independent repetitions. A latency, or the
  ratio of two latencies, is taken as a logarithm first: seeds differ by factors, and it must not
  matter which of two policies is the numerator. A statistic of all seeds' reads together
  (a mean, a percentile) is treated in the same way through its jackknife pseudo-values
  (:func:`jackknife_interval`).
- *Two seeds*: no interval. Student's t with one degree of freedom gives one that is nine times as
  wide as with four, which excludes nothing.
- *One seed*: a bootstrap over blocks of time (:func:`block_interval`). Reads that follow each other
  share a burst, so single reads must not be drawn. A block lasts at least ``BLOCK_S``, longer than
  the pauses of a drive, and with fewer than ``MIN_BLOCKS`` of them nothing is said
  (:func:`block_numbers`). Such an interval is about these drives and this stretch of the load.
- *A decision*: a permutation test (:func:`exchanges`, :func:`p_value`). If two models, or a switch
  that is off and on, are equally good, then what they did in a block could as well have been
  exchanged. The test is exact for any distribution of latencies. Where several cases are tested at
  once, :func:`holm` corrects their p-values.

The intervals are nominally of 95 %. This is how often they hold the truth, as
tests/unit/test_stats.py measures it (2,000 trials each, two binomial errors are 1.0 %), for normal
values and for skewed ones, three in ten of which have a burst that adds five times as much::

    Student's t       3 seeds: normal 94.8 %, bursts 56.7 %
    Student's t       5 seeds: normal 95.8 %, bursts 68.7 %
    Student's t      20 seeds: normal 95.8 %, bursts 84.2 %
    block bootstrap  8 blocks: normal 93.8 %, bursts 77.0 %
    block bootstrap 20 blocks: normal 95.6 %, bursts 87.0 %

So a mean of few skewed values is less certain than its interval says: the truth is above it when no
value had a burst. Differences between two sides that both have bursts are symmetric, and no test of
this module rejects a true null hypothesis more often than it says on either kind of data.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

LEVEL = 0.95

#: Garbage collection and flushes slow a drive for up to a second.
BLOCK_S = 1.0

#: With fewer blocks the bootstrap covers too little, and a permutation test can hardly decide.
#: More blocks than the maximum would be shorter without being worth more.
MIN_BLOCKS, MAX_BLOCKS = 8, 20

N_RESAMPLES = 4000

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A number and its confidence interval; the ends are not numbers where none can be given."""

    value: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Whether there are ends."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def is_above(self) -> bool:
        """Whether the whole interval is above zero."""
        return self.low > 0

    @property
    def is_below(self) -> bool:
        """Whether the whole interval is below zero."""
        return self.high < 0

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes zero."""
        return self.is_above or self.is_below

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Low and high; None where no interval can be given."""
        return number_or_none(self.low), number_or_none(self.high)

    def agreeing_with(self, is_significant: bool) -> Interval:
        """The interval, made to hold zero unless a test says that the value is not zero."""
        if is_significant or not self.excludes_zero:
            return self
        return Interval(self.value, min(self.low, 0.0), max(self.high, 0.0))

    @classmethod
    def unknown(cls, value: float = math.nan) -> Interval:
        """A number of which nobody can say how certain it is."""
        return cls(value, math.nan, math.nan)

    def to_json(self) -> list[float | None]:
        """Value, low, high; null for what is not a number."""
        return [number_or_none(self.value), *self.ends]

    @classmethod
    def from_json(cls, numbers: Sequence[float | None]) -> Interval:
        """The opposite of :meth:`to_json`."""
        value, low, high = (math.nan if end is None else end for end in numbers)
        return cls(value, low, high)


@dataclass(frozen=True)
class Difference:
    """By how much a mean time differs between two recordings, in us."""

    us: float
    #: `low_us`, `high_us`: its interval; None where there were too few blocks of time.
    low_us: float | None
    high_us: float | None

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes zero."""
        if self.low_us is None or self.high_us is None:
            return False
        return self.low_us > 0 or self.high_us < 0


def number_or_none(value: float) -> float | None:
    """The value, or None where it is not finite, which JSON does not know."""
    return value if math.isfinite(value) else None


def student_t(share: float, freedom: int) -> float:
    """Quantile of Student's t distribution."""
    # SciPy takes a second to load, which commands without an interval do not have to wait for.
    from scipy.stats import t

    return float(t.ppf(share, freedom))


def normal_quantile(share: float) -> float:
    """Quantile of the standard normal distribution."""
    from scipy.stats import norm

    return float(norm.ppf(share))


def mean_interval(values: Sequence[float] | Floats, level: float = LEVEL) -> Interval:
    """Student's t interval of the mean of three or more independent values, as of seeds.

    Values that are not numbers are left out.
    """
    known = np.asarray(values, float)
    known = known[~np.isnan(known)]
    if len(known) < 3:
        return Interval.unknown(float(known.mean()) if len(known) else math.nan)
    mean = float(known.mean())
    error = float(known.std(ddof=1)) / math.sqrt(len(known))
    reach = student_t((1 + level) / 2, len(known) - 1) * error
    return Interval(mean, mean - reach, mean + reach)


def jackknife_interval(whole: float, without: Floats, level: float = LEVEL) -> Interval:
    """The same for a statistic of all seeds' data together.

    `without` are its values where one seed after the other is left out. For a mean of seeds that
    are of one size this is :func:`mean_interval`.
    """
    n = len(without)
    around = mean_interval(n * whole - (n - 1) * np.asarray(without, float), level)
    return Interval(whole, whole + around.low - around.value, whole + around.high - around.value)


def positive_mean_interval(values: Sequence[float] | Floats) -> Interval:
    """The interval of a mean of values that differ by factors, computed on its logarithm."""
    known = np.asarray(values, float)
    known = known[~np.isnan(known)]
    if len(known) < 3:
        return mean_interval(known)
    without = (known.sum() - known) / (len(known) - 1)
    around = jackknife_interval(math.log(known.mean()), np.log(without))
    return Interval(float(known.mean()), math.exp(around.low), math.exp(around.high))


def quantile_interval(values: Sequence[float] | Floats, share: float = 0.5) -> Interval:
    """A quantile of independent values, between two of them that hold it with 95 % or more.

    How many values are below a quantile is binomial, whatever the distribution.
    """
    from scipy.stats import binom

    known = np.sort(np.asarray(values, float))
    known = known[~np.isnan(known)]
    n = len(known)
    if not n:
        return Interval.unknown()
    value = float(np.quantile(known, share, method="nearest"))
    # The quantile is in [known[low], known[high]] unless fewer than low + 1, or more than high,
    # of the values are below it.
    low = int(binom.ppf((1 - LEVEL) / 2, n, share)) - 1
    high = int(binom.isf((1 - LEVEL) / 2, n, share))
    if low < 0 or high >= n:
        return Interval.unknown(value)
    return Interval(value, float(known[low]), float(known[high]))


def count_blocks(span_ns: float, most: int = MAX_BLOCKS) -> int:
    """How many blocks of at least ``BLOCK_S`` fit into a time, up to `most`; 0 if too few."""
    n = min(most, int(span_ns / (BLOCK_S * 1e9)))
    return n if n >= MIN_BLOCKS else 0


def block_numbers(time_ns: npt.NDArray[Any], min_rows: int = 1) -> npt.NDArray[np.int64] | None:
    """The block of time of each row; None if there are too few blocks to say anything.

    The blocks are as many as :func:`count_blocks` says, all of one length, and there are at least
    `min_rows` rows for each. Blocks without a row are not numbered.
    """
    if not len(time_ns):
        return None
    since_ns = np.asarray(time_ns).astype(np.int64)
    since_ns = since_ns - since_ns.min()
    span_ns = int(since_ns.max()) + 1
    n = count_blocks(span_ns, min(MAX_BLOCKS, len(since_ns) // min_rows))
    numbers, rows = np.unique(since_ns * n // span_ns, return_inverse=True)
    return None if len(numbers) < MIN_BLOCKS else np.asarray(rows, np.int64)


def block_sums(blocks: npt.NDArray[Any], *columns: npt.NDArray[Any] | float) -> Floats:
    """Sums of columns in each block; shape (blocks, columns). A number stands for all rows."""
    ones = np.ones(len(blocks))
    return np.stack([np.bincount(blocks, ones * column) for column in columns], axis=1)


def _kept(draw: Callable[..., npt.NDArray[Any]]) -> Callable[..., npt.NDArray[Any]]:
    """Keep what was drawn for later calls with the same numbers; nobody may write to it."""

    @functools.lru_cache(maxsize=8)
    @functools.wraps(draw)
    def drawn(*numbers: int) -> npt.NDArray[Any]:
        found = draw(*numbers)
        found.flags.writeable = False
        return found

    return drawn


@_kept
def resamples(n_blocks: int, n: int = N_RESAMPLES, seed: int = 1) -> Floats:
    """How often each block is in each resample of the block bootstrap; shape (n, n_blocks)."""
    share = np.full(n_blocks, 1 / n_blocks)
    return np.random.default_rng(seed).multinomial(n_blocks, share, n).astype(np.float64)


@_kept
def shuffles(n_blocks: int, n: int, seed: int = 1) -> npt.NDArray[np.int64]:
    """Random orders of blocks; shape (n, n_blocks)."""
    every = np.tile(np.arange(n_blocks), (n, 1))
    return np.random.default_rng(seed).permuted(every, axis=1)


def tail(n_blocks: int, level: float = LEVEL) -> float:
    """The share of the resamples beyond each end of an interval.

    Less than half of what the level leaves: resamples of n blocks vary less than the truth, by
    sqrt(1 - 1 / n), and the normal distribution has lighter tails than Student's t. This is the
    expanded percentile interval (Hesterberg, The American Statistician 69:4, 2015, section 5.3).
    """
    from scipy.stats import norm

    t = student_t((1 + level) / 2, n_blocks - 1)
    return float(norm.cdf(-t * math.sqrt(n_blocks / (n_blocks - 1))))


def block_interval(
    value: float, resampled: Floats, n_blocks: int, level: float = LEVEL
) -> Interval:
    """The interval of a statistic whose values in resamples of so many blocks are given."""
    known = resampled[np.isfinite(resampled)]
    if n_blocks < MIN_BLOCKS or not len(known) or not math.isfinite(value):
        return Interval.unknown(value)
    beyond = tail(n_blocks, level)
    low, high = np.quantile(known, (beyond, 1 - beyond))
    return Interval(value, min(float(low), value), max(float(high), value))


def ratio_interval(parts: Sequence[float] | Floats, wholes: Sequence[float] | Floats) -> Interval:
    """A ratio of sums over blocks of time; blocks in which the whole is nothing do not count."""
    part, whole = np.asarray(parts, float), np.asarray(wholes, float)
    part, whole = part[whole > 0], whole[whole > 0]
    if not len(whole):
        return Interval.unknown()
    drawn = resamples(len(whole))
    return block_interval(
        float(part.sum() / whole.sum()), (drawn @ part) / (drawn @ whole), len(whole)
    )


def differences(before: Floats, after: Floats, n_tests: int = 1) -> list[Interval]:
    """By how much the means of two recordings differ: one interval a column but the first.

    `before` and `after` have a row for each block of time: how many there are, then sums over them.
    The intervals are so wide that `n_tests` of them hold together. One excludes zero only if
    exchanging blocks between the recordings at random does not make as large a difference either:
    the bootstrap alone says so too often where a few blocks have long bursts.
    """
    level = 1 - (1 - LEVEL) / n_tests
    n = round(N_RESAMPLES * max(1.0, min(n_tests, 10)))
    drawn, found = [
        [_means(weights @ blocks) for weights, blocks in zip(of, (before, after), strict=True)]
        for of in (
            [resamples(len(blocks), n, seed) for seed, blocks in enumerate((before, after), 1)],
            [np.ones(len(before)), np.ones(len(after))],
        )
    ]
    every = np.concatenate([before, after])
    is_after = (shuffles(len(every), n) >= len(before)).astype(np.float64)
    by_chance = np.abs(_means(is_after @ every) - _means((1 - is_after) @ every))
    intervals = []
    for column in range(before.shape[1] - 1):
        of_column = [means[..., column] for means in (*found, *drawn)]
        difference = float(of_column[1] - of_column[0])
        interval = block_interval(
            difference, of_column[3] - of_column[2], min(len(before), len(after)), level
        )
        p = p_value(abs(difference), by_chance[:, column])
        intervals.append(interval.agreeing_with(p <= 1 - level))
    return intervals


def _means(sums: Floats) -> Floats:
    return np.asarray(sums[..., 1:] / sums[..., :1])


@_kept
def exchanges(n_pairs: int, n: int = N_RESAMPLES, seed: int = 1) -> Floats:
    """Which pairs have their two members exchanged; shape (exchanges, n_pairs), zeros and ones.

    All that there are but the one that exchanges none, or `n` of them by lot if there are more.
    """
    if 2**n_pairs - 1 <= n:
        every = list(itertools.product((0.0, 1.0), repeat=n_pairs))
        return np.array(every[1:]).reshape(-1, n_pairs)
    drawn = np.random.default_rng(seed).integers(0, 2, (n, n_pairs))
    return drawn.astype(np.float64)


def p_value(found: float, by_chance: Floats) -> float:
    """How often chance does at least as much: what was found is itself one of the outcomes."""
    margin = 1e-9 * max(1.0, abs(found))
    as_large = np.count_nonzero(by_chance >= found - margin)
    return float((1 + as_large) / (1 + len(by_chance)))


def paired_p_value(differences: Floats) -> float:
    """One-sided p-value of paired differences, one a block, being above zero by chance.

    Under the null hypothesis the two sides may be exchanged in each block, which is its difference
    with the other sign.
    """
    found = float(differences.sum())
    return p_value(found, found - 2 * exchanges(len(differences)) @ differences)


def conditional_power(found: float, done: float, needed: float) -> float:
    """The chance that a test which is done in part will reject at its end (stochastic curtailment).

    Lan, Simon and Halperin, Sequential Analysis 1:3, 1982. `found` is the difference so far in its
    standard errors, `done` the share of the data that there is, `needed` how many standard errors
    reject at the end. The truth is supposed to be what was found and one standard error more.
    """
    from scipy.stats import norm

    expected = done * found + (1 - done) * (found + 1)
    last = math.sqrt(done)
    return float(norm.cdf((expected - needed * last) / (last * math.sqrt(1 - done))))


def holm(p_values: Sequence[float] | Floats) -> Floats:
    """p-values of several tests, corrected so that they hold together (Holm, 1979)."""
    p = np.asarray(p_values, float)
    order = np.argsort(p)
    corrected = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    result = np.empty_like(p)
    result[order] = np.minimum(corrected, 1.0)
    return result


def p_value_of(interval: Interval, expected: float, n: int) -> float:
    """Two-sided p-value of `expected` being the truth, from an interval of n values by Student's t.

    For an interval that was computed on logarithms, pass logarithms.
    """
    from scipy.stats import t

    end = interval.low if expected < interval.value else interval.high
    error = abs(end - interval.value) / student_t((1 + LEVEL) / 2, n - 1)
    if not error:
        return float(expected == interval.value)
    return float(2 * t.sf(abs(interval.value - expected) / error, n - 1))
