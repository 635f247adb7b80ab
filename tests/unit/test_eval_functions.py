# SPDX-License-Identifier: MIT
"""The study of the kernel's functions: text and figure of synthetic data."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from eval import experiments
from eval.experiments.functions import EXPERIMENT, measured, text
from linnapp.insight.functions import GROUPS


def data() -> dict[str, Any]:
    """All cases: pages take half of the time, splitting a tenth; the second boot is 1 % slower."""
    points = []
    for system in measured.PARAMETERS["file_systems"]:
        for boot, huge_pages in itertools.product(range(2), (False, True)):
            for operation in ("read", "write"):
                for allocated in (True, False):
                    for size in map(int, measured.PARAMETERS["calls"]):
                        us = size / 1024 * (1 + 0.01 * boot)
                        shares = {"pages": 0.5, "filesystem": 0.4, "split": 0.1}
                        groups = {
                            name: {
                                "share": share,
                                "recorded_share": share,
                                "us": us * share,
                                "functions": 1.0,
                            }
                            for name, share in shares.items()
                        }
                        points.append(
                            {
                                "file_system": system,
                                "huge_pages": huge_pages,
                                "boot": boot,
                                "operation": operation,
                                "allocated": allocated,
                                "bytes": size,
                                "calls": 2,
                                "software_us": us,
                                "asleep_us": 0.0,
                                "tracing_share": 0.25,
                                "overhead_ns": 1400.0,
                                "groups": groups,
                            }
                        )
    return {"kernel": "6.12", "points": points}


def test_functions_experiment_runs_only_on_request() -> None:
    assert "functions" in experiments.ON_REQUEST and "functions" not in experiments.NAMES
    assert experiments.load("functions") is EXPERIMENT
    assert set(text.SHORT) | {"wait"} == set(GROUPS)


def test_table_compares_our_values_with_the_poster() -> None:
    tables = text.table(data())
    beside, every = tables.values()
    rows = {row[0]: row[1:] for row in beside.rows}
    assert rows["adding pages to bios"] == ("20.4%", "49.0", "50.0%", "50.0%", "51.20")
    assert rows["splitting and merging"] == ("6.0%", "14.4", "10.0%", "10.0%", "10.24")
    assert set(rows["io_schedule: asleep"][2:]) == {"not available here"}
    assert len(every.rows) == 80
    assert every.rows[0][-2:] == ("25", "1.0")


def test_text_follows_from_the_data() -> None:
    said = text.reading(data())
    assert "Boots differ by 1.0% in the middle case, by 1% at most" in said
    assert "of 4 KiB is pages (in 6 of 6 cases, 50% to 50%)" in said


def test_draw_writes_a_figure(tmp_path: Path) -> None:
    text.draw(data(), tmp_path / "f.png")
    assert (tmp_path / "f.png").stat().st_size > 10_000
