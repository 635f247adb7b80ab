# SPDX-License-Identifier: MIT
"""Experiments that simulate or measure a drive, on synthetic data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eval.drive_log import DriveLog, observed
from eval.experiments import clustering, fig10, functions
from eval.experiments.fig10 import bound_for, judged
from eval.experiments.validate import describe
from linnapp.insight.functions import GROUPS
from linnapp.model import FEATURES
from linnapp.trace.reads import load


def _rows(latency_us: np.ndarray) -> np.ndarray:
    return np.column_stack([np.arange(len(latency_us)) * 0.2, latency_us])


def test_slack_is_how_far_windows_drift_and_a_steady_drive_has_none() -> None:
    steady = describe(_rows(np.full(10_000, 90.0)), alone=True)
    assert steady["median_us"] == steady["p999_us"] == 90
    assert (steady["slack_pct"], steady["p99_over_mean"]) == pytest.approx((0, 1))
    # 500 reads fill 100 ms; half of the windows are at 90 us, half at 110 us.
    latency_us = np.where(np.arange(10_000) // 500 % 2, 110.0, 90.0)
    assert describe(_rows(latency_us), alone=True)["slack_pct"] == pytest.approx(10)


def test_tail_begins_at_the_share_of_slow_reads() -> None:
    rng = np.random.default_rng(1)
    latency_us = rng.uniform(85, 95, 20_000)
    slow = rng.random(20_000) < 0.1
    latency_us[slow] = rng.uniform(900, 1100, slow.sum())
    found = describe(_rows(latency_us), alone=False)
    assert found["tail_from_percentile"] == pytest.approx(90, abs=0.7)
    assert found["inflection_percentile"] == pytest.approx(90, abs=1)
    # Slow reads came by chance: one in ten follows another.
    assert found["burstiness_pct"] == pytest.approx(10, abs=2)


def test_measures_of_the_experiment_are_the_groups_of_linnapp_layers() -> None:
    parts = {*functions.EXPERIMENT.measures} - {"software_us", "tracing_share"}
    assert {*parts, "wait"} == set(GROUPS)


def test_point_has_shares_of_the_software_time() -> None:
    groups = {
        "pages": {"us": 60.0, "measured_us": 80.0},
        "split": {"us": 40.0, "measured_us": 45.0},
        "wait": {"us": 1000.0, "measured_us": 1000.0},
    }
    case = {"operation": "write", "allocated": False, "bytes": 4096, "calls": 4, "groups": groups}
    assert functions.point(case) == {
        "operation": "write", "file": "new", "bytes": 4096, "software_us": 25.0,
        "tracing_share": pytest.approx(0.2), "pages": 0.6, "split": 0.4,
    }  # fmt: skip


def write_log(path: Path, slow: np.ndarray) -> None:
    """Write a log of reads, one at a time, some of which take ten times as long."""
    path.write_text(
        "".join(
            f"0,{1000 if is_slow else 100 + k % 7},1,4096,{4096 * k},{8 * k}.000,4096\n"
            for k, is_slow in enumerate(slow)
        )
    )


def test_slow_reads_in_long_runs_follow_each_other_and_are_predicted(tmp_path: Path) -> None:
    write_log(tmp_path / "d.trace", np.arange(6000) // 50 % 4 == 3)
    found = clustering.describe_drive(load(tmp_path / "d.trace"), 1)
    assert found["slow"] == pytest.approx(0.25)
    assert found["after_answer"] == pytest.approx(0.98, abs=0.01)
    assert found["after_arrival"] == pytest.approx(0.98, abs=0.01)
    assert found["auc"] > 0.95 and found["auc_last"] > 0.95


def test_bound_for_gives_at_most_the_share_of_false_submits_and_refuses_no_more_than_needed() -> (
    None
):
    score = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    slow = np.array([0, 1, 0, 0, 1, 0, 1, 0, 0, 1], bool)
    for most, bound, n_refused in ((0.0, 0.2, 9), (0.1, 0.5, 6), (0.2, 0.7, 4), (0.39, 1.0, 1)):
        assert bound_for(score, slow, most) == bound
        assert np.count_nonzero(score >= bound) == n_refused
        assert np.mean(slow & (score < bound)) <= most
    assert bound_for(score, slow, 0.4) == float("inf")
    # Reads with equal scores are refused together.
    tied = np.array([0.1, 0.5, 0.5, 0.5])
    assert bound_for(tied, np.array([False, True, False, True]), 0.25) == 0.5


def test_judged_gives_accuracy_over_the_base_and_the_matched_point() -> None:
    slow = np.tile([True, False, False, False, True], 40)
    score = np.where(slow, 0.4, 0.1) + np.tile([0.2, 0.0], 100)
    half = slice(0, 100), slice(100, 200)
    found = judged(score, slow, *half, 0.5)
    assert found["base"] == pytest.approx(0.6)
    assert found["accuracy"] == pytest.approx(0.8) and found["gain"] == pytest.approx(0.2)
    assert (found["false_submit_ratio"], found["false_revoke_ratio"]) == (pytest.approx(0.2), 0)
    assert found["auc"] == 1.0
    # The matched bound is chosen on the first half alone, where no slow read need pass.
    assert found["matched_submit_ratio"] <= fig10.MATCHED
    assert found["matched_revoke_ratio"] == 0


US, MS = 1000, 1_000_000
PAGE = 4096


def _log(
    start_us: Any, latency_us: Any, *, is_write: Any = 0, pages: Any = 1, block: Any = 0
) -> DriveLog:
    start = np.asarray(start_us, np.int64) * US
    pages, block, is_write = (
        np.broadcast_to(value, start.shape).astype(np.int64) for value in (pages, block, is_write)
    )
    end = start + np.asarray(latency_us, np.int64) * US
    return DriveLog(start, end, pages * PAGE, block * PAGE, is_write == 0)


def _at(log: DriveLog, at_us: list[int], block: int = 0) -> NDArray[np.float32]:
    n = len(at_us)
    return observed(
        log, np.array(at_us) * US, np.full(n, PAGE), np.full(n, block * PAGE)
    )  # fmt: skip


def test_features_use_only_past_events() -> None:
    rng = np.random.default_rng(1)
    n = 400
    start, latency = np.sort(rng.integers(0, 100_000, n)), rng.integers(50, 5000, n)
    other = {
        "is_write": rng.integers(0, 2, n), "pages": rng.integers(1, 9, n),
        "block": rng.integers(0, 20, n),
    }  # fmt: skip
    for moment in (int(start[k]) for k in (10, 100, 399)):
        begun = start < moment
        # I/Os still in flight then end at another time, which cannot be known.
        ends = latency + 77_000 * (start + latency > moment)
        before = {name: values[begun] for name, values in other.items()}
        full = _at(_log(start, latency, **other), [moment], block=3)
        cut = _at(_log(start[begun], ends[begun], **before), [moment], block=3)
        np.testing.assert_array_equal(full, cut)


def test_features_of_a_drive_log_contain_only_the_past() -> None:
    log = _log(
        [0, 100, 200, 1000], [50, 5000, 100, 100], is_write=[0, 1, 0, 0], pages=[1, 4, 2, 1],
        block=[0, 8, 0, 0],
    )  # fmt: skip
    (seen,) = _at(log, [400], block=9)
    named = dict(zip(FEATURES, seen.tolist(), strict=False))
    assert (named["pages"], named["read_pages"], named["write_pages"]) == (1, 0, 4)
    assert (named["latency_us_1"], named["age_us_1"], named["pages_2"]) == (100, 100, 1)
    in_flight, oldest_us, idle_us, since_us = seen[len(FEATURES) :][:4]
    assert (in_flight, oldest_us, idle_us, since_us) == (1, 300, 100, 200)
    # Pages written and pages read in the last 1, 10, ... ms.
    assert seen[len(FEATURES) + 4 : -6].tolist() == [4, 3] * 4
    # Block 9 is the second page of the write at 100 us; its 4 pages are those written since.
    assert seen[-2:].tolist() == [300, 4]
    (unwritten,) = _at(log, [400], block=7)
    assert np.isnan(unwritten[-2:]).all()
    early, late = _at(log, [0, 6000])
    assert early[1] == 0 and np.isnan(early[len(FEATURES) + 1])
    # Latency and size of the last write.
    assert late[-6:-4].tolist() == [5000, 4 * PAGE] and np.isnan(early[-6])
