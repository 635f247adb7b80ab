# SPDX-License-Identifier: MIT
"""Features of a latency model: the computed ones are those of a plain walk through the events."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from blktrace_builder import EBUSY, C, Q, TraceBuilder
from test_latency_log import line, random_log

from linnapp.learn.bound import observable
from linnapp.learn.latency_features import Observer
from linnapp.model.latency_model import CAP, FEATURES
from linnapp.native import HISTORY
from linnapp.trace.blktrace import COMPLETED, ERROR, REVOKED, WRITE, IoChunk
from linnapp.trace.in_flight import PAGE_BYTES, SIZE_PAGES
from linnapp.trace.recorded import open_recording


def made_up(n: int, seed: int) -> IoChunk:
    """I/Os of every kind, with ties in arrival and completion, pauses and stalls."""
    rng = np.random.default_rng(seed)
    gap_us = rng.choice([0, 1, 40, 300, 50_000], n, p=[0.2, 0.3, 0.3, 0.19, 0.01])
    latency_us = rng.choice([1, 90, 100, 3000, 400_000], n, p=[0.1, 0.4, 0.4, 0.09, 0.01])
    flags = np.where(rng.random(n) < 0.3, WRITE, 0) | COMPLETED
    flags[rng.random(n) < 0.02] |= ERROR
    flags[rng.random(n) < 0.02] |= REVOKED
    flags[rng.random(n) < 0.02] &= ~COMPLETED
    return IoChunk(
        arrival_ns=(np.cumsum(gap_us) * 1000 + rng.integers(0, 2, n).cumsum() * 300).astype(
            np.uint64
        ),
        latency_ns=(latency_us * 1000 + rng.integers(0, 1000, n)).astype(np.uint64),
        sector=np.zeros(n, np.uint64),
        size_bytes=rng.choice([512, 4096, 4097, 65536, 65537, 131072, 1 << 20, 1 << 21], n).astype(
            np.uint32
        ),
        pending=rng.integers(1, 500, n).astype(np.uint32),
        flags=flags.astype(np.uint8),
        hist_pending=np.zeros((n, 4), np.uint32),
        hist_latency_us=np.zeros((n, 4), np.uint32),
    )


def order(pages: int) -> int:
    """Up to 64 KiB, up to 1 MiB, larger."""
    return int(pages * PAGE_BYTES > 64 << 10) + int(pages * PAGE_BYTES > 1 << 20)


def walked(chunk: IoChunk, overdue_us: int) -> list[list[int]]:
    """The same, as a kernel would count: I/O after I/O."""
    rows = []
    in_flight: list[tuple[int, int]] = []  # end, index, of reads and writes
    history: list[tuple[int, int]] = []  # end, index, of completed reads, latest last
    pages = [-(-int(size) // PAGE_BYTES) for size in chunk.size_bytes]
    for i in range(len(chunk)):
        flags, now = int(chunk.flags[i]), int(chunk.arrival_ns[i])
        for end, k in sorted(io for io in in_flight if io[0] <= now):
            in_flight.remove((end, k))
            if not int(chunk.flags[k]) & (WRITE | ERROR):
                history.append((end, k))
        if flags & REVOKED or not flags & COMPLETED:
            continue
        seen_in_flight = [
            k for _, k in in_flight if chunk.ties_in_order or int(chunk.arrival_ns[k]) < now
        ]
        reads = [k for k in seen_in_flight if not int(chunk.flags[k]) & WRITE]
        ages_ns = [now - int(chunk.arrival_ns[k]) for k in reads]
        if not flags & (WRITE | ERROR):
            row = [
                pages[i],
                sum(pages[k] for k in reads),
                sum(pages[k] for k in seen_in_flight if int(chunk.flags[k]) & WRITE),
                len(reads),
                max(ages_ns, default=0) // 1000,
                sum(age > overdue_us * 1000 for age in ages_ns),
            ]
            seen = [(end, k) for end, k in history if order(pages[k]) <= order(pages[i])]
            for ago in range(1, HISTORY + 1):
                if ago > len(seen):
                    row += [0, 0, 0, CAP]
                    continue
                end, k = seen[-ago]
                row += [
                    int(chunk.latency_ns[k]) // 1000,
                    int(chunk.pending[k]),
                    pages[k],
                    (now - end) // 1000,
                ]
            rows.append([min(value, CAP) for value in row])
        in_flight.append((now + int(chunk.latency_ns[i]), i))
    return rows


def observed(chunk: IoChunk, overdue_us: int, chunk_ios: int) -> np.ndarray:
    observer = Observer(overdue_us)
    return np.concatenate(
        [
            observer.observe(chunk.take(slice(start, start + chunk_ios)))
            for start in range(0, len(chunk), chunk_ios)
        ]
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("chunk_ios", [1, 37, 2000])
@pytest.mark.parametrize("ties_in_order", [True, False])
def test_features_are_those_of_a_walk_through_the_events(
    seed: int, chunk_ios: int, ties_in_order: bool
) -> None:
    chunk = made_up(2000 if chunk_ios > 1 else 400, seed)
    chunk = dataclasses.replace(chunk, ties_in_order=ties_in_order)
    got = observed(chunk, 150, chunk_ios)
    assert got.shape[1] == len(FEATURES)
    assert got.tolist() == walked(chunk, 150)


def test_orders_of_size_are_the_kernels() -> None:
    header = (Path(__file__).parents[2] / "kernel/linnos/core/linnos_model.h").read_text()
    defined = dict(
        re.findall(r"^#define LINNOS_(SIZES|SMALL_PAGES|MEDIUM_PAGES) (\d+)$", header, re.M)
    )
    assert int(defined["SIZES"]) == len(SIZE_PAGES) + 1
    assert (int(defined["SMALL_PAGES"]), int(defined["MEDIUM_PAGES"])) == SIZE_PAGES


def test_large_reads_are_no_history_of_small_ones(tmp_path: Path) -> None:
    """Log and blktrace, digits and features of trees: at and around both boundaries."""
    sizes = [1, SIZE_PAGES[0], SIZE_PAGES[0] + 1, SIZE_PAGES[1], SIZE_PAGES[1] + 1]
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
    # By latency, latest first: who sees whom.
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
        arrays = (chunk.arrival_ns, chunk.latency_ns, chunk.size_bytes)
        yardstick = observable(
            *(array.astype(np.int64) for array in arrays), chunk.is_read,
            chunk.pending.astype(np.int64), ties_in_order=chunk.ties_in_order,
        )  # fmt: skip
        assert np.nan_to_num(yardstick[:, 7::4])[:, ::-1].tolist() == expected


def test_a_log(tmp_path: Path) -> None:
    random_log(tmp_path / "az.trace")
    [chunk] = open_recording(tmp_path / "az.trace")
    got = Observer(500).observe(chunk)
    assert got.tolist() == walked(chunk, 500)
    column = {name: got[:, k] for k, name in enumerate(FEATURES)}
    reads = chunk.take(chunk.is_served_read)
    # What both kinds of model see is the same.
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
    [chunk] = open_recording(trace.sort().write(tmp_path / "a.blk"))
    rows = Observer(90).observe(chunk)
    names = [dict(zip(FEATURES, row, strict=True)) for row in rows.tolist()]
    assert len(rows) == 3
    assert names[0]["age_us_1"] == CAP
    last = names[2]
    assert (last["pages"], last["read_pages"], last["write_pages"]) == (1, 2, 4)
    assert (last["reads_in_flight"], last["oldest_us"], last["overdue"]) == (1, 100, 1)
    assert (last["latency_us_1"], last["pages_1"], last["age_us_1"]) == (100, 1, 120)
    assert last["age_us_2"] == CAP


def test_nothing_to_observe() -> None:
    observer = Observer(100)
    nothing = made_up(10, 1).take(slice(0, 0))
    assert observer.observe(nothing).shape == (0, len(FEATURES))
    writes = made_up(100, 1)
    writes = writes.take(writes.is_write)
    assert observer.observe(writes).shape == (0, len(FEATURES))
