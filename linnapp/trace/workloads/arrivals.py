# SPDX-License-Identifier: MIT
"""Arrival times of the I/Os of a profile: two processes, and the constraints of their fields.

`TwoState` is a Markov-modulated Poisson process with two states, the simplest process that is
bursty on the time scale of a drive's queue. Its rates are long-run averages.

`Windowed` reproduces its mean rate and the rate of its busiest 10 seconds even in a trace of a few
minutes. Each window of 10 s has a rate, from a distribution with both properties, and within the
windows there are clumps of I/Os that arrive within milliseconds. Numbers that can be apportioned
are not drawn at random, so that these properties of a trace do not depend on its seed.

Both processes can be correlated across the drives of an array. The process of a single drive is the
same whatever the correlation is.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from linnapp.errors import LinnappError

#: The window of `linnapp inspect`, which measures the busiest window.
WINDOW_S = 10
_WINDOW_US = WINDOW_S * 1_000_000

#: Number of arrivals drawn at a time, which bounds memory use whatever the duration.
BATCH = 1 << 16

#: Number of clumps drawn at a time. Drives with different rates remain synchronised, whatever part
#: of the last batch they use.
_CLUMPS = 1024

_SHORTEST_MS = 0.001

#: Rate of the quietest window, relative to the mean.
_QUIET = 0.2

#: Four months. The rates of all windows are computed at once.
_MOST_WINDOWS = 1 << 20

#: Approximate number of windows over which the rate changes.
_SMOOTH = 3

Times = Iterator[npt.NDArray[np.int64]]
Check = Callable[[bool, str], None]


@dataclasses.dataclass(frozen=True)
class TwoState:
    """Poisson arrivals at the rate of a state that changes. The fields are those of the file."""

    calm_iops: float
    burst_iops: float
    calm_ms: float
    burst_ms: float

    #: The fields and their maxima, which exceed those of any drive.
    most: ClassVar[dict[str, float]] = {
        "calm_iops": 1e9,
        "burst_iops": 1e9,
        "calm_ms": 1e12,
        "burst_ms": 1e12,
    }

    def check(self, check: Check) -> None:
        """Call `check` with each condition, and the message if it is not met."""
        check(
            min(self.calm_iops, self.burst_iops) >= 0 and max(self.calm_iops, self.burst_iops) > 0,
            "calm_iops and burst_iops must not be negative, and one of them positive",
        )
        check(
            min(self.calm_ms, self.burst_ms) >= _SHORTEST_MS,
            f"calm_ms and burst_ms must be at least {_SHORTEST_MS}",
        )

    @property
    def mean_iops(self) -> float:
        """Long-run average of arrivals per second."""
        busy = self.calm_iops * self.calm_ms + self.burst_iops * self.burst_ms
        return busy / (self.calm_ms + self.burst_ms)

    def times(
        self,
        duration_s: float,
        correlation: float,
        rng: np.random.Generator,
        shared: np.random.SeedSequence | None,
    ) -> Times:
        """Yield arrival times in us, in batches of complete stays in a state."""
        end_us = duration_s * 1e6
        now_us = 0.0
        batch: list[npt.NDArray[np.float64]] = []
        n_batch = 0
        if correlation and shared is not None:
            stays = self._correlated_stays(end_us, correlation, rng, shared)
        else:
            stays = self._stays(end_us, rng)
        for stay_end_us, burst in stays:
            stay_us = stay_end_us - now_us
            # Given its count, a Poisson process is that number of uniform times in order.
            n = rng.poisson((self.burst_iops if burst else self.calm_iops) * stay_us / 1e6)
            batch.append(now_us + np.sort(rng.random(n)) * stay_us)
            n_batch += n
            if n_batch >= BATCH:
                yield np.concatenate(batch).astype(np.int64)
                batch, n_batch = [], 0
            now_us = stay_end_us
        if n_batch:
            yield np.concatenate(batch).astype(np.int64)

    def _stays(self, end_us: float, rng: np.random.Generator) -> Iterator[_Stay]:
        """Yield the stays of the two-state process, which begins in the calm state."""
        now_us = 0.0
        burst = False
        while now_us < end_us:
            mean_ms = self.burst_ms if burst else self.calm_ms
            now_us = min(now_us + rng.exponential(mean_ms * 1e3), end_us)
            yield now_us, burst
            burst = not burst

    def _correlated_stays(
        self,
        end_us: float,
        correlation: float,
        rng: np.random.Generator,
        shared: np.random.SeedSequence,
    ) -> Iterator[_Stay]:
        """Yield the stays of a drive's own process, or of the shared one.

        The shared process is used for `correlation` of the time. All drives change between the
        processes at the same times, about every ten bursts. This is rare enough not to change the
        lengths of the stays.
        """
        process, choice = (_shared_rng(shared, child) for child in range(2))
        own, common = self._stays(end_us, rng), self._stays(end_us, process)
        own_end_us, own_burst = next(own)
        common_end_us, common_burst = next(common)
        epoch_us = 1e4 * (self.calm_ms + self.burst_ms)
        follow_end_us, follows = 0.0, False
        now_us = 0.0
        while now_us < end_us:
            while follow_end_us <= now_us:
                follow_end_us = now_us + choice.exponential(epoch_us)
                follows = choice.random() < correlation
            now_us = min(own_end_us, common_end_us, follow_end_us, end_us)
            yield now_us, common_burst if follows else own_burst
            if now_us >= end_us:
                break
            if now_us == own_end_us:
                own_end_us, own_burst = next(own)
            if now_us == common_end_us:
                common_end_us, common_burst = next(common)


#: A period in which the state does not change: its end (us), and whether it is a burst.
_Stay = tuple[float, bool]


@dataclasses.dataclass(frozen=True)
class Windowed:
    """A rate for each 10 s, and clumps within them. The fields are those of the file."""

    iops_mean: float
    iops_max_10s: float
    clump_ios: float
    clump_ms: float

    #: The fields and their maxima, which exceed those of any drive or a sensible batch.
    most: ClassVar[dict[str, float]] = {
        "iops_mean": 1e7,
        "iops_max_10s": 1e7,
        "clump_ios": 1e5,
        "clump_ms": 1000,
    }

    def check(self, check: Check) -> None:
        """Call `check` with each condition, and the message if it is not met."""
        check(self.iops_mean > 0, f"iops_mean {self.iops_mean} is not positive")
        check(
            self.iops_max_10s >= self.iops_mean,
            f"iops_max_10s {self.iops_max_10s} is below iops_mean {self.iops_mean}; the busiest "
            "10 s have at least the mean",
        )
        check(self.clump_ios >= 1, f"clump_ios {self.clump_ios} is below 1, an I/O alone")
        check(
            self.clump_ms >= _SHORTEST_MS,
            f"clump_ms {self.clump_ms} is below {_SHORTEST_MS}, the time's resolution",
        )

    @property
    def mean_iops(self) -> float:
        """Arrivals per second, in any whole trace."""
        return self.iops_mean

    @property
    def shortest_s(self) -> float:
        """Minimum duration in s of a trace whose busiest window has `iops_max_10s`."""
        windows = (self.iops_max_10s / self.iops_mean - _QUIET) / (1 - _QUIET)
        return math.ceil(windows - 1e-9) * WINDOW_S

    def rates(self, n_windows: int) -> npt.NDArray[np.float64]:
        """Return the rates of the windows in ascending order, as a power of their rank.

        Their mean is `iops_mean` and the last is `iops_max_10s`. If there are too few windows for
        this, the last is the rate that the mean permits if all others have the lowest rate.
        """
        if n_windows <= 1:
            return np.full(n_windows, self.iops_mean)
        low = _QUIET * self.iops_mean
        high = min(self.iops_max_10s, low + (self.iops_mean - low) * n_windows)
        place = np.arange(1, n_windows + 1) / n_windows
        if high > low:
            share = (self.iops_mean - low) / (high - low)
            exponent = _bisect(lambda k: float(np.mean(place**k)) - share, 0.0, 1e6)
            place = place**exponent
        rates: npt.NDArray[np.float64] = low + (high - low) * place
        return rates

    def times(
        self,
        duration_s: float,
        correlation: float,
        rng: np.random.Generator,
        shared: np.random.SeedSequence | None,
    ) -> Times:
        """Yield arrival times in us, in batches of complete clumps."""
        n_full = int(duration_s // WINDOW_S)
        if n_full > _MOST_WINDOWS:
            raise LinnappError(
                f"a duration of {duration_s:g} s: profiles with iops_max_10s have at most "
                f"{_MOST_WINDOWS * WINDOW_S} s; make several, with different seeds"
            )
        rates = np.append(self._ordered(n_full, correlation, rng, shared), self.iops_mean)
        lengths_us = np.full(n_full + 1, float(_WINDOW_US))
        lengths_us[-1] = duration_s * 1e6 - n_full * _WINDOW_US
        # Counts are apportioned, not random: their sum is that of the mean, and each follows its
        # rate.
        counts = np.diff(np.floor(np.cumsum(rates * lengths_us / 1e6) + 0.5), prepend=0)
        for window, (count, length_us) in enumerate(zip(counts, lengths_us, strict=True)):
            if count:
                common = None if shared is None else _shared_rng(shared, 1, window)
                clumps = self._clumps(int(count), correlation, rng, common)
                for times in self._window(*clumps, float(length_us), rng, begins=not window):
                    yield times + window * _WINDOW_US

    def _ordered(
        self,
        n_windows: int,
        correlation: float,
        rng: np.random.Generator,
        shared: np.random.SeedSequence | None,
    ) -> npt.NDArray[np.float64]:
        """Return the rates of the windows in order of time, by the ranks of a smooth random walk.

        The values of the walk are normally distributed, and those of two drives are correlated by
        sharing a part of the variance.
        """

        def smooth(source: np.random.Generator) -> npt.NDArray[np.float64]:
            white = source.standard_normal(n_windows + _SMOOTH - 1)
            return np.convolve(white, np.ones(_SMOOTH), "valid")

        if not n_windows:
            return np.empty(0)
        values = math.sqrt(1 - correlation) * smooth(rng)
        if shared is not None:
            values += math.sqrt(correlation) * smooth(_shared_rng(shared, 0))
        rates = np.empty(n_windows)
        rates[np.argsort(values)] = self.rates(n_windows)
        return rates

    def _window(
        self,
        starts: npt.NDArray[np.float64],
        sizes: npt.NDArray[np.int64],
        length_us: float,
        rng: np.random.Generator,
        *,
        begins: bool,
    ) -> Times:
        """Yield the arrivals within a window, in order."""
        spread_us = min(self.clump_ms * 1e3, length_us)
        order = np.argsort(starts)
        starts, sizes = starts[order] * (length_us - spread_us), sizes[order]
        if begins:
            # The windows of a trace are counted from its first I/O, wherever they are measured.
            starts[0] = 0.0
        batches = np.flatnonzero(np.diff(np.cumsum(sizes) // BATCH)) + 1
        held = np.empty(0)
        for first, last in zip([0, *batches], [*batches, len(starts)], strict=True):
            some = np.repeat(starts[first:last], sizes[first:last])
            some += rng.random(len(some)) * spread_us
            held = np.sort(np.concatenate((held, some)))
            # Arrivals after the first of the next batch must wait for it.
            ready = len(held) if last == len(starts) else int(np.searchsorted(held, starts[last]))
            yield np.minimum(held[:ready], np.nextafter(length_us, 0)).astype(np.int64)
            held = held[ready:]

    def _clumps(
        self,
        count: int,
        correlation: float,
        rng: np.random.Generator,
        common: np.random.Generator | None,
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Return clumps of `count` I/Os in total: starts, as shares of the window, and sizes.

        A share of `correlation` of the clumps is the same on all drives.
        """
        starts, sizes = [], []
        left = count
        while left > 0:
            start, size = rng.random(_CLUMPS), rng.geometric(1 / self.clump_ios, _CLUMPS)
            if common is not None:
                follows = common.random(_CLUMPS) < correlation
                start = np.where(follows, common.random(_CLUMPS), start)
                size = np.where(follows, common.geometric(1 / self.clump_ios, _CLUMPS), size)
            total = np.cumsum(size)
            n = min(int(np.searchsorted(total, left)) + 1, _CLUMPS)
            size[n - 1] -= max(int(total[n - 1]) - left, 0)
            starts.append(start[:n])
            sizes.append(size[:n].astype(np.int64))
            left -= int(sizes[-1].sum())
        return np.concatenate(starts), np.concatenate(sizes)


def power_law_sizes(mean_bytes: float, max_bytes: int, unit_bytes: int) -> dict[int, float]:
    """Return sizes and weights with a given mean: a power law over the unit times powers of two."""
    # The last power could equal the maximum, which is appended in any case.
    n_powers = (-(-max_bytes // unit_bytes) - 1).bit_length()
    sizes = np.append(unit_bytes * 2.0 ** np.arange(n_powers), max_bytes)
    logs = np.log(sizes / unit_bytes)

    def weights(slope: float) -> npt.NDArray[np.float64]:
        raw = np.exp(slope * logs - max(0.0, slope * float(logs[-1])))
        return np.asarray(raw / raw.sum())

    slope = _bisect(lambda x: mean_bytes - float(weights(x) @ sizes), -64.0, 64.0)
    return dict(zip(sizes.astype(np.int64).tolist(), weights(slope).tolist(), strict=True))


def _bisect(falling: Callable[[float], float], low: float, high: float) -> float:
    """Return the zero of a decreasing function, or the closer end if there is none in between."""
    for _ in range(100):
        middle = (low + high) / 2
        if falling(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _shared_rng(shared: np.random.SeedSequence, *child: int) -> np.random.Generator:
    # spawn() is not used: its children differ from call to call, but all drives need the same ones.
    return np.random.default_rng(
        np.random.SeedSequence(shared.entropy, spawn_key=(*shared.spawn_key, *child))
    )
