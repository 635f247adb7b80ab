# SPDX-License-Identifier: MIT
"""The blktrace reader agrees with a plain walk through the recording, sector by sector."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from blktrace_builder import EBUSY, READ, WRITE, C, D, F, G, M, Q, R, TraceBuilder, X
from blktrace_by_hand import walk
from recorded_traces import RECORDED, unpack

from linnapp.trace.blktrace import (
    COMPLETED,
    ERROR,
    MERGED,
    REQUEUED,
    REVOKED,
    SPLIT,
    BlktraceReader,
)

OVERDUE_US = 150
EIO = 5


def check(path: Path) -> int:
    """Compare all features of every I/O; return the flags that occurred."""
    (chunk,) = BlktraceReader(path, overdue_us=OVERDUE_US)
    expected = walk(path, OVERDUE_US)
    assert len(chunk) == len(expected) > 100
    assert chunk.features is not None
    for column, name in (
        (chunk.arrival_ns, "arrival_ns"),
        (chunk.is_write, "write"),
        (chunk.flags & COMPLETED != 0, "completed"),
        (chunk.flags & ERROR != 0, "error"),
        (chunk.flags & REVOKED != 0, "revoked"),
        (chunk.latency_ns, "latency_ns"),
        (chunk.pending, "pending"),
        (chunk.hist_latency_us, "hist_latency_us"),
        (chunk.hist_pending, "hist_pending"),
        (chunk.features, "features"),
    ):
        np.testing.assert_array_equal(column, [getattr(io, name) for io in expected], name)
    return int(np.bitwise_or.reduce(chunk.flags))


@pytest.mark.parametrize("name", ["fio", "pgbench", "nullblk"])
def test_reader_equals_the_walk_on_recorded_traces(tmp_path: Path, name: str) -> None:
    merged = RECORDED / f"{name}.blktrace.0"
    check(merged if merged.exists() else unpack(name, tmp_path))


class BlockLayer:
    """Simulates the possible actions of a block layer on I/Os."""

    def __init__(self, seed: int, traced: str) -> None:
        self.random = random.Random(seed)
        self.traced = traced
        self.trace = TraceBuilder()
        #: Future events: time, number, action, sector, sectors, flags, error.
        self.to_come: list[tuple[float, int, int, int, int, int, int]] = []

    def at(
        self, us: float, action: int, sector: int, sectors: int, flags: int, error: int = 0
    ) -> None:
        name = {G: "G", D: "D", X: "X", M: "M", F: "M"}.get(action, "")
        if not name or name in self.traced:
            self.to_come.append((us, len(self.to_come), action, sector, sectors, flags, error))

    def request(self, us: float, sector: int, sectors: int, flags: int) -> None:
        """Make the events of a request from its issue on."""
        draw = self.random
        us += draw.choice([0, 0, 5, 400])
        self.at(us, D, sector, sectors, flags)
        while draw.random() < 0.1:
            us += draw.choice([1, 90, 3000])
            self.at(us, R, sector, sectors, flags)
            us += draw.choice([1, 50])
            self.at(us, D, sector, sectors, flags)
        while sectors:
            us += draw.choice([1, 80, 100, 120, 2500, 30_000])
            part = sectors if draw.random() < 0.9 else draw.randrange(1, sectors + 1)
            error = EIO if draw.random() < 0.05 else 0
            self.at(us, C, sector, part, flags, error)
            sector, sectors = sector + part, sectors - part

    def submit(self, us: float, sector: int) -> None:
        """Submit an I/O, or two merged ones; no two in flight share a sector."""
        draw = self.random
        flags = WRITE if draw.random() < 0.3 else READ
        sectors = draw.choice([1, 8, 9, 64, 128, 129, 512, 2048, 2056])
        self.at(us, Q, sector, sectors, flags)
        kind = draw.choices(["plain", "split", "back", "front", "refused"], [6, 2, 1, 1, 1])[0]
        if kind == "refused" and flags == READ:
            self.at(us, C, sector, sectors, flags, draw.choice([EBUSY, -EBUSY, -11]))
            return
        us += draw.choice([0, 0, 0, 700])  # some I/Os are delayed
        while kind == "split" and sectors > 1:
            front = draw.randrange(1, sectors)
            self.at(us, X, sector, front, flags)
            self.at(us, G, sector, front, flags)
            self.request(us, sector, front, flags)
            sector, sectors = sector + front, sectors - front
            us += draw.choice([0, 20])
            kind = draw.choice(["split", "plain"])
        self.at(us, G, sector, sectors, flags)
        if kind in ("back", "front"):
            other = draw.choice([8, 24, 300])
            adjacent = sector + sectors if kind == "back" else sector - other
            us += draw.choice([0, 3])
            self.at(us, Q, adjacent, other, flags)
            self.at(us, M if kind == "back" else F, adjacent, other, flags)
            sector, sectors = min(sector, adjacent), sectors + other
        self.request(us, sector, sectors, flags)

    def run(self, n: int, path: Path) -> Path:
        us = 0.0
        for i in range(n):
            us += self.random.choice([0, 1, 40, 300, 5000])
            self.submit(us, (i + 1) * 8192)
        for us, _, action, sector, sectors, flags, error in sorted(self.to_come):
            self.trace.add(action, us, sector, sectors * 512, flags=flags, error=error)
        return self.trace.write(path)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("traced", ["GDXM", "GDM", "DXM", "DM", "X", ""])
def test_reader_equals_the_walk_on_simulated_block_layers(
    tmp_path: Path, traced: str, seed: int
) -> None:
    flags = check(BlockLayer(seed, traced).run(200, tmp_path / "made.blk"))
    assert flags & ERROR and flags & REVOKED
    for what, flag in (("D", REQUEUED), ("M", MERGED), ("D", SPLIT), ("X", SPLIT)):
        assert (what not in traced) or flags & flag, what
