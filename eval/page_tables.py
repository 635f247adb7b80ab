# SPDX-License-Identifier: MIT
"""Write tables into pages, in the place of the tables with the same first header cell."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from linnapp.lab.work import write_text


@dataclass(frozen=True)
class Shown:
    """A table of a page: its header names it by its first cell."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]

    @property
    def text(self) -> str:
        """The table in Markdown."""
        head, *rows = (f"| {' | '.join(row)} |\n" for row in (self.header, *self.rows))
        return "".join((head, f"|{'---|' * len(self.header)}\n", *rows))

    def only(self, columns: Collection[str], rows: Collection[str] | None = None) -> Shown:
        """The first column and these, of all rows or of those whose first cell is named.

        Raises
        ------
        ValueError
            If a column or a row is not there.
        """
        first = {row[0] for row in self.rows}
        if missing := {*columns} - {*self.header} | {*(rows or ())} - first:
            raise ValueError(f"{self.header[0]}: no {', '.join(sorted(missing))}")
        kept = [i for i, title in enumerate(self.header) if not i or title in columns]
        return Shown(
            tuple(self.header[i] for i in kept),
            [tuple(row[i] for i in kept) for row in self.rows if rows is None or row[0] in rows],
        )


def with_tables(page: str, tables: Iterable[Shown]) -> str:
    """A page with each of the tables in the place of the one whose header begins alike.

    Raises
    ------
    ValueError
        If none begins so, or several.
    """
    for table in tables:
        rows = page.splitlines(keepends=True)
        first = [i for i, row in enumerate(rows) if row.startswith(f"| {table.header[0]} |")]
        if len(first) != 1:
            raise ValueError(f"{len(first)} tables begin with | {table.header[0]} |, one should")
        start = first[0]
        length = sum(1 for _ in itertools.takewhile(lambda row: row.startswith("|"), rows[start:]))
        page = "".join((*rows[:start], table.text, *rows[start + length :]))
    return page


def write(pages: Mapping[Path, Iterable[Shown]]) -> None:
    """Write the tables of each page into it."""
    for path, tables in pages.items():
        page = path.read_text()
        made = with_tables(page, tables)
        if made != page:
            write_text(path, made)
            print(f"  {path.name}: written", flush=True)
