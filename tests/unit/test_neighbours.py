# SPDX-License-Identifier: MIT
"""What reads took by what was in flight near them, of a log whose answer is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval.neighbours import PROFILES, REGION_BINS, Reads, draw, table


@pytest.fixture
def reads(tmp_path: Path) -> Reads:
    """Each second four reads, an instant apart: two of one place, two of others; one is large."""
    lines = []
    for second in range(60):
        for k, (latency_us, size, offset) in enumerate(
            [(900, 4096, 0), (100, 4096, 1 << 16), (500, 4096, 4096), (700, 16384, 1 << 17)]
        ):
            at_ms = 1000 * second + k / 100
            lines.append(f"{at_ms:.3f},{latency_us},1,{size},{offset},{at_ms:.3f},{size}\n")
    path = tmp_path / "a.trace"
    path.write_text("".join(lines))
    return Reads.of(path)


def test_reads_are_told_by_what_is_in_flight_in_their_region_and_on_their_drive(
    reads: Reads,
) -> None:
    assert len(reads.latency_us) == 180
    assert reads.in_region.max() == 1 and reads.on_drive.max() == 2
    none, one, *others = (reads.median_us(region) for region in REGION_BINS)
    assert (none, one) == (500, 500) and all(us != us for us in others)
    assert reads.median_us((0, 1), (0, 1)) == 900
    assert reads.median_us((0, 1), (1, 2)) == 100


def test_the_table_and_the_picture_have_each_drive(reads: Reads, tmp_path: Path) -> None:
    drives = dict.fromkeys(("real", *PROFILES), reads)
    header, _, *rows = table(drives).splitlines()
    assert "| 0 | 1 | 2 to 3 |" in header and "| 16 or more |" in header
    assert [row.split(" | ")[0] for row in rows] == ["| real", *(f"| {name}" for name in PROFILES)]
    assert rows[0].startswith("| real | 500 | 500 | nan |")
    draw(drives, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000
