# SPDX-License-Identifier: MIT
"""The policies that are compared: rivals, LinnOS (OSDI'20), `fastest`, and bounds.

Rivals and LinnOS run as published and as operators would run them. `fastest` reads from the replica
that a model of latencies predicts to answer first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from linnapp.lab.demo import CAP, Row, with_duplicates

#: The largest share of extra I/O of rivals "with at most 5 %"; the last hedge can exceed the cap.
EXTRA_IO_LIMIT = 0.0505

#: Policies that send reads twice when they are late.
_HEDGING = ("shortest-queue-h95", "hedge", "hedge-ip", "linnos-hl", "linnos-h99")

#: Bounds, LinnOS (OSDI'20), `fastest`, and the variants of both. All other policies are rivals.
_BOUNDS = ("oracle", "verdict")
_OURS = ("linnos", "linnos-hl", "linnos-h99", "fastest")


@dataclass(frozen=True)
class Contender:
    """A row of the tables."""

    #: The replayer's policy.
    policy: str
    #: The cap of its extra I/O; empty if it is free as published.
    cap: str = ""
    #: `fastest` may send a read to a second replica as well, at most the cap's share.
    duplicates: bool = False
    #: It follows predictions unconditionally.
    unguarded: bool = False

    @property
    def name(self) -> str:
        """The name in tables and figures."""
        name = f"{self.policy}, {self.cap} cap" if self.cap else self.policy
        if self.duplicates:
            name = with_duplicates(self.policy, self.cap)
        return f"{name}, unguarded" if self.unguarded else name

    @property
    def options(self) -> tuple[str, ...]:
        """Options of the replayer."""
        options = ("--hedge-budget", self.cap or "none") if self.policy in _HEDGING else ()
        if self.duplicates:
            options = ("--duplicates", *(("--max-duplicates", self.cap) if self.cap else ()))
        return (*options, "--unguarded") if self.unguarded else options


CONTENDERS = (
    Contender("baseline"),
    Contender("clone"),
    Contender("random"),
    Contender("shortest-queue"),
    Contender("shortest-queue-h95"),
    Contender("shortest-queue-h95", CAP),
    Contender("fewest"),
    Contender("ewma-inflight"),
    Contender("prequal"),
    Contender("c3"),
    Contender("heimdall"),
    Contender("hedge"),
    Contender("hedge", CAP),
    Contender("hedge-ip"),
    Contender("hedge-ip", CAP),
    Contender("heuristic"),
    Contender("heuristic-adv"),
    Contender("linnos"),
    Contender("linnos-hl"),
    Contender("linnos-hl", CAP),
    Contender("linnos-h99"),
    Contender("fastest"),
    Contender("fastest", duplicates=True),
    Contender("fastest", CAP, duplicates=True),
    Contender("fastest", "10%", duplicates=True),
    Contender("oracle"),
    Contender("verdict"),
)

#: By name, with the policy that only the experiment `traces` replays.
_BY_NAME = {of.name: of for of in (*CONTENDERS, Contender("fastest", unguarded=True))}

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
    """Return a policy's name on pages, in Markdown; "the best rule" and the like are unchanged."""
    if policy.startswith(("the ", "md")):
        return policy.replace("md, ", "md ")
    policy = policy.replace(" (limit ", ", ").removesuffix(")")
    name, *conditions = policy.replace("% cap", " %").split(", ")
    command, *words = name.split(" ")
    first = _IN_WORDS.get(command, f"`{command}`")
    return ", ".join((" ".join((first, *words)), *conditions))


def title(policy: str) -> str:
    """Return the name on pages of a policy of the replayer or of md; other names are unchanged."""
    return display_name(policy) if policy in _BY_NAME or policy.startswith("md") else policy


def label(policy: str) -> str:
    """Return the name of a policy in a figure."""
    return title(policy).replace("`", "")


def named(names: Iterable[str]) -> tuple[Contender, ...]:
    """Return the contenders with these names."""
    return tuple(_BY_NAME[name] for name in names)


def rows(names: Iterable[str]) -> tuple[Row, ...]:
    """Return the rows of a demo's table with these names."""
    return tuple(Row(of.policy, bool(of.cap), of.duplicates) for of in named(names))


def rivals(names: Iterable[str]) -> list[str]:
    """Return the names that are neither ours nor a bound."""
    neither = (*_OURS, *_BOUNDS)
    return [name for name in names if name in _BY_NAME and _BY_NAME[name].policy not in neither]


def ours(names: Iterable[str]) -> list[str]:
    """Return the names of LinnOS, `fastest`, and their variants."""
    return [name for name in names if name in _BY_NAME and _BY_NAME[name].policy in _OURS]
