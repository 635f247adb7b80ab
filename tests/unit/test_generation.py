# SPDX-License-Identifier: MIT
"""Generated workloads: reproducible, within the drive, and as the profile specifies."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import pytest

from linnapp.trace.convert import Workload
from linnapp.trace.workload import (
    Profile,
    TwoState,
    array_seeds,
    generate,
    load_profile,
    profile_names,
)


def draw(profile: Profile, duration_s: float, seed: int, drive_bytes: int = 1 << 30) -> Workload:
    (own,), shared = array_seeds(seed, 1)
    return join(generate(profile, duration_s, own, drive_bytes, shared))


def join(workloads: Iterable[Workload]) -> Workload:
    chunks = list(workloads)
    return Workload(
        *(
            np.concatenate([getattr(c, f.name) for c in chunks])
            for f in dataclasses.fields(Workload)
        )
    )


#: Profiles with two-state arrivals; test_table1.py tests the others.
EXAMPLES = [name for name in profile_names() if isinstance(load_profile(name).arrivals, TwoState)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_workloads_have_the_statistics_of_their_profiles(name: str) -> None:
    profile = load_profile(name)
    duration = 300.0
    ios = draw(profile, duration, 1, profile.drive_bytes)
    assert np.all(np.diff(ios.time_us) >= 0)
    assert ios.time_us[0] >= 0 and ios.time_us[-1] < duration * 1e6
    assert len(ios) / duration == pytest.approx(profile.mean_iops, rel=0.2)
    assert np.mean(~ios.is_write) == pytest.approx(profile.read_fraction, abs=0.02)
    for sizes, found in (
        (profile.write_sizes, ios.size_bytes[ios.is_write]),
        (profile.read_sizes, ios.size_bytes[~ios.is_write]),
    ):
        assert set(np.unique(found)) <= set(sizes) and found.max() == max(sizes)
        mean_bytes = np.average(list(sizes), weights=list(sizes.values()))
        assert found.mean() == pytest.approx(mean_bytes, rel=0.05)
    assert np.all(ios.offset_bytes % 4096 == 0)
    assert np.all(ios.offset_bytes + ios.size_bytes <= profile.drive_bytes)


def test_burst_correlation_does_not_change_single_drives() -> None:
    def rates(correlation: float, seed: int) -> list[np.ndarray]:
        profile = dataclasses.replace(load_profile("demo"), burst_correlation=correlation)
        own, shared = array_seeds(seed, 3)
        drives = (join(generate(profile, 200, child, 1 << 30, shared)) for child in own)
        return [np.bincount(ios.time_us // 10_000, minlength=20_000) for ios in drives]

    for correlation, low, high in ((0, -0.05, 0.05), (0.5, 0.3, 0.7), (1, 0.9, 1)):
        drives = rates(correlation, 1)
        found = np.corrcoef(drives)[np.triu_indices(3, 1)]
        assert np.all((low <= found) & (found <= high)), (correlation, found)
        for counts in drives:
            assert counts.mean() == pytest.approx(30, rel=0.1)
            # 10 % of the time in bursts of 120 arrivals in 10 ms, between 20 in calm.
            assert np.mean(counts > 70) == pytest.approx(0.1, abs=0.03)
    with pytest.raises(ValueError, match="shared seed"):
        next(generate(dataclasses.replace(load_profile("demo"), burst_correlation=0.5), 1,
                      np.random.SeedSequence(1), 1 << 30))  # fmt: skip
