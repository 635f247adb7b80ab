# SPDX-License-Identifier: MIT
"""Slack and burstiness: against their definitions, I/O by I/O; from recordings and assumptions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from blktrace_builder import TraceBuilder
from click.testing import CliRunner

from linnapp.cli import cli
from linnapp.trace.in_flight import AssumedService, QueueSummary
from linnapp.trace.inspection import WindowCounts, burst_correlations, inspect


def by_definition(arrival: np.ndarray, completion: np.ndarray, depth: int) -> tuple[float, float]:
    slack = waiting = 0
    for i, now in enumerate(arrival):
        before = completion[:i]
        waiting += np.count_nonzero(before > now) >= depth
        slack += i > 0 and now - before.max() >= 2_000_000
    return slack / len(arrival), waiting / len(arrival)


@pytest.mark.parametrize("depth", [1, 4, 32])
def test_any_cut_into_chunks_gives_what_the_definition_says(depth: int) -> None:
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
def test_a_drive_that_never_gets_done_serves_until_the_end_of_time() -> None:
    one = np.array([1, 2]), np.full(2, 4096)
    for mb_s in 1e-9, 1e-300, 5e-324:
        arrival, end = AssumedService(0, mb_s).serve(*one)
        assert (end > arrival).all() and (np.diff(end) >= 0).all()


def test_a_recording_is_judged_by_its_latencies(tmp_path: Path) -> None:
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


def test_a_workload_has_neither_without_an_assumption(tmp_path: Path) -> None:
    path = tmp_path / "x.iolog"
    path.write_text(
        "fio version 3 iolog\n0 /dev/x add\n"
        + "".join(f"{us} /dev/x read {4096 * us} 4096\n" for us in (0, 1, 2, 9000))
    )
    found = inspect(path).to_json()
    assert (found["slack"], found["burstiness"]) == (None, None)
    found = inspect(path, queue_depth=2, service=(100, 1000)).to_json()
    assert (found["slack"], found["burstiness"]) == (0.25, 0.25)


def test_bursts_of_several_drives_are_compared(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rates = rng.integers(0, 5, 6000)
    rates[1000:3000] = 0  # 20 s without I/O
    drives = [
        np.repeat(np.arange(6000), rates),
        np.repeat(np.arange(6000), rates * 2 + (rates > 1)),
    ]
    paths = []
    for k, bins in enumerate(drives):
        paths.append(tmp_path / f"{k}.iolog")
        lines = [f"{10_000 * b + 5} /dev/x read 0 4096\n" for b in bins]
        paths[-1].write_text("fio version 3 iolog\n0 /dev/x add\n" + "".join(lines))
    counts = np.array([np.bincount(bins, minlength=6000) for bins in drives])
    expected = [np.corrcoef(c)[0, 1] for c in (counts, counts.reshape(2, 6, 1000).sum(2))]

    inspections = [inspect(path, count_arrivals=True) for path in paths]
    for found in burst_correlations(inspections):
        assert found is not None
        assert [found["10ms"], found["10s"]] == pytest.approx(expected)
    assert burst_correlations([inspect(paths[0]), inspections[1]]) == [None, None]

    result = CliRunner().invoke(cli, ["inspect", *map(str, paths)])
    assert result.exit_code == 0
    shown = (
        f"correlate with the other drives': {expected[0]:.2f} in 10 ms, {expected[1]:.2f} in 10 s"
    )
    assert result.output.count(shown) == 2
    result = CliRunner().invoke(cli, ["inspect", "--json", *map(str, paths)])
    assert [f["burst_correlation"]["10s"] for f in json.loads(result.output)] == pytest.approx(
        [expected[1]] * 2
    )


def test_a_constant_rate_has_no_correlation() -> None:
    one, other = WindowCounts(1000), WindowCounts(1000)
    one.add(np.arange(0, 30_000_000, 10_000))
    other.add(np.arange(0, 30_000_000, 70_000))
    assert one.correlations(other)["10ms"] is None
    assert other.correlations(other)["10ms"] == pytest.approx(1)
    assert WindowCounts(1000).correlations(WindowCounts(1000)) == {"10ms": None, "10s": None}
