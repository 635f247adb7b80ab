# SPDX-License-Identifier: MIT
"""Where tables of pages are written."""

from __future__ import annotations

import pytest

from eval.page_tables import Shown, with_tables


def test_a_table_takes_the_place_of_the_one_that_begins_alike() -> None:
    table = Shown(("a", "b"), [("1", "2")])
    page = "text\n\n| a | old |\n|---|---|\n| x | y |\n| z | z |\n\n| b |\n|---|\n| 1 |\n"
    made = with_tables(page, [table])
    assert made == "text\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n| b |\n|---|\n| 1 |\n"
    for wrong in ("no table\n", page + page):
        with pytest.raises(ValueError, match=r"tables begin with \| a \|, one should"):
            with_tables(wrong, [table])


def test_a_table_goes_where_one_begins_alike_and_nowhere_else() -> None:
    page = "a\n\n| b | c |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\n| d |\n|---|\n"
    assert with_tables(page, [Shown(("b", "e"), [("5", "6")])]) == (
        "a\n\n| b | e |\n|---|---|\n| 5 | 6 |\n\n| d |\n|---|\n"
    )
    with pytest.raises(ValueError, match=r"^0 tables begin with \| x \|, one should"):
        with_tables(page, [Shown(("x",), [])])


def test_of_a_table_some_rows_and_columns_are_shown() -> None:
    table = Shown(("a", "b", "c", "b"), [("1", "2", "3", "4"), ("5", "6", "7", "8")])
    assert table.only(("b",), ("5",)) == Shown(("a", "b", "b"), [("5", "6", "8")])
    assert table.only(("c",)).rows == [("1", "3"), ("5", "7")]
    with pytest.raises(ValueError, match="a: no 9, d"):
        table.only(("d",), ("1", "9"))
