# SPDX-License-Identifier: MIT
"""The blktrace reader agrees with blkparse on a real recording, event counts and latencies."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from linnapp.trace.blktrace import BlktraceReader

BASE = Path(__file__).parents[2] / "traces" / "recorded" / "nullblk"
SECTOR = 512

pytestmark = pytest.mark.skipif(shutil.which("blkparse") is None, reason="blkparse not installed")

LINE = re.compile(
    r"\s*\d+,\d+\s+\d+\s+\d+\s+(?P<s>\d+)\.(?P<ns>\d{9})\s+\d+\s+(?P<action>\w+)\s+(?P<rwbs>\w+)"
    r"\s+(?P<sector>\d+) \+ (?P<sectors>\d+)"
)


def blkparse(*arguments: str) -> str:
    return subprocess.run(
        ["blkparse", "-i", BASE.name, *arguments],
        cwd=BASE.parent,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_event_counts() -> None:
    text = blkparse()
    reader = BlktraceReader(BASE)
    list(reader)

    def total(what: str) -> int:
        return sum(int(n) for n in re.findall(rf"{what}:\s+(\d+)", text))

    assert reader.stats["queued"] == total("Reads Queued") + total("Writes Queued")
    assert reader.stats["completed"] == total("Reads Completed") + total("Writes Completed")
    assert reader.stats["issued"] == total("Read Dispatches") + total("Write Dispatches")
    assert reader.stats["back_merges"] == total("Read Merges") + total("Write Merges")
    assert reader.stats["events"] - reader.stats["notes"] == total("Events \\(\\w+\\)")


def ios_from_text(text: str) -> list[tuple[int, int, int, bool, int]]:
    """Match events by sets of sectors, unlike the reader; from the issue to the end."""
    waiting: list[dict[str, object]] = []
    done = []
    for line in text.splitlines():
        match = LINE.match(line)
        if not match or "D" in match["rwbs"]:
            continue
        now = int(match["s"]) * 10**9 + int(match["ns"])
        sectors = set(range(int(match["sector"]), int(match["sector"]) + int(match["sectors"])))
        write = "W" in match["rwbs"]
        if match["action"] == "Q":
            waiting.append(
                {"start": now, "left": set(sectors), "all": sectors, "write": write, "issued": {}}
            )
        elif match["action"] == "D":
            for io in waiting:
                if io["write"] == write:
                    io["issued"] |= dict.fromkeys(io["left"] & sectors, now)  # type: ignore[operator]
        elif match["action"] == "C":
            for io in waiting:
                hit = io["left"] & sectors if io["write"] == write else set()  # type: ignore[operator]
                io["left"] -= hit  # type: ignore[operator]
                sectors -= hit
                took = [now - io["issued"][sector] for sector in hit]  # type: ignore[index]
                io["longest"] = max([*took, io.get("longest", 0)])  # type: ignore[type-var]
                if hit and not io["left"]:
                    every = io["all"]
                    done.append(
                        (io["start"], min(every), len(every) * SECTOR, write, io["longest"])  # type: ignore
                    )
            waiting = [io for io in waiting if io["left"]]
    assert not waiting
    return sorted(done)  # type: ignore[type-var]


def test_latency_of_every_io(tmp_path: Path) -> None:
    expected = ios_from_text(blkparse())
    assert len(expected) == 440
    merged = tmp_path / "merged.blk"
    blkparse("-O", "-d", str(merged))
    for trace in BASE, merged:
        got = []
        for chunk in BlktraceReader(trace):
            got += zip(
                chunk.arrival_ns.tolist(),
                chunk.sector.tolist(),
                chunk.size_bytes.tolist(),
                chunk.is_write.tolist(),
                chunk.latency_ns.tolist(),
                strict=True,
            )
        first = min(got)[0]
        origin = expected[0][0]
        shifted = [(start - first + origin, *rest) for start, *rest in got]
        assert sorted(shifted) == expected
