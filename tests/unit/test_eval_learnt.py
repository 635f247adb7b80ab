# SPDX-License-Identifier: MIT
"""The bound `learnt`: it uses only the past, and finds everything that is predictable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eval import learnt
from eval.learnt import DriveLog, observed
from linnapp.model.file import FEATURES
from linnapp.native import HISTORY
from linnapp.trace import replay_log

US, MS = 1000, 1_000_000
PAGE = 4096


def _records(
    start_us: Any, latency_us: Any, *, served_by: Any = 0, home: Any = 0, op: Any = replay_log.READ,
    pages: Any = 1, block: Any = 0,
) -> NDArray[Any]:  # fmt: skip
    records = np.zeros(len(start_us), replay_log.RECORD)
    records["due_ns"] = np.asarray(start_us) * US
    records["latency_ns"] = np.asarray(latency_us) * US
    records["served_by"], records["home"], records["op"] = served_by, home, op
    records["size_bytes"] = np.asarray(pages) * PAGE
    records["offset_bytes"] = np.asarray(block) * PAGE
    return records


def _at(log: DriveLog, at_us: list[int], block: int = 0) -> NDArray[np.float32]:
    n = len(at_us)
    return observed(
        log, np.array(at_us) * US, np.full(n, PAGE), np.full(n, block * PAGE)
    )  # fmt: skip


def test_features_use_only_past_events() -> None:
    rng = np.random.default_rng(1)
    n = 400
    start = np.sort(rng.integers(0, 100_000, n))
    whole = _records(
        start, rng.integers(50, 5000, n), op=rng.integers(0, 2, n), pages=rng.integers(1, 9, n),
        block=rng.integers(0, 20, n),
    )  # fmt: skip
    moments = [int(start[k]) for k in (10, 100, 399)]
    for moment in moments:
        before = whole[whole["due_ns"] < moment * US].copy()
        # I/Os still in flight then end at another time, which cannot be known.
        in_flight = before["due_ns"] + before["latency_ns"] > moment * US
        before["latency_ns"][in_flight] += 77 * MS
        full = _at(DriveLog.of(whole, 0), [moment], block=3)
        cut = _at(DriveLog.of(before, 0), [moment], block=3)
        np.testing.assert_array_equal(full, cut)


def test_features_of_a_drive_log_contain_only_the_past() -> None:
    log = DriveLog.of(
        _records(
            [0, 100, 200, 1000], [50, 5000, 100, 100], op=[0, 1, 0, 0], pages=[1, 4, 2, 1],
            block=[0, 8, 0, 0],
        ), 0,
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
    (early,) = _at(log, [0])
    assert early[1] == 0 and np.isnan(early[len(FEATURES) + 1])


def test_a_small_read_does_not_see_larger_ones() -> None:
    records = _records([0, 100, 200, 300], [10, 20, 30, 40], pages=[1, 300, 20, 400],
                       op=[0, 0, 0, replay_log.WRITE])  # fmt: skip
    log = DriveLog.of(records, 0)
    at = np.full(3, 1000 * US)
    latencies = [FEATURES.index(f"latency_us_{ago}") for ago in range(1, HISTORY + 1)]
    for pages, seen_us in ((16, [10]), (256, [30, 10]), (257, [30, 20, 10])):
        (row, *_) = observed(log, at, np.full(3, pages * PAGE), np.zeros(3, np.int64))
        assert row[latencies].tolist() == seen_us + [0] * (HISTORY - len(seen_us))
        assert row[-6] == 40  # the last write's


def test_drive_without_io_has_empty_features() -> None:
    log = DriveLog.of(_records([0], [10], served_by=1), 0)
    assert _at(log, [5, 6]).shape == (2, _at(log, [5]).shape[1])


def test_ties_go_to_the_default_replica() -> None:
    predicted = np.array([[1, 1, 1], [2, 1, 1], [1, 1, 2]], np.float32)
    assert learnt.choices(predicted, np.array([1, 2, 2])).tolist() == [1, 2, 0]


@pytest.fixture(scope="module")
def bursts() -> tuple[NDArray[Any], NDArray[Any]]:
    """A recording and a `random` replay of three drives, each slow in turn for 50 ms."""
    rng = np.random.default_rng(2)

    def run(n: int, *, at_random: bool) -> NDArray[Any]:
        start = np.sort(rng.integers(0, n * 100, n))
        home = rng.integers(0, 3, n)
        served = rng.integers(0, 3, n) if at_random else home
        slow = (start // 50_000) % 3 == served
        return _records(start, np.where(slow, 2000, 100), served_by=served, home=home)

    return run(6_000, at_random=False), run(6_000, at_random=True)


def test_learnt_choices_avoid_predictable_bursts(bursts: tuple[NDArray[Any], NDArray[Any]]) -> None:
    recording, replay = bursts
    predicted = learnt.predict(recording, replay)
    chosen = learnt.choices(predicted, replay["home"])
    followed = replay["served_by"] == chosen
    assert followed.mean() == pytest.approx(1 / 3, abs=0.03)
    latency_us = replay["latency_ns"] / 1000
    home_us = latency_us[replay["served_by"] == replay["home"]].mean()
    assert home_us == pytest.approx(733, rel=0.1)
    # The first reads of a burst are not predictable; all later ones are.
    assert latency_us[followed].mean() < 250


def test_learnt_choices_gain_nothing_from_random_latencies(
    bursts: tuple[NDArray[Any], NDArray[Any]],
) -> None:
    rng = np.random.default_rng(3)
    recording, replay = (part.copy() for part in bursts)
    for part in (recording, replay):
        part["latency_ns"] = np.where(rng.random(len(part)) < 1 / 3, 2000, 100) * US
    chosen = learnt.choices(learnt.predict(recording, replay), replay["home"])
    latency_us = replay["latency_ns"] / 1000
    followed = latency_us[replay["served_by"] == chosen]
    assert followed.mean() == pytest.approx(latency_us.mean(), rel=0.08)
