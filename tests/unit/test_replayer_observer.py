# SPDX-License-Identifier: MIT
"""What the replayer sees of a drive, event by event, is what training makes of a recording."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import numpy as np
import pytest
from replaying import BUILT, LIBRARY
from test_latency_features import made_up
from test_latency_log import random_log

from linnapp.learn.latency_features import Observer
from linnapp.trace.blktrace import COMPLETED, ERROR, REVOKED, WRITE, IoChunk
from linnapp.trace.in_flight import PAGE_BYTES, pending_pages
from linnapp.trace.recorded import open_recording


def walked_in_c(chunk: IoChunk, overdue_us: int) -> np.ndarray:
    """Features of the served reads as the replayer keeps them, event by event."""
    flags = chunk.flags
    counted = np.flatnonzero((flags & (COMPLETED | REVOKED)) == COMPLETED)
    arrival, latency = chunk.arrival_ns.astype(np.int64), chunk.latency_ns.astype(np.int64)
    pages = -(-chunk.size_bytes.astype(np.int64) // PAGE_BYTES)
    # What ends when another arrives is over.
    events = [(arrival[i] + latency[i], 0, i, f"e {i} {arrival[i] + latency[i]}"
               f" {int(not flags[i] & ERROR)}") for i in counted]  # fmt: skip
    events += [(arrival[i], 1, i, f"s {i} {arrival[i]} {pages[i]} {int(not flags[i] & WRITE)}")
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
    expected = Observer(overdue_us).observe(chunk)
    assert expected[:, 5].max() > 0
    assert np.array_equal(walked_in_c(chunk, overdue_us), expected)


def test_features_are_those_of_training_with_ties_errors_and_stalls() -> None:
    chunk = made_up(3000, 5)
    counted = (chunk.flags & (COMPLETED | REVOKED)) == COMPLETED
    arrival = chunk.arrival_ns.astype(np.int64)
    end = arrival + chunk.latency_ns.astype(np.int64)
    pages = -(-chunk.size_bytes.astype(np.int64) // PAGE_BYTES)
    pending = np.zeros(len(chunk), np.uint32)
    pending[counted] = pending_pages(
        arrival[counted], end[counted], pages[counted], np.ones(counted.sum(), bool), True
    )
    chunk = dataclasses.replace(chunk, pending=pending)
    assert np.array_equal(walked_in_c(chunk, 150), Observer(150).observe(chunk))
