# SPDX-License-Identifier: MIT
"""`make report`: a page for each experiment, with its figure and its tables, and an index.

The pages are Markdown, part of the documentation's site (docs/build_site.py). They are made from
the results that `make eval` left in out/eval, or from those under version control. An experiment
that has neither is named as such.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from eval import contenders
from eval.cache import RESULTS, ROOT
from eval.experiment import Table
from eval.experiments import NAMES, ON_REQUEST, load
from eval.long_table import FASTER, NOT_SIGNIFICANT, SLOWER, LongTable
from eval.pages import cell, environment
from eval.study import Study
from linnapp.lab.work import write_text

#: The policies that ours are compared with in the table of gains and losses.
AGAINST = ("baseline", "shortest-queue", "hedge", "heuristic-adv", "clone")

#: The table with the verdicts on the paper's claims, and the column of the verdicts.
CLAIMS, JUDGED = "Claims of the paper", "judged"

#: Tables with more rows are folded. Tables with more than `MAX_ROWS` are only in the file.
FOLD_ROWS, MAX_ROWS = 16, 120

#: A row of a table has about this many characters at most, so that a phone can show it. Longer text
#: in the columns that name the row breaks into lines, and counts as `NAME_CHARS`.
ROW_CHARS, NAME_CHARS = 90, 40

#: The header of a column breaks into lines of about this many characters.
HEADER_CHARS = 14

#: If a row has a longer name, the table is shown as a list.
LISTED_CHARS = 60

#: The folder of the pages, in that of the results.
FOLDER = "report"


def gains_and_losses(table: LongTable) -> Table:
    """Count the workloads of Fig. 8 in which each of our policies has a lower or a higher mean."""
    rows = []
    for policy in contenders.ours(table.policies()):
        for reference in AGAINST:
            places = table.count_verdicts(policy, reference)
            if any(places.values()):
                slower_in = ", ".join(place[0] for place in places[SLOWER]) or "none"
                counts = (str(len(places[word])) for word in (FASTER, SLOWER, NOT_SIGNIFICANT))
                names = (contenders.title(policy), contenders.title(reference))
                rows.append((*names, *counts, slower_in))
    header = ("policy", "compared with", FASTER, SLOWER, NOT_SIGNIFICANT, "slower in")
    return Table(header, tuple(rows))


def judged_claims(tables: Mapping[str, Any]) -> Counter[str]:
    """Count the verdicts on the claims of the paper."""
    if CLAIMS not in tables:
        return Counter()
    column = tables[CLAIMS].header.index(JUDGED)
    return Counter(row[column] for row in tables[CLAIMS].rows)


class Part(NamedTuple):
    """Some columns of a table: those that name a row, and some of the others, `numbers`."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    numbers: tuple[str, ...]


def narrow(table: Table | Mapping[str, Any]) -> list[Part]:
    """Divide the columns of a wide table among tables whose rows a phone can show.

    Each begins with the columns that name a row: those before the first one of numbers, further
    ones until no two rows have the same name, and the policies. Empty columns are left out. A
    comparison follows the column that it belongs to.
    """
    fields = table if isinstance(table, Mapping) else vars(table)
    header, rows = fields["header"], fields["rows"]
    columns = [index for index in range(len(header)) if any(row[index] for row in rows)]
    widths = {
        index: max(_width(row[index] for row in rows), min(len(header[index]), HEADER_CHARS))
        for index in columns
    }
    names: list[int] = []
    leading = True
    for index in columns:
        is_number = all(_NUMBER.match(row[index]) for row in rows)
        if is_number and len({tuple(row[i] for i in names) for row in rows}) == len(rows):
            leading = False
        if leading or header[index] == "policy":
            names.append(index)
    room = ROW_CHARS - sum(min(widths[index], NAME_CHARS) for index in names)
    if sum(widths.values()) <= ROW_CHARS:
        room = ROW_CHARS
    parts: list[list[int]] = [[]]
    for index in columns:
        if index in names:
            continue
        follows = header[index].startswith(("% lower than", "minus ", "the paper's", "verdict"))
        if parts[-1] and not follows and sum(widths[i] for i in (*parts[-1], index)) > room:
            parts.append([])
        parts[-1].append(index)
    return [
        Part(
            tuple(header[index] for index in (*names, *part)),
            [tuple(row[index] for index in (*names, *part)) for row in rows],
            tuple(header[index] for index in part),
        )
        for part in parts
    ]


def is_listed(table: Table | Mapping[str, Any]) -> bool:
    """Return whether a table is shown as a list, because the names of its rows are sentences."""
    rows = table["rows"] if isinstance(table, Mapping) else table.rows
    return max(len(row[0]) for row in rows) > LISTED_CHARS


def listed(header: Sequence[str], row: Sequence[str]) -> str:
    """Return the values of a row, except that of its name, each with the title of its column."""
    values = zip(header[1:], row[1:], strict=True)
    return "; ".join(f"{title}: {value}" for title, value in values if value not in ("", "-"))


def _width(cells: Iterable[str]) -> int:
    """Return the number of characters that a column adds to a row."""
    return max(len(_MARKS.sub("", cell(text))) for text in cells) + len(" | ")


#: A cell that is empty or has a number and perhaps an interval; characters that format a cell.
_NUMBER, _MARKS = re.compile(r"\**[-+]?[\d.,]*\**( \[.*\])?$"), re.compile(r"[*`]")


def describe_times(record: Mapping[str, Any]) -> str:
    """Describe the times that an experiment took."""
    text = f"{record['seconds']:.0f} s beyond what was in the cache"
    if "cpu_seconds" in record:
        text += (
            f" ({record['cpu_seconds']:.0f} s of CPU time, {record['jobs']} guests at a time), "
            f"{record['alone_seconds']:.0f} s with it"
        )
    return text


def times(records: Mapping[str, Mapping[str, Any] | None]) -> Table:
    """Return the times of each part, and their sum."""
    rows, total = [], [0.0, 0.0]
    for name, record in records.items():
        if record is None or "cpu_seconds" not in record:
            continue
        total[0] += record["seconds"]
        total[1] += record["cpu_seconds"]
        rows.append(
            (name, *(f"{record[key]:.0f}" for key in ("seconds", "cpu_seconds", "alone_seconds")))
        )
    rows.append(("all", *(f"{seconds:.0f}" for seconds in total), ""))
    return Table(("part", "s beyond the cache", "CPU s", "s with an empty cache"), tuple(rows))


class Results(NamedTuple):
    """The results of an experiment for its page, which are empty if it has not finished."""

    study: Study
    record: dict[str, Any] | None = None
    tables: Mapping[str, Any] = {}
    #: Files, relative to the pages.
    figure: str = ""
    numbers: str = ""
    times: str = ""


def results_of(study: Study, folder: Path) -> Results:
    """Return results below `folder`: those that are under version control, or those of a run."""
    name = study.name
    if folder == RESULTS:
        path, table, figure = f"{name}.json", f"{study.table_name}.csv", f"{name}.png"
    else:
        path, table, figure = (
            f"{name}/{file}" for file in ("record.json", "table.csv", "figure.png")
        )
    if not (folder / path).exists():
        return Results(study)
    record: dict[str, Any] = json.loads((folder / path).read_text())
    if (folder / table).exists():
        try:
            tables: Mapping[str, Any] = study.tables(LongTable.load(folder / table))
        except ValueError:
            # The table has the columns of an earlier version.
            return Results(study)
    else:
        tables, table = record["tables"], path
    return Results(study, record, tables, f"../{figure}", f"../{table}", describe_times(record))


def page(results: Results) -> str:
    """Return the page of an experiment."""
    return _template("report-page.md.j2").render(study=results.study, results=results)


def pages(folder: Path) -> dict[str, str]:
    """Return the pages of all experiments with results, and their index, by file name."""
    all_results = [results_of(load(name), folder) for name in (*NAMES, *ON_REQUEST)]
    finished = {results.study.name: results for results in all_results if results.record}
    fig08 = folder / ("fig08.csv" if folder == RESULTS else "fig08/table.csv")
    pages_by_name = {f"{name}.md": page(results) for name, results in finished.items()}
    pages_by_name["README.md"] = _template("report.md.j2").render(
        results=[
            results for results in all_results if results.record or results.study.name in NAMES
        ],
        gains=gains_and_losses(LongTable.load(fig08)) if fig08.exists() else None,
        judged=judged_claims(finished["claims"].tables if "claims" in finished else {}),
        times=times({results.study.name: results.record for results in all_results}),
    )
    return pages_by_name


def _template(name: str) -> jinja2.Template:
    templates = environment().overlay(keep_trailing_newline=True)
    templates.globals.update(
        fold_rows=FOLD_ROWS, max_rows=MAX_ROWS, narrow=narrow, is_listed=is_listed, listed=listed
    )
    return templates.get_template(name)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make report", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/eval"))
    parser.add_argument(
        "--committed",
        action="store_true",
        help=f"read the results in {RESULTS.relative_to(ROOT)}, and write the pages there",
    )
    arguments = parser.parse_args()
    folder: Path = RESULTS if arguments.committed else arguments.out
    for name, text in pages(folder).items():
        write_text(folder / FOLDER / name, text)
    print(folder / FOLDER / "README.md")


if __name__ == "__main__":
    main()
