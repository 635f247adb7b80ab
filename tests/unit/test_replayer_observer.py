# SPDX-License-Identifier: MIT
"""The replayer's features of a drive, event by event, equal those of training on a recording."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from replaying import BUILT, LIBRARY
from test_latency_log import random_log
from test_logged_drive import CALM, made_up

from linnapp.trace.blktrace import COMPLETED, ERROR, REVOKED, WRITE, IoChunk
from linnapp.trace.logged_drive import PAGE_BYTES, LoggedDrive
from linnapp.trace.reads import open_recording


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
    ran = subprocess.run(
        [BUILT / "tests/walk_log", str(overdue_us)],
        input="\n".join(event[-1] for event in sorted(events)),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows = np.array([line.split() for line in ran.stdout.splitlines()], np.uint32)
    assert len(rows) == len(counted)
    return rows[(flags[counted] & (WRITE | ERROR)) == 0]


@pytest.mark.parametrize("overdue_us", [1, 150, 2000])
def test_features_are_those_of_training(tmp_path: Path, overdue_us: int) -> None:
    random_log(tmp_path / "az.trace")
    [chunk] = open_recording(tmp_path / "az.trace")
    expected = LoggedDrive(overdue_us).features_of(chunk)
    assert expected[:, 5].max() > 0
    assert np.array_equal(walked_in_c(chunk, overdue_us), expected)


def test_features_are_those_of_training_with_ties_errors_and_stalls() -> None:
    columns = made_up(3000, 5, CALM, first_ns=1)
    # Not what ends as it begins: its end would come first.
    columns["latency_ns"] = np.maximum(columns["latency_ns"], 1)
    columns["size_bytes"] = np.minimum(columns["size_bytes"], 2 << 20)
    given = tuple(columns.values())
    (pending,) = LoggedDrive().feed(("pending",), *given, ties_in_order=True)
    history = np.zeros((len(pending), 4), np.uint32)
    chunk = IoChunk(
        **columns, pending=pending,
        hist_pending=history, hist_latency_us=history,
    )  # fmt: skip
    assert np.array_equal(walked_in_c(chunk, 150), LoggedDrive(150).features_of(chunk))
