# SPDX-License-Identifier: MIT
"""The compiled core computes the same features as a plain Python reference."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blktrace_builder import EBUSY, C, Q, TraceBuilder
from numpy.typing import NDArray
from reference_drive import Io, walk
from replaying import BUILT, LIBRARY
from test_latency_log import random_log

from eval.drive_log import features_of_all_ios
from linnapp.errors import TraceError
from linnapp.model import CAP, FEATURES
from linnapp.native import HISTORY
from linnapp.trace.blktrace import COMPLETED, ERROR, REVOKED, WRITE, IoChunk
from linnapp.trace.reads import PAGE_BYTES, SEEN, LoggedDrive, load, open_recording

Columns = dict[str, NDArray[Any]]

#: sizes at and around both boundaries, less than a page, and more than the log of an I/O can hold
SIZES = [512, 4096, 4097, 65536, 65537, 131072, 1 << 20, (1 << 20) + 1, 1 << 21, 300 << 20]
SIZE_SHARES = [0.1, 0.3, 0.1, 0.15, 0.1, 0.1, 0.05, 0.05, 0.049, 0.001]

#: sectors at and around the ends of a region, at the end of all regions, and the last possible one
PLACES = [0, 15, 16, 17, 1008, 1023, 1024, 1025, 3 << 40, 2**55 - 1]

GAPS_US = [0, 1, 40, 300, 50_000]
LATENCIES_US = [0, 1, 90, 100, 3000, 400_000]

#: shares of the gaps and of the latencies
CALM = ([0.2, 0.3, 0.3, 0.19, 0.01], [0.02, 0.08, 0.4, 0.4, 0.09, 0.01])
#: Hundreds of reads in flight, many of them simultaneous.
BUSY = ([0.5, 0.4, 0.099, 0.001, 0], [0.02, 0.08, 0.4, 0.2, 0.3, 0])


def random_ios(
    n: int, seed: int, shares: tuple[list[float], list[float]], first_ns: int
) -> Columns:
    """Return I/Os of every kind, with ties in arrival and completion, pauses and stalls."""
    rng, where = (np.random.default_rng(s) for s in (seed, seed + 100))
    meet = where.random(n) < 0.5
    gaps, latencies = shares
    part_ns = rng.integers(0, 2, n).cumsum() * 300 * (rng.random() < 0.5)
    gap_us = rng.choice(GAPS_US, n, p=gaps)
    gap_us[0] = 0
    flags = np.where(rng.random(n) < 0.3, WRITE, 0) | COMPLETED
    for flag in (ERROR, REVOKED):
        flags[rng.random(n) < 0.02] |= flag
    flags[rng.random(n) < 0.02] &= ~COMPLETED
    latency_ns = 1000 * rng.choice(LATENCIES_US, n, p=latencies)
    # The first one is a read that others find in flight, and in the history.
    flags[0], latency_ns[0] = COMPLETED, 3_000_000
    return {
        "arrival_ns": (first_ns + np.cumsum(gap_us) * 1000 + part_ns - part_ns[0]).astype(
            np.uint64
        ),
        "latency_ns": (latency_ns + (latency_ns > 0) * rng.integers(0, 2, n) * 999).astype(
            np.uint64
        ),
        # Half of them are in few places, so that they overlap; some are in the last possible one.
        "sector": np.where(meet, 8 * where.integers(0, 64, n), where.choice(PLACES, n)),
        "size_bytes": rng.choice(SIZES, n, p=SIZE_SHARES).astype(np.uint32),
        "flags": flags.astype(np.uint16),
    }


def ios_of(columns: Columns, pending: NDArray[Any] | None = None) -> list[Io]:
    rows = zip(*(columns[name].tolist() for name in columns), strict=True)
    ios = [
        Io(
            *(arrival_ns, latency_ns, sector, size_bytes),
            not flags & WRITE,
            not flags & ERROR,
            flags & (COMPLETED | REVOKED) == COMPLETED,
        )
        for arrival_ns, latency_ns, sector, size_bytes, flags in rows
    ]
    if pending is None:
        return ios
    return [dataclasses.replace(io, pending=int(p)) for io, p in zip(ios, pending, strict=True)]


def by_the_core(
    columns: Columns, overdue_us: int, chunk_ios: int, *,
    ties_in_order: bool, pending: NDArray[Any] | None = None,
) -> Columns:  # fmt: skip
    drive = LoggedDrive(overdue_us)
    parts: list[list[NDArray[Any]]] = []
    for start in range(0, len(columns["flags"]), chunk_ios):
        rows = slice(start, start + chunk_ios)
        part = (column[rows] for column in columns.values())
        known = None if pending is None else pending[rows]
        parts.append(drive.feed(tuple(SEEN), *part, ties_in_order=ties_in_order, pending=known))
    return {
        name: np.concatenate(column)
        for name, column in zip(SEEN, zip(*parts, strict=True), strict=True)
    }


def by_the_reference(
    columns: Columns, overdue_us: int, *,
    ties_in_order: bool, pending: NDArray[Any] | None = None,
) -> Columns:  # fmt: skip
    rows: dict[str, list[Any]] = {name: [] for name in SEEN}
    ios = ios_of(columns, pending)
    for io, found in zip(ios, walk(ios, overdue_us, ties_in_order=ties_in_order), strict=True):
        rows["pending"].append(found.pending)
        # The number of a past read never changes, nor do the pages pending with it.
        past = [(p.pending, p.latency_ns // 1000, p.nr) if p else (0, 0, 0) for p in found.past]
        nothing = [(0, 0, 0)] * len(past)
        for name, numbers in zip(
            ("hist_pending", "hist_latency_us", "hist_nr"),
            zip(*(past if io.is_read else nothing), strict=True),
            strict=True,
        ):
            rows[name].append(numbers)
        rows["features"].append(found.features if io.is_read else [0] * len(FEATURES))
    return {name: np.array(column, np.uint32) for name, column in rows.items()}


def assert_same(got: Columns, expected: Columns) -> None:
    for name in SEEN:
        np.testing.assert_array_equal(got[name], expected[name], err_msg=name)


@pytest.mark.parametrize("ties_in_order", [True, False])
@pytest.mark.parametrize("shares", [CALM, BUSY], ids=["calm", "busy"])
@pytest.mark.parametrize("seed", range(3))
def test_core_equals_the_reference(
    seed: int, shares: tuple[list[float], list[float]], ties_in_order: bool
) -> None:
    columns = random_ios(2500, seed, shares, first_ns=seed * 10**18)
    expected = by_the_reference(columns, 150, ties_in_order=ties_in_order)
    column = {name: expected["features"][:, k] for k, name in enumerate(FEATURES)}
    assert column["overdue"].max() > 3
    assert np.unique(column["age_us_4"]).size > 100 and column["age_us_4"].max() == CAP
    if shares is BUSY:
        assert column["reads_in_flight"].max() > 140
        assert column["in_region"].max() > 20
        assert expected["hist_pending"].max() == 65535
    for chunk_ios in (1, 37, 2500):
        assert_same(by_the_core(columns, 150, chunk_ios, ties_in_order=ties_in_order), expected)


def test_core_equals_the_reference_on_a_hundred_thousand_ios() -> None:
    columns = random_ios(100_000, 9, CALM, first_ns=0)
    expected = by_the_reference(columns, 2000, ties_in_order=False)
    assert_same(by_the_core(columns, 2000, 1 << 14, ties_in_order=False), expected)


def test_core_remembers_the_pending_pages_of_the_recording() -> None:
    columns = random_ios(2000, 4, CALM, first_ns=1)
    pending = np.random.default_rng(1).integers(1, 100_000, 2000)
    for ties_in_order in (True, False):
        kind = {"ties_in_order": ties_in_order, "pending": pending}
        expected = by_the_reference(columns, 150, **kind)
        assert expected["hist_pending"].max() == 65535
        assert_same(by_the_core(columns, 150, 300, **kind), expected)


def test_query_does_not_change_the_state() -> None:
    """Revoked and query-only I/Os see the drive, but have no effect on later features."""
    columns = random_ios(2000, 5, BUSY, first_ns=0)
    asks = np.random.default_rng(2).random(2000) < 0.5
    flags = np.where(asks, REVOKED | COMPLETED, columns["flags"])
    with_asks = by_the_core(columns | {"flags": flags}, 150, 100, ties_in_order=True)
    without = by_the_core(
        {name: column[~asks] for name, column in columns.items()}, 150, 100, ties_in_order=True
    )
    for name in SEEN:
        np.testing.assert_array_equal(with_asks[name][~asks], without[name])


def test_columns_of_different_lengths_are_refused() -> None:
    """The code in C would read past the end of the shorter ones."""
    short, long = np.arange(3), np.arange(4)
    with pytest.raises(ValueError, match=r"different lengths: \[4, 4, 3, 4, 4\]"):
        LoggedDrive().feed(("pending",), long, long, short, long, long)
    with pytest.raises(ValueError, match=r"different lengths: \[4, 4, 4, 4, 4, 3\]"):
        LoggedDrive().feed(("pending",), long, long, long, long, long, pending=short)


@pytest.mark.parametrize(("n", "size_bytes"), [(131_072, 1), (130, 256 << 20)])
def test_too_many_ios_in_flight_are_an_error(n: int, size_bytes: int) -> None:
    def fed(drive: LoggedDrive, rows: int) -> list[NDArray[np.uint32]]:
        # One I/O per us, each pending for an hour.
        return drive.feed(
            ("pending", "features"), np.arange(rows) * 1000, np.full(rows, 3600 * 10**9),
            np.arange(rows), np.full(rows, size_bytes), np.full(rows, COMPLETED),
        )  # fmt: skip

    with pytest.raises(TraceError, match="unit of the log"):
        fed(LoggedDrive(), n)
    pending, features = fed(LoggedDrive(), n - 2)
    assert features[-1, FEATURES.index("reads_in_flight")] == n - 3
    pages = min(-(-size_bytes // 4096), 65535)
    assert pending[-1] == (n - 2) * pages
    assert features[-1, FEATURES.index("read_pages")] == (n - 3) * pages


def walked(chunk: IoChunk, overdue_us: int) -> list[list[int]]:
    """Compute the same with a plain walk."""
    names = ("arrival_ns", "latency_ns", "sector", "size_bytes", "flags")
    ios = ios_of({name: getattr(chunk, name) for name in names}, chunk.pending)
    found = walk(ios, overdue_us, ties_in_order=chunk.ties_in_order)
    served = chunk.is_served_read.tolist()
    return [row.features for row, wanted in zip(found, served, strict=True) if wanted]


def test_features_of_a_log_equal_a_plain_walk(tmp_path: Path) -> None:
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


def test_features_of_a_recording_have_the_documented_values(tmp_path: Path) -> None:
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


def test_features_of_all_ios_have_counts_and_ages_at_a_moment() -> None:
    start = 1000 * np.array([0, 20, 120, 120])
    end = 1000 * np.array([100, 900, 420, 300])
    now = start[[0, 2, 3]]
    found = np.column_stack(features_of_all_ios(now, np.array([0, 2, 3]), start, end))
    # I/Os in flight; us since the oldest arrived, the last completion, the last arrival.
    nothing = [0, np.nan, np.nan, np.nan]
    np.testing.assert_array_equal(found, [nothing, [1, 100, 20, 100], [2, 100, 20, 0]])


def test_table_counts_the_same_overdue_reads_as_the_parser(tmp_path: Path) -> None:
    """The table is parsed once, before the time after which a read is overdue is known."""
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


def walked_in_c(chunk: IoChunk, overdue_us: int) -> np.ndarray:
    """Return the replayer's features of the served reads, event by event."""
    flags = chunk.flags
    counted = np.flatnonzero((flags & (COMPLETED | REVOKED)) == COMPLETED)
    arrival, latency = chunk.arrival_ns.astype(np.int64), chunk.latency_ns.astype(np.int64)
    sector, pages = chunk.sector, -(-chunk.size_bytes.astype(np.int64) // PAGE_BYTES)
    # An I/O that ends when another arrives has ended.
    events = [(arrival[i] + latency[i], 0, i, f"e {i} {arrival[i] + latency[i]}"
               f" {int(not flags[i] & ERROR)}") for i in counted]  # fmt: skip
    events += [(arrival[i], 1, i, f"s {i} {arrival[i]} {512 * int(sector[i])} {pages[i]}"
                f" {int(not flags[i] & WRITE)}")
               for i in counted]  # fmt: skip
    subprocess.run(
        ["make", "-s", "-C", LIBRARY, f"OUT={BUILT}", BUILT / "tests/walk_log"],
        check=True, capture_output=True,
    )  # fmt: skip
    result = subprocess.run(
        [BUILT / "tests/walk_log", str(overdue_us)],
        input="\n".join(event[-1] for event in sorted(events)),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows = np.array([line.split() for line in result.stdout.splitlines()], np.uint32)
    assert len(rows) == len(counted)
    return rows[(flags[counted] & (WRITE | ERROR)) == 0]


@pytest.mark.parametrize("overdue_us", [1, 150, 2000])
def test_replayer_computes_the_features_of_training(tmp_path: Path, overdue_us: int) -> None:
    random_log(tmp_path / "az.trace")
    [chunk] = open_recording(tmp_path / "az.trace")
    expected = LoggedDrive(overdue_us).features_of(chunk)
    assert expected[:, 5].max() > 0
    assert np.array_equal(walked_in_c(chunk, overdue_us), expected)


def test_replayer_computes_the_features_of_training_with_ties_errors_and_stalls() -> None:
    columns = random_ios(3000, 5, CALM, first_ns=1)
    # No I/O ends when it begins, because its end would come first.
    columns["latency_ns"] = np.maximum(columns["latency_ns"], 1)
    columns["size_bytes"] = np.minimum(columns["size_bytes"], 2 << 20)
    values = tuple(columns.values())
    (pending,) = LoggedDrive().feed(("pending",), *values, ties_in_order=True)
    history = np.zeros((len(pending), 4), np.uint32)
    chunk = IoChunk(
        **columns, pending=pending,
        hist_pending=history, hist_latency_us=history,
    )  # fmt: skip
    assert np.array_equal(walked_in_c(chunk, 150), LoggedDrive(150).features_of(chunk))
