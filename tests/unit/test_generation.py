# SPDX-License-Identifier: MIT
"""Generated workloads: reproducible, within the drive, and as the profile specifies."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from linnapp.cli import cli
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


#: the others are in test_table1.py
EXAMPLES = [name for name in profile_names() if isinstance(load_profile(name).arrivals, TwoState)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_profiles_hold_what_they_say(name: str) -> None:
    profile = load_profile(name)
    duration = 300.0
    ios = draw(profile, duration, 1, profile.drive_bytes)
    assert np.all(np.diff(ios.time_us) >= 0)
    assert ios.time_us[0] >= 0 and ios.time_us[-1] < duration * 1e6
    assert len(ios) / duration == pytest.approx(profile.mean_iops, rel=0.2)
    assert np.mean(~ios.is_write) == pytest.approx(profile.read_fraction, abs=0.02)
    assert set(np.unique(ios.size_bytes[ios.is_write])) <= set(profile.write_sizes)
    assert set(np.unique(ios.size_bytes[~ios.is_write])) <= set(profile.read_sizes)
    assert np.all(ios.offset_bytes % 4096 == 0)
    assert np.all(ios.offset_bytes + ios.size_bytes <= profile.drive_bytes)


@pytest.mark.parametrize("name", EXAMPLES)
def test_inspect_shows_the_profiles_own_figures(name: str, tmp_path: Path) -> None:
    """Rate, mix and sizes of the generated trace are within 5 % in the output of inspect."""
    profile = load_profile(name)
    duration_s = 1000
    run = CliRunner().invoke(
        cli, ["generate", name, "-o", str(tmp_path), "--drives", "1", "--duration", str(duration_s)]
    )
    assert run.exit_code == 0, run.output
    run = CliRunner().invoke(cli, ["inspect", "--json", str(tmp_path / "flash0.iolog")])
    assert run.exit_code == 0, run.output
    shown = json.loads(run.output)

    def mean_bytes(sizes: dict[int, float]) -> float:
        return sum(size * weight for size, weight in sizes.items()) / sum(sizes.values())

    ios = shown["reads"] + shown["writes"]
    assert ios / duration_s == pytest.approx(profile.mean_iops, rel=0.05)
    assert shown["reads"] / ios == pytest.approx(profile.read_fraction, rel=0.05)
    assert shown["read_bytes_mean"] == pytest.approx(mean_bytes(profile.read_sizes), rel=0.05)
    assert shown["write_bytes_mean"] == pytest.approx(mean_bytes(profile.write_sizes), rel=0.05)
    assert shown["read_bytes_max"] == max(profile.read_sizes)
    assert shown["write_bytes_max"] == max(profile.write_sizes)


def test_equal_seeds_give_equal_workloads() -> None:
    one, two, other = (draw(load_profile("demo"), 5, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.offset_bytes, two.offset_bytes)
    assert np.array_equal(one.time_us, two.time_us)
    assert not np.array_equal(one.offset_bytes, other.offset_bytes)


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
