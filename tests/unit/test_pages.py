# SPDX-License-Identifier: MIT
"""The tables in the documentation equal those made from the committed results."""

from __future__ import annotations

import json

import pytest

from eval import pages
from eval.cache import RESULTS
from eval.experiments import NAMES, ON_REQUEST, load
from eval.experiments.cluster.pages import of_gluster
from eval.experiments.cluster.text import RULES
from eval.page_tables import Shown, with_tables
from eval.study import Study


@pytest.mark.parametrize("name", [*NAMES, *ON_REQUEST])
def test_pages_have_the_committed_tables(name: str) -> None:
    experiment = load(name)
    if isinstance(experiment, Study):
        for template, path in experiment.pages.items():
            page = path.read_text()
            tables = pages.tables_of(experiment)[template]
            assert page == with_tables(page, tables), f"`python -m eval --pages {name}` writes it"
        return
    for path, tables in (experiment.pages() if experiment.pages else {}).items():
        page = path.read_text()
        assert page == with_tables(page, tables), f"`python -m eval --pages {name}` writes it"


def test_with_tables_replaces_the_table_with_the_same_first_column() -> None:
    table = Shown(("a", "b"), [("1", "2")])
    page = "text\n\n| a | old |\n|---|---|\n| x | y |\n| z | z |\n\n| b |\n|---|\n| 1 |\n"
    made = with_tables(page, [table])
    assert made == "text\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n| b |\n|---|\n| 1 |\n"
    for wrong in ("no table\n", page + page):
        with pytest.raises(ValueError, match=r"tables begin with \| a \|, one should"):
            with_tables(wrong, [table])


def test_with_tables_refuses_a_page_without_such_a_table() -> None:
    page = "a\n\n| b | c |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\n| d |\n|---|\n"
    assert with_tables(page, [Shown(("b", "e"), [("5", "6")])]) == (
        "a\n\n| b | e |\n|---|---|\n| 5 | 6 |\n\n| d |\n|---|\n"
    )
    with pytest.raises(ValueError, match=r"^0 tables begin with \| x \|, one should"):
        with_tables(page, [Shown(("x",), [])])


def test_only_keeps_the_named_rows_and_columns() -> None:
    table = Shown(("a", "b", "c", "b"), [("1", "2", "3", "4"), ("5", "6", "7", "8")])
    assert table.only(("b",), ("5",)) == Shown(("a", "b", "b"), [("5", "6", "8")])
    assert table.only(("c",)).rows == [("1", "3"), ("5", "7")]
    with pytest.raises(ValueError, match="a: no 9, d"):
        table.only(("d",), ("1", "9"))


BURSTS_IN_CLUSTERS = "bursts, 20 us one way"


def test_gluster_table_has_a_row_for_each_rule() -> None:
    tables = json.loads((RESULTS / "cluster.json").read_text())["tables"]
    (table,) = of_gluster({BURSTS_IN_CLUSTERS: tables[BURSTS_IN_CLUSTERS]})
    assert [row[0] for row in table.rows] == list(RULES.values())
    means = [float(row[1].split()[0]) for row in tables[BURSTS_IN_CLUSTERS]["rows"]]
    assert [float(row[1]) for row in table.rows] == means
    with pytest.raises(ValueError, match="beside the simulation another"):
        of_gluster(
            {BURSTS_IN_CLUSTERS: tables[BURSTS_IN_CLUSTERS]}, [("primary", "1.0", "1.0", "0 %")]
        )
