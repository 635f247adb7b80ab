# SPDX-License-Identifier: MIT
"""The report and the pages: made from committed results, complete and up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eval import pages, report
from eval.experiment import Table
from eval.experiments import NAMES, ON_REQUEST, load
from eval.pages import with_tables
from eval.study import Study
from linnapp.lab.work import write_json


def test_committed_pages_are_up_to_date_and_link_to_files_that_exist() -> None:
    """If not: `python -m eval.report --committed`."""
    folder = report.RESULTS / report.FOLDER
    written = {path.name: path.read_text() for path in folder.iterdir()}
    assert report.pages(report.RESULTS) == written
    links = re.findall(r"\]\(([^):#]+)\)", "".join(written.values()))
    assert len(links) > len(written)
    assert not [link for link in links if not (folder / link).exists()]


def test_data_of_an_earlier_version_are_left_out(tmp_path: Path) -> None:
    write_json(tmp_path / "cpu" / "record.json", {"seconds": 3.0})
    (tmp_path / "cpu" / "table.csv").write_text("a,b\n")
    assert report.results_of(Study(name="cpu", title=""), tmp_path).record is None


@pytest.mark.parametrize("name", [*NAMES, *ON_REQUEST])
def test_pages_have_the_committed_tables(name: str) -> None:
    study = load(name)
    for template, path in study.pages.items():
        page = path.read_text()
        tables = pages.tables_of(study)[template]
        assert page == with_tables(page, tables), f"`python -m eval --pages {name}` writes it"


def test_with_tables_replaces_the_table_with_the_same_first_column() -> None:
    table = Table(("a", "b"), (("1", "2"),))
    page = "text\n\n| a | old |\n|---|---|\n| x | y |\n| z | z |\n\n| b |\n|---|\n| 1 |\n"
    new_page = with_tables(page, [table])
    assert new_page == "text\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n| b |\n|---|\n| 1 |\n"
    for wrong in ("no table\n", page + page, "a\n"):
        with pytest.raises(ValueError, match=r"tables begin with \| a \|, one should"):
            with_tables(wrong, [table])
