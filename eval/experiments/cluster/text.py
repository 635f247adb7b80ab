# SPDX-License-Identifier: MIT
"""The data as tables, words and bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import matplotlib.pyplot as plt

from eval import figures
from eval.cells import N_DRIVES
from eval.experiment import Table
from eval.metrics import percent
from eval.scores import number
from linnapp.stats import Interval

#: Those of eval/simulator/rules.c, as they are called there, and what tables say.
RIVALS = {
    "primary": "primary: the first node",
    "random": "at random",
    "round-robin": "in turn",
    "own-queue": "shortest own queue",
    "two-choices": "two choices",
    "own-latency": "lowest own last latency",
    "c3": "C3",
    "elasticsearch": "Elasticsearch's rule",
    "prequal": "Prequal",
    "snitch": "Cassandra's snitch",
    "hedge": "at random, hedge after p95",
    "hedge-capped": "at random, hedge after p95, 5 % at most",
    "clone": "two at once",
    "pending": "shipped: what is in flight at the drive",
    "prediction": "shipped: the prediction",
}

#: As the client calls them, which has others: these, the library's, and GlusterFS' own.
RULES = {
    **RIVALS,
    "library": "liblinnos-cluster",
    "library-hedge": "liblinnos-cluster, hedges",
    "oracle": "oracle",
    "engine-0": "GlusterFS 0: the first that is there",
    "engine-1": "GlusterFS 1: by hash of the file",
    "engine-2": "GlusterFS 2: by hash of file and client",
    "engine-3": "GlusterFS 3: shortest own queue",
    "engine-4": "GlusterFS 4: lowest ping",
    "engine-5": "GlusterFS 5: lowest ping times own queue",
}

#: Those that send more reads than are wanted.
EXTRA = ("hedge", "hedge-capped", "clone")

#: Those that go by what nodes tell and by nothing else.
SHIPPED = ("pending", "prediction")

#: And what servers tell others, which agents do here.
TOLD = ("c3", "elasticsearch", "prequal", *SHIPPED)

#: Those that go by both, and by which is right.
LIBRARY = ("library", "library-hedge")

#: All that could be used instead, without extra reads.
OTHERS = tuple(rule for rule in RULES if rule not in (*EXTRA, *LIBRARY, "oracle"))

#: Those of them that ask nobody.
ASK_NOBODY = tuple(rule for rule in OTHERS if rule not in TOLD)

_FAILING = {
    "server": "a server stands still", "network": "a node cut off", "node": "a node gone and back",
}  # fmt: skip

#: Of a figure, side by side.
_PANELS = 3

#: What a shipped prediction must be below the best of those by, to be worth shipping.
WORTH = 0.10


def heading(cell: dict[str, Any], *, counted: bool = False) -> str:
    """A cell's load and network, and what else it has; one client only if it is to be `counted`."""
    said = [cell["load"], f"{cell['one_way_us']} us one way"]
    clients, lost = cell["clients"], cell["lost_percent"]
    if cell["nodes"] > N_DRIVES:
        said.append(f"{cell['nodes']} nodes")
    if counted or clients > 1:
        said.append(f"{clients} client{'s' if clients > 1 else ''}")
    if lost:
        said.append(f"{lost} % of questions lost" if lost < 100 else "agents silent")
    if cell["fails"]:
        said.append(_FAILING[cell["fails"]])
    if cell["lies"]:
        said.append(f"an agent lies: {cell['lies']}")
    if cell["writes_percent"]:
        said.append(f"{cell['writes_percent']} % writes")
    if cell["osd_us"]:
        said.append(f"an OSD takes {cell['osd_us']} us")
    return ", ".join(said)


def share(numbers: list[float | None]) -> str:
    value = Interval.from_json(numbers)
    return f"{percent(value.value)} [{percent(value.low)}, {percent(value.high)}]"


def table(data: dict[str, Any]) -> dict[str, Table]:
    """A table a cell: what reads took, against whom, who served, and how many were asked."""
    compared = {
        "library": "liblinnos-cluster's mean below its by",
        "prediction": "prediction's mean below its by",
    }
    return {heading(cell): table_of(cell, RULES, "round-robin", compared) for cell in data["cells"]}


def table_of(
    cell: dict[str, Any],
    rules: Mapping[str, str],
    base: str,
    compared: Mapping[str, str],
    counted: Mapping[str, str] = MappingProxyType({}),
) -> Table:
    """A cell's table.

    Parameters
    ----------
    rules, compared : Mapping
        Titles of rules, and of the columns that hold some against all.
    base : str
        The rule over which the oracle gains.
    counted : Mapping
        More columns: a title, and a rule's number.
    """
    header = (
        "rule", "mean us", "p99 us", *compared.values(), "of the oracle's gain",
        "disk reads by node", "questions a read", *counted,
    )  # fmt: skip
    rows = []
    for rule, title in rules.items():
        numbers = cell["rules"][rule]
        rows.append(
            (
                title,
                number(numbers["mean_us"], 1),
                number(numbers["p99_us"]),
                *("" if rule == own else share(cell["below"][own][rule]) for own in compared),
                "" if rule == base else percent(numbers["share_of_gain"][0], 0),
                " / ".join(map(str, numbers["disk_reads"])),
                f"{numbers['asked']:.1f}",
                *(str(numbers[key]) for key in counted.values()),
            )
        )
    return Table(header, tuple(rows))


def _verdict(below: Interval) -> str:
    if below.low >= WORTH:
        return "worth it"
    if below.is_above:
        return "below, by less than it must or by too uncertain a share"
    if below.is_below:
        return "lost"
    return "undecided"


def reading(data: dict[str, Any]) -> str:
    """Where a shipped prediction is worth it, cell by cell: against the best that asks nobody."""
    lines = []
    for cell in data["cells"]:
        rival = min(ASK_NOBODY, key=lambda rule: cell["rules"][rule]["mean_us"][0])
        mine, theirs = (cell["rules"][rule]["mean_us"][0] for rule in ("prediction", rival))
        below = cell["below"]["prediction"]
        best = min(OTHERS, key=lambda rule: cell["rules"][rule]["mean_us"][0])
        lines.append(
            f"{heading(cell)}: the best rule that asks nobody is {RULES[rival]}, {theirs:.1f} us. "
            f"The shipped prediction, {mine:.1f} us, is {share(below[rival])} below it: "
            f"{_verdict(Interval.from_json(below[rival]))}. It is {share(below['pending'])} below "
            "shipped queues."
            + "".join(
                f" {RULES[rule]}: {cell['rules'][rule]['mean_us'][0]:.1f} us, "
                f"{share(cell['below'][rule][rival])} below the best rule that asks nobody, "
                f"{share(cell['below'][rule][best])} below the best of all without extra reads, "
                f"{RULES[best]}."
                for rule in LIBRARY
            )
        )
    return "\n".join(lines)


def draw(data: dict[str, Any], path: Path) -> None:
    """Means with their intervals, a panel a cell."""
    bars([(heading(cell), cell) for cell in data["cells"]], tuple(RULES), ("prediction",), path)


def bars(
    cells: Sequence[tuple[str, dict[str, Any]]],
    rules: Sequence[str],
    marked: Sequence[str],
    path: Path,
) -> None:
    """Means of rules with their intervals, a panel a cell, at most so many in a row."""
    columns = min(len(cells), _PANELS)
    rows = -(-len(cells) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(4 * columns, 3 * rows), squeeze=False, sharey=True
    )
    for axis in axes.flat[len(cells) :]:
        axis.set_visible(False)
    for axis, (title, cell) in zip(axes.flat, cells, strict=False):
        for y, rule in enumerate(rules):
            value = Interval.from_json(cell["rules"][rule]["mean_us"])
            colour = "#aa3377" if rule in marked else "#888888"
            axis.barh(y, value.value, color="black" if rule == "oracle" else colour)
            axis.plot((value.low, value.high), (y, y), color="#333333", linewidth=1)
        axis.set_yticks(range(len(rules)), rules)
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("mean us")
    axes[0][0].invert_yaxis()
    figures.save(figure, path)
