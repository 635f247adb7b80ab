# SPDX-License-Identifier: MIT
"""`make report`: one HTML page with every figure and table, nothing outside of it.

Takes what `make eval` left in out/eval, or the results under version control; an experiment that
has neither is named as such.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from eval import contenders
from eval.cache import LAB_SOURCES, RESULTS, ROOT, code_version, read_record
from eval.experiment import Table
from eval.experiments import NAMES, ON_REQUEST, load, source
from eval.long_table import FASTER, NOT_SIGNIFICANT, SLOWER, LongTable
from eval.pages import TEMPLATES
from eval.study import Study
from linnapp.lab.work import write_text

#: The alternatives in the table of gains and losses.
AGAINST = {
    "baseline": "baseline",
    "shortest-queue": "the shortest queue",
    "hedge": "hedging at p95",
    "heuristic-adv": "the tuned heuristic",
    "clone": "sending every read twice",
}

#: Where the paper's claims are judged: the table and its column.
CLAIMS, JUDGED = "Claims of the paper", "judged"

#: Longer tables are folded.
FOLD_ROWS = 16


def inline(text: str) -> Markup:
    """The little Markdown that readings use."""
    escaped = str(escape(text))
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", escaped))


def strong(text: str) -> Markup:
    """A cell of a table; what stands between double asterisks is bold."""
    return Markup(re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", str(escape(text))))


def paragraphs(text: str) -> Markup:
    """The same with paragraphs and lists, which an empty line separates."""
    parts = []
    for block in text.strip().split("\n\n"):
        if block.startswith("- "):
            items = (Markup("<li>{}</li>").format(inline(line[2:])) for line in block.split("\n"))
            parts.append(Markup("<ul>{}</ul>").format(Markup("").join(items)))
        else:
            parts.append(Markup("<p>{}</p>").format(inline(block)))
    return Markup("\n").join(parts)


def section(experiment: Study, finished: dict[str, Any] | None) -> dict[str, Any]:
    """Return the page's section about one experiment; `finished` is None if it has not run."""
    return {
        "name": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "paper": experiment.paper,
        "differs": experiment.differs,
        "command": experiment.command or f"make eval-{experiment.name}",
        "finished": finished,
    }


def found(figure: Path, reading: str, tables: Mapping[str, Any], took: str) -> dict[str, Any]:
    """Return the results of an experiment, for the page."""
    image = base64.b64encode(figure.read_bytes()).decode()
    return {"image": image, "reading": reading, "tables": tables, "took": took}


def gains_and_losses(table: LongTable) -> Table:
    """Count the workloads of Fig. 8 in which each of ours has a lower or a higher mean."""
    rows = []
    for policy in contenders.ours(table.policies()):
        for reference, title in AGAINST.items():
            said = table.count_verdicts(policy, reference)
            if any(said.values()):
                slower_in = ", ".join(place[0] for place in said[SLOWER])
                counts = (str(len(said[word])) for word in (FASTER, SLOWER, NOT_SIGNIFICANT))
                rows.append((policy, title, *counts, slower_in))
    header = ("policy", "compared with", FASTER, SLOWER, NOT_SIGNIFICANT, "slower in")
    return Table(header, tuple(rows))


def judged_claims(claims: dict[str, Any] | None) -> Counter[str]:
    """Count the verdicts on the claims of the paper."""
    table = claims and claims["tables"].get(CLAIMS)
    return Counter(column(table, JUDGED)) if table else Counter()


def column(table: Table | Mapping[str, Any], name: str) -> list[str]:
    """Return a column of a table, which can be a mapping from JSON."""
    fields = table if isinstance(table, Mapping) else vars(table)
    index = list(fields["header"]).index(name)
    return [row[index] for row in fields["rows"]]


def run_finished(experiment: Study, folder: Path) -> dict[str, Any] | None:
    """Return the results of an experiment's last run, or None if it did not run to its end."""
    record = read_record(folder)
    if record is None:
        return None
    try:
        tables = experiment.tables(LongTable.load(folder / "table.csv"))
    except (KeyError, IndexError, TypeError, ValueError, FileNotFoundError):
        # The data of an earlier version can have another form. Otherwise it is a fault.
        if not is_of_other_code(experiment, record):
            raise
        return None
    return found(folder / "figure.png", experiment.notes, tables, took(record))


def is_of_other_code(experiment: Study, record: Mapping[str, Any]) -> bool:
    """Return whether an experiment's data were made by another version of the code."""
    code = code_version(*LAB_SOURCES, source(experiment.name), *experiment.sources)
    return bool(record.get("made_from", {}).get("code") != code)


def took(record: Mapping[str, Any]) -> str:
    """An experiment's times in words."""
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


def page(out: Path) -> str:
    """Return the whole page of the experiments that have run, with their figures in it."""
    records = {name: read_record(out / name) for name in (*NAMES, *ON_REQUEST)}
    finished = {
        name: run_finished(load(name), out / name)
        for name in records
        if name in NAMES or records[name] is not None
    }
    has_fig08 = bool(finished.get("fig08"))
    table = LongTable.load(out / "fig08" / "table.csv") if has_fig08 else None
    return render(finished, times(records), table)


def committed_page(results: Path) -> str:
    """Return the page of the results that are under version control."""
    records: dict[str, Any] = {}
    for name in (*NAMES, *ON_REQUEST):
        path = results / f"{name}.json"
        records[name] = json.loads(path.read_text()) if path.exists() else None
    finished = {
        name: result and committed_results(load(name), result, results)
        for name, result in records.items()
        if name in NAMES or result is not None
    }
    path = results / "fig08.csv"
    return render(finished, times(records), LongTable.load(path) if path.exists() else None)


def committed_results(experiment: Study, record: dict[str, Any], results: Path) -> dict[str, Any]:
    """Return the committed results of an experiment; those without a long table have tables."""
    figure = results / f"{experiment.name}.png"
    path = results / f"{experiment.table_name}.csv"
    if path.exists():
        tables: Mapping[str, Any] = experiment.tables(LongTable.load(path))
    else:
        tables = record["tables"]
    return found(figure, experiment.notes, tables, took(record))


def render(
    finished: Mapping[str, dict[str, Any] | None], took: Table, fig08: LongTable | None = None
) -> str:
    """Return the page of the results, the times, and the gains and losses in Fig. 8."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters.update(inline=inline, paragraphs=paragraphs, strong=strong)
    return environment.get_template("report.html.j2").render(
        sections=[section(load(name), results) for name, results in finished.items()],
        gains=None if fig08 is None else gains_and_losses(fig08),
        judged=judged_claims(finished.get("claims")),
        times=took,
        fold_rows=FOLD_ROWS,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="make report", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/eval"))
    parser.add_argument(
        "--committed",
        action="store_true",
        help=f"of {RESULTS.relative_to(ROOT)}, and to there, as `python -m eval --commit` left it",
    )
    arguments = parser.parse_args()
    folder: Path = RESULTS if arguments.committed else arguments.out
    target = folder / "report.html"
    write_text(target, committed_page(folder) if arguments.committed else page(folder))
    print(target)


if __name__ == "__main__":
    main()
