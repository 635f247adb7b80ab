# SPDX-License-Identifier: MIT
"""`make report`: one HTML page with every figure and table, nothing outside of it.

Takes what `make eval` left in out/eval; an experiment that has not run is
named as such.
"""

from __future__ import annotations

import argparse
import base64
import html
import json
import re
from pathlib import Path
from typing import Any

from eval.cache import read_record
from eval.experiment import Experiment, Table
from eval.experiments import NAMES, load

_STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; color: #222; }
img { max-width: 100%; }
table { border-collapse: collapse; margin: 1em 0; font-size: 12px; }
td, th { border: 1px solid #ccc; padding: 2px 6px; text-align: right; }
td:first-child, th:first-child { text-align: left; }
summary { cursor: pointer; color: #0072b2; }
.paper { background: #f4f4f4; padding: 0.5em 1em; }
h2 { border-top: 2px solid #222; padding-top: 0.5em; margin-top: 2em; }
"""

#: Longer tables are folded.
_FOLD_ROWS = 16


def _inline(text: str) -> str:
    """The little Markdown that readings use."""
    escaped = html.escape(text)
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    return re.sub(r"\*([^*]+)\*", r"<em>\1</em>", escaped)


def _paragraphs(text: str) -> str:
    parts = []
    for block in text.strip().split("\n\n"):
        if block.startswith("- "):
            items = "".join(f"<li>{_inline(line[2:])}</li>" for line in block.split("\n"))
            parts.append(f"<ul>{items}</ul>")
        else:
            parts.append(f"<p>{_inline(block)}</p>")
    return "\n".join(parts)


def _table(heading: str, table: Table) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.header)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    body = f"<table><tr>{head}</tr>{rows}</table>"
    title = html.escape(heading)
    if len(table.rows) > _FOLD_ROWS:
        return f"<details><summary>{title} ({len(table.rows)} rows)</summary>{body}</details>"
    return f"<h4>{title}</h4>{body}"


def _times(record: dict[str, Any]) -> str:
    text = f"{record['seconds']:.0f} s beyond what was in the cache"
    if "cpu_seconds" in record:
        text += (
            f" ({record['cpu_seconds']:.0f} s of CPU time, {record['jobs']} guests at a time), "
            f"{record['alone_seconds']:.0f} s with it"
        )
    return text


def section(experiment: Experiment, folder: Path) -> str:
    """One experiment's part of the page."""
    head = (
        f'<h2 id="{experiment.name}">{html.escape(experiment.title)} '
        f"<small>({html.escape(experiment.source)})</small></h2>"
    )
    record = read_record(folder)
    if record is None:
        return f"{head}<p>Not run yet: <code>make eval-{experiment.name}</code>.</p>"
    data: dict[str, Any] = json.loads((folder / "data.json").read_text())
    image = base64.b64encode((folder / "figure.png").read_bytes()).decode()
    tables = "".join(_table(heading, table) for heading, table in experiment.table(data).items())
    command = experiment.command or f"make eval-{experiment.name}"
    differs = (
        f"<br><b>What differs:</b> {_inline(experiment.differs)}" if experiment.differs else ""
    )
    return f"""{head}
<img alt="{html.escape(experiment.title)}" src="data:image/png;base64,{image}">
<h3>Ours</h3>
{_paragraphs(experiment.reading(data))}
<p class="paper"><b>The paper:</b> {_inline(experiment.paper)}{differs}</p>
{tables}
<p><small><code>{command}</code>: {_times(record)}.</small></p>"""


def times(out: Path) -> str:
    """What each part took, and the least that all would take on two cores."""
    rows, total = [], [0.0, 0.0]
    for name in NAMES:
        record = read_record(out / name)
        if record is None or "cpu_seconds" not in record:
            continue
        total[0] += record["seconds"]
        total[1] += record["cpu_seconds"]
        rows.append(
            (name, *(f"{record[key]:.0f}" for key in ("seconds", "cpu_seconds", "alone_seconds")))
        )
    rows.append(("all", *(f"{seconds:.0f}" for seconds in total), ""))
    table = Table(("part", "s beyond the cache", "CPU s", "s with an empty cache"), tuple(rows))
    return (
        '<h2 id="times">What it took</h2>'
        "<p>Wall-clock time is that of the machine and of all else that ran on it then. CPU time "
        "is of this alone: divided by the number of cores it is the least that a part can take."
        f"</p>{_table('Times', table)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="make report", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/eval"))
    arguments = parser.parse_args()
    experiments = [load(name) for name in NAMES]
    contents = "".join(
        f'<li><a href="#{e.name}">{html.escape(e.source)}: {html.escape(e.title)}</a></li>'
        for e in experiments
    )
    sections = "\n".join(section(e, arguments.out / e.name) for e in experiments)
    page = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>LinnOS: evaluation</title>
<style>{_STYLE}</style></head><body>
<h1>LinnOS: evaluation</h1>
<p>All latencies are in the virtual time of the lab: emulated drives, the real block layer. Beside
every policy stands the oracle, which asks the emulator which drive would answer each read first.
Software that virtual time does not see is charged: each inference at what
it costs natively, each failover at 15 us.</p>
<ul>{contents}</ul>
{sections}
{times(arguments.out)}
</body></html>
"""
    arguments.out.mkdir(parents=True, exist_ok=True)
    target = arguments.out / "report.html"
    beside = target.with_suffix(".tmp")
    beside.write_text(page)
    beside.replace(target)
    print(target)


if __name__ == "__main__":
    main()
