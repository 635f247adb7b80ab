# SPDX-License-Identifier: MIT
"""The benchmarks run as documented, and name what they lack."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from eval.bench import BenchError, bypass, store_pauses, tracers, watching
from eval.bench import __main__ as command
from eval.cache import ROOT
from linnapp.errors import LinnappError


def test_bench_list_runs_no_benchmark() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "eval.bench", "--list"],
        check=True, capture_output=True, text=True, cwd=ROOT,
    ).stdout  # fmt: skip
    assert [line.split()[0] for line in listed.splitlines()] == list(command.BENCHMARKS)


def test_redis_benchmark_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BenchError, match="^redis-server, .*: not installed; .*redis.txt"):
        watching.redis()


def test_tracers_record_each_call(tmp_path: Path) -> None:
    try:
        tracers.check_watching("tracers.txt", "strace")
    except (BenchError, LinnappError) as error:
        pytest.skip(f"tracing cannot be tried here: {error}")
    binary = tmp_path / "traced_calls"
    subprocess.run(["cc", "-o", binary, ROOT / "eval/bench/traced_calls.c"], check=True)
    for name in ("no tracer", "strace", "watch"):
        few, more = (tracers.run_one(binary, "fileserver", n, name) for n in (10, 20))
        assert more["calls"] - few["calls"] == 110
        assert more["recorded"] - few["recorded"] == (0 if name == "no tracer" else 110), name


def test_module_without_headers_names_the_package() -> None:
    with pytest.raises(BenchError, match="apt-get install linux-headers-0.0-none"):
        bypass.build("0.0-none")


def test_each_repeat_of_db_bench_has_its_time_and_percentile() -> None:
    report = """\
1000 RocksDB:    version 7.8.3
3000000000 fillrandom   :    3751.181 micros/op 1397 ops/sec 2.000 seconds 7992 operations;
3000000100 Percentiles: P50: 5.69 P75: 8.48 P99: 13684.78 P99.9: 25674.00 P99.99: 31753.00
5500000000 fillrandom   :    4376.703 micros/op 1410 ops/sec 1.500 seconds 7992 operations;
5500000100 Percentiles: P50: 5.12 P75: 7.43 P99: 41.5 P99.9: 20669.33 P99.99: 42356.80
5500000200 fillrandom [AVG    2 runs] : 1415 (7) ops/sec;    1.4 (0.0) MB/sec
"""
    assert store_pauses.repeats(report) == [
        (10**9, 3 * 10**9, 13684.78),
        (4 * 10**9, 5_500_000_000, 41.5),
    ]


def test_ratios_are_paired_and_dropped_records_are_summed() -> None:
    bare = [watching.Run(k, 1.0, 1.0) for k in range(1, 6)]
    traced = [watching.Run(1.5 * k, 1.25, 1.75, calls=10, dropped=k) for k in range(1, 6)]
    found = watching.compare_pairs(bare, traced)
    # Five pairs are too few for an interval of a median.
    assert found["ratios"]["time"] == [1.5, None, None]
    assert found["ratios"]["all CPU"] == [1.5, None, None]
    assert found["calls"] == 50 and found["dropped"] == 15
