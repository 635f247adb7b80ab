# SPDX-License-Identifier: MIT
"""Generated workloads: reproducible, within the drive, and as the profile says."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from linnapp.errors import LinnappError
from linnapp.generation import Profile, generate, load_profile, profile_names
from linnapp.iolog import Workload


def draw(profile: Profile, duration_s: float, seed: int, drive_bytes: int = 1 << 30) -> Workload:
    chunks = list(generate(profile, duration_s, np.random.SeedSequence(seed), drive_bytes))
    return Workload(
        *(
            np.concatenate([getattr(c, f.name) for c in chunks])
            for f in dataclasses.fields(Workload)
        )
    )


@pytest.mark.parametrize("name", profile_names())
def test_profiles_hold_what_they_say(name: str) -> None:
    profile = load_profile(name)
    duration = 300.0
    ios = draw(profile, duration, 1, profile.drive_bytes)
    assert np.all(np.diff(ios.time_us) >= 0)
    assert ios.time_us[0] >= 0 and ios.time_us[-1] < duration * 1e6
    assert len(ios) / duration == pytest.approx(profile.mean_iops, rel=0.2)
    assert np.mean(~ios.is_write) == pytest.approx(profile.read_fraction, abs=0.02)
    assert set(ios.size_bytes[ios.is_write].tolist()) <= set(profile.write_sizes)
    assert set(ios.size_bytes[~ios.is_write].tolist()) <= set(profile.read_sizes)
    assert np.all(ios.offset_bytes % 4096 == 0)
    assert np.all(ios.offset_bytes + ios.size_bytes <= profile.drive_bytes)


def test_equal_seeds_equal_workloads() -> None:
    profile = load_profile("demo")
    one, two, other = draw(profile, 5, 1), draw(profile, 5, 1), draw(profile, 5, 2)
    assert np.array_equal(one.offset_bytes, two.offset_bytes)
    assert np.array_equal(one.time_us, two.time_us)
    assert len(one) != len(other) or not np.array_equal(one.offset_bytes, other.offset_bytes)


def test_arrivals_are_burstier_than_poisson_and_offsets_skewed() -> None:
    profile = load_profile("demo")
    ios = draw(profile, 60, 1)
    counts = np.bincount(ios.time_us // 10_000, minlength=6000)
    assert counts.var() / counts.mean() > 5  # Poisson: 1
    regions = np.bincount(ios.offset_bytes // profile.region_bytes)
    regions = np.sort(regions)[::-1]
    hottest_tenth = regions[: (1 << 30) // profile.region_bytes // 10].sum() / regions.sum()
    assert hottest_tenth > 0.5


def test_bad_profiles(tmp_path: Path) -> None:
    good = (Path(__file__).parents[2] / "traces" / "demo.toml").read_text()
    with pytest.raises(LinnappError, match="'none' is unknown; known are .*demo"):
        load_profile("none")
    for old, new, message in (
        ("read_fraction = 0.6", "read_fraction = 1.6", "read_fraction 1.6"),
        ("read_fraction = 0.6", "", "missing: read_fraction"),
        ("calm_ms = 180", "calm_ms = 180\nextra = 1", "unknown: extra"),
        ("zipf_exponent = 0.9", "zipf_exponent = 1.0", "zipf_exponent"),
        ("4096 = 0.60", "1000 = 0.60", "multiples of 512"),
        ("calm_ms = 180", "calm_ms = ", "Invalid"),
        ("drive_bytes = 1073741824", "drive_bytes = 65536", "fit the drive"),
    ):
        path = tmp_path / "p.toml"
        path.write_text(good.replace(old, new, 1))
        with pytest.raises(LinnappError, match=message):
            load_profile(str(path))
