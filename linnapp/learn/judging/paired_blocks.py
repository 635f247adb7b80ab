# SPDX-License-Identifier: MIT
"""Whether a switch changes latencies, from blocks of time with it off and on, in pairs.

Reads of one time are alike, so the block is the unit and not the read. Each pair of blocks that
follow each other has its order drawn by lot. If the switch does nothing, either block of a pair
could as well have been the other, whatever the load did meanwhile: the difference between all `on`
and all `off` blocks is then one of those that exchanging the blocks of pairs gives. That is the
permutation test of a randomised experiment (Fisher, The Design of Experiments, 1935, section 21),
which asks nothing of how latencies are distributed.

An interval holds all factors that the test does not reject, once the latencies with `on` have been
divided by them: of the mean, all; of a percentile, those near it, for the median has a factor of
its own. Whether it leaves out that nothing changes is the test's word, which needs no such factor.

It is looked at several times, and may end at any look. Each look has its share of the 5 %, so that
all together are wrong in at most so many of a hundred trials (Bonferroni's inequality, as spending
functions have it: Lan and DeMets, Biometrika 70:3, 1983): half for the last look, the other half
for those before. Mean and 99th percentile have half of that each, so that both hold together.
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

#: Of wrong intervals, in a hundred trials.
ERROR = 0.05

#: Bins of 4.4 %, from 1 us to two minutes; within one, reads are spread evenly.
STEPS_PER_OCTAVE = 16
N_BINS = 27 * STEPS_PER_OCTAVE

#: With fewer pairs there are too few ways to exchange blocks for the last look to decide.
MIN_PAIRS = 8
#: Before that many the share of a look could not be met, with the looks that a day has.
_FIRST_LOOK = 12
_LOOK_EVERY = 1.5

#: With these the smallest share, a thousandth, is known to a third.
N_EXCHANGES = 4000

#: What the chance to decide by the last look has to be for going on.
FUTILITY_POWER = 0.1

#: Octaves beyond which nothing is looked for, and how exactly.
_FARTHEST, _NEAREST = 20.0, 0.002

#: Latencies that are asked about, by name; of the first two it is decided, the last is shown.
MEASURES: dict[str, float | None] = {"p99": 0.99, "mean": None, "p50": 0.5}
DECIDING = ("p99", "mean")

Floats = npt.NDArray[np.float64]


def bins_of(latency_us: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """How many latencies are in each bin; shape (N_BINS,)."""
    bins = np.log2(np.maximum(latency_us, 1.0)) * STEPS_PER_OCTAVE
    return np.bincount(np.minimum(bins.astype(np.int64), N_BINS - 1), minlength=N_BINS)


def bin_edges_us() -> Floats:
    """Where bins begin, and where the last one ends."""
    return np.asarray(2.0 ** (np.arange(N_BINS + 1) / STEPS_PER_OCTAVE))


def looks(n_pairs: int) -> list[int]:
    """After how many pairs it is looked, the last one after all."""
    found, at = [], float(_FIRST_LOOK)
    while at * math.sqrt(_LOOK_EVERY) < n_pairs:
        found.append(round(at))
        at *= _LOOK_EVERY
    return [*found, n_pairs]


def alpha_of_analysis(n_pairs: int, *, last: bool) -> float:
    """What a look of a trial of so many pairs has of the 5 %, for each latency decided on."""
    earlier = len(looks(n_pairs)) - 1
    share = ERROR / len(DECIDING)
    return share if not earlier else share / 2 / (1 if last else earlier)


@dataclasses.dataclass(frozen=True)
class Effect:
    """By which factor the switch changes a latency."""

    off_us: float
    on_us: float
    #: `low`, `high`: the interval of on / off.
    low: float
    high: float
    #: The chance to leave out 1 by the last look if it is at the far end of what is likely.
    power: float

    @property
    def factor(self) -> float:
        """On / off."""
        return self.on_us / self.off_us

    @property
    def is_decided(self) -> bool:
        """Whether the interval leaves out that nothing changes."""
        return not self.low <= 1 <= self.high

    @property
    def is_done(self) -> bool:
        """Whether it is decided, or will hardly be."""
        return self.is_decided or self.power < FUTILITY_POWER


class PairedBlocks:
    """Latencies of reads in pairs of blocks.

    Parameters
    ----------
    counts : array, shape (pairs, 2, N_BINS)
        Reads by latency; off first, then on, in whichever order they were.
    sums_us : array, shape (pairs, 2)
        Latencies added up.
    """

    def __init__(self, counts: npt.NDArray[Any], sums_us: Floats) -> None:
        self.n_pairs = len(counts)
        self._below = np.cumsum(counts, axis=-1, dtype=np.float64)
        self._sums_us = np.asarray(sums_us, np.float64)

    @functools.cached_property
    def _exchanged(self) -> Floats:
        """Which pairs have their blocks exchanged; the same in each run."""
        return stats.exchanges(self.n_pairs, N_EXCHANGES)

    @property
    def reads(self) -> tuple[int, int]:
        """With off, and with on."""
        off, on = self._below[:, :, -1].sum(axis=0)
        return int(off), int(on)

    def latencies_us(self, measure: str) -> tuple[float, float]:
        """With off, and with on, of all reads of all blocks."""
        if not all(self.reads):
            raise ValueError("no reads with off, or with on")
        off, on = _logs(measure, self._parts(measure, 0.0).sum(axis=0)).tolist()
        return 2.0**off, 2.0**on

    def p_value(self, measure: str, octaves: float = 0.0) -> float:
        """How often exchanging blocks makes as large a difference in p99, mean or p50, by chance.

        Latencies with on are supposed to be longer by `octaves`.
        """
        found, exchanged = self._differences(measure, octaves)
        return stats.p_value(abs(found), np.abs(exchanged))

    def effect(self, measure: str, error: float, of_pairs: int) -> Effect:
        """What the switch changes.

        `error` is the chance that the interval is wrong, `of_pairs` how many there will be at the
        last look.
        """
        off_us, on_us = self.latencies_us(measure)
        octaves = math.log2(on_us / off_us)

        def is_possible(there: float) -> bool:
            return self.p_value(measure, there) > error

        low, high = (_farthest(octaves, side, is_possible) for side in (-1, 1))
        if is_possible(0.0):  # what the test of no effect says holds for any distribution
            low, high = min(low, 0.0), max(high, 0.0)
        _, exchanged = self._differences(measure, octaves)
        power = _power(octaves, float(exchanged.std()), self.n_pairs / of_pairs, of_pairs)
        return Effect(off_us, on_us, 2.0**low, 2.0**high, power)

    def _parts(self, measure: str, octaves: float) -> Floats:
        """What is added up over the blocks of a side, on made shorter; shape (pairs, 2, k)."""
        share = MEASURES[measure]
        if share is None:
            sums = self._sums_us * (1.0, 2.0**-octaves)
            return np.stack([self._below[..., -1], sums], axis=-1)
        off, on = self._below[:, 0], self._below[:, 1]
        return np.stack([off, _made_alike(off, on, share, octaves) if octaves else on], axis=1)

    def _differences(self, measure: str, octaves: float) -> tuple[float, Floats]:
        """By how many octaves on is longer: as it was, and with blocks exchanged at random."""
        parts = self._parts(measure, octaves)
        if MEASURES[measure] is not None:
            # Where nobody has any, or all have all, nothing is added up: differences stay.
            every = parts.sum(axis=(0, 1))
            parts = parts[..., : 1 + np.searchsorted(every, every[-1])]
            parts = parts[..., np.searchsorted(every, 0, "right") :]
        off, on = parts.sum(axis=0)
        moved = self._exchanged @ (parts[:, 1] - parts[:, 0])
        found = _logs(measure, np.stack([off, on]))
        return float(found[1] - found[0]), _logs(measure, on - moved) - _logs(measure, off + moved)


def _logs(measure: str, sides: Floats) -> Floats:
    """A latency's logarithm to the base of 2; shape (...) of (..., k)."""
    share = MEASURES[measure]
    if share is not None:
        return _quantile_logs(sides, share)
    # A side without reads has no latency: it differs in nothing.
    return np.asarray(np.log2(np.maximum(sides[..., 1], 1) / np.maximum(sides[..., 0], 1)))


def _quantile_logs(below: Floats, share: float) -> Floats:
    """Logarithms of a quantile; `below`, shape (..., N_BINS), is cumulative."""
    wanted = share * below[..., -1:]
    at = np.minimum(np.count_nonzero(below < wanted, axis=-1)[..., None], N_BINS - 1)
    up_to = np.take_along_axis(below, at, -1)
    before = np.where(at > 0, np.take_along_axis(below, np.maximum(at - 1, 0), -1), 0.0)
    inside = (wanted - before) / np.maximum(up_to - before, 1e-9)
    return np.asarray(((at + np.clip(inside, 0, 1)) / STEPS_PER_OCTAVE)[..., 0])


def _made_alike(off: Floats, on: Floats, share: float, octaves: float) -> Floats:
    """What on would be if all that it did were to make a quantile longer by so many octaves.

    Its median is laid on that of off, its quantile is made shorter by `octaves`, and what is
    between in proportion. Both are cumulative.
    """
    sides = np.stack([off.sum(axis=0), on.sum(axis=0)])
    medians, quantiles = _quantile_logs(sides, 0.5), _quantile_logs(sides, share)
    edges = np.arange(N_BINS + 1) / STEPS_PER_OCTAVE
    at = (medians[1], max(quantiles[1], medians[1] + 1e-3))
    moved = edges - np.interp(edges, at, (medians[1] - medians[0], octaves))
    # Nothing overtakes.
    places = np.interp(edges[1:], np.maximum.accumulate(moved), edges) * STEPS_PER_OCTAVE
    lower = np.minimum(places.astype(np.int64), N_BINS - 1)
    padded = np.concatenate([np.zeros((len(on), 1)), on], axis=-1)
    weight = places - lower
    alike = padded[:, lower] * (1 - weight) + padded[:, lower + 1] * weight
    alike[:, -1] = on[:, -1]
    return np.asarray(alike)


def _farthest(start: float, side: int, is_possible: Callable[[float], bool]) -> float:
    """The end of the interval on one side, from a value that is in it."""
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
    """The chance that the last look decides (stochastic curtailment).

    Lan, Simon and Halperin, Sequential Analysis 1:3, 1982: what comes is supposed to be the
    difference that was found, and one standard error more. `done` is the share of the pairs that
    are.
    """
    if done >= 1:
        return 0.0
    if not error:
        return 0.0 if not octaves else 1.0
    needed = -stats.normal_quantile(alpha_of_analysis(of_pairs, last=True) / 2)
    return stats.conditional_power(abs(octaves) / error, done, needed)
