# SPDX-License-Identifier: MIT
"""The policies that are compared: alternatives, LinnOS, its successors, and bounds.

Alternatives and LinnOS run as published and as operators would run them. The successors of LinnOS
read from the replica that a model of latencies predicts to answer first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from linnapp.lab.demo import CAP, Row, with_duplicates

#: Extra I/O that operators accept; the last hedge can exceed a cap.
LITTLE = 0.0505

RIVAL, LINNOS, LATENCY, BOUND = "rival", "linnos", "latency", "bound"


@dataclass(frozen=True)
class Contender:
    """A row of the tables."""

    #: The replayer's policy.
    policy: str
    #: ``RIVAL``, ``LINNOS``, ``LATENCY`` or ``BOUND``.
    kind: str = RIVAL
    #: Whether it sends reads twice when they are late.
    hedges: bool = False
    #: Its extra I/O is capped, not free as published.
    capped: bool = False
    #: The cap of the extra I/O.
    cap: str = CAP
    #: `fastest` may send a read to a second replica as well, at most the cap's share if capped.
    duplicates: bool = False
    #: It follows predictions unconditionally.
    unguarded: bool = False

    @property
    def name(self) -> str:
        """Its name in tables and figures."""
        name = f"{self.policy}, {self.cap} cap" if self.capped else self.policy
        if self.duplicates:
            name = with_duplicates(self.policy, self.cap if self.capped else "")
        return f"{name}, unguarded" if self.unguarded else name

    @property
    def options(self) -> tuple[str, ...]:
        """Options of the replayer."""
        budget = ("--hedge-budget", self.cap if self.capped else "none") if self.hedges else ()
        if self.duplicates:
            budget = ("--duplicates", *(("--max-duplicates", self.cap) if self.capped else ()))
        unguarded = ("--unguarded",) if self.unguarded else ()
        return (*budget, *unguarded)


CONTENDERS = (
    Contender("baseline"),
    Contender("clone"),
    Contender("random"),
    Contender("shortest-queue"),
    Contender("shortest-queue-h95", hedges=True),
    Contender("shortest-queue-h95", hedges=True, capped=True),
    Contender("fewest"),
    Contender("ewma-inflight"),
    Contender("prequal"),
    Contender("c3"),
    Contender("heimdall"),
    Contender("hedge", hedges=True),
    Contender("hedge", hedges=True, capped=True),
    Contender("hedge-ip", hedges=True),
    Contender("hedge-ip", hedges=True, capped=True),
    Contender("heuristic"),
    Contender("heuristic-adv"),
    Contender("linnos", LINNOS),
    Contender("linnos-hl", LINNOS, hedges=True),
    Contender("linnos-hl", LINNOS, hedges=True, capped=True),
    Contender("linnos-h99", LINNOS, hedges=True),
    Contender("fastest", LATENCY),
    Contender("fastest", LATENCY, duplicates=True),
    Contender("fastest", LATENCY, duplicates=True, capped=True),
    Contender("fastest", LATENCY, duplicates=True, capped=True, cap="10%"),
    Contender("oracle", BOUND),
    Contender("verdict", BOUND),
)

#: The policy that only the experiment `traces` replays.
DEVELOPED = (Contender("fastest", LATENCY, unguarded=True),)

#: Policies where slowness is injected: as published.
INJECTED = (
    "baseline", "clone", "shortest-queue", "shortest-queue-h95", "prequal", "c3", "heimdall",
    "hedge", "hedge-ip", "heuristic", "heuristic-adv", "linnos", "linnos-hl", "fastest", "oracle",
)  # fmt: skip

NAMES = tuple(contender.name for contender in CONTENDERS)


#: Policies that pages do not call by the replayer's name.
_IN_WORDS = {
    "baseline": "no steering", "oracle": "oracle",
    "linnos": "LinnOS (OSDI'20)", "linnos-hl": "LinnOS+HL (OSDI'20)",
}  # fmt: skip


def display_name(policy: str) -> str:
    """Return a policy's name on pages, in Markdown. A description ("the best rule") stays."""
    if policy.startswith(("the ", "md")):
        return policy.replace("md, ", "md ")
    policy = policy.replace(" (limit ", ", ").removesuffix(")")
    name, *conditions = policy.replace("% cap", " %").split(", ")
    command, *words = name.split(" ")
    first = _IN_WORDS.get(command, f"`{command}`")
    return ", ".join((" ".join((first, *words)), *conditions))


def title(policy: str) -> str:
    """Return the name on pages of a policy of the replayer or of md; others keep theirs."""
    known = {contender.name for contender in (*CONTENDERS, *DEVELOPED)}
    return display_name(policy) if policy in known or policy.startswith("md") else policy


def label(policy: str) -> str:
    """Return the name of a policy in a figure."""
    return title(policy).replace("`", "")


def named(names: Iterable[str]) -> tuple[Contender, ...]:
    """Contenders by their names."""
    by_name = {contender.name: contender for contender in (*CONTENDERS, *DEVELOPED)}
    return tuple(by_name[name] for name in names)


def rows(names: Iterable[str]) -> tuple[Row, ...]:
    """Return the rows of a demo's table with these names."""
    return tuple(Row(of.policy, of.capped, of.duplicates) for of in named(names))


def rivals(names: Iterable[str]) -> list[str]:
    """Return the names that are neither ours nor a bound."""
    kinds = {contender.name: contender.kind for contender in (*CONTENDERS, *DEVELOPED)}
    return [name for name in names if kinds.get(name, BOUND) == RIVAL]


def ours(names: Iterable[str]) -> list[str]:
    """Return the names of LinnOS and of its successors."""
    kinds = {contender.name: contender.kind for contender in (*CONTENDERS, *DEVELOPED)}
    return [name for name in names if kinds.get(name, BOUND) in (LINNOS, LATENCY)]
