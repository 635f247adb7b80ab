# SPDX-License-Identifier: MIT
"""Slack and burstiness, compared with their definitions per I/O, of recordings and assumptions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from blktrace_builder import TraceBuilder

from linnapp.trace.inspection import AssumedService, QueueSummary, inspect


def by_definition(arrival: np.ndarray, completion: np.ndarray, depth: int) -> tuple[float, float]:
    slack = waiting = 0
    for i, now in enumerate(arrival):
        before = completion[:i]
        waiting += np.count_nonzero(before > now) >= depth
        slack += i > 0 and now - before.max() >= 2_000_000
    return slack / len(arrival), waiting / len(arrival)


@pytest.mark.parametrize("depth", [1, 4, 32])
def test_any_chunk_size_gives_the_defined_result(depth: int) -> None:
    rng = np.random.default_rng(1)
    gaps = rng.choice([0, 20_000, 3_000_000], 2000, p=[0.2, 0.75, 0.05])
    arrival = np.cumsum(gaps)
    completion = arrival + rng.integers(1, 500_000, 2000)
    for n_chunks in (1, 7, 2000):
        queue = QueueSummary(depth)
        for rows in np.array_split(np.arange(2000), n_chunks):
            queue.add(arrival[rows], completion[rows])
        expected = by_definition(arrival, completion, depth)
        assert (queue.slack, queue.burstiness) == pytest.approx(expected)
        assert 0 < expected[0] < 1
    assert QueueSummary().slack is None and QueueSummary().burstiness is None


def test_assumed_service_is_one_io_after_another() -> None:
    rng = np.random.default_rng(2)
    time_us = np.sort(rng.integers(0, 50_000, 1000))
    size = rng.choice([4096, 65536], 1000)
    size = size[np.lexsort((size, time_us))]  # of one moment the smallest first
    free, expected = 0.0, []
    for at, n in zip(time_us * 1000, size, strict=True):
        free = max(free, at) + 10_000 + n / 500e6 * 1e9
        expected.append(free)
    drive = AssumedService(10, 500)
    for rows in np.array_split(np.arange(1000), 9):
        arrival, end = drive.serve(time_us[rows], size[rows])
        assert np.array_equal(arrival, time_us[rows] * 1000)
        assert end == pytest.approx(np.array(expected)[rows], abs=2)


@pytest.mark.filterwarnings("error")
def test_extremely_slow_assumed_service_does_not_overflow() -> None:
    one = np.array([1, 2]), np.full(2, 4096)
    for mb_s in 1e-9, 1e-300, 5e-324:
        arrival, end = AssumedService(0, mb_s).serve(*one)
        assert (end > arrival).all() and (np.diff(end) >= 0).all()


def test_slack_and_burstiness_of_a_recording_use_its_latencies(tmp_path: Path) -> None:
    t = TraceBuilder()
    t.io(0, 100, 0, 4096)
    t.io(1000, 1100, 8, 4096)  # 0.9 ms after the last: no slack
    t.io(4000, 9000, 16, 4096)  # 2.9 ms: slack
    for i in range(3):  # with 1, 2 and 3 others in flight
        t.io(4100 + i, 8000, 24 + 8 * i, 4096)
    path = t.sort().write(tmp_path / "a.blk")
    found = inspect(path, queue_depth=2).to_json()
    assert (found["slack"], found["burstiness"]) == (pytest.approx(1 / 6), pytest.approx(2 / 6))
    assert found["queue_depth"] == 2 and "assumed_service" not in found
    # An assumption does not replace what was measured.
    assert inspect(path, queue_depth=2, service=(1, 1e6)).to_json() == found


def test_workload_has_no_slack_without_assumed_service(tmp_path: Path) -> None:
    path = tmp_path / "x.iolog"
    path.write_text(
        "fio version 3 iolog\n0 /dev/x add\n"
        + "".join(f"{us} /dev/x read {4096 * us} 4096\n" for us in (0, 1, 2, 9000))
    )
    found = inspect(path).to_json()
    assert (found["slack"], found["burstiness"]) == (None, None)
    found = inspect(path, queue_depth=2, service=(100, 1000)).to_json()
    assert (found["slack"], found["burstiness"]) == (0.25, 0.25)
