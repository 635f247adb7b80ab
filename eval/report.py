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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from eval.cache import LAB_SOURCES, RESULTS, ROOT, code_version, read_record
from eval.experiment import Experiment, Table
from eval.experiments import NAMES, ON_REQUEST, load, source
from eval.verdict import lines, won_and_lost
from eval.work import write_text

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


def section(experiment: Experiment, finished: dict[str, Any] | None) -> dict[str, Any]:
    """What the page says of one experiment, and of what it found: None if it has not run."""
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
    """What an experiment found, for the page."""
    image = base64.b64encode(figure.read_bytes()).decode()
    return {"image": image, "reading": reading, "tables": tables, "took": took}


def verdict_of(
    finished: Mapping[str, dict[str, Any] | None], numbers: Any
) -> dict[str, Any] | None:
    """What the page says first, of Fig. 8's numbers and the claims; None without the former."""
    if not numbers:
        return None
    claims = finished.get("claims")
    judged = column(claims["tables"][CLAIMS], JUDGED) if claims else []
    return {"lines": lines(numbers, judged), "table": won_and_lost(numbers)}


def column(table: Table | Mapping[str, Any], name: str) -> list[str]:
    """A column of a table, which may be as JSON has it."""
    fields = table if isinstance(table, Mapping) else vars(table)
    index = list(fields["header"]).index(name)
    return [row[index] for row in fields["rows"]]


def run_finished(experiment: Experiment, folder: Path) -> dict[str, Any] | None:
    """What an experiment's last run found, if it ran to its end."""
    record = read_record(folder)
    if record is None:
        return None
    data: dict[str, Any] = json.loads((folder / "data.json").read_text())
    try:
        reading, tables = experiment.reading(data), experiment.table(data)
    except (KeyError, IndexError, TypeError):
        # Of an earlier version, whose data had another form; else it is a fault to be seen.
        if not made_by_others(experiment, record):
            raise
        return None
    return found(folder / "figure.png", reading, tables, took(record))


def made_by_others(experiment: Experiment, record: Mapping[str, Any]) -> bool:
    """Whether an experiment's data are of another version of the code than this."""
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
    """What each part took, and the least that all would take on two cores."""
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
    """The whole page of what ran, with its figures in it."""
    records = {name: read_record(out / name) for name in (*NAMES, *ON_REQUEST)}
    finished = {
        name: run_finished(load(name), out / name)
        for name in records
        if name in NAMES or records[name] is not None
    }
    data = out / "fig08" / "data.json"
    numbers = load("fig08").numbers if finished.get("fig08") else None
    return render(finished, times(records), numbers and numbers(json.loads(data.read_text())))


def committed_page(results: Path) -> str:
    """The same of the results under version control."""
    records: dict[str, Any] = {}
    for name in (*NAMES, *ON_REQUEST):
        path = results / f"{name}.json"
        records[name] = json.loads(path.read_text()) if path.exists() else None
    finished = {
        name: result
        and found(results / f"{name}.png", result["reading"], result["tables"], took(result))
        for name, result in records.items()
        if name in NAMES or result is not None
    }
    return render(finished, times(records), (records.get("fig08") or {}).get("numbers"))


def render(finished: Mapping[str, dict[str, Any] | None], took: Table, numbers: Any = None) -> str:
    """The page of what each experiment found, of how long all took, and of Fig. 8's numbers."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(inline=inline, paragraphs=paragraphs, strong=strong)
    return environment.get_template("report.html.j2").render(
        sections=[section(load(name), what) for name, what in finished.items()],
        verdict=verdict_of(finished, numbers),
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
