# SPDX-License-Identifier: MIT
"""Generate workloads from profiles: seeded arrivals, sizes and offsets (traces/README.md).

Arrivals are one of the processes of :mod:`linnapp.trace.workloads.arrivals`. Popularity follows a
power law over regions that are scattered by a permutation.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import LinnappError
from linnapp.files import explain_os_error
from linnapp.trace.formats.iolog import Workload
from linnapp.trace.workloads.arrivals import TwoState, Windowed, power_law_sizes

ALIGNMENT_BYTES = 4096

_PACKAGE = Path(__file__).resolve().parents[2]
_SHIPPED = _PACKAGE / "profiles"
#: Inside an installed package, or next to it in a checkout.
PROFILE_DIR = _SHIPPED if _SHIPPED.is_dir() else _PACKAGE.parent / "traces"

#: The kinds of arrival processes, which are recognised by their fields.
_ARRIVALS: tuple[type[TwoState | Windowed], ...] = (TwoState, Windowed)

#: Tables of the file that contain the fields, except the tables of sizes.
_TABLES = {
    "arrivals": (*(field for form in _ARRIVALS for field in form.most), "burst_correlation"),
    "offsets": ("zipf_exponent", "region_bytes"),
}
_TOP = ("description", "drive_bytes", "read_fraction")
_SIZES = ("read_sizes", "write_sizes")
_SIZE_FIGURES = ("mean_bytes", "max_bytes")

#: Numbers and their maxima, which exceed those of any drive. Fractions have stricter checks.
_MOST = {
    "drive_bytes": 1 << 60,
    "read_fraction": math.inf,
    "zipf_exponent": math.inf,
    "region_bytes": 1 << 60,
    "burst_correlation": math.inf,
}
_WHOLE = ("drive_bytes", "region_bytes")
_MOST_REGIONS = 1 << 26


@dataclasses.dataclass(frozen=True)
class Profile:
    """Statistics of a workload. The fields are those of the file, see traces/README.md.

    Raises
    ------
    LinnappError
        If a field is not valid.
    """

    name: str
    description: str
    drive_bytes: int
    read_fraction: float
    arrivals: TwoState | Windowed
    zipf_exponent: float
    region_bytes: int
    read_sizes: dict[int, float]
    write_sizes: dict[int, float]
    burst_correlation: float = 0.0

    def __post_init__(self) -> None:
        def check(good: bool, what: str) -> None:
            if not good:
                raise LinnappError(f"profile {self.name}: {what}")

        for owner, limits in ((self, _MOST), (self.arrivals, self.arrivals.most)):
            for name, most in limits.items():
                value = getattr(owner, name)
                # isinstance() is not used, because a bool is an int but has a different meaning.
                whole = type(value) is int
                check(
                    whole or (type(value) is float and name not in _WHOLE and math.isfinite(value)),
                    f"{name} is {value!r}; it must be a {'whole ' if name in _WHOLE else ''}number",
                )
                check(value <= most, f"{name} is {value}, more than {most:g}")
        self.arrivals.check(check)
        check(0 <= self.read_fraction <= 1, f"read_fraction {self.read_fraction} is not in 0..1")
        check(
            0 <= self.burst_correlation <= 1,
            f"burst_correlation {self.burst_correlation} is not in 0..1",
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
    """Load a profile by name, or from a TOML file by path.

    Raises
    ------
    LinnappError
        If the profile is unknown, cannot be read or is not valid.
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
    except ValueError as error:  # TOMLDecodeError, or a number with thousands of digits.
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
    # The kind of which most fields are present is used; in case of doubt, the two-state process.
    form = max(_ARRIVALS, key=lambda form: len(flat.keys() & form.most.keys()))
    others = {field for other in _ARRIVALS for field in other.most} - form.most.keys()
    unknown += [f"arrivals.{field}" for field in sorted(others & flat.keys())]
    fields = dataclasses.fields(Profile)
    required = {field.name for field in fields if field.default is dataclasses.MISSING}
    missing = sorted((required - {"arrivals"} | form.most.keys()) - flat.keys())
    wrong = [f"missing: {', '.join(missing)}"] if missing else []
    if unknown:
        tables = {**_TABLES, "arrivals": (*form.most, "burst_correlation")}
        known = [*_TOP, *(f"{table}.{field}" for table in tables for field in tables[table])]
        wrong.append(
            f"unknown: {', '.join(unknown)}; known are {', '.join(known)} and tables of bytes = "
            f"weight, {', '.join(_SIZES)}"
        )
    if wrong:
        raise LinnappError(f"profile {name}: {'; '.join(wrong)}")
    arrivals = form(**{field: flat.pop(field) for field in form.most})
    return Profile(arrivals=arrivals, **flat)


def _sizes(name: str, key: str, table: object) -> dict[int, float]:
    """Parse a table of sizes in bytes and their weights, or of the mean and the maximum size."""
    if isinstance(table, dict) and table.keys() & set(_SIZE_FIGURES):
        return _sizes_from_figures(name, key, table)
    try:
        if isinstance(table, dict):
            return {int(size): float(weight) for size, weight in table.items()}
    except (TypeError, ValueError, OverflowError):
        pass
    raise LinnappError(
        f"profile {name}: {key} is {table!r:.80}; it must be a table of bytes = weight, such as "
        f"[{key}] with the line 4096 = 1, or of {' and '.join(_SIZE_FIGURES)}"
    )


def _sizes_from_figures(name: str, key: str, table: dict[str, Any]) -> dict[int, float]:
    wrong = [f"missing: {figure}" for figure in _SIZE_FIGURES if figure not in table]
    wrong += [f"unknown: {figure}" for figure in table if figure not in _SIZE_FIGURES]
    if wrong:
        raise LinnappError(
            f"profile {name}: {key}: {'; '.join(wrong)}; it has {' and '.join(_SIZE_FIGURES)} "
            "alone, or bytes = weight alone"
        )
    mean, most = table["mean_bytes"], table["max_bytes"]
    if type(most) is not int or most <= 0 or most % ALIGNMENT_BYTES or most > _MOST["drive_bytes"]:
        raise LinnappError(
            f"profile {name}: {key}.max_bytes is {most!r:.80}; it must be a multiple of "
            f"{ALIGNMENT_BYTES} that fits the drive"
        )
    if type(mean) not in (int, float) or not ALIGNMENT_BYTES <= mean <= most:
        raise LinnappError(
            f"profile {name}: {key}.mean_bytes is {mean!r:.80}; it must be a number from "
            f"{ALIGNMENT_BYTES}, the smallest I/O drawn, to max_bytes, {most}"
        )
    return power_law_sizes(mean, most, ALIGNMENT_BYTES)


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
    seed; see `array_seeds`. The shared seed is required if the bursts of the profile are
    correlated.

    Raises
    ------
    ValueError
        If bursts are correlated and `shared` is None.
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
