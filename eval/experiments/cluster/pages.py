# SPDX-License-Identifier: MIT
"""The tables of docs/cluster.md that are made from what is committed.

`python -m eval --pages cluster ceph simulation` writes them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eval.cache import RESULTS, ROOT
from eval.experiments.cluster.lab import BURSTS
from eval.page_tables import Shown

PAGE = ROOT / "docs" / "cluster.md"

#: What begins the tables of GlusterFS' other cells, in bursts and beside loads, of Ceph, and of the
#: lab beside the simulation.
FURTHER, BESIDE, OF_CEPH, FAILING, OF_BOTH = (
    "bursts, mean us", "beside a load, mean us", "bursts, on Ceph", "what fails, on Ceph",
    "mean us in the lab's bursts",
)  # fmt: skip


def of_gluster(tables: dict[str, Any]) -> list[Shown]:
    """The first cell: means, p99, what two of the rules are below others by; means of the rest."""
    (heading, table), *further = tables.items()
    below = [title for title in table["header"] if title.endswith("mean below its by")]
    header = (heading, "mean us", "p99 us", *(title.replace("its", "it") for title in below))
    rows = []
    for row in table["rows"]:
        named = dict(zip(table["header"], row, strict=True))
        rows.append((row[0], *map(_value, row[1:3]), *(named[title] for title in below)))
    found = [Shown(header, rows)]
    for title, are_bursts in ((FURTHER, True), (BESIDE, False)):
        cells = [cell for cell in further if cell[0].startswith(f"{BURSTS}, ") == are_bursts]
        if cells:
            lines = zip(*(one["rows"] for _, one in cells), strict=True)
            means = [(line[0][0], *(_value(row[1]) for row in line)) for line in lines]
            names = (name.removeprefix(f"{BURSTS}, ") for name, _ in cells)
            found.append(Shown((title, *names), means))
    return found


def of_ceph(tables: dict[str, Any]) -> list[Shown]:
    """Means and p99, and what the library is below the others by: of clients, and of failures."""
    found = []
    for title, is_of in ((OF_CEPH, _is_whole), (FAILING, lambda heading: not _is_whole(heading))):
        cells = {heading: one for heading, one in tables.items() if is_of(heading)}
        if not cells:
            continue
        header, rows = [title], [[row[0]] for row in next(iter(cells.values()))["rows"]]
        for heading, table in cells.items():
            below = table["header"].index("liblinnos-ceph: mean below its by")
            # after load and network, or these and the client
            cell = heading.split(", ")[-1]
            header += [f"{cell}: mean us", "p99 us", "liblinnos-ceph below it by"]
            for row, line in zip(rows, table["rows"], strict=True):
                row += [*map(_value, line[1:3]), line[below]]
        found.append(Shown(tuple(header), [tuple(row) for row in rows]))
    return found


def _is_whole(heading: str) -> bool:
    """Does nothing fail?"""
    return heading.split(", ")[-1].split()[-1].startswith("client")


def of_both(table: dict[str, Any]) -> Shown:
    """The lab beside the simulation."""
    return Shown((OF_BOTH, "lab", "simulation", "off by"), [tuple(row) for row in table["rows"]])


def _value(cell: str) -> str:
    """Without its interval."""
    return cell.split(" [")[0]


def committed() -> dict[Path, list[Shown]]:
    """All of them, by page."""
    cluster, ceph, simulation = (
        json.loads((RESULTS / f"{name}.json").read_text())["tables"]
        for name in ("cluster", "ceph", "simulation")
    )
    return {
        PAGE: [
            *of_gluster(cluster), *of_ceph(ceph),
            of_both(simulation["the lab and the simulation"]),
        ]
    }  # fmt: skip
