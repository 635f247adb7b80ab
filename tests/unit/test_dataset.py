# SPDX-License-Identifier: MIT
"""The compact columns of a trace's served reads, against the reader's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from blktrace_builder import EBUSY, READ, WRITE, C, D, Q, TraceBuilder

from linnapp.engine import digits
from linnapp.errors import TraceError
from linnapp.learn import examples as dataset
from linnapp.learn.examples import load_reads
from linnapp.trace.blktrace import BlktraceReader


def a_trace(path: Path) -> Path:
    """Write reads of sizes on both sides of a page's end, writes, revoked reads and failed ones."""
    builder = TraceBuilder()
    sizes = [512, 4096, 4608, 8192, 65536]
    for i in range(200):
        start, sector = 100.0 * i, 1000 * i
        if i % 10 == 3:
            builder.add(Q, start, sector).add(C, start + 1, sector, error=-EBUSY)
        elif i % 10 == 6:
            builder.add(Q, start, sector).add(D, start, sector)
            builder.add(C, start + 20_000, sector, error=-5)
        else:
            flags = WRITE if i % 10 == 9 else READ
            builder.io(start, start + 50 + 7 * i, sector, sizes[i % len(sizes)], flags=flags)
    return builder.sort().write(path)


def test_dataset_has_the_columns_of_the_served_reads(tmp_path: Path) -> None:
    path = a_trace(tmp_path / "d.blk")
    (chunk,) = BlktraceReader(path)
    served = chunk.take(chunk.is_served_read)
    reads = load_reads(path)
    assert len(reads) == len(served) == 140
    assert np.array_equal(reads.latency_us, served.latency_ns // np.uint64(1000))
    pages_of = {512: 1, 4096: 1, 4608: 2, 8192: 2, 65536: 16}
    assert reads.pages.tolist() == [pages_of[size] for size in served.size_bytes.tolist()]
    assert np.array_equal(reads.pending, np.minimum(served.pending, 999))
    assert np.array_equal(reads.hist_pending, np.minimum(served.hist_pending, 999))
    assert np.array_equal(reads.hist_latency_us, np.minimum(served.hist_latency_us, 9999))
    assert reads.hist_latency_us.max() > 1000  # capped at its own digits, not at those of pending


def test_digits_computed_in_blocks_equal_those_computed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = a_trace(tmp_path / "d.blk")
    (chunk,) = BlktraceReader(path)
    served = chunk.take(chunk.is_served_read)
    expected = digits(served.pending, served.hist_pending, served.hist_latency_us)
    monkeypatch.setattr(dataset, "_DIGIT_ROWS", 17)
    reads = load_reads(path)
    assert np.array_equal(reads.digits(), expected)
    assert np.array_equal(reads.digits(slice(5, 60)), expected[5:60])
    assert np.array_equal(reads.take(slice(None, None, 3)).digits(), expected[::3])


def test_trace_without_served_reads_is_an_error_that_counts_its_ios(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.io(0, 50, 8, flags=WRITE)
    builder.add(Q, 100, 16).add(C, 101, 16, error=-EBUSY)
    with pytest.raises(TraceError, match=r"1 reads and 1 writes were submitted, 1 revoked"):
        load_reads(builder.write(tmp_path / "d.blk"))
