# SPDX-License-Identifier: MIT
"""Test whether a switch changes latencies, given pairs of time blocks with the switch off and on.

Reads at about the same time are alike, so the block is the unit, not the read. The order within
each pair of consecutive blocks is chosen at random. If the switch has no effect, the two blocks of
a pair are exchangeable, whatever the load does: the difference between all `on` and all `off`
blocks is then one of the differences that exchanging blocks within pairs gives. This is the
permutation test of a randomised experiment (Fisher, The Design of Experiments, 1935, section 21),
which makes no assumption about the distribution of latencies.

An interval contains all factors that the test does not reject after the latencies with `on` have
been divided by them. For the mean, all latencies are divided. For a percentile, only those near it
are divided, because the median has its own factor. Whether the interval excludes 1 is decided by
the test of no effect, which needs no such factor.

A trial has several interim analyses and may end at each of them. Each analysis has its share of the
5 % error, so that at most 5 % of all trials have a wrong result at any analysis (Bonferroni's
inequality, in the form of a spending function: Lan and DeMets, Biometrika 70:3, 1983). The final
analysis has half of it, the earlier ones share the other half. Mean and 99th percentile use half of
each share, so that both hold simultaneously.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import stats

#: Maximum share of trials with a wrong interval.
ERROR = 0.05

#: Bins with a width of 4.4 %, from 1 us to two minutes. Reads are assumed to be evenly distributed
#: within a bin.
STEPS_PER_OCTAVE = 16
N_BINS = 27 * STEPS_PER_OCTAVE

#: With fewer pairs there are too few possible exchanges for the final analysis to be significant.
MIN_PAIRS = 8
#: With fewer pairs an interim analysis of a day's trial could not reach its significance level.
_FIRST_LOOK = 12
_LOOK_EVERY = 1.5

#: The smallest significance level, about 0.1 %, is then estimated with a standard error of about
#: half of it.
N_EXCHANGES = 4000

#: Minimum power (probability of a significant final result) for continuing a trial.
FUTILITY_POWER = 0.1

#: Search range and precision of the ends of intervals, in octaves.
_FARTHEST, _NEAREST = 20.0, 0.002

#: Latency statistics by name. The first two are tested, the last one is only displayed.
MEASURES: dict[str, float | None] = {"p99": 0.99, "mean": None, "p50": 0.5}
DECIDING = ("p99", "mean")

Floats = npt.NDArray[np.float64]


def bins_of(latency_us: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the number of latencies in each bin, shape (N_BINS,)."""
    bins = np.log2(np.maximum(latency_us, 1.0)) * STEPS_PER_OCTAVE
    return np.bincount(np.minimum(bins.astype(np.int64), N_BINS - 1), minlength=N_BINS)


def looks(n_pairs: int) -> list[int]:
    """Return the numbers of pairs after which a trial is analysed, including the final analysis."""
    found, at = [], float(_FIRST_LOOK)
    while at * math.sqrt(_LOOK_EVERY) < n_pairs:
        found.append(round(at))
        at *= _LOOK_EVERY
    return [*found, n_pairs]


def alpha_of_analysis(n_pairs: int, *, last: bool) -> float:
    """Return the significance level of one analysis, for each tested statistic.

    `n_pairs` is the number of pairs at the final analysis, and `last` selects that analysis.
    """
    earlier = len(looks(n_pairs)) - 1
    share = ERROR / len(DECIDING)
    return share if not earlier else share / 2 / (1 if last else earlier)


@dataclasses.dataclass(frozen=True)
class Effect:
    """Effect of the switch on a latency statistic, as a factor."""

    off_us: float
    on_us: float
    #: `low`, `high`: confidence interval of on / off.
    low: float
    high: float
    #: Probability that the final interval excludes 1 if the true effect is at the far end of the
    #: likely range.
    power: float

    @property
    def factor(self) -> float:
        """Ratio of on to off."""
        return self.on_us / self.off_us

    @property
    def is_decided(self) -> bool:
        """True if the interval excludes "no change"."""
        return not self.low <= 1 <= self.high

    @property
    def is_done(self) -> bool:
        """True if the result is significant, or is unlikely to become significant."""
        return self.is_decided or self.power < FUTILITY_POWER


class PairedBlocks:
    """Latencies of reads in pairs of blocks.

    Parameters
    ----------
    counts : array, shape (pairs, 2, N_BINS)
        Histograms of the latencies: off first, then on, regardless of their order in time.
    sums_us : array, shape (pairs, 2)
        Sums of the latencies.
    """

    def __init__(self, counts: npt.NDArray[Any], sums_us: Floats) -> None:
        self.n_pairs = len(counts)
        self._below = np.cumsum(counts, axis=-1, dtype=np.float64)
        self._sums_us = np.asarray(sums_us, np.float64)

    @functools.cached_property
    def _exchanged(self) -> Floats:
        """The pairs whose blocks are exchanged. They are the same in every run."""
        return stats.exchanges(self.n_pairs, N_EXCHANGES)

    @property
    def reads(self) -> tuple[int, int]:
        """Number of reads with the switch off and on."""
        off, on = self._below[:, :, -1].sum(axis=0)
        return int(off), int(on)

    def latencies_us(self, measure: str) -> tuple[float, float]:
        """Return a statistic of all reads with the switch off, and on, in us.

        Raises
        ------
        ValueError
            If there are no reads with off, or with on.
        """
        if not all(self.reads):
            raise ValueError("no reads with off, or with on")
        off, on = _logs(measure, self._parts(measure, 0.0).sum(axis=0)).tolist()
        return 2.0**off, 2.0**on

    def p_value(self, measure: str, octaves: float = 0.0) -> float:
        """Return how often exchanging blocks gives as large a difference in `measure` by chance.

        Parameters
        ----------
        measure : {"p99", "mean", "p50"}
        octaves : float
            Effect under the null hypothesis: the switch makes latencies longer by this much.
        """
        found, exchanged = self._differences(measure, octaves)
        return stats.p_value(abs(found), np.abs(exchanged))

    def effect(self, measure: str, error: float, of_pairs: int) -> Effect:
        """Return the effect of the switch.

        Parameters
        ----------
        measure : {"p99", "mean", "p50"}
        error : float
            Probability that the interval is wrong.
        of_pairs : int
            Number of pairs at the final analysis.
        """
        off_us, on_us = self.latencies_us(measure)
        octaves = math.log2(on_us / off_us)

        def is_possible(there: float) -> bool:
            return self.p_value(measure, there) > error

        low, high = (_farthest(octaves, side, is_possible) for side in (-1, 1))
        if is_possible(0.0):  # The test of no effect is valid for any distribution, so it decides.
            low, high = min(low, 0.0), max(high, 0.0)
        _, exchanged = self._differences(measure, octaves)
        power = _power(octaves, float(exchanged.std()), self.n_pairs / of_pairs, of_pairs)
        return Effect(off_us, on_us, 2.0**low, 2.0**high, power)

    def _parts(self, measure: str, octaves: float) -> Floats:
        """Return the sums of each block, `on` made faster by `octaves`; shape (pairs, 2, k)."""
        share = MEASURES[measure]
        if share is None:
            sums = self._sums_us * (1.0, 2.0**-octaves)
            return np.stack([self._below[..., -1], sums], axis=-1)
        off, on = self._below[:, 0], self._below[:, 1]
        return np.stack([off, _made_alike(off, on, share, octaves) if octaves else on], axis=1)

    def _differences(self, measure: str, octaves: float) -> tuple[float, Floats]:
        """Return by how many octaves on is slower: as observed, and with blocks exchanged."""
        parts = self._parts(measure, octaves)
        if MEASURES[measure] is not None:
            # Bins that are zero, or have reached the total, on all sides need not be summed.
            every = parts.sum(axis=(0, 1))
            parts = parts[..., : 1 + np.searchsorted(every, every[-1])]
            parts = parts[..., np.searchsorted(every, 0, "right") :]
        off, on = parts.sum(axis=0)
        moved = self._exchanged @ (parts[:, 1] - parts[:, 0])
        found = _logs(measure, np.stack([off, on]))
        return float(found[1] - found[0]), _logs(measure, on - moved) - _logs(measure, off + moved)


def _logs(measure: str, sides: Floats) -> Floats:
    """Return the base-2 logarithm of a statistic; shape (...) for sums of shape (..., k)."""
    share = MEASURES[measure]
    if share is not None:
        return _quantile_logs(sides, share)
    # A side without reads has no latency. It is treated as equal.
    return np.asarray(np.log2(np.maximum(sides[..., 1], 1) / np.maximum(sides[..., 0], 1)))


def _quantile_logs(below: Floats, share: float) -> Floats:
    """Return the logarithms of a quantile; `below`, shape (..., N_BINS), is cumulative."""
    wanted = share * below[..., -1:]
    at = np.minimum(np.count_nonzero(below < wanted, axis=-1)[..., None], N_BINS - 1)
    up_to = np.take_along_axis(below, at, -1)
    before = np.where(at > 0, np.take_along_axis(below, np.maximum(at - 1, 0), -1), 0.0)
    inside = (wanted - before) / np.maximum(up_to - before, 1e-9)
    return np.asarray(((at + np.clip(inside, 0, 1)) / STEPS_PER_OCTAVE)[..., 0])


def _made_alike(off: Floats, on: Floats, share: float, octaves: float) -> Floats:
    """Return `on` as it would be if its only effect were to make a quantile longer by `octaves`.

    The median of `on` is moved to that of `off`, its quantile is made shorter by `octaves`, and the
    latencies in between are moved proportionally. Both histograms are cumulative.
    """
    sides = np.stack([off.sum(axis=0), on.sum(axis=0)])
    medians, quantiles = _quantile_logs(sides, 0.5), _quantile_logs(sides, share)
    edges = np.arange(N_BINS + 1) / STEPS_PER_OCTAVE
    at = (medians[1], max(quantiles[1], medians[1] + 1e-3))
    moved = edges - np.interp(edges, at, (medians[1] - medians[0], octaves))
    # The order of latencies is preserved.
    places = np.interp(edges[1:], np.maximum.accumulate(moved), edges) * STEPS_PER_OCTAVE
    lower = np.minimum(places.astype(np.int64), N_BINS - 1)
    padded = np.concatenate([np.zeros((len(on), 1)), on], axis=-1)
    weight = places - lower
    alike = padded[:, lower] * (1 - weight) + padded[:, lower + 1] * weight
    alike[:, -1] = on[:, -1]
    return np.asarray(alike)


def _farthest(start: float, side: int, is_possible: Callable[[float], bool]) -> float:
    """Return the end of the interval on one side, starting from a value inside the interval."""
    inside, step = start, 0.05
    while step < _FARTHEST and is_possible(start + side * step):
        inside = start + side * step
        step *= 2
    outside = start + side * step
    while abs(outside - inside) > _NEAREST:
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if is_possible(middle) else (inside, middle)
    return outside


def _power(octaves: float, error: float, done: float, of_pairs: int) -> float:
    """Return the probability that the final analysis is significant (stochastic curtailment).

    See Lan, Simon and Halperin, Sequential Analysis 1:3, 1982. The true effect is assumed to be one
    standard error larger than the observed one. `done` is the share of the pairs that is complete.
    """
    if done >= 1:
        return 0.0
    if not error:
        return 0.0 if not octaves else 1.0
    needed = -stats.normal_quantile(alpha_of_analysis(of_pairs, last=True) / 2)
    return stats.conditional_power(abs(octaves) / error, done, needed)
