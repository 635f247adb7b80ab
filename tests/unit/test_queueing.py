# SPDX-License-Identifier: MIT
"""Slack and burstiness of recordings, compared with their definitions per I/O."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from blktrace_builder import TraceBuilder

from linnapp.trace.inspection import QueueSummary, inspect


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
    assert found["queue_depth"] == 2


def test_workload_without_latencies_has_no_slack(tmp_path: Path) -> None:
    path = tmp_path / "x.iolog"
    path.write_text(
        "fio version 3 iolog\n0 /dev/x add\n"
        + "".join(f"{us} /dev/x read {4096 * us} 4096\n" for us in (0, 1, 2, 9000))
    )
    found = inspect(path).to_json()
    assert (found["slack"], found["burstiness"]) == (None, None)
