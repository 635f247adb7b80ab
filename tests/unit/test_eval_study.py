# SPDX-License-Identifier: MIT
"""Studies run from factors to tables, figures and pages, on synthetic cells and a fake lab."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_bursts import busy_trace

from eval import __main__ as command
from eval import pages
from eval.cache import RESULTS, Cache
from eval.experiment import Context
from eval.experiments import NAMES, ON_REQUEST, fig07, load, table3
from eval.long_table import LongTable
from eval.study import Measure, Study
from linnapp.learn.examples import load_reads
from linnapp.stats import Interval, mean_interval


def _context(tmp_path: Path, name: str = "made", n_seeds: int = 3) -> Context:
    return Context(name, Cache(tmp_path / "cache"), 1, True, tmp_path / name, n_seeds=n_seeds)


@pytest.fixture
def study() -> tuple[Study, list[tuple[str, str, int]]]:
    """Return a study of 2 x 2 cells with two drives each, and the cells that it has run."""
    cells_run: list[tuple[str, str, int]] = []

    def cell(context: Context, *, load: str, policy: str, seed: int) -> list[dict[str, Any]]:
        cells_run.append((load, policy, seed))
        us = 100.0 * (1 + (load == "high")) * (0.5 if policy == "ours" else 1.0) + seed % 7
        return [{"drive": drive, "us": us + drive, "share": 0.1 * drive} for drive in range(2)]

    two_by_two = Study(
        name="cpu", title="Two policies", factors={"load": ("low", "high")},
        policies=("theirs", "ours"), cell=cell, reference="theirs",
        measures={"us": Measure("mean us", 1, positive=True), "share": Measure("share %", 0, 100)},
        paper_values={"ours": {"us": "40"}},
    )  # fmt: skip
    return two_by_two, cells_run


def test_study_averages_drives_within_seeds(
    study: tuple[Study, list[tuple[str, str, int]]], tmp_path: Path
) -> None:
    context = _context(tmp_path)
    table = study[0].run(context)
    seeds = context.seeds
    assert sorted(study[1]) == sorted(itertools.product(("low", "high"), ("theirs", "ours"), seeds))
    share = table.get(("low",), "ours", "share")
    assert share is not None and share.value == pytest.approx(0.05)
    # The three seeds count, not the six drives.
    us = [50.0 + seed % 7 + 0.5 for seed in seeds]
    found = table.get(("low",), "ours", "us")
    assert found is not None and found.value == pytest.approx(mean_interval(us).value)
    assert [table.value(("low",), "ours", "us", seed) for seed in seeds] == us
    # A time is compared as a relative reduction, a share as a difference.
    reduction = table.reduction(("low",), "ours", "theirs", "us")
    assert reduction is not None and reduction.value == pytest.approx(0.5, abs=0.03)
    difference = table.reduction(("low",), "ours", "theirs", "share")
    assert difference is not None and difference.value == 0


def test_study_takes_finished_cells_from_the_cache(
    study: tuple[Study, list[tuple[str, str, int]]], tmp_path: Path
) -> None:
    first = study[0].run(_context(tmp_path))
    n = len(study[1])
    assert study[0].run(_context(tmp_path)).to_csv() == first.to_csv()
    assert len(study[1]) == n
    replace(study[0], inputs={"other": 1}).run(_context(tmp_path))
    assert len(study[1]) == 2 * n


def test_run_writes_table_figure_and_page(
    study: tuple[Study, list[tuple[str, str, int]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, page = tmp_path / "results", tmp_path / "page.md"
    page.write_text("# Page\n\n| load | mean |\n|---|---|\n\nText.\n")
    (tmp_path / "made.md.j2").write_text(
        "| load | mean |\n|---|\n{% for w in t.places %}\n"
        '| {{ w[0] }} | {{ "%.0f" | format(t.value(w, "ours", "us")) }} |\n{% endfor %}\n'
    )
    for module in (command, pages):
        monkeypatch.setattr(module, "RESULTS", results)
    monkeypatch.setattr(pages, "TEMPLATES", tmp_path)
    monkeypatch.setattr(command.report, "page", lambda results: results.study.title)
    options = dict.fromkeys(("force", "any_version", "redraw", "dev"), False)
    arguments = command.argparse.Namespace(**options, commit=True, jobs=1, seeds=None)
    with_page = replace(study[0], pages={"made.md.j2": page})
    command.run(with_page, tmp_path / "out", arguments)
    assert (tmp_path / "out" / "cpu" / "figure.png").stat().st_size > 1000
    assert LongTable.load(results / "cpu.csv").places == [("low",), ("high",)]
    assert "tables" not in (results / "cpu.json").read_text()
    low, high = (round(LongTable.load(results / "cpu.csv").value((load,), "ours", "us"))
                 for load in ("low", "high"))  # fmt: skip
    assert page.read_text() == (
        f"# Page\n\n| load | mean |\n|---|---|\n| low | {low} |\n| high | {high} |\n\nText.\n"
    )
    # A run of some places keeps the numbers of the others.
    n = len(study[1])
    command.run(
        replace(with_page, adds=True, factors={"load": ("low",)}), tmp_path / "out", arguments
    )
    assert len(study[1]) == n
    assert LongTable.load(results / "cpu.csv").places == [("low",), ("high",)]
    facts = json.loads((results / "cpu.json").read_text())
    assert facts["parameters"]["factors"] == {"load": ["low", "high"]}


def test_long_table_survives_its_file(tmp_path: Path) -> None:
    table = LongTable(("trace", "rate"))
    table.add(("a, b", 1), "hedge, 5% cap", "mean_us", Interval(0.1, 0.05, 0.2))
    table.add(("a, b", 1), "hedge, 5% cap", "mean_us", Interval.unknown(-0.25), "baseline", 7)
    table.save(tmp_path / "table.csv")
    again = LongTable.load(tmp_path / "table.csv")
    assert again.to_csv() == table.to_csv() and again.factors == ("trace", "rate")
    place = ("a, b", "1")
    assert again.get(place, "hedge, 5% cap", "mean_us") == Interval(0.1, 0.05, 0.2)
    assert again.value(place, "hedge, 5% cap", "mean_us", 7) != -0.25
    with pytest.raises(ValueError, match="not those of a long table"):
        LongTable.from_csv("policy,value\n")


@pytest.mark.parametrize("name", [*NAMES, *ON_REQUEST])
def test_committed_results_have_tables_and_a_figure(name: str, tmp_path: Path) -> None:
    study = load(name)
    path = RESULTS / f"{study.table_name}.csv"
    if not path.exists():
        # `published` and `nodes` have not been run as a whole.
        unrun = ("published", "nodes")
        assert name in unrun or '"tables"' in (RESULTS / f"{name}.json").read_text()
        return
    table = LongTable.load(path)
    tables = study.tables(table)
    assert tables and all(shown_table.rows for shown_table in tables.values())
    for shown_table in tables.values():
        assert {len(row) for row in shown_table.rows} == {len(shown_table.header)}
    study.draw(table, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_stability_is_the_largest_deviation_within_fifteen_hours() -> None:
    hour = np.arange(fig07.HOURS)
    moved = fig07.stability(85.0 + 7.0 * (hour >= 10), 60)
    # The windows before the tenth hour that have fifteen hours after them all see the change.
    assert (moved["largest"], moved["within_bound"]) == (7.0, 0.0)
    assert fig07.stability(85.0 + 4.9 * (hour >= 10), 60)["within_bound"] == 1.0
    # A window without a point is skipped and counted.
    gone = np.where((hour == 2) | (hour >= 10), np.nan, 85.0)
    found = fig07.stability(gone, 60)
    assert (found["largest"], found["left_out"]) == (0.0, pytest.approx(11 / 20))
    assert fig07.stability(np.full(20, np.nan), 60)["largest"] is None


def test_digits_of_integers_are_capped() -> None:
    largest = (16 << 30) - 4096
    digits = table3._digits(np.array([[largest, 0], [5, 123]]), table3.OFFSET_DIGITS)
    assert ["".join(map(str, row)) for row in digits.tolist()] == [
        f"{largest}{0:011d}", f"{5:011d}{123:011d}",
    ]  # fmt: skip
    assert table3._digits(np.array([[12_345]]), 4).tolist() == [[9, 9, 9, 9]]


def test_features_with_four_past_reads_equal_the_kernels(tmp_path: Path) -> None:
    path = busy_trace(tmp_path / "a.blk")
    reads = load_reads(path)
    digits, latency_us = table3.features(path, table3.Shape(4, ()))
    assert np.array_equal(digits, reads.digits())
    assert np.array_equal(latency_us, reads.latency_us)
    more, _ = table3.features(path, table3.Shape(7, (), offsets=True))
    assert more.shape == (len(reads), table3.Shape(7, (), offsets=True).n_inputs)
    # Pending counts, offsets and latencies: the last four reads have the same digits as in the
    # kernel.
    n = table3.OFFSET_DIGITS
    assert np.array_equal(more[:, 9:24], digits[:, :15])
    assert np.array_equal(more[:, 24 + 8 * n + 12 :], digits[:, 15:])
