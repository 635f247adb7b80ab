# SPDX-License-Identifier: MIT
"""The tables in the documentation equal those made from the committed results."""

from __future__ import annotations

import pytest

from eval import pages
from eval.experiments import NAMES, ON_REQUEST, load
from eval.pages import Shown, with_tables


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
