# SPDX-License-Identifier: MIT
"""Who is compared: rivals as published and as operators run them, LinnOS likewise, and bounds.

Beside LinnOS stands what goes beyond it, which asks the replica that a model of latencies predicts
to answer first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

#: Extra I/O that the capped ones may cause: in an outage hedging would otherwise double the load.
CAP = "5%"
#: Extra I/O that operators put up with; a cap may be overshot by the last hedge.
LITTLE = 0.0505

RIVAL, LINNOS, LATENCY, BOUND = "rival", "linnos", "latency", "bound"


@dataclass(frozen=True)
class Contender:
    """A row of the tables."""

    #: Of the replayer.
    policy: str
    #: ``RIVAL``, ``LINNOS``, ``LATENCY`` or ``BOUND``.
    kind: str = RIVAL
    #: Whether it sends reads twice when they are late.
    hedges: bool = False
    #: Its extra I/O is capped, not free as published.
    capped: bool = False
    #: Of those that are: at how much.
    cap: str = CAP
    #: It follows predictions whatever comes of it.
    unguarded: bool = False
    #: Of those that carry the hint: only as far as to be refused gains.
    guarded: bool = False

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        name = f"{self.policy}, {self.cap} cap" if self.capped else self.policy
        flags = {"unguarded": self.unguarded, "guarded": self.guarded}
        return ", ".join((name, *(flag for flag, is_set in flags.items() if is_set)))

    @property
    def options(self) -> tuple[str, ...]:
        """Of the replayer."""
        budget = ("--hedge-budget", self.cap if self.capped else "none") if self.hedges else ()
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
    Contender("lowest", LATENCY),
    Contender("lowest-h95", LATENCY, hedges=True, capped=True),
    Contender("lowest-two", LATENCY, hedges=True, capped=True),
    Contender("lowest-two", LATENCY, hedges=True, capped=True, cap="10%"),
    Contender("oracle", BOUND),
    Contender("verdict", BOUND),
)

#: Policies that only the experiment `guarded` replays.
DEVELOPED = (
    Contender("linnos", LINNOS, guarded=True),
    Contender("linnos-hl", LINNOS, hedges=True, capped=True, guarded=True),
    Contender("lowest", LATENCY, unguarded=True),
)

#: Where slowness is injected: as published, and what the means of LinnOS's are held against.
INJECTED = (
    "baseline", "clone", "shortest-queue", "shortest-queue-h95", "prequal", "c3", "heimdall",
    "hedge", "hedge-ip", "heuristic", "heuristic-adv", "linnos", "linnos-hl", "lowest", "oracle",
)  # fmt: skip

#: A bound that is computed after the fact, from replays (eval/learnt.py).
LEARNT = "learnt"

NAMES = tuple(contender.name for contender in CONTENDERS)


def named(names: Iterable[str]) -> tuple[Contender, ...]:
    """Contenders by their names."""
    by_name = {contender.name: contender for contender in (*CONTENDERS, *DEVELOPED)}
    return tuple(by_name[name] for name in names)


def rivals(names: Iterable[str]) -> list[str]:
    """Those of these names that are neither ours nor a bound."""
    kinds = {contender.name: contender.kind for contender in (*CONTENDERS, *DEVELOPED)}
    return [name for name in names if kinds.get(name, BOUND) == RIVAL]


def ours(names: Iterable[str]) -> list[str]:
    """Those of these names that are LinnOS's or go beyond it."""
    kinds = {contender.name: contender.kind for contender in (*CONTENDERS, *DEVELOPED)}
    return [name for name in names if kinds.get(name, BOUND) in (LINNOS, LATENCY)]


#: Each of ours against each of its rivals, and the two of ours against each other.
INJECTED_PAIRS = (
    *((policy, reference) for policy in ours(INJECTED) for reference in rivals(INJECTED)),
    ("lowest", "linnos"),
)
