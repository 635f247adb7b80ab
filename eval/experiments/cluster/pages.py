# SPDX-License-Identifier: MIT
"""The tables of docs/cluster.md that are made from what is committed.

`python -m eval --pages cluster ceph simulation` writes them. A table takes the place of the one in
the page whose header begins with the same cell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from eval.cache import RESULTS, ROOT
from eval.files import write_text

PAGE = ROOT / "docs" / "cluster.md"

#: What begins the tables of Ceph, and of the lab beside the simulation.
OF_CEPH, OF_BOTH = "bursts, on Ceph", "mean us in the lab's bursts"

Rows = list[list[str]]


def of_gluster(tables: dict[str, Any]) -> list[Rows]:
    """A table a cell: means and p99, and what two of the rules are below the others by."""
    found = []
    for heading, table in tables.items():
        below = [title for title in table["header"] if title.endswith("mean below its by")]
        rows = [[heading, "mean us", "p99 us", *(title.replace("its", "it") for title in below)]]
        for row in table["rows"]:
            named = dict(zip(table["header"], row, strict=True))
            rows.append([row[0], *map(_value, row[1:3]), *(named[title] for title in below)])
        found.append(rows)
    return found


def of_ceph(tables: dict[str, Any]) -> Rows:
    """Means and p99 of each number of clients, and what the library is below the others by."""
    rows = [[OF_CEPH]]
    for heading, table in tables.items():
        below = table["header"].index("liblinnos-ceph: mean below its by")
        clients = heading.split(", ")[-1]
        rows[0] += [f"{clients}: mean us", "p99 us", "liblinnos-ceph below it by"]
        if len(rows) == 1:
            rows += [[row[0]] for row in table["rows"]]
        for row, line in zip(rows[1:], table["rows"], strict=True):
            row += [*map(_value, line[1:3]), line[below]]
    return rows


def of_both(table: dict[str, Any]) -> Rows:
    """The lab beside the simulation."""
    return [[OF_BOTH, "lab", "simulation", "off by"], *table["rows"]]


def _value(cell: str) -> str:
    """Without its interval."""
    return cell.split(" [")[0]


def committed() -> list[Rows]:
    """All of them."""
    cluster, ceph, simulation = (
        json.loads((RESULTS / f"{name}.json").read_text())["tables"]
        for name in ("cluster", "ceph", "simulation")
    )
    return [
        *of_gluster(cluster), of_ceph(ceph), of_both(simulation["the lab and the simulation"]),
    ]  # fmt: skip


def put(page: str, rows: Sequence[Sequence[str]]) -> str:
    """A page with a table in its place.

    Raises
    ------
    ValueError
        If the page has none that begins so, or several.
    """
    header, *others = (f"| {' | '.join(row)} |" for row in rows)
    rule = "|---" * len(rows[0]) + "|"
    table = "\n".join((header, rule, *others))
    pattern = rf"^\| {re.escape(rows[0][0])} \|.*\n(?:\|.*\n)*"
    found, n = re.subn(pattern, lambda _: f"{table}\n", page, flags=re.MULTILINE)
    if n != 1:
        raise ValueError(f"{PAGE.name}: {n} tables begin with {rows[0][0]!r}")
    return found


def write() -> None:
    """Write them all."""
    page = PAGE.read_text()
    for rows in committed():
        page = put(page, rows)
    write_text(PAGE, page)
