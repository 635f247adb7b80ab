# SPDX-License-Identifier: MIT
"""Added bursts: recomputed features agree with the reader's, and the parts do not mix."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
from blktrace_builder import READ, WRITE, TraceBuilder

from linnapp.learn import examples as augmentation
from linnapp.learn.examples import MAX_HELD_OUT_ROWS, Split, _part_of, sample_bursts
from linnapp.learn.labels import SlowLimits
from linnapp.trace.blktrace import COMPLETED, ERROR, REVOKED, BlktraceReader, IoChunk
from linnapp.trace.blktrace import WRITE as IS_WRITE
from linnapp.trace.reads import LoggedDrive


def busy_trace(path: Path, n: int = 3000, seed: int = 1) -> Path:
    """Write overlapping reads and writes of several sizes; no two events at the same time."""
    rng = np.random.default_rng(seed)
    times = rng.choice(n * 200, 2 * n, replace=False) + 0.5
    builder = TraceBuilder()
    starts = np.sort(times[:n])
    latency = np.exp(rng.uniform(np.log(20), np.log(2000), n)).astype(int) + 0.25 * np.arange(n) / n
    for i in range(n):
        pages = int(rng.integers(1, 9)) * (1 if rng.random() < 0.8 else int(rng.choice([5, 60])))
        size = 4096 * pages - 512 * int(rng.integers(0, 2))
        flags = WRITE if rng.random() < 0.3 else READ
        builder.io(starts[i], starts[i] + latency[i], 4000 * i, size, flags=flags)
    return builder.sort().write(path)


def whole(path: Path) -> IoChunk:
    (chunk,) = BlktraceReader(path)
    return chunk


def columns_of(chunk: IoChunk, *names: str) -> list[np.ndarray]:
    columns = (chunk.arrival_ns, chunk.latency_ns, chunk.sector, chunk.size_bytes, chunk.flags)
    return LoggedDrive().feed(names, *columns, ties_in_order=True)


def test_recomputed_features_equal_those_of_the_reader(tmp_path: Path) -> None:
    chunk = whole(busy_trace(tmp_path / "a.blk"))
    names = ("pending", "hist_pending", "hist_latency_us")
    for name, column in zip(names, columns_of(chunk, *names), strict=True):
        assert np.array_equal(column, getattr(chunk, name)), name
    assert chunk.pending.max() > 20
    orders = np.searchsorted([64 << 10, 1 << 20], chunk.size_bytes[chunk.is_read])
    assert np.bincount(orders)[:2].min() > 50


def test_refused_reads_have_no_effect_on_pending_pages(tmp_path: Path) -> None:
    chunk = whole(busy_trace(tmp_path / "a.blk"))
    arrival = chunk.arrival_ns
    completion = arrival + chunk.latency_ns
    pages = -(-chunk.size_bytes.astype(np.int64) // 4096)
    present = ~chunk.is_read | (np.random.default_rng(2).random(len(chunk)) < 0.3)
    flags = np.where(present, chunk.flags, REVOKED | COMPLETED).astype(np.uint16)
    (pending,) = columns_of(dataclasses.replace(chunk, flags=flags), "pending")
    for i in range(0, len(chunk), 37):
        others = present & (arrival < arrival[i]) & (completion > arrival[i])
        assert pending[i] == pages[others].sum() + pages[i]


def augmented(chunk: IoChunk) -> augmentation.BurstReads:
    return augmentation.add_bursts(chunk, 300, np.random.default_rng(1))


def assert_equal(one: augmentation.BurstReads, other: augmentation.BurstReads) -> None:
    for field in dataclasses.fields(augmentation.BurstReads):
        assert np.array_equal(getattr(one, field.name), getattr(other, field.name)), field.name


@pytest.fixture
def third_of_reads(tmp_path: Path) -> tuple[IoChunk, np.ndarray]:
    """Return a recording and a mask of the reads whose end a test changes."""
    chunk = whole(busy_trace(tmp_path / "a.blk", 20000))
    chosen = chunk.is_read & (np.random.default_rng(3).random(len(chunk)) < 0.3)
    chosen[[0, -1]] = False
    return chunk, chosen


def test_revoked_reads_are_neither_history_nor_load(third_of_reads) -> None:
    """The recording was made in mode enforce: revoked reads never reached the drive."""
    chunk, revoked = third_of_reads
    flags = np.where(revoked, COMPLETED | REVOKED, chunk.flags).astype(np.uint16)
    bursts = augmented(dataclasses.replace(chunk, flags=flags))
    assert len(bursts) > 500
    assert_equal(bursts, augmented(chunk.take(~revoked)))


def test_failed_reads_are_load_but_not_history(third_of_reads) -> None:
    """Failed reads have the effect of writes of the same size."""
    chunk, failed = third_of_reads
    flags = np.where(failed, COMPLETED | ERROR, chunk.flags).astype(np.uint16)
    as_writes = np.where(failed, COMPLETED | IS_WRITE, chunk.flags).astype(np.uint16)
    bursts = augmented(dataclasses.replace(chunk, flags=flags))
    assert len(bursts) > 500
    assert_equal(bursts, augmented(dataclasses.replace(chunk, flags=as_writes)))


def test_labels_follow_from_the_added_latency(third_of_reads) -> None:
    """A read is slow if its latency with the added one exceeds the limit of its size."""
    chunk, _ = third_of_reads
    large = (chunk.latency_ns // np.uint64(1000)) % np.uint64(2) == 1
    sizes = np.where(large, 32 * 4096, 4096).astype(np.uint32)
    limit_us = np.full(17, 300.0)
    limit_us[5] = 2500.0  # the class of 32 pages
    bursts = augmentation.add_bursts(
        dataclasses.replace(chunk, size_bytes=sizes),
        300,
        np.random.default_rng(1),
        SlowLimits(limit_us),
    )
    added_us = bursts.latency_us - bursts.recorded_us
    assert np.all((added_us == 0) | (added_us >= 300))
    assert 0.3 < np.mean(added_us > 0) < 1  # the others come after a window
    is_large = bursts.recorded_us % 2 == 1
    expected = bursts.latency_us > np.where(is_large, 2500, 300)
    assert np.array_equal(bursts.slow, expected)
    for kind in (is_large, ~is_large):
        assert 50 < np.count_nonzero(expected[kind]) < np.count_nonzero(kind) - 50
    assert (
        np.count_nonzero(bursts.slow & (bursts.recorded_us <= 300)) > 100
    )  # slow by the burst alone


def test_tiny_chunk_has_no_examples() -> None:
    empty = IoChunk(
        *(np.zeros(0, np.uint64) for _ in range(3)),
        *(np.zeros(0, np.uint32) for _ in range(2)),
        np.zeros(0, np.uint16),
        *(np.zeros((0, 4), np.uint32) for _ in range(2)),
    )
    assert len(augmentation.add_bursts(empty, 300, np.random.default_rng(1))) == 0


def split_at(path: Path, *shares: float) -> Split:
    n = int(np.count_nonzero(whole(path).is_served_read))
    first_validation, first_test = (round(n * share) for share in shares)
    return Split(
        slice(0, first_validation), slice(first_validation, first_test), slice(first_test, n)
    )


@pytest.mark.parametrize("boundaries", [(1, 2), (700, 701), (700, 1400), (1998, 1999)])
def test_training_slices_are_split_at_served_reads(
    tmp_path: Path, boundaries: tuple[int, int]
) -> None:
    path = busy_trace(tmp_path / "a.blk")
    n = int(np.count_nonzero(whole(path).is_served_read))
    ends = (0, *boundaries, n)
    parts = [
        list(_part_of(path, slice(start, stop), {"chunk_ios": 100}))
        for start, stop in itertools.pairwise(ends)
    ]
    counts = [sum(np.count_nonzero(c.is_served_read) for c in part) for part in parts]
    assert counts == np.diff(ends).tolist()
    times = np.concatenate([c.arrival_ns for part in parts for c in part])
    assert np.array_equal(times, whole(path).arrival_ns)


def test_sampling_is_seeded_and_meets_the_share(tmp_path: Path) -> None:
    path = busy_trace(tmp_path / "a.blk", 20000)
    parts = split_at(path, 0.7, 0.85)
    first = parts.validation.start
    training, validation, test = sample_bursts(path, parts, 0.3, 300, seed=1)
    two, *_ = sample_bursts(path, parts, 0.3, 300, seed=1)
    other, *_ = sample_bursts(path, parts, 0.3, 300, seed=2)
    assert np.array_equal(training.inputs, two.inputs)
    assert not np.array_equal(training.inputs, other.inputs)
    assert len(training) == pytest.approx(0.3 * (first + len(training)), rel=0.01)
    assert 0 < len(validation) <= MAX_HELD_OUT_ROWS
    assert 0 < len(test) <= MAX_HELD_OUT_ROWS
    assert not np.array_equal(validation.inputs, test.inputs)


def test_no_training_example_depends_on_the_validation_part(tmp_path: Path) -> None:
    path = busy_trace(tmp_path / "a.blk")
    chunk = whole(path)
    parts = split_at(path, 0.5, 0.75)
    cut_ns = int(chunk.arrival_ns[np.flatnonzero(chunk.is_served_read)[parts.validation.start]])
    whole_trace, *_ = sample_bursts(path, parts, 0.3, 300, seed=1)
    # The same trace with other I/Os after the boundary. (Reads in flight there stay the same.)
    head = TraceBuilder()
    data = path.read_bytes()
    import struct

    starts = {}
    for offset in range(0, len(data), 48):
        event = data[offset : offset + 48]
        time_ns, sector = struct.unpack_from("<QQ", event, 8)
        starts.setdefault(sector, time_ns)
        if starts[sector] < cut_ns:
            head.events.append((time_ns, 0, event))
    for i in range(100):
        head.io(cut_ns / 1000 + 10 * i + 0.1, cut_ns / 1000 + 10 * i + 9000, 10**7 + 8 * i)
    (tmp_path / "other").mkdir()
    # Without the numbers of the events that were left out, which would count as lost.
    head.events = [
        (time_ns, cpu, event[:4] + struct.pack("<I", number) + event[8:])
        for number, (time_ns, cpu, event) in enumerate(head.sort().events, 1)
    ]
    other_path = head.write(tmp_path / "other" / "a.blk")
    other, *_ = sample_bursts(other_path, parts, 0.3, 300, seed=1)
    assert np.array_equal(whole_trace.inputs, other.inputs)
    assert np.array_equal(whole_trace.slow, other.slow)
