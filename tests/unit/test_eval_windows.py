# SPDX-License-Identifier: MIT
"""Random windows are drawn, replayed and summarised."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import made_up_lab
import pytest

from eval import seeds
from eval.cache import Cache
from eval.cells import WORKLOADS
from eval.experiment import Context
from eval.experiments import windows
from eval.experiments.windows import KIND, KINDS, WORKLOAD, draw_window, tables
from eval.long_table import LongTable
from linnapp.stats import Interval

BASE = seeds.window_base(True)


def test_windows_stay_in_range_and_vary() -> None:
    assert windows.WINDOWS <= seeds.MAX_WINDOWS
    drawn = [draw_window(BASE + i, (1, 2)) for i in range(200)]
    draw_window.cache_clear()
    assert drawn == [draw_window(BASE + i, (1, 2)) for i in range(200)]
    assert {window.kind for window in drawn} == set(KINDS)
    assert all((w.inject or "none").startswith(w.kind) for w in drawn)
    assert {window.workload for window in drawn} == set(WORKLOADS)


def test_windows_are_replayed_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_lab.install(monkeypatch)
    # The other workloads are too short in the fake lab.
    monkeypatch.setattr(windows, "WORKLOADS", ("bs-c",))
    draw_window.cache_clear()
    policies = ("baseline", "clone", "hedge", "shortest-queue", *windows.OURS, "oracle")
    study = replace(windows.EXPERIMENT, factors={"window": range(12)}, policies=policies)
    context = Context("windows", Cache(tmp_path / "cache"), 1, True, tmp_path, n_seeds=1)
    table = study.run(context)
    # One seed has a fifth of the windows.
    assert table.places == [(str(i),) for i in range(windows.A_SEED)]
    drawn = [draw_window(BASE + i, context.seeds) for i in range(windows.A_SEED)]
    assert [windows.facts(table, place) for place in table.places] == [
        (window.workload, window.kind) for window in drawn
    ]
    for reference in ("shortest-queue", "linnos", "clone"):
        assert table.reduction(("0",), "fastest", reference) is not None
    assert all(of.rows for of in study.tables(table).values())
    study.draw(table, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
    draw_window.cache_clear()


def test_windows_without_a_gain_count_as_ties_and_losses() -> None:
    table = LongTable(("window",))
    for i, (linnos, oracle, reduction) in enumerate((
        (80, 60, Interval(0.2, 0.1, 0.3)),
        (100.5, 99.9, Interval(-0.005, -0.01, 0.01)),
        (130, 99.9, Interval(-0.3, -0.4, -0.2)),
        (140, 99.9, Interval(-0.4, -0.5, -0.3)),
    )):  # fmt: skip
        means = {"baseline": 100, "hedge": 100, "linnos": linnos, "oracle": oracle}
        for policy, us in means.items():
            table.add((i,), policy, "mean_us", us)
        table.add((i,), "linnos", "mean_us", reduction, "hedge")
        table.add((i,), "baseline", WORKLOAD, WORKLOADS.index("az-e"), seed=1)
        table.add((i,), "baseline", KIND, 0, seed=1)
    spread, verdicts, _ = tables(table).values()
    row = next(row for row in spread.rows if row[0] == "linnos")
    # Without the three windows in which the oracle gains nothing the median would be 50 %.
    assert row[11:14] == ("a loss", "0 %", "50 %")
    assert ("all", "linnos", "hedge", "1", "2", "1") in verdicts.rows
    assert ("enterprise drives", "linnos", "hedge", "1", "2", "1") in verdicts.rows
