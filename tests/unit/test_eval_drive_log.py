# SPDX-License-Identifier: MIT
"""The features of a drive that are seen from outside use only the past."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval.drive_log import DriveLog, observed
from linnapp.model.file import FEATURES
from linnapp.native import HISTORY

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
    (early,) = _at(log, [0])
    assert early[1] == 0 and np.isnan(early[len(FEATURES) + 1])


def test_a_small_read_does_not_see_larger_ones() -> None:
    log = _log([0, 100, 200, 300], [10, 20, 30, 40], pages=[1, 300, 20, 400], is_write=[0, 0, 0, 1])
    at = np.full(3, 1000 * US)
    latencies = [FEATURES.index(f"latency_us_{ago}") for ago in range(1, HISTORY + 1)]
    for pages, seen_us in ((16, [10]), (256, [30, 10]), (257, [30, 20, 10])):
        (row, *_) = observed(log, at, np.full(3, pages * PAGE), np.zeros(3, np.int64))
        assert row[latencies].tolist() == seen_us + [0] * (HISTORY - len(seen_us))
        assert row[-6] == 40  # the last write's
