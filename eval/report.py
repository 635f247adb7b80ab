# SPDX-License-Identifier: MIT
"""`make report`: one HTML page with every figure and table, nothing outside of it.

Takes what `make eval` left in out/eval; an experiment that has not run is
named as such.
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

from eval.cache import LAB_SOURCES, code_version, read_record
from eval.experiment import Experiment, Table
from eval.experiments import NAMES, ON_REQUEST, load, source
from eval.files import write_text

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


def section(experiment: Experiment, folder: Path) -> dict[str, Any]:
    """What the page says of one experiment; of one that has not run, ``finished`` is None."""
    record = read_record(folder)
    finished = None
    if record is not None:
        data: dict[str, Any] = json.loads((folder / "data.json").read_text())
        try:
            finished = {
                "image": base64.b64encode((folder / "figure.png").read_bytes()).decode(),
                "reading": experiment.reading(data),
                "tables": experiment.table(data),
                "took": took(record),
            }
        except (KeyError, IndexError, TypeError):
            # Of an earlier version, whose data had another form; else it is a fault to be seen.
            if not made_by_others(experiment, record):
                raise
    return {
        "name": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "paper": experiment.paper,
        "differs": experiment.differs,
        "command": experiment.command or f"make eval-{experiment.name}",
        "finished": finished,
    }


def made_by_others(experiment: Experiment, record: Mapping[str, Any]) -> bool:
    """Whether an experiment's data are of another version of the code than this."""
    code = code_version(*LAB_SOURCES, source(experiment.name), *experiment.sources)
    return bool(record.get("made_from", {}).get("code") != code)


def took(record: dict[str, Any]) -> str:
    """An experiment's times in words."""
    text = f"{record['seconds']:.0f} s beyond what was in the cache"
    if "cpu_seconds" in record:
        text += (
            f" ({record['cpu_seconds']:.0f} s of CPU time, {record['jobs']} guests at a time), "
            f"{record['alone_seconds']:.0f} s with it"
        )
    return text


def times(out: Path) -> Table:
    """What each part took, and the least that all would take on two cores."""
    rows, total = [], [0.0, 0.0]
    for name in (*NAMES, *ON_REQUEST):
        record = read_record(out / name)
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
    """The whole page, with its figures in it."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    asked_for = [name for name in ON_REQUEST if read_record(out / name) is not None]
    environment.filters.update(inline=inline, paragraphs=paragraphs, strong=strong)
    return environment.get_template("report.html.j2").render(
        sections=[section(load(name), out / name) for name in (*NAMES, *asked_for)],
        times=times(out),
        fold_rows=FOLD_ROWS,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="make report", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/eval"))
    out: Path = parser.parse_args().out
    target = out / "report.html"
    write_text(target, page(out))
    print(target)


if __name__ == "__main__":
    main()
