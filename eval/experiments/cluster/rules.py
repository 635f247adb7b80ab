# SPDX-License-Identifier: MIT
"""Rules for choosing a node: their names and titles, and what tables and figures show of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from eval import figures
from eval.cells import N_DRIVES
from eval.experiments.cluster.lab import BURSTS, Situation
from eval.long_table import LongTable, Place
from eval.study import Measure

#: The rules in eval/simulator/rules.c: their names there, and their titles in tables.
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

#: The client's rules: also those of the library and of GlusterFS itself.
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

#: Rules that send more reads than the user.
EXTRA = ("hedge", "hedge-capped", "clone")

#: Rules that use nothing but the reports of the nodes.
SHIPPED = ("pending", "prediction")

#: The library's rules use both, and weight them by their errors.
LIBRARY = ("library", "library-hedge")

#: The alternatives that send no extra reads.
OTHERS = tuple(rule for rule in RULES if rule not in (*EXTRA, *LIBRARY, "oracle"))

#: The numbers of a rule in a situation, besides the reads of each node.
MEASURES = {
    "mean_us": Measure("mean us", 1),
    "p99_us": Measure("p99 us"),
    "share_of_oracle": Measure("% of the oracle's gain", 0, 100),
    "asked": Measure("questions a read", 1),
    "strayed": Measure("reads sent on by a replica"),
}

_FAILURES = {
    "server": "a server stands still", "network": "a node cut off", "node": "a node gone and back",
}  # fmt: skip

#: Panels of a figure in a row.
_PANELS = 3


def heading(situation: Situation) -> str:
    """Describe a situation by its load, network and other properties."""
    said = [situation.load, f"{situation.one_way_us} us one way"]
    clients, lost = situation.clients, situation.lost_percent
    if situation.nodes > N_DRIVES:
        said.append(f"{situation.nodes} nodes")
    if clients > 1 or situation.engine == "ceph":
        said.append(f"{clients} client{'s' if clients > 1 else ''}")
    if lost:
        said.append(f"{lost} % of questions lost" if lost < 100 else "agents silent")
    if situation.fails:
        said.append(_FAILURES[situation.fails])
    if situation.lies:
        said.append(f"an agent lies: {situation.lies}")
    if situation.writes_percent:
        said.append(f"{situation.writes_percent} % writes")
    if situation.osd_us:
        said.append(f"an OSD takes {situation.osd_us} us")
    return ", ".join(said)


def short_heading(situation: Situation) -> str:
    """Describe a situation without the load, the usual network and a single client."""
    said = heading(situation).split(", ")
    return ", ".join(
        part for part in said if part not in (BURSTS, "20 us one way", "1 client")
    )  # fmt: skip


def best(table: LongTable, place: Place, rules: Iterable[str]) -> str:
    """Return the rule with the lowest mean."""
    return min(rules, key=lambda rule: table.value(place, rule, "mean_us"))


def n_below_and_above(table: LongTable, place: Place, policy: str, rules: Iterable[str]) -> str:
    """Write how many rules a policy is significantly below, and how many it is above."""
    sides = [side(table, place, policy, rule) for rule in rules]
    return f"{sides.count(1)}; {sides.count(-1)}"


def side(table: LongTable, place: Place, policy: str, reference: str) -> int:
    """Return 1 or -1 if a mean is significantly lower or higher than a reference's, else 0.

    Committed ends of intervals are rounded; zero has the sign of the number that was rounded.
    """
    found = table.reduction(place, policy, reference)
    if found is None or math.isnan(found.low):
        return 0
    return int(math.copysign(1, found.low) + math.copysign(1, found.high)) // 2


def bars(table: LongTable, titles: Sequence[str], marked: Sequence[str], path: Path) -> None:
    """Draw the means of rules with their intervals, in a panel for each situation."""
    places = table.places
    columns = min(len(places), _PANELS)
    rows = -(-len(places) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(4 * columns, 3 * rows), squeeze=False, sharey=True
    )
    for axis in axes.flat[len(places) :]:
        axis.set_visible(False)
    for axis, place in zip(axes.flat, places, strict=False):
        for y, rule in enumerate(titles):
            mean: Any = table.get(place, rule, "mean_us")
            colour = "#aa3377" if rule in marked else "#888888"
            axis.barh(y, mean.value, color="black" if rule == "oracle" else colour)
            axis.plot((mean.low, mean.high), (y, y), color="#333333", linewidth=1)
        axis.set_yticks(range(len(titles)), titles)
        axis.set_title(place[0], fontsize=9)
        axis.set_xlabel("mean us")
    axes[0][0].invert_yaxis()
    figures.save(figure, path)
