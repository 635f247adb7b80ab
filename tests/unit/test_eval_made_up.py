# SPDX-License-Identifier: MIT
"""Experiments from workload to table, on a fake lab whose results are known."""

from __future__ import annotations

import json
from pathlib import Path

import made_up_lab
import pytest

from eval.cache import Cache
from eval.experiment import Context
from eval.experiments.windows import EXPERIMENT as WINDOWS
from eval.experiments.windows import replays


def test_windows_are_replayed_compared_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up_lab.install(monkeypatch)
    monkeypatch.setitem(replays.PARAMETERS, "windows", 3)
    monkeypatch.setitem(replays.PARAMETERS, "workloads", ("bs-c",))
    context = Context("windows", Cache(tmp_path / "cache"), 1, True, tmp_path, n_seeds=1)
    data = json.loads(json.dumps(WINDOWS.run(context)))
    assert "Data and I/O errors" in WINDOWS.reading(data)
    assert any(table.rows for table in WINDOWS.table(data).values())
    WINDOWS.draw(data, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
    assert WINDOWS.numbers is not None
    kept = WINDOWS.numbers(data)
    pairs = {(pair["policy"], pair["reference"]) for pair in kept[0]["compared"]}
    assert {("linnos", "shortest-queue"), ("lowest", "linnos"), ("lowest", "clone")} <= pairs
