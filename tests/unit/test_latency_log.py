# SPDX-License-Identifier: MIT
"""Logs with latencies: features as seen by a kernel, in order, in chunks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from linnapp.errors import TraceError
from linnapp.trace.blktrace import COLUMNS
from linnapp.trace.convert import detect_format
from linnapp.trace.reads import LatencyLogReader, drive_of, open_recording

#: submit_ms, latency_us, read, bytes; written below in order of completion
IOS = [
    (0.000, 100, 1, 4096),  # ends at 0.100
    (0.010, 500, 0, 65536),  # ends at 0.510
    (0.050, 20, 1, 8192),  # ends at 0.070
    (0.120, 30, 1, 512),  # ends at 0.150
    (0.600, 40, 1, 4096),
]


def line(submit_ms: float, latency_us: int, read: int, size: int, offset: int = 4096) -> str:
    return f"0.000,{latency_us},{read},{size},{offset},{submit_ms:.3f},{size}\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "az.trace"
    by_end = sorted(IOS, key=lambda io: io[0] * 1000 + io[1])
    path.write_text("".join(line(*io) for io in by_end))
    return path


def random_log(path: Path, n: int = 3000, seed: int = 1) -> None:
    """Write reads that are slow in runs, so that past latencies are informative."""
    rng = np.random.default_rng(seed)
    submit_us = np.cumsum(rng.integers(1, 400, n))
    slow = (submit_us // 20_000) % 3 == 0
    latency_us = rng.integers(80, 120, n) + np.where(slow, rng.integers(0, 3000, n), 0)
    read = rng.random(n) < 0.7
    size = rng.choice([4096, 16384], n)
    order = np.argsort(submit_us + latency_us)
    path.write_text(
        "".join(
            line(submit_us[i] / 1000, latency_us[i], int(read[i]), size[i], 4096 * int(i))
            for i in order
        )
    )


def test_log_has_the_documented_features(log: Path) -> None:
    assert detect_format(log) == "flashnet"
    (chunk,) = open_recording(log)
    assert chunk.arrival_ns.tolist() == [0, 10_000, 50_000, 120_000, 600_000]
    assert chunk.latency_ns.tolist() == [100_000, 500_000, 20_000, 30_000, 40_000]
    assert chunk.is_read.tolist() == [True, False, True, True, True]
    # Pages in flight, its own included: 1; 1+16; 1+16+2; 16+1; 1.
    assert chunk.pending.tolist() == [1, 17, 19, 17, 1]
    assert chunk.hist_latency_us[3].tolist() == [0, 0, 20, 100]
    assert chunk.hist_pending[3].tolist() == [0, 0, 19, 1]
    assert chunk.hist_latency_us[4].tolist() == [0, 20, 100, 30]
    assert chunk.hist_latency_us[1].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("chunk_ios", [64, 500, 2999])
def test_columns_of_a_log_do_not_depend_on_chunk_size(tmp_path: Path, chunk_ios: int) -> None:
    path = tmp_path / "random.trace"
    random_log(path)
    (whole,) = open_recording(path)
    parts = list(open_recording(path, chunk_ios=chunk_ios))
    assert len(parts) > 1
    for name in COLUMNS:
        together = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(together, getattr(whole, name), err_msg=name)
    assert np.all(np.diff(whole.arrival_ns.astype(np.int64)) >= 0)


def test_a_line_far_too_late_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "late.trace"
    lines = [line(float(k), 10, 1, 4096) for k in range(40_000)]
    path.write_text("".join(lines[1:] + lines[:1]))
    with pytest.raises(TraceError, match=r":40000: more than 16384 lines behind .* sort the trace"):
        list(open_recording(path))
    path.write_text("".join(lines[1:100] + lines[:1]))
    assert sum(len(chunk) for chunk in open_recording(path)) == 100


@pytest.mark.parametrize("bad", ["-5", "nan", "x", "99999999999999999999"])
def test_invalid_latency_error_names_the_line(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "bad.trace"
    path.write_text(line(0, 10, 1, 4096) + line(1, 10, 1, 4096).replace(",10,", f",{bad},", 1))
    with pytest.raises(TraceError, match=r"bad\.trace:2"):
        list(open_recording(path))


def test_zero_latency_stands_for_a_missing_completion(tmp_path: Path) -> None:
    path = tmp_path / "zero.trace"
    path.write_text(line(0, 0, 1, 4096) + line(1, 10, 1, 4096))
    reader = open_recording(path)
    (chunk,) = reader
    assert isinstance(reader, LatencyLogReader)
    assert chunk.is_served_read.tolist() == [False, True]
    assert chunk.pending.tolist() == [1, 1]
    assert reader.stats["missing_completions"] == 1


def test_device_option_is_refused_for_a_log(log: Path) -> None:
    with pytest.raises(TraceError, match="`device=`"):
        open_recording(log, device="8:0")


@pytest.mark.parametrize(
    ("name", "drive"),
    [
        ("az.blk", "az"),
        ("az.blktrace.3", "az"),
        ("az.trace", "az"),
        ("a.b.csv", "a.b"),
        ("az.log", "az"),
        ("az.txt", "az"),
        ("az.iolog", "az.iolog"),
    ],
)
def test_drive_has_the_name_of_its_recording_without_the_suffix(name: str, drive: str) -> None:
    assert drive_of(name) == drive
