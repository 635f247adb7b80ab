# SPDX-License-Identifier: MIT
"""Rules for choosing a node: their names and titles, and what tables and figures show of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from eval import figures
from eval.cells import N_DRIVES
from eval.experiments.cluster.lab import BURSTS, Situation
from eval.long_table import LongTable, Place
from eval.study import load_study_texts

#: The names of the rules, and their titles in tables.
RULES: dict[str, str] = load_study_texts("cluster")["titles"]

#: Rules that send more reads than the user.
EXTRA = ("hedge", "hedge-capped", "clone")

#: Rules that use nothing but the reports of the nodes.
AGENT_RULES = ("pending", "prediction")

#: The library's rules use both, and weight them by their errors.
LIBRARY = ("library", "library-hedge")

#: The alternatives that send no extra reads.
RIVALS = tuple(rule for rule in RULES if rule not in (*EXTRA, *LIBRARY, "oracle"))

#: With three seeds, intervals are too narrow by this factor (docs/evaluation.md, "How sure a number
#: is").
TOO_NARROW = 2.6

_FAILURES = {
    "server": "a server stands still", "network": "a node cut off", "node": "a node gone and back",
}  # fmt: skip


def heading(situation: Situation) -> str:
    """Describe a situation by its load, network and other properties."""
    properties = [situation.load, f"{situation.one_way_us} us one way"]
    clients, lost = situation.clients, situation.lost_percent
    if situation.nodes > N_DRIVES:
        properties.append(f"{situation.nodes} nodes")
    if clients > 1 or situation.engine == "ceph":
        properties.append(f"{clients} client{'s' if clients > 1 else ''}")
    if lost:
        properties.append(f"{lost} % of queries lost" if lost < 100 else "agents silent")
    if situation.fails:
        properties.append(_FAILURES[situation.fails])
    if situation.lies:
        properties.append(f"an agent lies: {situation.lies}")
    if situation.writes_percent:
        properties.append(f"{situation.writes_percent} % writes")
    if situation.osd_us:
        properties.append(f"an OSD takes {situation.osd_us} us")
    return ", ".join(properties)


def short_heading(situation: Situation) -> str:
    """Describe a situation without the load, the usual network and a single client."""
    properties = heading(situation).split(", ")
    return ", ".join(
        part for part in properties if part not in (BURSTS, "20 us one way", "1 client")
    )  # fmt: skip


def best(table: LongTable, place: Place, rules: Iterable[str]) -> str:
    """Return the rule with the lowest mean."""
    return min(rules, key=lambda rule: table.value(place, rule, "mean_us"))


def n_faster_and_slower(table: LongTable, place: Place, policy: str, rules: Iterable[str]) -> str:
    """Write how many rules a policy is significantly faster and slower than, as two cells."""
    sides = [side(table, place, policy, rule) for rule in rules]
    return f"{sides.count(1)} | {sides.count(-1)}"


def side(table: LongTable, place: Place, policy: str, reference: str) -> int:
    """Return 1 or -1 if a mean is significantly lower or higher than a reference's, else 0.

    Committed ends of intervals are rounded; zero has the sign of the number that was rounded.
    """
    found = table.reduction(place, policy, reference)
    if found is None or math.isnan(found.low):
        return 0
    return int(math.copysign(1, found.low) + math.copysign(1, found.high)) // 2


def compared(
    table: LongTable, place: Place, policy: str, reference: str, n_seeds: Mapping[str, int]
) -> str:
    """Write by how many percent a mean is lower or higher, in parentheses if not significant.

    With three seeds, the interval of the ratio is widened on a logarithmic scale.
    """
    found = table.reduction(place, policy, reference)
    if found is None or math.isnan(found.low):
        return "not known"
    text = f"{abs(100 * found.value):.{1 if abs(found.value) < 0.1 else 0}f} % "
    text += "lower" if found.value > 0 else "higher"
    if n_seeds.get(place[0]) == 3:
        value, low, high = (math.log1p(-share) for share in (found.value, found.low, found.high))
        is_significant = (
            value + TOO_NARROW * (low - value) < 0 or value + TOO_NARROW * (high - value) > 0
        )
    else:
        is_significant = side(table, place, policy, reference) != 0
    return text if is_significant else f"({text})"


def draw(
    table: LongTable,
    path: Path,
    *,
    situations: Mapping[str, Situation],
    titles: Mapping[str, str],
    ours: Sequence[str],
) -> None:
    """Draw the means of rules in the situations that the table has, a panel each."""
    panels = [
        figures.Panel(heading(each), (name,), titles)
        for name, each in situations.items()
        if (name,) in table.places
    ]
    figures.draw_ranked(table, panels, path, ours=ours)
