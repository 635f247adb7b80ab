# SPDX-License-Identifier: MIT
"""Confidence intervals and significance tests.

All statistics of the project are in this module, and all of its functions take arrays. The method
depends on the number of independent repetitions:

- *Three or more seeds*: Student's t over the values of the seeds (:func:`mean_interval`). Each seed
  has its own drives, load and models, so seeds are the only independent repetitions. Latencies and
  ratios of two latencies are first converted to logarithms, because seeds differ by factors and the
  result must not depend on which of two policies is the numerator. The interval of a statistic of
  the reads of all seeds together, such as a percentile, is computed from its jackknife
  pseudo-values (:func:`jackknife_interval`).
- *Two seeds*: no interval. With one degree of freedom, Student's t interval extends to nine
  standard deviations on either side of the mean, so it excludes almost nothing.
- *One seed*: a bootstrap over blocks of time (:func:`block_interval`). Consecutive reads share a
  burst, so single reads must not be resampled. A block lasts at least ``BLOCK_S``, which is longer
  than the pauses of a drive. With fewer than ``MIN_BLOCKS`` blocks there is no interval
  (:func:`block_numbers`). Such an interval applies only to these drives and this period of the
  load.

A decision between two models, or between the two positions of a switch, uses a permutation test
(:func:`exchanges`, :func:`p_value`). If both are equally good, their results in a block of time are
exchangeable, so the test is exact for any distribution of latencies. If several cases are tested at
once, :func:`holm` corrects their p-values.

The nominal coverage of the intervals is 95 %. tests/unit/test_stats.py measures their actual
coverage (2,000 trials each, two binomial standard errors are 1.0 %) for normal values and for
skewed values. A skewed value is 1, and in three of ten values a burst adds 5 on average::

    Student's t       3 seeds: normal 94.8 %, bursts 56.7 %
    Student's t       5 seeds: normal 95.8 %, bursts 68.7 %
    Student's t      20 seeds: normal 95.8 %, bursts 84.2 %
    block bootstrap  8 blocks: normal 93.8 %, bursts 77.0 %
    block bootstrap 20 blocks: normal 95.6 %, bursts 87.0 %

The mean of a few skewed values is therefore less certain than its interval suggests: if none of the
values happens to have a burst, the true mean is higher than the interval. Tests compare two sides
that both have bursts, so that the differences are symmetric. No test of this module rejects a true
null hypothesis more often than its level on either kind of data.
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

#: Length of a block in seconds. Garbage collection and flushes slow a drive for up to a second.
BLOCK_S = 1.0

#: Minimum and maximum number of blocks. With fewer blocks, the coverage of the bootstrap is too low
#: and a permutation test rarely rejects. More blocks do not improve the result, so the blocks of a
#: long recording are longer than ``BLOCK_S``.
MIN_BLOCKS, MAX_BLOCKS = 8, 20

N_RESAMPLES = 4000

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A value and its confidence interval.

    Attributes
    ----------
    value : float
        NaN if it is unknown.
    low, high : float
        Ends of the interval, NaN if it cannot be computed.
    """

    value: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """True if the interval has ends."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def is_above(self) -> bool:
        """True if the whole interval is above zero."""
        return self.low > 0

    @property
    def is_below(self) -> bool:
        """True if the whole interval is below zero."""
        return self.high < 0

    @property
    def excludes_zero(self) -> bool:
        """True if the interval excludes zero."""
        return self.is_above or self.is_below

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Low and high end, or None if no interval can be computed."""
        return finite_or_none(self.low), finite_or_none(self.high)

    def agreeing_with(self, is_significant: bool) -> Interval:
        """Return the interval, extended to include zero unless a test result is significant."""
        if is_significant or not self.excludes_zero:
            return self
        return Interval(self.value, min(self.low, 0.0), max(self.high, 0.0))

    @classmethod
    def unknown(cls, value: float = math.nan) -> Interval:
        """Return a value whose uncertainty is unknown."""
        return cls(value, math.nan, math.nan)

    def to_json(self) -> list[float | None]:
        """Return value, low and high, with None (JSON null) instead of NaN and infinity."""
        return [finite_or_none(self.value), *self.ends]

    @classmethod
    def from_json(cls, numbers: Sequence[float | None]) -> Interval:
        """Restore an interval from the result of :meth:`to_json`."""
        value, low, high = (math.nan if end is None else end for end in numbers)
        return cls(value, low, high)

    def __format__(self, form: str) -> str:
        """Format the value and, if they are known, the ends: ``3.0 [2.5, 3.5]``."""
        text = format(self.value, form)
        return f"{text} [{self.low:{form}}, {self.high:{form}}]" if self.is_known else text


def finite_or_none(value: Any) -> Any:
    """Replace NaN and infinities in a value, a dict or a list by None: JSON has no such numbers."""
    if isinstance(value, dict):
        return {key: finite_or_none(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite_or_none(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def student_t(share: float, freedom: int) -> float:
    """Return a quantile of Student's t distribution with `freedom` degrees of freedom."""
    # SciPy takes time to load, and scipy.stats takes a second. Commands that compute no interval do
    # not have to wait for it.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))


def _known(values: Sequence[float] | Floats) -> Floats:
    """Return the values that are not NaN."""
    found = np.asarray(values, float)
    return np.asarray(found[~np.isnan(found)])


def mean_interval(values: Sequence[float] | Floats, level: float = LEVEL) -> Interval:
    """Return Student's t interval of the mean of three or more independent values, such as seeds.

    NaN values are ignored. With fewer than three values the interval is unknown. `level` is the
    nominal coverage.
    """
    known = _known(values)
    if len(known) < 3:
        return Interval.unknown(float(known.mean()) if len(known) else math.nan)
    mean = float(known.mean())
    error = float(known.std(ddof=1)) / math.sqrt(len(known))
    reach = student_t((1 + level) / 2, len(known) - 1) * error
    return Interval(mean, mean - reach, mean + reach)


def jackknife_interval(whole: float, without: Floats) -> Interval:
    """Return Student's t interval of a statistic, `whole`, of the data of all seeds together.

    `without` has the statistic without the data of each seed in turn. For the mean over seeds of
    equal size, the result is that of :func:`mean_interval`.
    """
    n = len(without)
    pseudo = mean_interval(n * whole - (n - 1) * np.asarray(without, float))
    return Interval(whole, whole + pseudo.low - pseudo.value, whole + pseudo.high - pseudo.value)


def positive_mean_interval(values: Sequence[float] | Floats) -> Interval:
    """Return the interval of a mean of positive values that differ by factors.

    The interval is computed for the logarithm of the mean.
    """
    known = _known(values)
    if len(known) < 3:
        return mean_interval(known)
    without = (known.sum() - known) / (len(known) - 1)
    log = jackknife_interval(math.log(known.mean()), np.log(without))
    return Interval(float(known.mean()), math.exp(log.low), math.exp(log.high))


def quantile_interval(values: Sequence[float] | Floats, share: float = 0.5) -> Interval:
    """Return a quantile of independent values and the distribution-free interval that contains it.

    The ends are two of the values. The coverage is at least 95 %, because the number of values less
    than a quantile has a binomial distribution, whatever the distribution of the values is.
    """
    from scipy.stats import binom

    known = np.sort(_known(values))
    n = len(known)
    if not n:
        return Interval.unknown()
    value = float(np.quantile(known, share, method="nearest"))
    # The quantile is in [known[low], known[high]] unless fewer than low + 1 of the values, or more
    # than high, are less than it.
    low = int(binom.ppf((1 - LEVEL) / 2, n, share)) - 1
    high = int(binom.isf((1 - LEVEL) / 2, n, share))
    if low < 0 or high >= n:
        return Interval.unknown(value)
    return Interval(value, float(known[low]), float(known[high]))


def count_blocks(span_ns: float, most: int = MAX_BLOCKS) -> int:
    """Return the number of blocks of ``BLOCK_S`` in a period, at most `most`.

    It is 0 if there would be fewer than ``MIN_BLOCKS``.
    """
    n = min(most, int(span_ns / (BLOCK_S * 1e9)))
    return n if n >= MIN_BLOCKS else 0


def block_numbers(time_ns: npt.NDArray[Any], min_rows: int = 1) -> npt.NDArray[np.int64] | None:
    """Return the block of time of each row, or None if there are too few blocks for a statistic.

    All blocks have the same length, and :func:`count_blocks` gives their number. Blocks without
    rows are not numbered. `min_rows` is the minimum number of rows per block, on average.
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
    """Return the sums of columns per block, shape (blocks, columns). Scalars apply to all rows."""
    ones = np.ones(len(blocks))
    return np.stack([np.bincount(blocks, ones * column) for column in columns], axis=1)


def _cached(draw: Callable[..., npt.NDArray[Any]]) -> Callable[..., npt.NDArray[Any]]:
    """Cache the arrays that a function of integers returns, and make them read-only."""

    @functools.lru_cache(maxsize=8)
    @functools.wraps(draw)
    def cached(*numbers: int) -> npt.NDArray[Any]:
        array = draw(*numbers)
        array.flags.writeable = False
        return array

    return cached


@_cached
def resamples(n_blocks: int, n: int = N_RESAMPLES, seed: int = 1) -> Floats:
    """Return how often each block occurs in each bootstrap resample, shape (n, n_blocks)."""
    share = np.full(n_blocks, 1 / n_blocks)
    return np.random.default_rng(seed).multinomial(n_blocks, share, n).astype(np.float64)


@_cached
def shuffles(n_blocks: int, n: int) -> npt.NDArray[np.int64]:
    """Return random permutations of blocks, shape (n, n_blocks)."""
    every = np.tile(np.arange(n_blocks), (n, 1))
    return np.random.default_rng(1).permuted(every, axis=1)


def tail(n_blocks: int, level: float = LEVEL) -> float:
    """Return the share of the resamples beyond each end of a bootstrap interval.

    It is less than half of ``1 - level``, because the resamples of n blocks vary less than the
    statistic does, by a factor of sqrt(1 - 1 / n), and because they have the tails of a normal
    distribution instead of those of Student's t. This is the expanded percentile interval
    (Hesterberg, The American Statistician 69:4, 2015, section 5.3).
    """
    from scipy.special import ndtr

    t = student_t((1 + level) / 2, n_blocks - 1)
    return float(ndtr(-t * math.sqrt(n_blocks / (n_blocks - 1))))


def block_interval(
    value: float, resampled: Floats, n_blocks: int, level: float = LEVEL
) -> Interval:
    """Return the bootstrap interval of a statistic, unknown with fewer than ``MIN_BLOCKS`` blocks.

    `resampled` has the statistic in resamples of the blocks, shape (resamples,). Values that are
    not finite are ignored. `level` is the nominal coverage.
    """
    known = resampled[np.isfinite(resampled)]
    if n_blocks < MIN_BLOCKS or not len(known) or not math.isfinite(value):
        return Interval.unknown(value)
    beyond = tail(n_blocks, level)
    low, high = np.quantile(known, (beyond, 1 - beyond))
    return Interval(value, min(float(low), value), max(float(high), value))


def ratio_interval(parts: Sequence[float] | Floats, wholes: Sequence[float] | Floats) -> Interval:
    """Return the ratio of two sums over blocks of time, with its interval.

    Blocks in which `wholes` is zero are ignored.
    """
    part, whole = np.asarray(parts, float), np.asarray(wholes, float)
    part, whole = part[whole > 0], whole[whole > 0]
    if not len(whole):
        return Interval.unknown()
    drawn = resamples(len(whole))
    return block_interval(
        float(part.sum() / whole.sum()), (drawn @ part) / (drawn @ whole), len(whole)
    )


def differences(before: Floats, after: Floats, n_tests: int = 1) -> list[Interval]:
    """Return the differences of the means of two recordings, with their intervals.

    An interval excludes zero only if a permutation test also rejects the null hypothesis: random
    exchanges of blocks between the recordings rarely result in as large a difference. The bootstrap
    alone excludes zero too often if a few blocks have long bursts.

    Parameters
    ----------
    before, after : array, shape (blocks, 1 + columns)
        For each block of time, its number of rows, then the sum of each column over its rows. The
        result has an interval for each of these columns.
    n_tests : int
        Number of intervals that must hold simultaneously.
    """
    level = 1 - (1 - LEVEL) / n_tests
    n = round(N_RESAMPLES * max(1.0, min(n_tests, 10)))
    found = _means(after.sum(axis=0)) - _means(before.sum(axis=0))
    resampled = _means(resamples(len(after), n, 2) @ after) - _means(
        resamples(len(before), n, 1) @ before
    )
    every = np.concatenate([before, after])
    is_after = (shuffles(len(every), n) >= len(before)).astype(np.float64)
    by_chance = np.abs(_means(is_after @ every) - _means((1 - is_after) @ every))
    n_blocks = min(len(before), len(after))
    intervals = []
    for column, difference in enumerate(found.tolist()):
        interval = block_interval(difference, resampled[:, column], n_blocks, level)
        p = p_value(abs(difference), by_chance[:, column])
        intervals.append(interval.agreeing_with(p <= 1 - level))
    return intervals


def _means(sums: Floats) -> Floats:
    """Divide the sums of the columns by the number of rows, which is the first element."""
    return np.asarray(sums[..., 1:] / sums[..., :1])


@_cached
def exchanges(n_pairs: int) -> Floats:
    """Return exchanges of the two members of pairs, for a permutation test.

    The result has a row for each exchange, with 1 for the pairs whose members are exchanged. All
    possible exchanges are returned, except the one that exchanges none, or a random sample if there
    are more than ``N_RESAMPLES``.
    """
    if 2**n_pairs - 1 <= N_RESAMPLES:
        every = list(itertools.product((0.0, 1.0), repeat=n_pairs))
        return np.array(every[1:]).reshape(-1, n_pairs)
    drawn = np.random.default_rng(1).integers(0, 2, (N_RESAMPLES, n_pairs))
    return drawn.astype(np.float64)


def p_value(found: float, by_chance: Floats) -> float:
    """Return the p-value of a permutation test.

    It is the share of the outcomes under the null hypothesis, `by_chance`, that are at least as
    large as the outcome `found`, which counts as one of them.
    """
    margin = 1e-9 * max(1.0, abs(found))
    as_large = np.count_nonzero(by_chance >= found - margin)
    return float((1 + as_large) / (1 + len(by_chance)))


def paired_p_value(differences: Floats) -> float:
    """Test whether the sum of paired differences is positive, and return the one-sided p-value.

    `differences` has shape (blocks,). Under the null hypothesis, the two sides can be exchanged in
    each block, which changes the sign of its difference.
    """
    found = float(differences.sum())
    return p_value(found, found - 2 * exchanges(len(differences)) @ differences)


def holm(p_values: Sequence[float] | Floats) -> Floats:
    """Correct the p-values of several tests so that they hold simultaneously (Holm, 1979)."""
    p = np.asarray(p_values, float)
    order = np.argsort(p)
    corrected = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    result = np.empty_like(p)
    result[order] = np.minimum(corrected, 1.0)
    return result


def p_value_of(interval: Interval, expected: float, n: int) -> float:
    """Return the two-sided p-value of the hypothesis that the true value is `expected`.

    `interval` is Student's t interval of `n` values. If it was computed for logarithms, both it and
    `expected` must be logarithms.
    """
    from scipy.special import stdtr

    end = interval.low if expected < interval.value else interval.high
    error = abs(end - interval.value) / student_t((1 + LEVEL) / 2, n - 1)
    if not error:
        return float(expected == interval.value)
    return float(2 * stdtr(n - 1, -abs(interval.value - expected) / error))
