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
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import LinnappError
from linnapp.files import explain_os_error
from linnapp.iolog import Workload

ALIGNMENT_BYTES = 4096

_PACKAGE = Path(__file__).resolve().parent
_SHIPPED = _PACKAGE / "profiles"
#: in an installed package within it, in a checkout beside it
PROFILE_DIR = _SHIPPED if _SHIPPED.is_dir() else _PACKAGE.parent / "traces"

#: arrivals drawn at a time; bounds memory whatever the duration
_BATCH = 1 << 16


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

        check(0 <= self.read_fraction <= 1, f"read_fraction {self.read_fraction} is not in 0..1")
        check(
            min(self.calm_iops, self.burst_iops) >= 0 and max(self.calm_iops, self.burst_iops) > 0,
            "calm_iops and burst_iops must not be negative, and one of them positive",
        )
        check(
            0 <= self.burst_correlation <= 1,
            f"burst_correlation {self.burst_correlation} is not in 0..1",
        )
        check(self.calm_ms > 0 and self.burst_ms > 0, "calm_ms and burst_ms must be positive")
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
                all(w >= 0 for w in sizes.values()) and sum(sizes.values()) > 0,
                "weights must not be negative, and one of them positive",
            )
        check(self.drive_bytes >= self.region_bytes, "the drive is smaller than a region")

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
    except tomllib.TOMLDecodeError as error:
        raise LinnappError(f"{path}: {error}") from error
    return _parse_profile(path.stem, raw)


def _parse_profile(name: str, raw: dict[str, Any]) -> Profile:
    try:
        flat: dict[str, Any] = {"name": name}
        for key, value in raw.items():
            if key in ("read_sizes", "write_sizes"):
                flat[key] = {int(size): float(weight) for size, weight in value.items()}
            elif isinstance(value, dict):
                flat.update(value)
            else:
                flat[key] = value
        fields = dataclasses.fields(Profile)
        unknown = sorted(flat.keys() - {field.name for field in fields})
        required = {field.name for field in fields if field.default is dataclasses.MISSING}
        missing = sorted(required - flat.keys())
        if unknown or missing:
            raise LinnappError(
                f"profile {name}: "
                + "; ".join(
                    f"{what} {', '.join(keys)}"
                    for what, keys in (("missing:", missing), ("unknown:", unknown))
                    if keys
                )
            )
        return Profile(**flat)
    except (TypeError, ValueError) as error:
        raise LinnappError(f"profile {name}: {error}") from error


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
