# SPDX-License-Identifier: MIT
"""The report: a self-contained page that never takes data for markup."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from eval import __main__ as main
from eval import report
from eval.experiment import Table
from eval.long_table import LongTable
from eval.study import Study
from linnapp.lab.work import write_json
from linnapp.stats import Interval

RECORD = {"seconds": 3.0, "cpu_seconds": 2.0, "alone_seconds": 5.0, "jobs": 2}


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A page of two experiments; the second has not run."""

    def tables(table: LongTable) -> dict[str, Table]:
        n = int(table.value(("a",), "", "rows"))
        rows = tuple((str(i), "<script> **<best>**") for i in range(n))
        return {"Few": Table(("a", "b"), rows[:1]), "Many": Table(("a", "b"), rows)}

    def load(name: str) -> Study:
        return Study(
            name=name, title=f"{name} & others", more_tables=tables, measures={},
            notes="`linnos` is <fast>.\n\n- one\n- *two*", source="nowhere",
        )  # fmt: skip

    monkeypatch.setattr(report, "NAMES", ("first", "second"))
    monkeypatch.setattr(report, "load", load)
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "figure.png").write_bytes(b"png")
    table = LongTable(("of",))
    table.add(("a",), "", "rows", 40)
    table.save(tmp_path / "first" / "table.csv")
    write_json(tmp_path / "first" / "record.json", RECORD)
    return report.page(tmp_path)


def test_page_refers_to_no_other_file(page: str) -> None:
    assert f"data:image/png;base64,{base64.b64encode(b'png').decode()}" in page
    links = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert links and all(link.startswith(("data:", "#")) for link in links)


def test_text_is_escaped_and_its_markdown_is_not(page: str) -> None:
    assert "<script>" not in page and page.count("&lt;script&gt;") == 41
    assert page.count("<b>&lt;best&gt;</b>") == 41
    assert "first &amp; others" in page
    assert "<p><code>linnos</code> is &lt;fast&gt;.</p>" in page
    assert "<ul><li>one</li><li><em>two</em></li></ul>" in page


def test_long_tables_are_folded_and_missing_experiments_are_named(page: str) -> None:
    assert "<summary>Many (40 rows)</summary>" in page and "<h4>Few</h4>" in page
    assert "Not run yet, or run by an earlier version: <code>make eval-second</code>" in page
    assert "(2 s of CPU time, 2 guests at a time), 5 s with it" in page


def test_data_of_an_earlier_version_are_reported_without_traceback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "figure.png").write_bytes(b"png")
    (tmp_path / "table.csv").write_text("a,b\n")
    write_json(tmp_path / "record.json", {**RECORD, "made_from": {"code": "earlier"}})
    study = Study(name="cpu", title="")
    assert report.run_finished(study, tmp_path) is None
    monkeypatch.setattr(report, "code_version", lambda *paths: "earlier")
    with pytest.raises(ValueError, match="the columns are a, b"):
        report.run_finished(study, tmp_path)


def test_page_of_committed_results_equals_that_of_the_data(
    page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    monkeypatch.setattr(main, "RESULTS", results)
    record = {**RECORD, "parameters": {}, "made_from": {"code": "this"}}
    table = LongTable.load(tmp_path / "first" / "table.csv")
    main.commit(report.load("first"), table, record, tmp_path / "first" / "figure.png")
    assert report.committed_page(results) == page


def test_committed_page_is_up_to_date() -> None:
    """If not: `python -m eval.report --committed`."""
    assert report.committed_page(report.RESULTS) == (report.RESULTS / "report.html").read_text()


def test_page_begins_with_gains_and_losses() -> None:
    low, none, high = Interval(-0.2, -0.3, -0.1), Interval(0.0, -0.1, 0.1), Interval(0.2, 0.1, 0.3)
    table = LongTable(("workload",))
    for workload, policy, reference, reduction in (
        ("az-e", "fastest", "baseline", high), ("az-e", "fastest", "hedge", high),
        ("az-e", "fastest", "clone", low), ("bi-e", "fastest", "baseline", high),
        ("bi-e", "fastest", "hedge", none), ("bi-e", "verdict", "baseline", high),
    ):  # fmt: skip
        table.add((workload,), policy, "mean_us", reduction, reference)
    assert report.gains_and_losses(table).rows == (
        ("fastest", "baseline", "2", "0", "0", ""),
        ("fastest", "hedging at p95", "1", "0", "1", ""),
        ("fastest", "sending every read twice", "0", "1", "0", "az-e"),
    )
    claims = {
        "tables": {"Claims of the paper": {"header": ["claim", "judged"],
                                           "rows": [["a", "worse"], ["b", "same"], ["c", "worse"]]}}
    }  # fmt: skip
    assert report.judged_claims(claims) == {"worse": 2, "same": 1}
    assert not report.judged_claims(None)
    shown = report.render({}, Table(("part",), ()), table)
    assert shown.index("sending every read twice") < shown.index("All latencies are in the")
    assert "Workloads of Fig. 8" not in report.render({}, Table(("part",), ()))
