# SPDX-License-Identifier: MIT
"""Tables of the pages in `docs`, made from long tables by the templates in `eval/templates`.

A template has nothing but Markdown tables, separated by empty lines. In the page, each replaces the
table whose header begins with the same cell.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jinja2

from eval import contenders
from eval.cache import RESULTS
from eval.experiment import Table
from eval.long_table import FASTER, SLOWER, LongTable, Place
from eval.scores import number
from eval.study import Study
from linnapp.lab.work import write_text
from linnapp.stats import Interval

TEMPLATES = Path(__file__).parent / "templates"


def markdown(table: Table) -> str:
    """Return a table in Markdown."""
    head, *rows = (f"| {' | '.join(row)} |\n" for row in (table.header, *table.rows))
    return "".join((head, f"|{'---|' * len(table.header)}\n", *rows))


def with_tables(page: str, tables: Iterable[Table]) -> str:
    """Return a page in which each table replaces the one whose header begins with the same cell.

    Raises
    ------
    ValueError
        If no table of the page begins with it, or several do.
    """
    for table in tables:
        rows = page.splitlines(keepends=True)
        first = [i for i, row in enumerate(rows) if row.startswith(f"| {table.header[0]} |")]
        if len(first) != 1:
            raise ValueError(f"{len(first)} tables begin with | {table.header[0]} |, one should")
        start = first[0]
        length = sum(1 for _ in itertools.takewhile(lambda row: row.startswith("|"), rows[start:]))
        page = "".join((*rows[:start], markdown(table), *rows[start + length :]))
    return page


def committed(name: str) -> LongTable:
    """Read the long table of an experiment that is under version control."""
    return LongTable.load(RESULTS / f"{name}.csv")


def percent_slower(reduction: Interval | None, digits: int = 0) -> str:
    """Write by how many percent a policy is slower, with the interval; in bold if significant."""
    if reduction is None:
        return "-"
    bold = "**" if reduction.is_below else ""
    value, low, high = (
        f"{shown:+.{digits}f}" if (shown := round(-100 * share, digits)) else f"{0:.{digits}f}"
        for share in (reduction.value, reduction.high, reduction.low)
    )
    return f"{bold}{value}{bold} [{low}, {high}]"


def compare_means(table: LongTable, place: Place, policy: str, reference: str) -> str:
    """Write by how many percent a mean is lower or higher than a reference's, if significant."""
    reduction = table.reduction(place, policy, reference)
    if reduction is None:
        return "-"
    if not reduction.excludes_zero:
        return "not significant"
    share = f"{abs(100 * reduction.value):.0f} %"
    return f"{share} lower" if reduction.is_above else f"**{share} higher**"


def faster_and_slower(
    table: LongTable, policy: str, reference: str, measure: str = "mean_us"
) -> str:
    """Return two cells: the number of places where a policy is faster, and where it is slower."""
    found = table.count_verdicts(policy, reference, measure)
    slower = [f"`{place[0]}`" for place in found[SLOWER]]
    names = "all" if len(slower) == sum(map(len, found.values())) else ", ".join(slower)
    return f"{len(found[FASTER])} | {names or 'none'}"


def values(
    table: LongTable, policy: str, measure: str, scale: float = 1.0, reference: str = ""
) -> list[float]:
    """Return a policy's values of a measure in all places."""
    found = (table.get(place, policy, measure, reference) for place in table.places)
    return [scale * number.value for number in found if number is not None]


def cell(text: object) -> str:
    """Return the content of a cell of a table in Markdown."""
    return str(text).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def span(values: Iterable[float], form: str = "{:.1f}") -> str:
    """Write the least and the greatest of several numbers."""
    ordered = sorted(values)
    return f"{form.format(ordered[0])} to {form.format(ordered[-1])}"


def plain_percent(share: float | None) -> str:
    """Write a share in percent with its sign, 0 without one."""
    return "-" if share is None else f"{round(100 * share, 1) + 0.0:+.1f}".replace("+0.0", "0")


def share_of_oracle(table: LongTable, place: Place, policy: str) -> float:
    """Return the share of the oracle's gain over baseline that a policy reaches, in percent."""
    mean = {name: table.value(place, name, "mean_us") for name in ("baseline", "oracle", policy)}
    return 100 * (mean["baseline"] - mean[policy]) / (mean["baseline"] - mean["oracle"])


def environment() -> jinja2.Environment:
    """Return the environment of the templates of pages."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, autoescape=False,
    )  # fmt: skip
    templates.filters.update(cell=cell, slower=percent_slower)
    templates.tests["capped"] = lambda policy: "cap" in policy
    templates.globals.update(
        table_of=committed,
        compare_means=compare_means,
        faster_and_slower=faster_and_slower,
        display_name=contenders.display_name,
        title=contenders.title,
        span=span,
        values=values,
        plain=plain_percent,
        number=number,
        share_of_oracle=share_of_oracle,
        median=statistics.median,
        rivals=contenders.rivals,
        EXTRA_IO_LIMIT=contenders.EXTRA_IO_LIMIT,
    )
    return templates


def render(template: str, table: LongTable, **more: Any) -> list[Table]:
    """Return the tables of a template."""
    text = environment().get_template(template).render(t=table, **more)
    found: list[list[tuple[str, ...]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append(tuple(cell.strip() for cell in line.strip("|").split("|")))
        elif found[-1]:
            found.append([])
    return [Table(rows[0], tuple(rows[2:])) for rows in found if rows]


def tables_of(study: Study) -> dict[str, list[Table]]:
    """Return the tables of a study's committed results, by template."""
    if not study.pages:
        return {}
    table = committed(study.table_name)
    more = study.page_data(table) if study.page_data else {}
    return {template: render(template, table, **more) for template in study.pages}


def write(study: Study) -> None:
    """Write the tables of a study's committed results into its pages."""
    for template, tables in tables_of(study).items():
        path = study.pages[template]
        page = path.read_text()
        updated = with_tables(page, tables)
        if updated != page:
            write_text(path, updated)
            print(f"  {path.name}: written", flush=True)
