# SPDX-License-Identifier: MIT
"""inspect reports rates over windows, sizes, percentiles, slack and burstiness as defined."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from blktrace_builder import WRITE, TraceBuilder
from click.testing import CliRunner
from replaying import write_log

from linnapp.cli import cli
from linnapp.errors import TraceError
from linnapp.trace import convert as iolog
from linnapp.trace import replay_log
from linnapp.trace.convert import Workload
from linnapp.trace.inspection import LatencyHistogram, QueueSummary, WorkloadSummary, inspect


def test_percentiles_are_within_their_bins() -> None:
    rng = np.random.default_rng(1)
    latency = rng.lognormal(11, 2, 100_000).astype(np.uint64)
    histogram = LatencyHistogram()
    for part in np.array_split(latency, 7):
        histogram.add(part)
    assert histogram.mean_us == pytest.approx(latency.mean() / 1000)
    ordered = np.sort(latency)
    for percentile in (0.1, 1, 50, 90, 99, 99.99, 100):
        exact = ordered[int(np.ceil(percentile / 100 * len(latency))) - 1] / 1000
        assert exact <= histogram.percentile_us(percentile) + 1e-9
        assert histogram.percentile_us(percentile) <= exact * (1 + 1 / 64)
    assert LatencyHistogram().percentile_us(50) == LatencyHistogram().mean_us == 0


def test_inspect_measures_rates_sizes_and_latencies_of_a_recording(tmp_path: Path) -> None:
    t = TraceBuilder()
    for i in range(100):  # 10 a second for 10 s, then 1 a second
        t.io(i * 1e5, i * 1e5 + 100, 8 * i, 8192)
    for i in range(20):
        t.io(10e6 + i * 1e6, 10e6 + i * 1e6 + 200, 8 * i, 4096, flags=WRITE)
    path = t.sort().write(tmp_path / "a.blk")
    found = inspect(path).to_json()
    assert (found["format"], found["reads"], found["writes"]) == ("blktrace", 100, 20)
    assert found["duration_s"] == pytest.approx(29)
    assert found["iops_mean"] == pytest.approx(120 / 29)
    assert found["iops_max_10s"] == pytest.approx(10)
    assert (found["read_bytes_mean"], found["write_bytes_max"]) == (8192, 4096)
    assert found["read_latency"]["p50_us"] == pytest.approx(100, rel=1 / 64)
    assert found["read_latency"]["mean_us"] == pytest.approx(100)
    assert found["write_latency"]["max_us"] == pytest.approx(200)
    assert found["events"]["missing_completions"] == 0


def busiest(path: Path, time_us: np.ndarray) -> float:
    size, reads = np.full(len(time_us), 4096), np.zeros(len(time_us), bool)
    workload = [
        Workload(part, size[: len(part)], size[: len(part)], reads[: len(part)])
        for part in np.array_split(time_us, 3)
    ]
    iolog.write_iolog(path, workload, "drive")
    return float(inspect(path).to_json()["iops_max_10s"])


def test_the_busiest_ten_seconds_begin_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "a.iolog"
    # 18.5 s with increasing load: the last 10 s exceed the mean and are not aligned to 10 s.
    rising = np.cumsum(np.linspace(20_000, 2_000, 1682)).astype(np.int64)
    last = np.count_nonzero(rising > rising[-1] - 10_000_000) / 10
    mean = len(rising) / (rising[-1] / 1e6)
    assert mean < 92 < last
    assert busiest(path, rising) == pytest.approx(last, rel=0.02)
    rng = np.random.default_rng(1)
    for _ in range(5):
        gaps = rng.choice([100, 10_000, 2_000_000, 40_000_000], 3000, p=[0.7, 0.28, 0.0195, 0.0005])
        time_us = np.cumsum(gaps)
        ends = np.searchsorted(time_us, time_us + 10_000_000)
        exact = (ends - np.arange(3000)).max() / 10
        # At most the I/Os of a tenth of a second are missed.
        tenth = (np.searchsorted(time_us, time_us + 100_000) - np.arange(3000)).max() / 10
        assert exact - tenth <= busiest(path, time_us) <= exact


def test_busiest_ten_seconds_need_little_memory() -> None:
    summary, n_tenths = WorkloadSummary(), 100_000
    columns = np.zeros(1000, np.int64)
    tracemalloc.start()
    try:
        for begin in range(0, n_tenths, 1000):
            time_us = np.arange(begin, begin + 1000) * 100_000
            summary.add(Workload(time_us, columns, columns, columns > 0))
        assert summary.to_json()["iops_max_10s"] == 10
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * n_tenths


def test_less_than_ten_seconds_have_no_busiest_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.iolog"
    assert busiest(path, np.arange(100) * 50_000) == pytest.approx(100 / 4.95)
    shown = CliRunner().invoke(cli, ["inspect", str(path)]).output
    assert "IOPS mean 20, shorter than 10 s; reads" in shown
    busiest(path, np.arange(300) * 50_000)
    assert "max over 10 s 20;" in CliRunner().invoke(cli, ["inspect", str(path)]).output


def test_inspect_separates_latency_and_response_time_of_a_replay_log(tmp_path: Path) -> None:
    records = np.zeros(5, replay_log.RECORD)
    records["due_ns"] = [2_000_000_000, 0, 1_000_000_000, 1, 2]
    records["latency_ns"] = [100_000, 200_000, 300_000, 5_000, 6_000]
    records["lag_ns"] = [50_000, 0, 150_000, 7_000_000, 0]
    records["size_bytes"] = 4096
    records["op"] = [0, 1, 0, 0, 1]
    records["served_by"] = [0, 1, 2, replay_log.NOBODY, replay_log.NOBODY]
    path = write_log(tmp_path / "run.log", records)
    found = inspect(path).to_json()
    assert (found["format"], found["reads"], found["writes"]) == ("replay_log", 3, 2)
    assert found["duration_s"] == pytest.approx(2)
    # Failed I/Os were not answered.
    assert found["read_latency"]["mean_us"] == pytest.approx(200)
    assert found["write_latency"]["mean_us"] == pytest.approx(200)
    assert found["read_response"]["mean_us"] == pytest.approx(300)
    assert found["read_response"]["max_us"] == pytest.approx(450)
    assert found["write_response"]["mean_us"] == pytest.approx(200)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(TraceError, match="cut short"):
        inspect(path)


def test_inspect_refuses_a_trace_without_ios(tmp_path: Path) -> None:
    path = tmp_path / "x.iolog"
    path.write_text("fio version 3 iolog\n0 /dev/x add\n")
    with pytest.raises(TraceError, match="no read or write"):
        inspect(path)


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
