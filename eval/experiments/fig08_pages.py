# SPDX-License-Identifier: MIT
"""The tables of the eight workloads in pages that are made from what is committed.

`python -m eval --pages fig08`, or `replicated`, writes them.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from eval import contenders, scores, seeds
from eval.cache import RESULTS, ROOT
from eval.page_tables import Shown
from linnapp.stats import Interval

TABLES, RESULTS_PAGE = RESULTS / "tables.md", ROOT / "docs" / "results.md"

LINNOS, LINNOS_HL, LOWEST = "linnos", "linnos-hl", "lowest"
HEDGED, TWO = "lowest-h95, 5% cap", "lowest-two, 5% cap"
TWO_TENTH = "lowest-two, 10% cap"
OURS = (LINNOS, LINNOS_HL, LOWEST, HEDGED, TWO)
SAID = {HEDGED: "`lowest-h95`, 5 %", TWO: "`lowest-two`, 5 %"}


class Committed:
    """What is committed of Fig. 8, or of another experiment of its cells."""

    def __init__(self, name: str = "fig08", seed: int | None = None) -> None:
        found = json.loads((RESULTS / f"{name}.json").read_text())
        self._seed = seed
        self._tables: dict[str, Any] = found["tables"]
        self._below: dict[str, Any] = found["numbers"]

    @cached_property
    def means(self) -> dict[str, dict[str, float]]:
        """Means in us over all reads of all seeds, or of the one asked for."""
        total: dict[tuple[str, str], tuple[int, float]] = {}
        for row in _named(self._tables["Every repeat"]):
            if self._seed is not None and int(row["seed"]) != self._seed:
                continue
            reads, us = total.get((row["workload"], row["policy"]), (0, 0.0))
            more = int(row["reads"])
            total[row["workload"], row["policy"]] = (
                reads + more, us + more * float(row["response mean us"]),
            )  # fmt: skip
        means: dict[str, dict[str, float]] = {}
        for (workload, policy), (reads, us) in total.items():
            means.setdefault(workload, {})[policy] = us / reads
        return means

    @cached_property
    def policies(self) -> dict[str, dict[str, dict[str, str]]]:
        """The columns of each cell's table, by workload and policy."""
        return {
            title.split(" on ")[0]: {row["policy"].strip("*"): row for row in _named(table)}
            for title, table in self._tables.items()
            if " seeds" in title
        }

    def has(self, policy: str) -> bool:
        """Whether it was replayed."""
        return all(policy in cell for cell in self.means.values())

    def best(self, workload: str, most_extra: float = 1.0) -> str:
        """The rival with the lowest mean that sends at most this share of the reads twice."""
        mean = self.means[workload]
        known = [
            name
            for name in contenders.rivals(mean)
            if self.extra_io(workload, name) / 100 <= most_extra
        ]
        return min(known, key=mean.__getitem__)

    def below(self, workload: str, policy: str, other: str) -> Interval:
        """By what share a mean is below another's."""
        return Interval.from_json(self._below[workload][policy][other])

    def against(self, workload: str, policy: str, other: str) -> str:
        """The same in words; bold where it is above."""
        below = self.below(workload, policy, other)
        word = scores.verdict(below)
        if word == "undecided":
            return word
        text = f"{abs(100 * below.value):.0f} % {word}"
        return f"**{text}**" if word == "above" else text

    def shares_of_oracle(self, policy: str) -> dict[str, float]:
        """Of what the oracle gains over baseline, by workload, in %."""
        return {
            workload: 100 * (mean["baseline"] - mean[policy]) / (mean["baseline"] - mean["oracle"])
            for workload, mean in self.means.items()
        }

    def extra_io(self, workload: str, policy: str) -> float:
        """Of the reads how many were sent twice, in %."""
        return float(self.policies[workload][policy]["extra I/O"].removesuffix(" %"))


def _named(table: dict[str, Any]) -> list[dict[str, str]]:
    return [dict(zip(table["header"], row, strict=True)) for row in table["rows"]]


def of_workloads(found: Committed) -> Shown:
    """A row a workload: rivals, ours against hedging and the best of them, and bounds."""
    two = (TWO,) if found.has(TWO) else ()
    header = [
        "of Fig. 8", "baseline", "hedge at p95", "best rival", "best up to 5 %",
        "`linnos`", "against hedge", "against the best rival", "`linnos-hl`",
        "`lowest`", "against hedge", "against the best rival",
        *(t for name in two for t in (SAID[name], "against the best up to 5 %", "against it")),
        "`verdict`", "oracle",
    ]  # fmt: skip
    rows = []
    for workload, mean in found.means.items():
        best, frugal = found.best(workload), found.best(workload, contenders.LITTLE)

        def ours(policy: str, *others: str, workload: str = workload) -> list[str]:
            return [
                f"{found.means[workload][policy]:.0f}",
                *(found.against(workload, policy, other) for other in others),
            ]

        rows.append(
            (
                f"`{workload}`", f"{mean['baseline']:.0f}", f"{mean['hedge']:.0f}",
                f"{mean[best]:.0f}, {best}", f"{mean[frugal]:.0f}, {frugal}",
                *ours(LINNOS, "hedge", best), f"{mean[LINNOS_HL]:.0f}",
                *ours(LOWEST, "hedge", best),
                *(text for name in two for text in ours(name, frugal, best)),
                f"{mean['verdict']:.0f}", f"{mean['oracle']:.0f}",
            )
        )  # fmt: skip
    return Shown(tuple(header), rows)


def of_shares(found: Committed) -> Shown:
    """The share of the oracle's gain in the median cell, the greatest first."""
    shown = [
        name
        for name in (*OURS, *contenders.rivals(found.means["az-c"]))
        if found.has(name) and name != "baseline"
    ]
    shares = {name: statistics.median(found.shares_of_oracle(name).values()) for name in shown}
    ranked = sorted(shares, key=shares.__getitem__, reverse=True)
    header = ("of the oracle's gain", *(SAID.get(name, f"`{name}`") for name in ranked))
    return Shown(header, [("median cell", *(f"{shares[name]:.0f} %" for name in ranked))])


def of_rivals(found: Committed) -> Shown:
    """In how many cells each of ours is below each rival, and in which it is above."""
    return _counted(found, "below; above", found.below)


def of_tails(found: Committed) -> Shown:
    """The same of p99, where it rests on enough reads."""
    tails = json.loads((RESULTS / "fig09.json").read_text())["numbers"]

    def below(workload: str, policy: str, rival: str) -> Interval | None:
        known = tails[workload]["p99_us"].get(policy, {}).get(rival)
        return known and Interval.from_json(known)

    return _counted(found, "p99: below; above", below)


def _counted(
    found: Committed, title: str, below: Callable[[str, str, str], Interval | None]
) -> Shown:
    rivals = [name for name in contenders.rivals(found.means["az-c"]) if "cap" not in name]
    rows = []
    for policy in filter(found.has, OURS):
        row = [SAID.get(policy, f"`{policy}`")]
        for rival in rivals:
            row.append(_by_verdict({w: below(w, policy, rival) for w in found.means}))
        rows.append(tuple(row))
    return Shown((title, *(f"`{rival}`" for rival in rivals)), rows)


def _by_verdict(of: Mapping[str, Interval | None]) -> str:
    """In how many workloads somebody is below, and by name where above."""
    said = {w: scores.verdict(below) for w, below in of.items() if below}
    above = [f"`{w}`" for w, word in said.items() if word == "above"]
    n_below = f"{list(said.values()).count('below')}"
    return f"{n_below}; {'all' if len(above) == len(said) else ', '.join(above)}".rstrip("; ")


def of_extra_io(found: Committed) -> Shown:
    """From the cell with the fewest reads sent twice to that with the most."""
    who = ("hedge", "hedge-ip", "shortest-queue-h95", LINNOS_HL, LOWEST, HEDGED, TWO)
    spans = []
    for name in who:
        of_cells = sorted(found.extra_io(workload, name) for workload in found.means)
        spans.append(f"{of_cells[0]:.1f} to {of_cells[-1]:.1f}")
    return Shown(
        ("reads sent twice", *(SAID.get(name, f"`{name}`") for name in who)), [("%", *spans)]
    )


#: Whose means are held against whose, beside those of :func:`of_rivals`.
_MORE = (
    (LINNOS, "verdict", "a network that is never wrong"),
    ("verdict", "heuristic-adv", "that network, a rule"),
    ("heuristic-adv", "heuristic", "tuned"),
    (LOWEST, LINNOS, "latencies instead of refusals"),
    (LOWEST, LINNOS_HL, "the same, and no hedges"),
    (HEDGED, LOWEST, "what a capped hedge adds"),
    (TWO, LOWEST, "what two at once add"),
    (TWO_TENTH, TWO, "what a larger limit adds"),
)


def of_more(found: Committed) -> Shown:
    """Ours against each other and the bounds, and by how much at least and at most."""
    rows: list[tuple[str, ...]] = []
    for policy, other, why in _MORE:
        below = {w: found.below(w, policy, other) for w in found.means}
        shares = sorted(100 * of.value for of in below.values())
        rows.append(
            (
                f"`{policy}` against `{other}`: {why}", _by_verdict(below),
                f"{-shares[-1]:+.0f} to {-shares[0]:+.0f}",
            )
        )  # fmt: skip
    return Shown(("more of Fig. 8", "cells below; cells above", "% above, lowest to highest"), rows)


def of_lowest(found: Committed) -> Shown:
    """What chooses by predicted latency against rivals, with intervals; bold is above."""
    shares = {name: found.shares_of_oracle(name) for name in (LOWEST, TWO)}

    def told(workload: str, policy: str, other: str) -> str:
        return scores.above(found.below(workload, policy, other))

    rows: list[tuple[str, ...]] = []
    for workload in found.means:
        best = found.best(workload, contenders.LITTLE)
        rows.append(
            (
                f"`{workload}`", f"`{best}`",
                *(told(workload, name, of) for of in (best, "clone") for name in (LOWEST, TWO)),
                *(f"{shares[name][workload]:.0f} %" for name in (LOWEST, TWO)),
            )
        )  # fmt: skip
    return Shown(
        (
            "cell, by predictions", "best rival up to 5 %", "`lowest` above it",
            "`lowest-two` above it", "`lowest` above `clone`", "`lowest-two` above `clone`",
            "share: `lowest`", "`lowest-two`",
        ),
        rows,
    )  # fmt: skip


def of_results(found: Committed) -> Shown:
    """Mean and p99 of a few; bold is a mean above the best that sends nothing twice."""
    ours = [name for name in (LINNOS, LOWEST, TWO) if found.has(name)]
    rows = []
    for workload, mean in found.means.items():
        best = found.best(workload, 0.0)
        p99 = {name: row["p99"].split()[0] for name, row in found.policies[workload].items()}
        both = {name: f"{mean[name]:.0f}/{p99[name]}" for name in mean}
        bold = {
            name: "**" if scores.verdict(found.below(workload, name, best)) == "above" else ""
            for name in ours
        }
        rows.append(
            (
                f"`{workload}`", both["baseline"],
                f"{'home' if best == 'baseline' else f'`{best}`'} {both[best]}", both["clone"],
                *(f"{bold[name]}{both[name]}{bold[name]}" for name in ours),
            )
        )  # fmt: skip
    header = (
        "cell", "nothing", "best without extra I/O", "`clone`",
        *(SAID.get(name, f"`{name}`") for name in ours),
    )  # fmt: skip
    return Shown(header, rows)


def of_replicated(found: Committed, own: Committed) -> Shown:
    """By how much means are below baseline's with each write on all drives, and in Fig. 8.

    `own` is of the same seed.
    """

    def gain(of: Committed, workload: str, policy: str) -> str:
        mean = of.means[workload]
        return f"{100 * (1 - mean[policy] / mean['baseline']):.0f}"

    rows = []
    for workload in found.means:
        frugal = found.best(workload, contenders.LITTLE)
        rows.append(
            (
                f"`{workload}`",
                *(
                    f"{gain(found, workload, name)} ({gain(own, workload, name)})"
                    for name in (LINNOS, TWO)
                ),
                gain(found, workload, LOWEST), gain(found, workload, "verdict"),
                f"`{frugal}`", found.against(workload, TWO, frugal),
                found.against(workload, TWO, "clone"),
            )
        )  # fmt: skip
    header = (
        "each write on all", "`linnos`", "`lowest-two`, 5 %", "`lowest`", "`verdict`",
        "best rival up to 5 %", "`lowest-two` against it", "against `clone`",
    )  # fmt: skip
    return Shown(header, rows)


def committed() -> dict[Path, list[Shown]]:
    """All of them, by page."""
    found = Committed()
    return {
        TABLES: [
            of_workloads(found),
            of_shares(found),
            of_lowest(found),
            of_rivals(found),
            of_tails(found),
            of_extra_io(found),
            of_more(found),
            of_replicated(Committed("replicated"), Committed(seed=seeds.EVALUATION[0])),
        ],
        RESULTS_PAGE: [of_results(found)],
    }
