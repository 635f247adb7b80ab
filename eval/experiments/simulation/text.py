# SPDX-License-Identifier: MIT
"""The data as tables, words and a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from eval import figures
from eval.cache import RESULTS
from eval.experiment import Table
from eval.experiments.cluster.text import EXTRA, share
from eval.experiments.cluster.text import RULES as LAB_RULES
from eval.experiments.simulation.cells import LABS, OF_THE_LAB, RULES
from eval.experiments.simulation.runs import committed_lab
from eval.metrics import percent
from eval.scores import number
from linnapp.stats import Interval

#: Those that ask for no second read but to look at a node.
WITHOUT_EXTRA = tuple(rule for rule in RULES if rule not in (*EXTRA, "library-hedge"))

#: What may not be worse than the engine's own choice by more.
BOUND = 0.01

_DRAWN = {
    "primary": "#888888", "own-latency": "#e69f00", "prequal": "#7f3c8d", "c3": "#9c6644",
    "prediction": "#0072b2", "library": "#aa3377", "library-hedge": "#009e73", "oracle": "black",
}  # fmt: skip


def _mean(cell: dict[str, Any], rule: str) -> float:
    return float(cell["rules"][rule]["mean_us"][0])


def _compared_with_the_lab(cell: dict[str, Any], lab: dict[str, float]) -> Table:
    rows = []
    for rule in OF_THE_LAB:
        simulated_us, lab_us = _mean(cell, rule), lab[LAB_RULES[rule]]
        off = percent(simulated_us / lab_us - 1)
        rows.append((RULES[rule], f"{lab_us:.1f}", f"{simulated_us:.1f}", off))
    return Table(("rule", "lab, mean us", "simulation, mean us", "off by"), tuple(rows))


def table(data: dict[str, Any]) -> dict[str, Table]:
    """The comparison with the lab, a table a cell, and the drive that turns slow."""
    lab = json.loads((RESULTS / "cluster.json").read_text())["tables"]
    by_name = {cell["name"]: cell for cell in data["cells"]}
    tables = {
        f"the lab and the simulation{', nine nodes' if 'nodes' in cell.options else ''}": (
            _compared_with_the_lab(by_name[cell.name], committed_lab(lab, heading))
        )
        for heading, cell in LABS.items()
        if heading in lab and cell.name in by_name
    }
    header = (
        "rule", "mean us", "p99 us", "below the primary by", "of the oracle's gain", "extra I/O",
        "questions a read", "most of one node in a second",
    )  # fmt: skip
    for cell in data["cells"]:
        tables[cell["name"]] = Table(
            header,
            tuple(
                (
                    RULES[rule],
                    number(of["mean_us"], 1),
                    f"{of['p99_us']:.0f}",
                    share(of["below"]) if of["below"] and rule != "primary" else "",
                    percent(of["share_of_gain"][0], 0)
                    if of["share_of_gain"] and rule != "primary" and of["share_of_gain"][0]
                    else "",
                    percent(of["extra_io_ratio"]),
                    f"{of['asked']:.2f}",
                    percent(of["worst_share"]),
                )
                for rule, of in cell["rules"].items()
            ),
        )
    tables["a drive that turns slow, and recovers"] = Table(
        ("rule", "clients", "its reads in the first 100 ms", "after these", "back within"),
        tuple(
            (
                RULES[one["rule"]],
                str(one["clients"]),
                percent(one["first_100_ms"]),
                percent(one["after_100_ms"], 2),
                f"{one['back_ms']} ms" if one["back_ms"] else "not",
            )
            for one in data["slow"]
        ),
    )
    return tables


def reading(data: dict[str, Any]) -> str:
    """Cell by cell where the library is: against the engine's choice, and the best rival."""
    lines = []
    for cell in data["cells"]:
        rules = cell["rules"]
        rivals = [r for r in rules if r in WITHOUT_EXTRA and r != "oracle" and r[:7] != "library"]
        best = min(rivals, key=lambda rule: _mean(cell, rule))
        mine = _mean(cell, "library")
        words = (
            f"{cell['name']}: the library takes {mine:.1f} us, the best rival without extra reads, "
            f"{RULES[best]}, {_mean(cell, best):.1f}"
        )
        if "primary" in rules:
            below = Interval.from_json(rules["library"]["below"])
            words += f"; the primary {_mean(cell, 'primary'):.1f}"
            words += ": worse than it by over 1 %" if below.value < -BOUND else ""
        lines.append(words + ".")
    return "\n".join(lines)


def _panel(axis: Any, cells: list[dict[str, Any]], labels: list[str], title: str) -> None:
    for rule, colour in _DRAWN.items():
        known = [(k, _mean(c, rule)) for k, c in enumerate(cells) if rule in c["rules"]]
        if known:
            axis.plot(*zip(*known, strict=True), marker="o", ms=3, color=colour, label=RULES[rule])
    axis.set_xticks(range(len(labels)), labels)
    axis.set_title(title, fontsize=9)
    axis.set_ylabel("mean us")
    axis.set_yscale("log")
    axis.grid(alpha=0.3)


def draw(data: dict[str, Any], path: Path) -> None:
    """Means by clients, by the age of news and by nodes; and the drive that turns slow."""
    by_name = {cell["name"]: cell for cell in data["cells"]}
    figure, ((clients, age), (nodes, slow)) = plt.subplots(2, 2, figsize=(11, 7.5))
    wanted = ["4 clients", "16 clients", "64 clients"]
    _panel(clients, [by_name[n] for n in wanted], ["4", "16", "64"], "bursts, 3 nodes: clients")
    wanted = ["16 clients", *(f"16 clients, news {ms} ms older" for ms in ("0.1", "1", "10"))]
    _panel(age, [by_name[n] for n in wanted], ["0", "0.1", "1", "10"], "news older by so many ms")
    wanted = ["9 nodes, 9 clients", "100 nodes, 100 clients", "1,000 nodes, 100 clients",
              "1,000 nodes, 1,000 clients"]  # fmt: skip
    labels = ["9, 9", "100, 100", "1,000, 100", "1,000, 1,000"]
    _panel(nodes, [by_name[n] for n in wanted], labels, "bursts, one node in ten: nodes, clients")
    for one in data["slow"]:
        if one["clients"] == 16 and one["rule"] in _DRAWN:
            times_ms = [100 * k for k in range(len(one["share"]))]
            slow.plot(times_ms, [100 * s for s in one["share"]], color=_DRAWN[one["rule"]])
    slow.set_title("a drive that is slow from 1,000 to 2,500 ms, 16 clients", fontsize=9)
    slow.set_xlabel("ms")
    slow.set_ylabel("% of the reads")
    slow.grid(alpha=0.3)
    clients.legend(fontsize=7)
    figure.tight_layout()
    figures.save(figure, path)
