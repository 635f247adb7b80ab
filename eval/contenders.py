# SPDX-License-Identifier: MIT
"""Who is compared: rivals as published and as operators run them, LinnOS likewise, and bounds."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eval import guests

#: Extra I/O that the capped ones may cause: in an outage hedging would otherwise double the load.
CAP = "5%"

RIVAL, LINNOS, BOUND = "rival", "linnos", "bound"


@dataclass(frozen=True)
class Contender:
    """A row of the tables.

    Attributes
    ----------
    policy : str
        Of the replayer.
    kind : str
        ``RIVAL``, ``LINNOS`` or ``BOUND``.
    hedges : bool
        Whether it sends reads twice when they are late.
    capped : bool
        Its extra I/O is capped at ``CAP``, not free as published.
    """

    policy: str
    kind: str = RIVAL
    hedges: bool = False
    capped: bool = False

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return f"{self.policy}, {CAP} cap" if self.capped else self.policy

    @property
    def options(self) -> tuple[str, ...]:
        """Of the replayer."""
        return ("--hedge-budget", CAP if self.capped else "none") if self.hedges else ()


CONTENDERS = (
    Contender("baseline"),
    Contender("clone"),
    Contender("random"),
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
    Contender("oracle", BOUND),
    Contender("verdict", BOUND),
)

#: A bound that is computed after the fact, from replays (eval/learnt.py).
LEARNT = "learnt"

NAMES = tuple(contender.name for contender in CONTENDERS)


def named(names: Iterable[str]) -> tuple[Contender, ...]:
    """Contenders by their names.

    Raises
    ------
    KeyError
        When there is none of that name.
    """
    by_name = {contender.name: contender for contender in CONTENDERS}
    return tuple(by_name[name] for name in names)


def rivals(names: Iterable[str]) -> list[str]:
    """Those of these names that are neither LinnOS nor a bound."""
    kinds = {contender.name: contender.kind for contender in CONTENDERS}
    return [name for name in names if kinds.get(name, BOUND) == RIVAL]


def ours(names: Iterable[str]) -> list[str]:
    """Those of these names that are LinnOS's."""
    kinds = {contender.name: contender.kind for contender in CONTENDERS}
    return [name for name in names if kinds.get(name, BOUND) == LINNOS]


@functools.cache
def _help() -> str:
    return subprocess.run(
        [guests.replayer(), "--help"], capture_output=True, text=True, check=True
    ).stdout


def known_policies() -> frozenset[str]:
    """The policies that the replayer offers, by its own help."""
    lines = iter(_help().splitlines())
    for line in lines:
        if line.startswith("Policies"):
            break
    found = []
    for line in lines:
        if not line.startswith("  "):
            break
        if line[2] != " ":
            found.append(line.split()[0])
    return frozenset(found)


def known_injections() -> frozenset[str]:
    """The words that the replayer's help uses for what `--inject` takes."""
    text = _help()
    return frozenset(re.findall(r"[a-z_]+", text[text.find("--inject") : text.find("Results:")]))


def available(
    contenders: Sequence[Contender] = CONTENDERS, *, tell: bool = True
) -> tuple[Contender, ...]:
    """Those that the replayer knows; of the others it says that they are left out."""
    known = known_policies()
    missing = sorted({c.policy for c in contenders if c.policy not in known})
    if missing and tell:
        print(f"  left out, this replayer does not know them: {', '.join(missing)}", flush=True)
    return tuple(c for c in contenders if c.policy in known)
