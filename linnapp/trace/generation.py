# SPDX-License-Identifier: MIT
"""Workloads from profiles: seeded arrivals, sizes and offsets (traces/README.md).

Arrivals are a two-state Markov-modulated Poisson process, the simplest that is bursty at the
scale of a drive's queue. Popularity follows a power law over regions scattered by a permutation.

Bursts can be correlated across the drives of an array: by turns each drive follows a state
process that all share, and its own. Both are the same process, so that one drive alone looks the
same whatever the correlation is.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import LinnappError
from linnapp.files import explain_os_error
from linnapp.trace.iolog import Workload

ALIGNMENT_BYTES = 4096

_PACKAGE = Path(__file__).resolve().parents[1]
_SHIPPED = _PACKAGE / "profiles"
#: in an installed package within it, in a checkout beside it
PROFILE_DIR = _SHIPPED if _SHIPPED.is_dir() else _PACKAGE.parent / "traces"

#: arrivals drawn at a time; bounds memory whatever the duration
_BATCH = 1 << 16


#: where in the file a field is, but for the tables of sizes
_TABLES = {
    "arrivals": ("calm_iops", "burst_iops", "calm_ms", "burst_ms", "burst_correlation"),
    "offsets": ("zipf_exponent", "region_bytes"),
}
_TOP = ("description", "drive_bytes", "read_fraction")
_SIZES = ("read_sizes", "write_sizes")

#: the numbers, and what is more than any drive has; fractions are checked more closely
_MOST = {
    "drive_bytes": 1 << 60,
    "read_fraction": math.inf,
    "calm_iops": 1e9,
    "burst_iops": 1e9,
    "calm_ms": 1e12,
    "burst_ms": 1e12,
    "zipf_exponent": math.inf,
    "region_bytes": 1 << 60,
    "burst_correlation": math.inf,
}
_WHOLE = ("drive_bytes", "region_bytes")
_SHORTEST_MS = 0.001
_MOST_REGIONS = 1 << 26


@dataclasses.dataclass(frozen=True)
class Profile:
    """A workload's statistics; the fields are those of the file, see traces/README.md."""

    name: str
    description: str
    drive_bytes: int
    read_fraction: float
    calm_iops: float
    burst_iops: float
    calm_ms: float
    burst_ms: float
    zipf_exponent: float
    region_bytes: int
    read_sizes: dict[int, float]
    write_sizes: dict[int, float]
    burst_correlation: float = 0.0

    def __post_init__(self) -> None:
        def check(good: bool, what: str) -> None:
            if not good:
                raise LinnappError(f"profile {self.name}: {what}")

        for name, most in _MOST.items():
            value = getattr(self, name)
            # Not isinstance(): a bool is an int, and means something else.
            whole = type(value) is int
            check(
                whole or (type(value) is float and name not in _WHOLE and math.isfinite(value)),
                f"{name} is {value!r}; it must be a {'whole ' if name in _WHOLE else ''}number",
            )
            check(value <= most, f"{name} is {value}, more than {most:g}")
        check(0 <= self.read_fraction <= 1, f"read_fraction {self.read_fraction} is not in 0..1")
        check(
            min(self.calm_iops, self.burst_iops) >= 0 and max(self.calm_iops, self.burst_iops) > 0,
            "calm_iops and burst_iops must not be negative, and one of them positive",
        )
        check(
            0 <= self.burst_correlation <= 1,
            f"burst_correlation {self.burst_correlation} is not in 0..1",
        )
        check(
            min(self.calm_ms, self.burst_ms) >= _SHORTEST_MS,
            f"calm_ms and burst_ms must be at least {_SHORTEST_MS}",
        )
        check(
            0 <= self.zipf_exponent < 1, f"zipf_exponent {self.zipf_exponent} is not in 0..1 (open)"
        )
        check(
            self.region_bytes > 0 and self.region_bytes % ALIGNMENT_BYTES == 0,
            f"region_bytes {self.region_bytes} is not a multiple of {ALIGNMENT_BYTES}",
        )
        for sizes in (self.read_sizes, self.write_sizes):
            check(bool(sizes), "read_sizes and write_sizes must not be empty")
            check(
                all(s > 0 and s % 512 == 0 and s <= self.drive_bytes for s in sizes),
                "sizes must be multiples of 512 that fit the drive",
            )
            check(
                all(w >= 0 for w in sizes.values()) and 0 < sum(sizes.values()) < math.inf,
                "weights must be finite and not negative, and one of them positive",
            )
        check(self.drive_bytes >= self.region_bytes, "the drive is smaller than a region")
        self.check_regions(self.drive_bytes)

    def check_regions(self, drive_bytes: int) -> None:
        """Refuse a drive of more regions than fit memory.

        Raises
        ------
        LinnappError
        """
        if drive_bytes // self.region_bytes > _MOST_REGIONS:
            raise LinnappError(
                f"profile {self.name}: a drive of {drive_bytes} bytes has more than "
                f"{_MOST_REGIONS} regions of {self.region_bytes}; enlarge region_bytes"
            )

    @property
    def mean_iops(self) -> float:
        """Long-run average of arrivals per second."""
        busy = self.calm_iops * self.calm_ms + self.burst_iops * self.burst_ms
        return busy / (self.calm_ms + self.burst_ms)


def profile_names() -> list[str]:
    """Names of the profiles that come with the project."""
    return sorted(path.stem for path in PROFILE_DIR.glob("*.toml"))


def load_profile(name: str) -> Profile:
    """Load a profile by name, or from a TOML file by its path.

    Raises
    ------
    LinnappError
        If it is unknown, or a field is missing, unknown or out of range.
    """
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
    except UnicodeDecodeError as error:
        raise LinnappError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from error
    except RecursionError as error:
        raise LinnappError(f"{path}: not a profile: nested too deeply") from error
    except ValueError as error:  # TOMLDecodeError, or a number of thousands of digits
        raise LinnappError(f"{path}: {error}") from error
    return _parse_profile(path.stem, raw)


def _parse_profile(name: str, raw: dict[str, Any]) -> Profile:
    flat: dict[str, Any] = {"name": name}
    unknown = []
    for key, value in raw.items():
        if key in _TOP:
            flat[key] = value
        elif key in _SIZES:
            flat[key] = _sizes(name, key, value)
        elif key in _TABLES and isinstance(value, dict):
            unknown += [f"{key}.{field}" for field in value if field not in _TABLES[key]]
            flat.update(value)
        else:
            unknown.append(key)
    fields = dataclasses.fields(Profile)
    required = {field.name for field in fields if field.default is dataclasses.MISSING}
    missing = sorted(required - flat.keys())
    wrong = [f"missing: {', '.join(missing)}"] if missing else []
    if unknown:
        known = [*_TOP, *(f"{table}.{field}" for table in _TABLES for field in _TABLES[table])]
        wrong.append(
            f"unknown: {', '.join(unknown)}; known are {', '.join(known)} and tables of bytes = "
            f"weight, {', '.join(_SIZES)}"
        )
    if wrong:
        raise LinnappError(f"profile {name}: {'; '.join(wrong)}")
    return Profile(**flat)


def _sizes(name: str, key: str, table: object) -> dict[int, float]:
    """A table of sizes in bytes and their weights."""
    try:
        if isinstance(table, dict):
            return {int(size): float(weight) for size, weight in table.items()}
    except (TypeError, ValueError, OverflowError):
        pass
    raise LinnappError(
        f"profile {name}: {key} is {table!r:.80}; it must be a table of bytes = weight, such as "
        f"[{key}] with the line 4096 = 1"
    )


def array_seeds(
    seed: int | Sequence[int], n_drives: int
) -> tuple[list[np.random.SeedSequence], np.random.SeedSequence]:
    """Seeds for `generate`: one for each drive, and the one that they share."""
    *own, shared = np.random.SeedSequence(seed).spawn(n_drives + 1)
    return own, shared


def generate(
    profile: Profile,
    duration_s: float,
    seed: np.random.SeedSequence,
    drive_bytes: int,
    shared: np.random.SeedSequence | None = None,
) -> Iterator[Workload]:
    """Draw one drive's workload.

    Parameters
    ----------
    profile : Profile
    duration_s : float
        Length in seconds.
    seed : numpy.random.SeedSequence
        Drives get different ones, spawned from one.
    drive_bytes : int
        Offsets and sizes stay below it.
    shared : numpy.random.SeedSequence, optional
        The same one for all drives of an array, see `array_seeds`. Needed when
        the profile's bursts are correlated.

    Yields
    ------
    Workload
        Consecutive chunks.

    Raises
    ------
    ValueError
        When `shared` is needed and missing.
    """
    if profile.burst_correlation and shared is None:
        raise ValueError(f"profile {profile.name}: correlated bursts need a shared seed")
    scatter, arrivals, rest = (np.random.default_rng(child) for child in seed.spawn(3))
    n_regions = max(1, drive_bytes // profile.region_bytes)
    permutation = scatter.permutation(n_regions)
    for times_us in _arrival_times(profile, duration_s, arrivals, shared):
        n = len(times_us)
        is_write = rest.random(n) >= profile.read_fraction
        size = np.where(
            is_write, _draw(profile.write_sizes, n, rest), _draw(profile.read_sizes, n, rest)
        )
        # Inverse of the power law's CDF: rank ~ u ** (1 / (1 - s)).
        rank = (rest.random(n) ** (1 / (1 - profile.zipf_exponent)) * n_regions).astype(np.int64)
        region = permutation[np.minimum(rank, n_regions - 1)]
        within = rest.integers(0, profile.region_bytes // ALIGNMENT_BYTES, n) * ALIGNMENT_BYTES
        offset = region * profile.region_bytes + within
        last = (drive_bytes - size) // ALIGNMENT_BYTES * ALIGNMENT_BYTES
        yield Workload(times_us, np.minimum(offset, last), size, is_write)


def _draw(sizes: dict[int, float], n: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    values = np.array(list(sizes), np.int64)
    weights = np.array(list(sizes.values()))
    return rng.choice(values, n, p=weights / weights.sum())


#: a stretch of time in which a drive's state does not change: its end (us), whether it is a burst
_Stay = tuple[float, bool]


def _stays(profile: Profile, end_us: float, rng: np.random.Generator) -> Iterator[_Stay]:
    """The two-state process, calm at first."""
    now_us = 0.0
    burst = False
    while now_us < end_us:
        mean_ms = profile.burst_ms if burst else profile.calm_ms
        now_us = min(now_us + rng.exponential(mean_ms * 1e3), end_us)
        yield now_us, burst
        burst = not burst


def _correlated_stays(
    profile: Profile, end_us: float, rng: np.random.Generator, shared: np.random.SeedSequence
) -> Iterator[_Stay]:
    """A drive's own process or, for `burst_correlation` of the time, the one that all share.

    Which one it is changes for all drives at the same moments, every ten bursts or so: that is
    rare enough to leave the lengths of the stays as they are.
    """
    # Not spawn(): its children differ from call to call, and every drive needs the same two.
    process, choice = (
        np.random.default_rng(
            np.random.SeedSequence(shared.entropy, spawn_key=(*shared.spawn_key, child))
        )
        for child in range(2)
    )
    own, common = _stays(profile, end_us, rng), _stays(profile, end_us, process)
    own_end_us, own_burst = next(own)
    common_end_us, common_burst = next(common)
    epoch_us = 1e4 * (profile.calm_ms + profile.burst_ms)
    follow_end_us, follows = 0.0, False
    now_us = 0.0
    while now_us < end_us:
        while follow_end_us <= now_us:
            follow_end_us = now_us + choice.exponential(epoch_us)
            follows = choice.random() < profile.burst_correlation
        now_us = min(own_end_us, common_end_us, follow_end_us, end_us)
        yield now_us, common_burst if follows else own_burst
        if now_us >= end_us:
            break
        if now_us == own_end_us:
            own_end_us, own_burst = next(own)
        if now_us == common_end_us:
            common_end_us, common_burst = next(common)


def _arrival_times(
    profile: Profile,
    duration_s: float,
    rng: np.random.Generator,
    shared: np.random.SeedSequence | None,
) -> Iterator[npt.NDArray[np.int64]]:
    """Arrival times in us, in batches of whole stays."""
    end_us = duration_s * 1e6
    now_us = 0.0
    batch: list[npt.NDArray[np.float64]] = []
    n_batch = 0
    if profile.burst_correlation and shared is not None:
        stays = _correlated_stays(profile, end_us, rng, shared)
    else:
        stays = _stays(profile, end_us, rng)
    for stay_end_us, burst in stays:
        stay_us = stay_end_us - now_us
        # A Poisson process given its count is that many uniform times in order.
        n = rng.poisson((profile.burst_iops if burst else profile.calm_iops) * stay_us / 1e6)
        batch.append(now_us + np.sort(rng.random(n)) * stay_us)
        n_batch += n
        if n_batch >= _BATCH:
            yield np.concatenate(batch).astype(np.int64)
            batch, n_batch = [], 0
        now_us = stay_end_us
    if n_batch:
        yield np.concatenate(batch).astype(np.int64)
