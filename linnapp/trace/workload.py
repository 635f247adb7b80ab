# SPDX-License-Identifier: MIT
"""Generate workloads from profiles (traces/README.md): arrival times, sizes and offsets of I/Os.

:func:`load_profile` reads a profile, and :func:`generate` yields the workload of a drive. Equal
seeds give equal workloads.

The arrivals of a profile are one of two processes:

- :class:`TwoState` is a Markov-modulated Poisson process with two states, the simplest process that
  has bursts on the time scale of a drive's queue. Its rates are long-run averages.
- :class:`Windowed` has a given mean rate and a given rate in the busiest 10 seconds, even in a
  trace of a few minutes. Each window of 10 s has a rate, from a distribution with both properties.
  Within a window, I/Os arrive in clumps that last milliseconds. The number of I/Os in a window and
  the proportions of sizes are not random, so that they do not depend on the seed.

Both processes can be correlated across the drives of an array. The process of a single drive does
not depend on the correlation.

Offsets are in regions. The popularity of the regions follows a power law, and a permutation
scatters popular regions over the drive.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.arguments import check_number, check_options_of, option, options_in
from linnapp.errors import LinnappError
from linnapp.files import explain_os_error, shipped_folder
from linnapp.trace.convert import ALIGNMENT_BYTES, Workload

#: The window of `linnapp inspect`, which measures the busiest window.
WINDOW_S = 10
_WINDOW_US = WINDOW_S * 1_000_000

#: Number of arrivals drawn at a time, which bounds memory use whatever the duration.
BATCH = 1 << 16

#: Number of clumps drawn at a time. Every batch is drawn completely, so that drives with different
#: rates remain synchronised.
_CLUMPS = 1024

_SHORTEST_MS = 0.001

#: Rate of the quietest window, relative to the mean.
_QUIET = 0.2

#: Maximum number of windows, four months. The rates of all windows are computed at once.
_MOST_WINDOWS = 1 << 20

#: Approximate number of windows over which the rate changes.
_SMOOTH = 3

Times = Iterator[npt.NDArray[np.int64]]


@dataclasses.dataclass(frozen=True)
class TwoState:
    """Poisson arrivals at the rate of a state that changes. The fields are those of the file."""

    calm_iops: float = option(MISSING, 0, 1e9)
    burst_iops: float = option(MISSING, 0, 1e9)
    calm_ms: float = option(MISSING, _SHORTEST_MS, 1e12)
    burst_ms: float = option(MISSING, _SHORTEST_MS, 1e12)

    def __post_init__(self) -> None:
        check_options_of(self)
        if not self.calm_iops + self.burst_iops:
            raise ValueError("calm_iops and burst_iops are both 0")

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

    iops_mean: float = option(MISSING, 0, 1e7, open_ends="low")
    iops_max_10s: float = option(MISSING, 0, 1e7)
    clump_ios: float = option(MISSING, 1, 1e5)
    clump_ms: float = option(MISSING, _SHORTEST_MS, 1000)

    def __post_init__(self) -> None:
        check_options_of(self)
        if self.iops_max_10s < self.iops_mean:
            raise ValueError(
                f"iops_max_10s is {self.iops_max_10s}, less than iops_mean, {self.iops_mean}; the "
                "busiest 10 s have at least the mean"
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
            arrivals = np.repeat(starts[first:last], sizes[first:last])
            arrivals += rng.random(len(arrivals)) * spread_us
            held = np.sort(np.concatenate((held, arrivals)))
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


#: Folder of the profiles that are part of the project.
PROFILE_DIR = shipped_folder("profiles", "traces")

#: The kinds of arrival processes, which are recognised by their fields.
_ARRIVALS: tuple[type[TwoState | Windowed], ...] = (TwoState, Windowed)

_SIZES = ("read_sizes", "write_sizes")

_MOST_BYTES = 1 << 60
_MOST_REGIONS = 1 << 26


@dataclasses.dataclass(frozen=True)
class Profile:
    """Statistics of a workload. The fields are those of the file, see traces/README.md."""

    name: str
    description: str
    arrivals: TwoState | Windowed
    read_sizes: dict[int, float]
    write_sizes: dict[int, float]
    drive_bytes: int = option(MISSING, 1, _MOST_BYTES, whole=True)
    read_fraction: float = option(MISSING, 0, 1)
    zipf_exponent: float = option(MISSING, 0, 1, open_ends="high")
    region_bytes: int = option(MISSING, ALIGNMENT_BYTES, _MOST_BYTES, whole=True)
    burst_correlation: float = option(0.0, 0, 1)

    def __post_init__(self) -> None:
        check_options_of(self)
        if self.region_bytes % ALIGNMENT_BYTES:
            raise ValueError(
                f"region_bytes is {self.region_bytes}, not a multiple of {ALIGNMENT_BYTES}"
            )
        for key in _SIZES:
            sizes = getattr(self, key)
            if not all(s > 0 and s % 512 == 0 and s <= self.drive_bytes for s in sizes):
                raise ValueError(f"{key}: sizes must be multiples of 512 that fit the drive")
            if not (min(sizes.values(), default=0) >= 0 < sum(sizes.values()) < math.inf):
                raise ValueError(
                    f"{key}: weights must be finite and not negative, and one of them positive"
                )
        if self.drive_bytes < self.region_bytes:
            raise ValueError("the drive is smaller than a region")
        self.check_regions(self.drive_bytes)

    def check_regions(self, drive_bytes: int) -> None:
        """Raise LinnappError if a drive has more regions than fit into memory."""
        if drive_bytes // self.region_bytes > _MOST_REGIONS:
            raise LinnappError(
                f"profile {self.name}: a drive of {drive_bytes} bytes has more than "
                f"{_MOST_REGIONS} regions of {self.region_bytes}; enlarge region_bytes"
            )

    @property
    def mean_iops(self) -> float:
        """Mean number of arrivals per second."""
        return self.arrivals.mean_iops


def profile_names() -> list[str]:
    """Return the names of the profiles that are part of the project."""
    return sorted(path.stem for path in PROFILE_DIR.glob("*.toml"))


def load_profile(name: str) -> Profile:
    """Load a profile by name, or from a TOML file by path."""
    path = Path(name)
    if path.suffix != ".toml":
        path = PROFILE_DIR / f"{name}.toml"
        if not path.exists():
            raise LinnappError(
                f"profile {name!r} is unknown; known are {', '.join(profile_names())}, "
                "or give the path of a .toml file"
            )
    try:
        with path.open("rb") as stream:
            raw = tomllib.load(stream)
    except OSError as error:
        raise explain_os_error(error, path) from error
    except (RecursionError, ValueError) as error:  # Also bytes that are not UTF-8.
        raise LinnappError(f"{path}: not a profile: {error}") from error
    try:
        return _parse_profile(path.stem, raw)
    except (TypeError, ValueError) as error:
        raise LinnappError(f"profile {path.stem}: {error}") from error


def _parse_profile(name: str, raw: dict[str, Any]) -> Profile:
    #: Values by name. The name of a value in a table includes the table's: "arrivals.calm_ms".
    flat: dict[str, Any] = {}
    for key, value in raw.items():
        fields = {key: value}
        if isinstance(value, dict) and key not in _SIZES:
            fields = {f"{key}.{field}": inner for field, inner in value.items()}
        flat |= fields
    forms = {form: [f"arrivals.{field}" for field in options_in(form)] for form in _ARRIVALS}
    # The kind of which most fields are present is used; in case of doubt, the two-state process.
    form = max(forms, key=lambda form: len(flat.keys() & forms[form]))
    known = [
        *("description", "drive_bytes", "read_fraction", "offsets.zipf_exponent"),
        *("offsets.region_bytes", *_SIZES, *forms[form], "arrivals.burst_correlation"),
    ]
    missing = [field for field in known[:-1] if field not in flat]
    unknown = [field for field in flat if field not in known]
    if missing or unknown:
        wrong = {"missing": missing, "unknown": unknown, "known are": known}
        raise ValueError(
            "; ".join(f"{problem}: {', '.join(n)}" for problem, n in wrong.items() if n)
        )
    arrivals = form(*(flat.pop(field) for field in forms[form]))
    sizes: dict[str, Any] = {key: _sizes(key, flat.pop(key)) for key in _SIZES}
    others = {field.rpartition(".")[2]: value for field, value in flat.items()}
    return Profile(name, arrivals=arrivals, **sizes, **others)


def _sizes(key: str, table: Any) -> dict[int, float]:
    """Parse a table of sizes in bytes and their weights, or of the mean and the maximum size."""
    if isinstance(table, dict) and table.keys() == {"mean_bytes", "max_bytes"}:
        mean, most = table["mean_bytes"], table["max_bytes"]
        check_number(f"{key}.max_bytes", most, ALIGNMENT_BYTES, _MOST_BYTES, whole=True)
        if most % ALIGNMENT_BYTES:
            raise ValueError(f"{key}.max_bytes is {most}, not a multiple of {ALIGNMENT_BYTES}")
        check_number(f"{key}.mean_bytes", mean, ALIGNMENT_BYTES, most)
        return power_law_sizes(mean, most, ALIGNMENT_BYTES)
    try:
        return {int(size): float(weight) for size, weight in table.items()}
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise ValueError(
            f"{key} is {table!r:.80}; it must be a table of bytes = weight, such as [{key}] with "
            "the line 4096 = 1, or of mean_bytes and max_bytes"
        ) from None


def array_seeds(
    seed: int | Sequence[int], n_drives: int
) -> tuple[list[np.random.SeedSequence], np.random.SeedSequence]:
    """Return seeds for `generate`: one for each drive, and one that they share."""
    *own, shared = np.random.SeedSequence(seed).spawn(n_drives + 1)
    return own, shared


def generate(
    profile: Profile,
    duration_s: float,
    seed: np.random.SeedSequence,
    drive_bytes: int,
    shared: np.random.SeedSequence | None = None,
) -> Iterator[Workload]:
    """Generate the workload of one drive. Offsets and sizes stay within `drive_bytes`.

    Drives need different seeds, spawned from one, and all drives of an array the same `shared`
    seed; see `array_seeds`. If bursts are correlated and `shared` is None, ValueError is raised.
    """
    if profile.burst_correlation and shared is None:
        raise ValueError(f"profile {profile.name}: correlated bursts need a shared seed")
    scatter, arrivals, rest = (np.random.default_rng(child) for child in seed.spawn(3))
    n_regions = max(1, drive_bytes // profile.region_bytes)
    permutation = scatter.permutation(n_regions)
    draw = _even_draw if isinstance(profile.arrivals, Windowed) else _draw
    draw_read, draw_write = (draw(sizes) for sizes in (profile.read_sizes, profile.write_sizes))
    for times_us in profile.arrivals.times(duration_s, profile.burst_correlation, arrivals, shared):
        n = len(times_us)
        is_write = rest.random(n) >= profile.read_fraction
        size = np.where(is_write, draw_write(is_write, rest), draw_read(~is_write, rest))
        # Inverse of the power law's CDF: rank ~ u ** (1 / (1 - s)).
        rank = (rest.random(n) ** (1 / (1 - profile.zipf_exponent)) * n_regions).astype(np.int64)
        region = permutation[np.minimum(rank, n_regions - 1)]
        within = rest.integers(0, profile.region_bytes // ALIGNMENT_BYTES, n) * ALIGNMENT_BYTES
        offset = region * profile.region_bytes + within
        last = (drive_bytes - size) // ALIGNMENT_BYTES * ALIGNMENT_BYTES
        yield Workload(times_us, np.minimum(offset, last), size, is_write)


#: A function that returns sizes for the selected rows. Sizes in other rows are undefined.
_Draw = Callable[[npt.NDArray[np.bool_], np.random.Generator], npt.NDArray[np.int64]]


def _draw(sizes: dict[int, float]) -> _Draw:
    """Return a function that draws each size independently."""
    values = np.array(list(sizes), np.int64)
    weights = np.array(list(sizes.values()))

    def draw(wanted: npt.NDArray[np.bool_], rng: np.random.Generator) -> npt.NDArray[np.int64]:
        return rng.choice(values, len(wanted), p=weights / weights.sum())

    return draw


#: 2 ** 64 over the golden ratio. Its multiples are evenly distributed, however many there are.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _even_draw(sizes: dict[int, float]) -> _Draw:
    """Return a function that draws sizes in random order, but in fixed proportions.

    If a size is one I/O in thousands but half of the bytes, independent draws would give ten
    minutes with twice as many of these I/Os, and others with none.
    """
    values = np.array(list(sizes), np.int64)
    cumulative = np.cumsum(list(sizes.values()))
    n_drawn = 0

    def draw(wanted: npt.NDArray[np.bool_], rng: np.random.Generator) -> npt.NDArray[np.int64]:
        nonlocal n_drawn
        n = int(np.count_nonzero(wanted))
        even = np.arange(n_drawn, n_drawn + n, dtype=np.uint64) * _GOLDEN
        n_drawn += n
        place = np.searchsorted(cumulative, even / 2.0**64 * cumulative[-1], side="right")
        drawn = np.zeros(len(wanted), np.int64)
        drawn[wanted] = values[rng.permutation(np.minimum(place, len(values) - 1))]
        return drawn

    return draw
