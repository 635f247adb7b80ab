# SPDX-License-Identifier: MIT
"""Simultaneous I/Os: the order of their lines in a log has no effect (docs/formats.md)."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from replaying import make_drives, replay, summary, write_log, write_trace
from test_latency_log import line

from eval import tuning
from eval.heimdall import reads_of
from linnapp.learn.examples import add_bursts
from linnapp.trace import replay_log
from linnapp.trace.blktrace import COLUMNS, IoChunk
from linnapp.trace.reads import LoggedDrive, load, open_recording

N = 3000

Order = NDArray[np.intp]


@pytest.fixture(scope="module")
def ios() -> dict[str, NDArray[np.int64]]:
    """Return I/Os of every size, many simultaneous ones, some of which also end together."""
    rng = np.random.default_rng(4)
    submit_us = np.cumsum(rng.choice([0, 0, 40, 400], N))
    shares = [0.3, 0.3, 0.2, 0.1, 0.09, 0.01]
    return {
        "submit_us": submit_us,
        "latency_us": rng.choice([80, 90, 100, 400, 2000, 30_000], N, p=shares),
        "read": (rng.random(N) < 0.7).astype(np.int64),
        "size": rng.choice([4096, 8192, 65536, 131072, 1 << 21], N),
        "offset": 4096 * rng.integers(0, 50, N),
    }


@pytest.fixture(scope="module")
def orders(ios: dict[str, NDArray[np.int64]]) -> dict[str, Order]:
    """Return orders by submission; simultaneous I/Os are in order of end, reversed, or shuffled."""
    submit_us, latency_us = ios["submit_us"], ios["latency_us"]
    rng = np.random.default_rng(5)
    return {
        "as they ended": np.lexsort((latency_us, submit_us)),
        "slowest first": np.lexsort((-latency_us, submit_us)),
        **{f"shuffled {k}": np.lexsort((rng.random(N), submit_us)) for k in range(3)},
    }


def all_features(chunks: list[IoChunk]) -> dict[str, NDArray[Any]]:
    """Return all features derived from a recording's I/Os."""
    drive = LoggedDrive(150)
    found = {"trees": np.concatenate([drive.features_of(chunk) for chunk in chunks])}
    for name in COLUMNS:
        found[name] = np.concatenate([getattr(chunk, name) for chunk in chunks])
    whole = IoChunk(*(found[name] for name in COLUMNS), ties_in_order=chunks[0].ties_in_order)
    bursts = add_bursts(whole, 300, np.random.default_rng(1))
    for field in dataclasses.fields(bursts):
        found[f"bursts' {field.name}"] = getattr(bursts, field.name)
    return found


@pytest.mark.parametrize("chunk_ios", [100, 10**6])
def test_lines_of_an_instant_in_any_order_have_the_same_features(
    tmp_path: Path, ios: dict[str, NDArray[np.int64]], orders: dict[str, Order], chunk_ios: int
) -> None:
    lines = [
        line(submit_us / 1000, latency_us, read, size, offset)
        for submit_us, latency_us, read, size, offset in np.column_stack([*ios.values()]).tolist()
    ]
    found = {}
    for name, order in orders.items():
        path = tmp_path / f"{name}.trace"
        path.write_text("".join(lines[i] for i in order))
        found[name] = all_features(list(open_recording(path, chunk_ios=chunk_ios)))
        again = all_features(list(open_recording(load(path, chunk_ios=chunk_ios))))
        for what, array in found[name].items():
            assert np.array_equal(again[what], array, equal_nan=array.dtype.kind == "f"), what
    first = found.pop("as they ended")
    assert len(first["bursts' inputs"]) > 100
    for name, features in found.items():
        for what, array in features.items():
            same = np.array_equal(array, first[what], equal_nan=array.dtype.kind == "f")
            assert same, f"{what}: {name}"


def test_an_io_sees_what_came_before_its_instant(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    simultaneous = [line(0.2, us, read, size) for us, read, size in
                      ((500, 1, 4096), (600, 0, 8192), (700, 1, 12288))]  # fmt: skip
    path.write_text(
        line(0.1, 50, 1, 4096)  # ended when the others arrive
        + line(0.0, 200, 1, 4096)  # just ended
        + line(0.0, 300, 1, 4096)
        + "".join(simultaneous)
        + line(0.201, 1, 1, 4096)
    )
    [chunk] = open_recording(path)
    assert not chunk.ties_in_order
    assert chunk.pending.tolist() == [1, 1, 3, 2, 3, 4, 8]
    rows = LoggedDrive(1).features_of(chunk)
    # Pages of reads and of writes in flight; number of reads, age of the oldest one, overdue reads.
    assert rows[:3, 1:6].tolist() == [[0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [2, 0, 2, 100, 2]]
    # These are the two simultaneous reads, and the one after them.
    assert rows[3:5, 1:6].tolist() == [[1, 0, 1, 200, 1]] * 2
    assert rows[5, 1:6].tolist() == [5, 2, 3, 201, 1]
    # I/Os that end at that time are visible, and count as later than earlier ones.
    assert chunk.hist_latency_us[5].tolist() == [0, 0, 50, 200]


def test_order_of_lines_does_not_reveal_latencies(tmp_path: Path) -> None:
    """Random latencies are unpredictable, unless lines in the order of ends reveal them."""
    rng = np.random.default_rng(6)
    n = 6000
    submit_us = np.repeat(np.cumsum(rng.integers(50, 400, n // 3)), 3)
    latency_us = rng.integers(50, 5000, n)
    order = np.lexsort((latency_us, submit_us))
    path = tmp_path / "a.trace"
    path.write_text("".join(line(submit_us[i] / 1000, latency_us[i], 1, 4096) for i in order))
    [chunk] = open_recording(path)
    rows = LoggedDrive(10**6).features_of(chunk)
    for values in (rows[:, 1], rows[:, 3], chunk.pending):
        assert abs(np.corrcoef(values, chunk.latency_ns)[0, 1]) < 0.06


def records_of(ios: dict[str, NDArray[np.int64]]) -> NDArray[Any]:
    records = np.zeros(N, replay_log.RECORD)
    records["due_ns"] = ios["submit_us"] * 1000
    records["latency_ns"] = ios["latency_us"] * 1000
    records["device_latency_us"] = ios["latency_us"]
    records["op"] = np.where(ios["read"], replay_log.READ, replay_log.WRITE)
    records["size_bytes"], records["offset_bytes"] = ios["size"], ios["offset"]
    return records


def test_records_of_a_replay_in_any_order_show_the_same(
    ios: dict[str, NDArray[np.int64]], orders: dict[str, Order]
) -> None:
    records = records_of(ios)
    queue_lengths = [tuning.queue_pages(records[order], range(1, 100)) for order in orders.values()]
    assert all(other == queue_lengths[0] for other in queue_lengths)
    # If two I/Os differ only in latency, either may be first.
    _, once = np.unique(records[["due_ns", "size_bytes", "offset_bytes", "op"]], return_index=True)
    told_apart = np.isin(np.arange(N), once)
    reads = [reads_of(records[order][told_apart[order]]) for order in orders.values()]
    for other in reads[1:]:
        np.testing.assert_array_equal(other.features, reads[0].features)
    in_flight, latency_us = reads[0].features[:, 0], reads[0].latency_us
    assert in_flight.min() >= 0
    assert abs(np.corrcoef(in_flight, latency_us)[0, 1]) < 0.06


def test_the_replayers_queue_limit_is_the_same_in_any_order(
    tmp_path: Path, ios: dict[str, NDArray[np.int64]], orders: dict[str, Order]
) -> None:
    drives = make_drives(tmp_path)
    records = records_of(ios)
    trace = write_trace(tmp_path / "a.iolog", [(0, "read", 0, 4096)])
    found = set()
    for order in orders.values():
        write_log(tmp_path / "log", records[order])
        replay(drives, [trace], "heuristic", "--profile", str(tmp_path / "log"),
               "--json", str(tmp_path / "run.json"))  # fmt: skip
        found.add(summary(tmp_path / "run.json")["config"]["heuristic_queue_pages"])
    (pages,) = found
    assert pages == pytest.approx(tuning.queue_pages(records, [95])[0], rel=0.01)
