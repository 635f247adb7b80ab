# SPDX-License-Identifier: MIT
"""Adapt pages that are written for GitHub to mkdocs (docs/mkdocs.yml).

The description of a page is its first paragraph. Columns of numbers and short cells of tables get
classes, so that docs/site.css can align the former and keep the latter on one line: on a phone, a
table is moved sideways.
"""

from __future__ import annotations

import html
import re
import textwrap
from typing import Any

_FENCED = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.M | re.S)
_TABLE = re.compile(r"<table>.*?</table>", re.S)
_ROW = re.compile(r"<tr>.*?</tr>", re.S)
_CELL = re.compile(r"<(t[hd])>(.*?)</t[hd]>", re.S)
_TAG = re.compile(r"<[^>]+>")
#: A cell that begins with a number and has no word.
_NUMBER = re.compile(r"[-+~<>(\[ ]*\d(?!.*[a-z]{3})", re.I | re.S)
#: Longest cell that stays on one line, and longest cell of a column of numbers, in characters.
_SHORT, _LONG = 24, 40
#: Number of columns from which the first one stays in place.
_WIDE = 4


def description(page: str) -> str:
    """Return the first paragraph of a page without its marks, or its heading if there is none."""
    paragraphs = [part.strip() for part in _FENCED.sub("", page).split("\n\n")]
    prose = (part for part in paragraphs if re.match(r"[\w`\[\"(]", part))
    first = next(prose, paragraphs[0].lstrip("# "))
    words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", first)
    return textwrap.shorten(re.sub(r"[`*]", "", words), 200, placeholder=" ...")


def _text(cell: str) -> str:
    return html.unescape(_TAG.sub("", cell)).strip()


def marked(table: str) -> str:
    """Return an HTML table with classes: `n` number, `s` short, `k` name of a row."""
    rows = [[_text(cell) for _, cell in _CELL.findall(row)] for row in _ROW.findall(table)]
    numbers = set()
    for column in range(len(rows[0])):
        cells = [row[column] for row in rows[1:] if column < len(row) and row[column]]
        are_numbers = [bool(_NUMBER.match(cell)) for cell in cells]
        if sum(are_numbers) > len(cells) / 2 and max(map(len, cells)) <= _LONG:
            numbers.add(column)

    def of_row(found: re.Match[str]) -> str:
        cells = []
        for column, (tag, cell) in enumerate(_CELL.findall(found[0])):
            classes = ["n"] * (column in numbers and column > 0)
            classes += ["s"] * (tag == "td" and len(_text(cell)) <= _SHORT)
            classes += ["k"] * (column == 0 and len(rows[0]) >= _WIDE)
            named = f' class="{" ".join(classes)}"' if classes else ""
            cells.append(f"<{tag}{named}>{cell}</{tag}>")
        return "<tr>\n{}\n</tr>".format("\n".join(cells))

    return _ROW.sub(of_row, table)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> None:
    """Set the description of a page; mkdocs calls this function."""
    page.meta.setdefault("description", description(markdown))


#: A role of reStructuredText, which docstrings use for names.
_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):<code>~?(?:[\w.]+\.)?(\w+)</code>")


def on_page_content(content: str, /, **_: Any) -> str:
    """Adapt the HTML of a page; mkdocs calls this function."""
    content = _ROLE.sub(r"<code>\1</code>", content)
    return _TABLE.sub(lambda found: marked(found[0]), content)
