# SPDX-License-Identifier: MIT
"""The report and the pages: made from committed results, complete and up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eval import __main__ as main
from eval import pages, report
from eval.experiment import Table
from eval.experiments import NAMES, ON_REQUEST, load
from eval.long_table import LongTable
from eval.pages import Shown, with_tables
from eval.study import Study
from linnapp.lab.work import write_json
from linnapp.stats import Interval

RECORD = {"seconds": 3.0, "cpu_seconds": 2.0, "alone_seconds": 5.0, "jobs": 2}


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """Return the pages of two experiments; the second has not run."""

    def tables(table: LongTable) -> dict[str, Table]:
        n = int(table.value(("a",), "", "rows"))
        rows = tuple((str(i), "<script> a|b") for i in range(n))
        return {
            name: Table(("a", "b"), rows[:n_rows])
            for name, n_rows in (("Few", 1), ("Many", 40), ("All", n))
        }

    def load(name: str) -> Study:
        return Study(
            name=name, title=f"{name} & others", more_tables=tables, measures={},
            notes="`linnos` is fast.\n\n- one\n- *two*\n", source="nowhere",
        )  # fmt: skip

    monkeypatch.setattr(report, "NAMES", ("first", "second"))
    monkeypatch.setattr(report, "load", load)
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "figure.png").write_bytes(b"png")
    table = LongTable(("of",))
    table.add(("a",), "", "rows", 400)
    table.save(tmp_path / "first" / "table.csv")
    write_json(tmp_path / "first" / "record.json", RECORD)
    return report.pages(tmp_path)


def test_each_experiment_has_a_page_that_links_to_files_that_exist(
    written: dict[str, str], tmp_path: Path
) -> None:
    assert set(written) == {"README.md", "first.md"}
    links = re.findall(r"\]\(([^)]*)\)", "".join(written.values()))
    assert {"first.md", "README.md", "../first/figure.png", "../first/table.csv"} == {*links}
    for link in links:
        assert link in written or (tmp_path / link.removeprefix("../")).exists()
    assert "![first & others](../first/figure.png)" in written["first.md"]


def test_cells_are_escaped_and_notes_are_not(written: dict[str, str]) -> None:
    page = written["first.md"]
    assert "<script>" not in page and page.count("| &lt;script> a\\|b |") == 41
    assert "`linnos` is fast.\n\n- one\n- *two*\n" in page
    assert page.count("\n| a | b |\n|---|---|\n| 0 |") == 2


def test_long_tables_are_folded_or_left_to_a_file_and_missing_experiments_are_named(
    written: dict[str, str],
) -> None:
    page = written["first.md"]
    assert "## Few\n\n| a | b |" in page
    assert '## Many\n\n<details markdown="1"><summary>40 rows</summary>' in page
    assert "The 400 rows of this table are in [a file](../first/table.csv)." in page
    assert "not run yet, or run by an earlier version: `make eval-second`" in written["README.md"]
    assert "(2 s of CPU time, 2 guests at a time), 5 s with it" in page


def test_data_of_an_earlier_version_are_left_out(tmp_path: Path) -> None:
    write_json(tmp_path / "cpu" / "record.json", RECORD)
    (tmp_path / "cpu" / "table.csv").write_text("a,b\n")
    assert report.results_of(Study(name="cpu", title=""), tmp_path).record is None


def test_pages_of_committed_results_have_the_numbers_of_the_data(
    written: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    for module in (main, report):
        monkeypatch.setattr(module, "RESULTS", results)
    record = {**RECORD, "parameters": {}, "made_from": {"code": "this"}}
    table = LongTable.load(tmp_path / "first" / "table.csv")
    main.commit(report.load("first"), table, record, tmp_path / "first" / "figure.png")
    committed = report.pages(results)
    for here, there in (("first.png", "first/figure.png"), ("first.csv", "first/table.csv")):
        committed["first.md"] = committed["first.md"].replace(here, there)
    assert committed == written


def test_committed_pages_are_up_to_date() -> None:
    """If not: `python -m eval.report --committed`."""
    folder = report.RESULTS / report.FOLDER
    found = {path.name: path.read_text() for path in folder.iterdir()}
    assert report.pages(report.RESULTS) == found


def test_index_counts_gains_and_losses() -> None:
    low, none, high = Interval(-0.2, -0.3, -0.1), Interval(0.0, -0.1, 0.1), Interval(0.2, 0.1, 0.3)
    table = LongTable(("workload",))
    for workload, policy, reference, reduction in (
        ("az-e", "fastest", "baseline", high), ("az-e", "fastest", "hedge", high),
        ("az-e", "fastest", "clone", low), ("bi-e", "fastest", "baseline", high),
        ("bi-e", "fastest", "hedge", none), ("bi-e", "verdict", "baseline", high),
    ):  # fmt: skip
        table.add((workload,), policy, "mean_us", reduction, reference)
    assert report.gains_and_losses(table).rows == (
        ("`fastest`", "no steering", "2", "0", "0", ""),
        ("`fastest`", "hedging at p95", "1", "0", "1", ""),
        ("`fastest`", "sending every read twice", "0", "1", "0", "az-e"),
    )
    rows = [["a", "worse"], ["b", "same"], ["c", "worse"]]
    claims = {"Claims of the paper": {"header": ["claim", "judged"], "rows": rows}}
    assert report.judged_claims(claims) == {"worse": 2, "same": 1}
    assert not report.judged_claims({})


@pytest.mark.parametrize("name", [*NAMES, *ON_REQUEST])
def test_pages_have_the_committed_tables(name: str) -> None:
    study = load(name)
    for template, path in study.pages.items():
        page = path.read_text()
        tables = pages.tables_of(study)[template]
        assert page == with_tables(page, tables), f"`python -m eval --pages {name}` writes it"


def test_with_tables_replaces_the_table_with_the_same_first_column() -> None:
    table = Shown(("a", "b"), [("1", "2")])
    page = "text\n\n| a | old |\n|---|---|\n| x | y |\n| z | z |\n\n| b |\n|---|\n| 1 |\n"
    made = with_tables(page, [table])
    assert made == "text\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n| b |\n|---|\n| 1 |\n"
    for wrong in ("no table\n", page + page, "a\n"):
        with pytest.raises(ValueError, match=r"tables begin with \| a \|, one should"):
            with_tables(wrong, [table])
