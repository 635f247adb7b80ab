# SPDX-License-Identifier: MIT
"""What policies come to on each trace, against doing nothing and against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from eval.experiments.traces.replays import BURSTS, CALM, GUARDED, OFF, ON, UNGUARDED
from linnapp import stats

#: What a policy is held against that stays at home; Linux's md for md that asks.
NOTHING = "baseline"

#: Rules that want no model and send nothing twice. To stay at home is one of them.
RULES = (
    NOTHING, "random", "shortest-queue", "heuristic", "heuristic-adv", "c3", "prequal",
)  # fmt: skip

HEDGE_CAPPED = "hedge, 5% cap"
TWO, H95 = "lowest-two, 5% cap", "lowest-h95, 5% cap"
HL, QUEUE_H95 = "linnos-hl, 5% cap", "shortest-queue-h95, 5% cap"

#: Rivals that send reads twice, within a limit and without.
TWICE = (HEDGE_CAPPED, QUEUE_H95, "hedge", "hedge-ip", "shortest-queue-h95", "clone")

#: Below that a difference of two means of one replay says nothing.
LEVEL = 0.01

#: How far above the best of :data:`RULES` is not level with it, which is chosen after the fact.
RULES_LEVEL = 0.02


@dataclass(frozen=True)
class Line:
    """A trace at a rate, calm or with bursts: its runs by policy."""

    trace: str
    iops: float
    slowness: str
    runs: dict[str, dict[str, Any]]

    @property
    def name(self) -> str:
        """What sentences call it."""
        return f"{self.trace} at {self.iops:.0f}, {self.slowness}"

    def above(self, policy: str, reference: str = NOTHING, key: str = "mean_us") -> float | None:
        """By what share a policy is above another, negative below it; None if one was not run."""
        if policy not in self.runs or reference not in self.runs:
            return None
        of, to = self.runs[policy][key], self.runs[reference][key]
        return None if of is None or to is None else float(of / to - 1)

    def is_chance(self, policy: str, reference: str = NOTHING) -> bool | None:
        """Whether the interval of :meth:`above`, over blocks of time, has zero in it.

        Both replayed the same reads, so that a block's hardness cancels. None where blocks were
        not kept.
        """
        if "blocks" not in self.runs[policy]:
            return None
        (count, total_us), (same, reference_us) = (
            self.runs[name]["blocks"] for name in (policy, reference)
        )
        if count != same:
            raise ValueError(f"{self.name}: {policy} and {reference} did not replay the same reads")
        ratio = stats.ratio_interval(total_us, reference_us)
        return not (ratio.low > 1 or ratio.high < 1)

    def best(self, policies: Iterable[str], key: str = "mean_us") -> str:
        """Which of the policies that were run is the lowest here; :data:`NOTHING` if none was."""
        there = [name for name in policies if self.runs.get(name, {}).get(key) is not None]
        return min(there, key=lambda name: float(self.runs[name][key]), default=NOTHING)

    @property
    def rule(self) -> str:
        """Which of the rules without a model has the lowest mean here."""
        return self.best(RULES)

    def share(self, policy: str) -> float | None:
        """Of what the oracle gains over doing nothing, if that is more than chance."""
        gain, ours = self.above("oracle"), self.above(policy)
        return None if gain is None or ours is None or gain > -LEVEL else ours / gain


def lines(data: dict[str, Any]) -> list[Line]:
    """All of them: the traces in turn, each from its slowest rate on, calm before bursts."""
    names = list(dict.fromkeys(fact["trace"] for fact in data["traces"]))
    facts = sorted(data["traces"], key=lambda fact: (names.index(fact["trace"]), fact["iops"]))
    return [
        Line(
            fact["trace"], fact["iops"], slowness,
            {
                run["policy"]: run
                for run in data["runs"]
                if (run["trace"], run["iops"], run["slowness"])
                == (fact["trace"], fact["iops"], slowness)
            },
        )
        for fact in facts
        for slowness in (CALM, BURSTS)
    ]  # fmt: skip


#: By what share somebody is above somebody, and whether that is chance: of means only, None else.
Above = Callable[[Line], tuple[float, bool | None] | None]


def _against(policy: str, reference: str = NOTHING, key: str = "mean_us") -> Above:
    def above(line: Line) -> tuple[float, bool | None] | None:
        share = line.above(policy, reference, key)
        if share is None:
            return None
        return share, line.is_chance(policy, reference) if key == "mean_us" else None

    return above


def _against_rules(policy: str, key: str = "mean_us") -> Above:
    return lambda line: _against(policy, line.best(RULES, key), key)(line)


def _of_each(key: str, suffix: str = "") -> Iterator[tuple[str, Above, float]]:
    for policy in (
        "lowest", TWO, H95, UNGUARDED, "linnos", GUARDED, HL, "shortest-queue", QUEUE_H95,
        HEDGE_CAPPED,
    ):  # fmt: skip
        yield f"`{policy}` against doing nothing{suffix}", _against(policy, NOTHING, key), LEVEL
    for policy in ("lowest", TWO, H95, "linnos"):
        yield f"`{policy}` against the best rule{suffix}", _against_rules(policy, key), RULES_LEVEL
    for policy in (TWO, H95):
        for rival in TWICE:
            yield f"`{policy}` against `{rival}`{suffix}", _against(policy, rival, key), LEVEL
    yield f"md raid1, `on` against `off`{suffix}", _against(ON, OFF, key), LEVEL


#: What is counted: who against what, and from what share on it is above.
COUNTED = (*_of_each("mean_us"), *_of_each("p99_us", ", p99"))

#: Whose share of the oracle's gain is told.
SHARED = (
    "lowest", TWO, H95, "linnos", GUARDED, HL, "shortest-queue", QUEUE_H95, HEDGE_CAPPED,
    "hedge", "hedge-ip", "clone",
)  # fmt: skip


@dataclass(frozen=True)
class Count:
    """In how many lines a policy is above, and below, what it is held against.

    Attributes
    ----------
    n : int
        Lines in which both were run.
    above, below : int
        By more than `level`, and by more than :data:`LEVEL`.
    surely_above, surely_below : int or None
        How many of these are beyond chance; None of percentiles.
    worst : (float, str)
        By how much it is above where that is most (negative: it is below everywhere), and where.
    median_bursts, median_calm : float or None
    """

    what: str
    n: int
    above: int
    below: int
    surely_above: int | None
    surely_below: int | None
    level: float
    worst: tuple[float, str]
    median_calm: float | None
    median_bursts: float | None


def counts(of: list[Line]) -> Iterator[Count]:
    """A count for each of :data:`COUNTED` that was run."""
    for what, above, level in COUNTED:
        found = [(*told, line) for line in of if (told := above(line)) is not None]
        if not found:
            continue
        worst, _, where = max(found, key=lambda item: item[0])
        over = [chance for share, chance, _ in found if share > level]
        under = [chance for share, chance, _ in found if share < -LEVEL]
        calm, bursts = (
            [share for share, _, line in found if line.slowness == slowness]
            for slowness in (CALM, BURSTS)
        )
        yield Count(
            what=what,
            n=len(found),
            above=len(over),
            below=len(under),
            surely_above=None if None in over else over.count(False),
            surely_below=None if None in under else under.count(False),
            level=level,
            worst=(worst, where.name),
            median_calm=median(calm) if calm else None,
            median_bursts=median(bursts) if bursts else None,
        )


def shares(of: list[Line], policy: str) -> list[float]:
    """A policy's shares of the oracle's gain, of the lines that have one."""
    return [share for line in of if (share := line.share(policy)) is not None]
