# SPDX-License-Identifier: MIT
"""Features of a latency model: those of logs and recordings equal those of a plain walk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from blktrace_builder import EBUSY, C, Q, TraceBuilder
from reference_drive import walk
from test_latency_log import line, random_log
from test_logged_drive import ios_of

from eval.drive_log import of_all
from linnapp.model.file import CAP, FEATURES
from linnapp.native import HISTORY
from linnapp.trace.blktrace import IoChunk
from linnapp.trace.logged_drive import PAGE_BYTES, LoggedDrive
from linnapp.trace.reads import load, open_recording


def observed(chunk: IoChunk, overdue_us: int, chunk_ios: int) -> np.ndarray:
    drive = LoggedDrive(overdue_us)
    return np.concatenate(
        [
            drive.features_of(chunk.take(slice(start, start + chunk_ios)))
            for start in range(0, len(chunk), chunk_ios)
        ]
    )


def walked(chunk: IoChunk, overdue_us: int) -> list[list[int]]:
    """Compute the same with a plain walk."""
    names = ("arrival_ns", "latency_ns", "sector", "size_bytes", "flags")
    ios = ios_of({name: getattr(chunk, name) for name in names}, chunk.pending)
    found = walk(ios, overdue_us, ties_in_order=chunk.ties_in_order)
    served = chunk.is_served_read.tolist()
    return [row.features for row, wanted in zip(found, served, strict=True) if wanted]


def test_large_reads_are_no_history_of_small_ones(tmp_path: Path) -> None:
    """Log and blktrace, digits and tree features, at and around both boundaries."""
    sizes = [1, 16, 17, 256, 257]
    trace, lines = TraceBuilder(), []
    for k, pages in enumerate([*reversed(sizes), *sizes]):
        # One after another, 100 us longer each.
        begin, size = 10_000 * k, pages * PAGE_BYTES
        trace.io(begin, begin + 100 + k, 5000 * k, size)
        lines.append(line(begin / 1000, 100 + k, 1, size))
    (tmp_path / "a.trace").write_text("".join(lines))
    of_blk, of_log = (
        open_recording(path) for path in (trace.write(tmp_path / "a.blk"), tmp_path / "a.trace")
    )
    # By latency, latest first: the visible completions.
    expected = [
        [0, 0, 0, 0],
        [0, 0, 0, 0],
        [101, 0, 0, 0],
        [0, 0, 0, 0],
        [103, 0, 0, 0],
        [104, 103, 0, 0],
        [105, 104, 103, 0],
        [106, 105, 104, 103],
        [107, 106, 105, 104],
        [108, 107, 106, 105],
    ]
    for reader in (of_blk, of_log):
        [chunk] = reader
        assert chunk.hist_latency_us[:, ::-1].tolist() == expected
        columns = [FEATURES.index(f"latency_us_{ago}") for ago in range(1, HISTORY + 1)]
        for chunk_ios in (1, 3, 10):
            assert observed(chunk, 10**6, chunk_ios)[:, columns].tolist() == expected


def test_a_log(tmp_path: Path) -> None:
    random_log(tmp_path / "az.trace")
    [chunk] = open_recording(tmp_path / "az.trace")
    got = LoggedDrive(500).features_of(chunk)
    assert got.tolist() == walked(chunk, 500)
    column = {name: got[:, k] for k, name in enumerate(FEATURES)}
    reads = chunk.take(chunk.is_served_read)
    # Both kinds of model have equal features.
    assert np.array_equal(
        column["pages"] + column["read_pages"] + column["write_pages"], reads.pending
    )
    for ago in range(1, HISTORY + 1):
        assert np.array_equal(column[f"latency_us_{ago}"], reads.hist_latency_us[:, -ago])
        assert np.array_equal(column[f"pending_{ago}"], reads.hist_pending[:, -ago])
    assert column["overdue"].max() > 0


def test_a_blktrace(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.io(0, 100, 8)
    trace.io(20, 900, 16, 16384, flags=1 << 17)
    trace.add(Q, 110, 24).add(C, 110, 24, error=EBUSY)
    trace.io(120, 420, 32, 8192)
    trace.io(220, 300, 40)
    path = trace.sort().write(tmp_path / "a.blk")
    [chunk] = open_recording(path)
    rows = LoggedDrive(90).features_of(chunk)
    # No I/O is held back, split or merged, so requests equal I/Os.
    [of_requests] = open_recording(path, overdue_us=90)
    assert np.array_equal(LoggedDrive(90).features_of(of_requests), rows)
    names = [dict(zip(FEATURES, row, strict=True)) for row in rows.tolist()]
    assert len(rows) == 3
    assert names[0]["age_us_1"] == CAP
    last = names[2]
    assert (last["pages"], last["read_pages"], last["write_pages"]) == (1, 2, 4)
    assert (last["reads_in_flight"], last["oldest_us"], last["overdue"]) == (1, 100, 1)
    assert (last["latency_us_1"], last["pages_1"], last["age_us_1"]) == (100, 1, 120)
    assert last["age_us_2"] == CAP


def test_features_without_reads_are_empty(tmp_path: Path) -> None:
    random_log(tmp_path / "az.trace")
    [chunk] = open_recording(tmp_path / "az.trace")
    drive = LoggedDrive(100)
    for nothing in (chunk.take(slice(0, 0)), chunk.take(chunk.is_write)):
        assert drive.features_of(nothing).shape == (0, len(FEATURES))


def test_additional_black_box_features() -> None:
    start = 1000 * np.array([0, 20, 120, 120])
    end = 1000 * np.array([100, 900, 420, 300])
    now = start[[0, 2, 3]]
    found = np.column_stack(of_all(now, np.array([0, 2, 3]), start, end))
    # I/Os in flight; us since the oldest arrived, the last completion, the last arrival.
    nothing = [0, np.nan, np.nan, np.nan]
    np.testing.assert_array_equal(found, [nothing, [1, 100, 20, 100], [2, 100, 20, 0]])


def test_table_counts_the_same_overdue_reads_as_the_parser(tmp_path: Path) -> None:
    """The table is parsed once, before it is known after which time a read is overdue."""
    rng = np.random.default_rng(8)
    builder = TraceBuilder()
    for i in range(3000):
        start_us = int(10 * i + rng.integers(0, 5))
        builder.io(start_us, start_us + int(rng.choice([20, 30, 400])), 8 * int(rng.integers(999)))
    path = builder.sort().write(tmp_path / "d.blk")
    table = load(path, chunk_ios=700)
    for overdue_us in (1, 25, 100, 390, 5000):
        parsed, held = (
            np.concatenate([chunk.features for chunk in open_recording(of, overdue_us=overdue_us)])
            for of in (path, table)
        )
        assert np.array_equal(parsed, held)
        later = table[1000:]
        part = [chunk.features for chunk in open_recording(later, overdue_us=overdue_us)]
        assert np.array_equal(parsed[1000:], np.concatenate(part))
    assert held[:, FEATURES.index("overdue")].max() == 0 < parsed[:, 4].max()
