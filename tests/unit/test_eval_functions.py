# SPDX-License-Identifier: MIT
"""The study of the kernel's functions: its measures, and the comparison with the poster."""

from __future__ import annotations

import pytest

from eval.experiments import functions
from eval.long_table import LongTable
from linnapp.insight.functions import GROUPS


def test_parts_are_those_of_the_recording() -> None:
    assert {*functions.PARTS, "wait"} == set(GROUPS)


def test_point_has_shares_of_the_software_time() -> None:
    groups = {
        "pages": {"us": 60.0, "measured_us": 80.0},
        "split": {"us": 40.0, "measured_us": 45.0},
        "wait": {"us": 1000.0, "measured_us": 1000.0},
    }
    case = {"operation": "write", "allocated": False, "bytes": 4096, "calls": 4, "groups": groups}
    assert functions.point(case) == {
        "operation": "write", "file": "new", "bytes": 4096, "software_us": 25.0,
        "tracing_share": pytest.approx(0.2), "pages": 0.6, "split": 0.4,
    }  # fmt: skip


def test_parts_are_compared_with_the_poster() -> None:
    table = LongTable(functions.EXPERIMENT.groups[0])
    for name, value in {"software_us": 102_400.0, "pages": 0.5, "split": 0.1}.items():
        table.add(functions.POSTER_CASE, "", name, value)
    (made,) = functions.poster(table).values()
    rows = {row[0]: row[1:] for row in made.rows}
    assert rows["adding pages to bios"] == ("20.4%", "49.0", "50.0%", "51.20")
    assert rows["splitting and merging"] == ("6.0%", "14.4", "10.0%", "10.24")
    assert set(rows["io_schedule: asleep"][2:]) == {"not available here"}
