# SPDX-License-Identifier: MIT
"""Confidence intervals and significance tests. All statistics of the project are in this module.

All functions take arrays. There are four rules:

- *Three or more seeds*: Student's t over the values of the seeds (:func:`mean_interval`). Each seed
  has its own drives, load and models, so seeds are the only independent repetitions. Latencies and
  ratios of two latencies are first converted to logarithms, because seeds differ by factors and the
  result must not depend on which of two policies is the numerator. A statistic of the reads of all
  seeds together (a mean, a percentile) is treated in the same way through its jackknife
  pseudo-values (:func:`jackknife_interval`).
- *Two seeds*: no interval. An interval by Student's t with one degree of freedom reaches nine
  standard deviations to either side of the mean, so it excludes almost nothing.
- *One seed*: a bootstrap over blocks of time (:func:`block_interval`). Consecutive reads share a
  burst, so single reads must not be resampled. A block lasts at least ``BLOCK_S``, which is longer
  than the pauses of a drive. With fewer than ``MIN_BLOCKS`` blocks there is no interval
  (:func:`block_numbers`). Such an interval applies only to these drives and this period of the
  load.
- *A decision*: a permutation test (:func:`exchanges`, :func:`p_value`). If two models, or the two
  positions of a switch, are equally good, their results in a block are exchangeable. The test is
  exact for any distribution of latencies. If several cases are tested at once, :func:`holm`
  corrects their p-values.

The nominal coverage of the intervals is 95 %. tests/unit/test_stats.py measures their actual
coverage (2,000 trials each, two binomial standard errors are 1.0 %) for normal values and for
skewed values. A skewed value is 1, and in three of ten values a burst adds 5 on average::

    Student's t       3 seeds: normal 94.8 %, bursts 56.7 %
    Student's t       5 seeds: normal 95.8 %, bursts 68.7 %
    Student's t      20 seeds: normal 95.8 %, bursts 84.2 %
    block bootstrap  8 blocks: normal 93.8 %, bursts 77.0 %
    block bootstrap 20 blocks: normal 95.6 %, bursts 87.0 %

The mean of a few skewed values is therefore less certain than its interval suggests: if no value
had a burst, the true mean is higher than the interval. The differences between two sides that both
have bursts are symmetric, and no test of this module rejects a true null hypothesis more often than
its level on either kind of data.
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

#: With fewer blocks the coverage of the bootstrap is too low and a permutation test rarely rejects.
#: More blocks than the maximum do not improve the result. In a long recording, blocks are longer
#: than ``BLOCK_S`` instead.
MIN_BLOCKS, MAX_BLOCKS = 8, 20

N_RESAMPLES = 4000

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A value and its confidence interval. The ends are NaN if no interval can be computed."""

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
    # SciPy takes a second to load. Commands that compute no interval do not have to wait for it.
    from scipy.stats import t

    return float(t.ppf(share, freedom))


def mean_interval(values: Sequence[float] | Floats, level: float = LEVEL) -> Interval:
    """Return Student's t interval of the mean of three or more independent values, such as seeds.

    NaN values are ignored. With fewer than three values the interval is unknown.

    Parameters
    ----------
    values : array-like, shape (n,)
    level : float
        Nominal coverage.

    Returns
    -------
    Interval
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
    """Return Student's t interval of a statistic of the data of all seeds together.

    `whole` is the statistic, and `without` holds its values if one seed at a time is left out. For
    the mean over seeds of equal size, the result is that of :func:`mean_interval`.
    """
    n = len(without)
    around = mean_interval(n * whole - (n - 1) * np.asarray(without, float), level)
    return Interval(whole, whole + around.low - around.value, whole + around.high - around.value)


def positive_mean_interval(values: Sequence[float] | Floats) -> Interval:
    """Return the interval of a mean of values that differ by factors, computed on its logarithm."""
    known = np.asarray(values, float)
    known = known[~np.isnan(known)]
    if len(known) < 3:
        return mean_interval(known)
    without = (known.sum() - known) / (len(known) - 1)
    around = jackknife_interval(math.log(known.mean()), np.log(without))
    return Interval(float(known.mean()), math.exp(around.low), math.exp(around.high))


def quantile_interval(values: Sequence[float] | Floats, share: float = 0.5) -> Interval:
    """Return a quantile of independent values and the distribution-free interval that contains it.

    The ends are two of the values, and the coverage is at least 95 %: the number of values below a
    quantile has a binomial distribution, whatever the distribution of the values.
    """
    from scipy.stats import binom

    known = np.sort(np.asarray(values, float))
    known = known[~np.isnan(known)]
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
    """Return how many blocks of ``BLOCK_S`` fit into a period, up to `most`, or 0 if too few."""
    n = min(most, int(span_ns / (BLOCK_S * 1e9)))
    return n if n >= MIN_BLOCKS else 0


def block_numbers(time_ns: npt.NDArray[Any], min_rows: int = 1) -> npt.NDArray[np.int64] | None:
    """Return the block of time of each row, or None if there are too few blocks for a statistic.

    Parameters
    ----------
    time_ns : array, shape (n,)
        Time of each row.
    min_rows : int
        Minimum number of rows per block, on average.

    Returns
    -------
    int64 array, shape (n,), or None
        All blocks have the same length, and :func:`count_blocks` gives their number. Blocks without
        rows are not numbered.
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


def _kept(draw: Callable[..., npt.NDArray[Any]]) -> Callable[..., npt.NDArray[Any]]:
    """Cache the result of a function of integers. The cached array is read-only."""

    @functools.lru_cache(maxsize=8)
    @functools.wraps(draw)
    def drawn(*numbers: int) -> npt.NDArray[Any]:
        found = draw(*numbers)
        found.flags.writeable = False
        return found

    return drawn


@_kept
def resamples(n_blocks: int, n: int = N_RESAMPLES, seed: int = 1) -> Floats:
    """Return how often each block occurs in each bootstrap resample, shape (n, n_blocks)."""
    share = np.full(n_blocks, 1 / n_blocks)
    return np.random.default_rng(seed).multinomial(n_blocks, share, n).astype(np.float64)


@_kept
def shuffles(n_blocks: int, n: int, seed: int = 1) -> npt.NDArray[np.int64]:
    """Return random permutations of blocks, shape (n, n_blocks)."""
    every = np.tile(np.arange(n_blocks), (n, 1))
    return np.random.default_rng(seed).permuted(every, axis=1)


def tail(n_blocks: int, level: float = LEVEL) -> float:
    """Return the share of the resamples beyond each end of an interval.

    It is less than half of ``1 - level``: resamples of n blocks vary less than the true statistic,
    by a factor of sqrt(1 - 1 / n), and the normal distribution has lighter tails than Student's t.
    This is the expanded percentile interval (Hesterberg, The American Statistician 69:4, 2015,
    section 5.3).
    """
    from scipy.stats import norm

    t = student_t((1 + level) / 2, n_blocks - 1)
    return float(norm.cdf(-t * math.sqrt(n_blocks / (n_blocks - 1))))


def block_interval(
    value: float, resampled: Floats, n_blocks: int, level: float = LEVEL
) -> Interval:
    """Return the interval of a statistic, given its values in resamples of `n_blocks` blocks."""
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
    """Return intervals of the differences of two recordings' means, for each column but the first.

    The intervals are wide enough that `n_tests` of them hold simultaneously. An interval excludes
    zero only if a permutation test agrees, that is, if exchanging blocks between the recordings at
    random rarely makes as large a difference. The bootstrap alone excludes zero too often if a few
    blocks have long bursts.

    Parameters
    ----------
    before, after : array, shape (blocks, 1 + columns)
        For each block of time, its number of rows, then the sums of the columns over them.
    n_tests : int

    Returns
    -------
    list of Interval
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
    """Return which pairs have their two members exchanged, shape (exchanges, n_pairs), as 0 and 1.

    All possible exchanges are returned except the one that exchanges none. If there are more than
    `n`, the result is a random sample of `n`.
    """
    if 2**n_pairs - 1 <= n:
        every = list(itertools.product((0.0, 1.0), repeat=n_pairs))
        return np.array(every[1:]).reshape(-1, n_pairs)
    drawn = np.random.default_rng(seed).integers(0, 2, (n, n_pairs))
    return drawn.astype(np.float64)


def p_value(found: float, by_chance: Floats) -> float:
    """Return the share of chance outcomes that are at least `found`, counting `found` itself."""
    margin = 1e-9 * max(1.0, abs(found))
    as_large = np.count_nonzero(by_chance >= found - margin)
    return float((1 + as_large) / (1 + len(by_chance)))


def paired_p_value(differences: Floats) -> float:
    """Return the p-value of a one-sided test that the sum of paired differences is positive.

    There is one difference per block. Under the null hypothesis, the two sides can be exchanged in
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
    """Return the two-sided p-value of `expected`, from a Student's t interval of `n` values.

    For an interval that was computed on logarithms, pass logarithms.
    """
    from scipy.stats import t

    end = interval.low if expected < interval.value else interval.high
    error = abs(end - interval.value) / student_t((1 + LEVEL) / 2, n - 1)
    if not error:
        return float(expected == interval.value)
    return float(2 * t.sf(abs(interval.value - expected) / error, n - 1))
