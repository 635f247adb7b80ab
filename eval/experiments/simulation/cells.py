# SPDX-License-Identifier: MIT
"""The situations that are simulated, as options of linnos-simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eval.experiments.cluster.rules import RIVALS

#: Names of the rules in the simulation, and their titles in tables.
RULES = {
    **RIVALS,
    "primary": "primary: the engine's choice",
    "pending": "shipped: what is in flight",
    "library-deaf": "library, asks nobody",
    "library": "library",
    "library-hedge": "library, hedges",
    "oracle": "oracle",
}

#: Rules that the lab has measured, too.
OF_THE_LAB = tuple(rule for rule in RULES if rule != "library-deaf")

#: Where every read costs: those that the others tell about.
FEWER = (
    "primary", "own-queue", "own-latency", "c3", "elasticsearch", "prequal", "snitch", "hedge",
    "hedge-capped", "pending", "prediction", "library-deaf", "library", "library-hedge", "oracle",
)  # fmt: skip

Options = Mapping[str, int | float | str]

#: A burst, as in the lab: every read of a drive takes this much longer, for 100 ms.
BURST_US = 2000
#: If there are many nodes, one in this many has a burst.
ONE_IN = 10


@dataclass(frozen=True)
class Cell:
    """A situation: NAME=VALUE of linnos-simulation under a heading, and the rules tried there."""

    name: str
    options: Options
    rules: tuple[str, ...] = tuple(RULES)
    n_seeds: int = 5


def _clients(n: int, **more: int | float | str) -> dict[str, int | float | str]:
    return {"burst_us": BURST_US, "clients": n, "reads_per_s": 6000, "seconds": 6, **more}


def _nodes(nodes: int, clients: int, reads_per_s: int, seconds: float) -> Options:
    return {
        "burst_us": BURST_US, "burst_one_in": ONE_IN, "nodes": nodes, "clients": clients,
        "reads_per_s": reads_per_s, "seconds": seconds,
    }  # fmt: skip


#: Situations that the lab has measured, too, by their names there.
LABS = {
    "20us": Cell("the lab: 1 client, 20 us", {"burst_us": BURST_US}),
    "nine": Cell(
        "the lab: 9 nodes, 4 clients",
        {
            "burst_us": BURST_US, "burst_one_in": 9, "nodes": 9, "clients": 4, "in_sets": 1,
            # the lab's client queries no node before it reads
            "first": 0, "seconds": 6,
        },
    ),
}  # fmt: skip

CELLS = (
    *LABS.values(),
    *(
        Cell(f"1 client, {us} us", {"burst_us": BURST_US, "one_way_us": us}, FEWER)
        for us in (5, 50, 200)
    ),
    *(Cell(f"{n} clients", _clients(n), FEWER if n != 16 else tuple(RULES)) for n in (4, 16, 64)),
    *(
        Cell(f"{n} client{'s' * (n > 1)}, bursts of {ms} ms", {**options, "turn_ms": ms}, FEWER)
        for n, options in ((1, {"burst_us": BURST_US, "seconds": 6}), (16, _clients(16)))
        for ms in (10, 30)
    ),
    *(
        Cell(
            f"16 clients, news {us / 1000:g} ms older",
            _clients(16, news_delay_us=us),
            ("prequal", "pending", "prediction", "library", "library-hedge"),
        )
        for us in (100, 1000, 10000)
    ),
    *(
        Cell(
            f"16 clients, {what}",
            _clients(16, agents=agents),
            ("primary", "prequal", "pending", "prediction", "library"),
        )
        for agents, what in (
            ("dead", "agents dead"),
            ("fast", "one agent lies: fast"),
            ("slow", "one agent lies: slow"),
        )
    ),
    Cell("calm, 16 clients", _clients(16, burst_us=0)),
    *(
        Cell(
            f"calm, 16 clients, {what}",
            _clients(16, burst_us=0, agents=agents),
            ("primary", "prequal", "pending", "prediction", "library", "library-hedge"),
        )
        for agents, what in (
            ("dead", "agents dead"),
            ("fast", "one agent lies: fast"),
            ("slow", "one agent lies: slow"),
        )
    ),
    Cell(
        "writes, enterprise, 16 clients",
        _clients(16, burst_us=0, written_mb_per_s=100),
    ),
    Cell(
        "writes, consumer, 16 clients",
        _clients(16, burst_us=0, written_mb_per_s=20, profile="consumer"),
    ),
    Cell(
        "calm, consumer, three quarters busy",
        _clients(16, burst_us=0, profile="consumer", reads_per_s=300_000, seconds=0.5),
        FEWER,
        2,
    ),
    Cell(
        "bursts, consumer, three quarters busy",
        _clients(16, profile="consumer", reads_per_s=300_000, seconds=0.6),
        FEWER,
        2,
    ),
    Cell("9 nodes, 9 clients", _nodes(9, 9, 9000, 6), FEWER),
    Cell("100 nodes, 100 clients", _nodes(100, 100, 100_000, 2), FEWER, 2),
    Cell("1,000 nodes, 100 clients", _nodes(1000, 100, 200_000, 2), FEWER, 2),
    Cell("1,000 nodes, 1,000 clients", _nodes(1000, 1000, 400_000, 2), FEWER, 2),
)

#: A drive that is slow from the second second on, for a second and a half.
SLOW: Options = {
    "reads_per_s": 6000, "seconds": 4, "slow_us": BURST_US, "slow_from_ms": 1000,
    "slow_to_ms": 2500,
}  # fmt: skip
SLOW_RULES = ("own-latency", "prequal", "prediction", "library", "library-hedge")


def slow_cells() -> list[tuple[str, int]]:
    """Rules and clients that meet a drive that turns slow."""
    return [(rule, n_clients) for n_clients in (1, 16) for rule in SLOW_RULES]
