# SPDX-License-Identifier: MIT
"""The tables of clusters that are made from what is committed.

`python -m eval --pages cluster ceph simulation` writes them: all to eval/results/cluster.md, and to
docs/cluster.md those of their rows and columns by which a reader decides. Every rule in every cell,
with all intervals, is in eval/results/report.html.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eval.cache import RESULTS, ROOT
from eval.experiments.cluster.lab import BURSTS
from eval.experiments.cluster.text import EXTRA, OTHERS, RULES
from eval.page_tables import Shown

PAGE, FULL = ROOT / "docs" / "cluster.md", RESULTS / "cluster.md"

#: What begins the tables of GlusterFS' other cells, in bursts and beside loads, and of Ceph.
FURTHER, BESIDE, OF_CEPH, FAILING, CEPH_BESIDE = (
    "bursts, mean us", "beside a load, mean us", "bursts, on Ceph",
    "what fails or costs, on Ceph: mean, p99 us", "beside a load, on Ceph: mean, p99 us",
)  # fmt: skip

#: What begins those of the simulation, of every rule and of the best.
MEANS, SIMULATION = "mean us", "simulated, mean us"

#: Columns of the first cell, after means and p99; the last is of the simulation's mean.
BELOW, SIMULATED = "liblinnos-cluster below it by, %", "the simulation's mean off by, %"

#: Rules whose means a further cell shows beside the best of OTHERS.
_SHOWN = ("primary", "prediction", "library", "library-hedge", "clone", "oracle")

_LIBRARYS, _PREDICTIONS = (
    f"{rule}'s mean below its by" for rule in ("liblinnos-cluster", "prediction")
)

_CEPHS = "liblinnos-ceph: mean below its by"

#: What the page shows beside rivals: the library and the bound, and of Ceph its own rule.
_OURS = ("library", "library-hedge", "oracle")
_ALSO_OF_CEPH = (
    "primary: Ceph's default", "liblinnos-ceph, asks nobody", "liblinnos-ceph",
    RULES["elasticsearch"],
)  # fmt: skip

#: GlusterFS' own way that serves best in bursts.
_BEST_ENGINE = "GlusterFS 3: shortest own queue"

#: Of Ceph, by what their titles begin with; and what is no rival of the library's there.
_SHOWN_OF_CEPH = (
    "primary", "balance", "two at once", "shipped: the prediction", "liblinnos-ceph", "oracle",
)  # fmt: skip
_NO_RIVALS = (
    *(RULES[rule] for rule in EXTRA), "liblinnos-ceph, asks nobody", "liblinnos-ceph", "oracle",
)  # fmt: skip


def of_gluster(tables: dict[str, Any], both: Sequence[Sequence[str]] = ()) -> list[Shown]:
    """The first cell: means, p99, what the library is below others by; a row each of the rest.

    Parameters
    ----------
    tables : dict
        A table a cell, as committed.
    both : sequence of rows
        The lab beside the simulation, which has the first of the rules.
    """
    (heading, table), *further = tables.items()
    rows: list[tuple[str, ...]] = []
    for row, simulated in itertools.zip_longest(_by_rule(table).values(), both):
        mean_us = _value(row["mean us"])
        if simulated and simulated[1] != mean_us:
            raise ValueError(f"{row['rule']} takes {mean_us} us, beside the simulation another")
        off = _bare(simulated[3]) if simulated else ""
        rows.append((row["rule"], mean_us, _value(row["p99 us"]), _bare(row[_LIBRARYS]), off))
    found = [Shown((heading, "mean us", "p99 us", BELOW, SIMULATED), rows)]
    for title, are_bursts in ((FURTHER, True), (BESIDE, False)):
        cells = [cell for cell in further if cell[0].startswith(f"{BURSTS}, ") == are_bursts]
        if cells:
            found.append(_cells(title, cells))
    return found


def _cells(title: str, cells: list[tuple[str, dict[str, Any]]]) -> Shown:
    """A row a cell: the best rule that sends no second read, and some others."""
    are_loads = title == BESIDE
    header = [title, f"best of {len(OTHERS)} rivals", *(RULES[rule] for rule in _SHOWN)]
    header.append("rivals that liblinnos-cluster is below; above")
    if are_loads:
        header += [
            "of the oracle's gain: liblinnos-cluster", "the prediction",
            "the prediction is below what is in flight by, %",
        ]  # fmt: skip
    rows = []
    for heading, table in cells:
        named = _by_rule(table)
        best = min(OTHERS, key=lambda rule: float(_value(named[rule]["mean us"])))
        apart = [_side(named[rule][_LIBRARYS]) for rule in OTHERS]
        row = [
            _cell(heading),
            f"{RULES[best]} {_value(named[best]['mean us'])}",
            *(_value(named[rule]["mean us"]) for rule in _SHOWN),
            f"{apart.count(1)}; {apart.count(-1)}",
        ]
        if are_loads:
            over = named["pending"][_PREDICTIONS]
            row += [named[rule]["of the oracle's gain"] for rule in ("library", "prediction")]
            row.append(_bare(_value(over)) if _side(over) else "undecided")
        rows.append(tuple(row))
    return Shown(tuple(header), rows)


def _cell(heading: str) -> str:
    """A cell without the load and the network that most of its table have."""
    if heading.startswith(f"{BURSTS}, "):
        return heading.removeprefix(f"{BURSTS}, ").removeprefix("20 us one way, ")
    return f"`{heading.removesuffix(', 50 us one way')}`"


def of_ceph(tables: dict[str, Any]) -> list[Shown]:
    """Bursts: means, p99, what the library is below others by; a row each of failures and loads."""
    bursts, failing, loads = (
        {heading: table for heading, table in tables.items() if _kind(heading) == kind}
        for kind in (OF_CEPH, FAILING, CEPH_BESIDE)
    )
    header, rows = [OF_CEPH], [[row[0]] for row in next(iter(bursts.values()))["rows"]]
    for heading, table in bursts.items():
        # after load and network
        cell = heading.split(", ")[-1]
        header += [f"{cell}: mean us", "p99 us", "liblinnos-ceph below it by, %"]
        below = table["header"].index(_CEPHS)
        for row, line in zip(rows, table["rows"], strict=True):
            row += [*map(_value, line[1:3]), _bare(line[below])]
    further = [
        _row_each(title, of)
        for title, of in ((FAILING, failing), (CEPH_BESIDE, loads))
        if of
    ]  # fmt: skip
    return [Shown(tuple(header), [tuple(row) for row in rows]), *further]


def _row_each(title: str, tables: dict[str, Any]) -> Shown:
    """A row a cell of Ceph: the best rule that sends no second read, and some others."""
    are_loads = title == CEPH_BESIDE
    rows, shown = [], []
    for heading, table in tables.items():
        named = {row[0]: dict(zip(table["header"], row, strict=True)) for row in table["rows"]}
        rivals = [rule for rule in named if rule not in _NO_RIVALS]
        best = min(rivals, key=lambda rule: float(_value(named[rule]["mean us"])))
        apart = [_side(named[rule][_CEPHS]) for rule in rivals]
        took = {
            rule: f"{_value(row['mean us'])}, {_value(row['p99 us'])}"
            for rule, row in named.items()
        }
        shown = [rule for rule in named if rule.startswith(_SHOWN_OF_CEPH)]
        row = [
            f"`{heading.split(', ')[0]}`" if are_loads else _besides(heading),
            f"{best} {took[best]}",
            *(took[rule] for rule in shown),
            f"{apart.count(1)}; {apart.count(-1)}",
        ]
        if are_loads:
            row.append(named["liblinnos-ceph"]["of the oracle's gain"])
        rows.append(tuple(row))
    header = [title, f"best of {len(rivals)} rivals", *shown]
    header.append("rivals that liblinnos-ceph is below; above")
    if are_loads:
        header.append("liblinnos-ceph: of the oracle's gain")
    return Shown(tuple(header), rows)


def _besides(heading: str) -> str:
    """A cell of Ceph without the load and the network, and a single client."""
    return ", ".join(said for said in heading.split(", ")[2:] if said != "1 client")


def _kind(heading: str) -> str:
    """Which of Ceph's tables has a cell."""
    if not heading.startswith(f"{BURSTS}, "):
        return CEPH_BESIDE
    # last are clients, or what fails or costs
    return OF_CEPH if heading.split()[-1].startswith("client") else FAILING


def _by_rule(table: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The rows by rule, and what is in them by column."""
    rules = {title: rule for rule, title in RULES.items()}
    return {rules[row[0]]: dict(zip(table["header"], row, strict=True)) for row in table["rows"]}


def _value(cell: str) -> str:
    """Without its interval."""
    return cell.split(" [")[0]


def _bare(cell: str) -> str:
    """Without its unit, which the column's title has."""
    return cell.replace(" %", "")


def _side(cell: str) -> int:
    """On which side of zero an interval is, 0 if on both. Ends rounded to zero keep their sign."""
    _, *ends = re.findall(r"-?[\d.]+", cell)
    if not ends:  # too few seeds for an interval
        return 0
    low, high = ends
    return int(not low.startswith("-")) - int(high.startswith("-"))


#: The simulation's cells that pages have, by what their columns or rows are called.
CELLS = {
    "1 client": "the lab: 1 client, 20 us",
    "16": "16 clients",
    "64": "64 clients",
    "16, bursts of 10 ms": "16 clients, bursts of 10 ms",
    "16, news 10 ms older": "16 clients, news 10 ms older",
    "16, writes beside": "writes, consumer, 16 clients",
    "16, busy drives": "calm, consumer, three quarters busy",
    "100 nodes, 100": "100 nodes, 100 clients",
    "1,000 nodes, 1,000": "1,000 nodes, 1,000 clients",
}

_OF_SIMULATION = ("primary: the engine's choice", "library", "library, hedges", "oracle")


def _simulated(tables: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Means by cell and rule."""
    return {
        cell: {row[0]: _value(row[1]) for row in tables[heading]["rows"]}
        for cell, heading in CELLS.items()
    }


def of_simulation(tables: dict[str, Any]) -> Shown:
    """Each rule's mean in each of the cells; the first has all rules."""
    means = _simulated(tables)
    titles = next(iter(means.values()))
    return Shown((MEANS, *means), [(t, *(of.get(t, "") for of in means.values())) for t in titles])


def of_simulations_best(tables: dict[str, Any]) -> Shown:
    """A row a cell: the best rule of others that sends no second read, and some."""
    extra = {RULES[rule] for rule in EXTRA}
    rows = []
    for cell, of in _simulated(tables).items():
        rivals = {
            title: float(us)
            for title, us in of.items()
            if title not in extra and not title.startswith(("library", "oracle"))
        }
        best = min(rivals, key=rivals.__getitem__)
        rows.append((cell, f"{best} {of[best]}", *(of.get(t, "") for t in _OF_SIMULATION)))
    return Shown((SIMULATION, "best rival", *_OF_SIMULATION), rows)


def _short(bursts: Shown, ceph: Shown) -> list[Shown]:
    """What a reader decides by, of the bursts on GlusterFS and on Ceph."""
    names = ("own-latency", "prequal", "prediction", "clone")
    shown = (*(RULES[name] for name in names), *(RULES[name] for name in _OURS), _BEST_ENGINE)
    return [
        bursts.only(("mean us", "p99 us", BELOW), (RULES["primary"], *shown)),
        ceph.only(
            [title for title in ceph.header if title.endswith((": mean us", "p99 us"))],
            [row[0] for row in ceph.rows if row[0] in shown or row[0] in _ALSO_OF_CEPH],
        ),
    ]


def committed() -> dict[Path, list[Shown]]:
    """All of them, by page."""
    gluster, ceph, simulated = (
        json.loads((RESULTS / f"{name}.json").read_text())["tables"]
        for name in ("cluster", "ceph", "simulation")
    )
    both = simulated["the lab and the simulation"]["rows"]
    of_nodes, of_osds = of_gluster(gluster, both), of_ceph(ceph)
    return {
        FULL: [*of_nodes, *of_osds, of_simulation(simulated)],
        PAGE: [*_short(of_nodes[0], of_osds[0]), of_simulations_best(simulated)],
    }
