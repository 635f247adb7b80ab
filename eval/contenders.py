# SPDX-License-Identifier: MIT
"""The policies that are compared: alternatives, LinnOS, its successors, and bounds.

Alternatives and LinnOS run as published and as operators would run them. The successors of LinnOS
read from the replica that a model of latencies predicts to answer first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from linnapp.lab.demo import CAP, with_duplicates

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
    #: Reads carry the hint only as far as they gain from being refused.
    guarded: bool = False

    @property
    def name(self) -> str:
        """Its name in tables and figures."""
        name = f"{self.policy}, {self.cap} cap" if self.capped else self.policy
        if self.duplicates:
            name = with_duplicates(self.policy, self.cap if self.capped else "")
        flags = {"unguarded": self.unguarded, "guarded": self.guarded}
        return ", ".join((name, *(flag for flag, is_set in flags.items() if is_set)))

    @property
    def options(self) -> tuple[str, ...]:
        """Options of the replayer."""
        budget = ("--hedge-budget", self.cap if self.capped else "none") if self.hedges else ()
        if self.duplicates:
            budget = ("--duplicates", *(("--max-duplicates", self.cap) if self.capped else ()))
        unguarded = ("--unguarded",) if self.unguarded else ()
        guarded = ("--guarded",) if self.guarded else ()
        return (*budget, *unguarded, *guarded)


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

#: Policies that only the experiment `guarded` replays.
DEVELOPED = (
    Contender("linnos", LINNOS, guarded=True),
    Contender("linnos-hl", LINNOS, hedges=True, capped=True, guarded=True),
    Contender("fastest", LATENCY, unguarded=True),
)

#: Policies where slowness is injected: as published.
INJECTED = (
    "baseline", "clone", "shortest-queue", "shortest-queue-h95", "prequal", "c3", "heimdall",
    "hedge", "hedge-ip", "heuristic", "heuristic-adv", "linnos", "linnos-hl", "fastest", "oracle",
)  # fmt: skip

NAMES = tuple(contender.name for contender in CONTENDERS)


def named(names: Iterable[str]) -> tuple[Contender, ...]:
    """Contenders by their names."""
    by_name = {contender.name: contender for contender in (*CONTENDERS, *DEVELOPED)}
    return tuple(by_name[name] for name in names)


def rivals(names: Iterable[str]) -> list[str]:
    """Return the names that are neither ours nor a bound."""
    kinds = {contender.name: contender.kind for contender in (*CONTENDERS, *DEVELOPED)}
    return [name for name in names if kinds.get(name, BOUND) == RIVAL]


def ours(names: Iterable[str]) -> list[str]:
    """Return the names of LinnOS and of its successors."""
    kinds = {contender.name: contender.kind for contender in (*CONTENDERS, *DEVELOPED)}
    return [name for name in names if kinds.get(name, BOUND) in (LINNOS, LATENCY)]


#: Each of ours against each of its rivals, and the two of ours against each other.
INJECTED_PAIRS = (
    *((policy, reference) for policy in ours(INJECTED) for reference in rivals(INJECTED)),
    ("fastest", "linnos"),
)
