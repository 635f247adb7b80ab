# SPDX-License-Identifier: MIT
"""The runs of `eval-traces` in which a policy is faster or slower, as the pages count them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from eval import demo
from eval.contenders import EXTRA_IO_LIMIT, display_name
from eval.long_table import LongTable, Place
from eval.trace_files import NAMES, trace_name
from linnapp.lab.demo import BURSTS_EVERY_S, with_duplicates
from linnapp.lab.work import StepError

CALM, BURSTS = "calm", "bursts"

#: The policy that follows predictions unconditionally.
UNGUARDED = "fastest, unguarded"

#: Linux's md that does not query the mirrors, md that does, and md with its other read policy.
OFF, ON, MD_UNGUARDED = "md, off", "md, on", "md, unguarded"
MD_LATENCY = "md, latency"
#: The same with two mirrors instead of three.
OFF_TWO_MIRRORS, ON_TWO_MIRRORS = "md of two, off", "md of two, on"

#: Rules that need no model and send nothing twice.
RULES = (
    "baseline", "random", "shortest-queue", "fewest", "ewma-inflight", "heuristic", "heuristic-adv",
    "c3", "prequal",
)  # fmt: skip
BEST_RULE = "the best rule"

HEDGE_CAPPED, QUEUE_H95 = "hedge, 5% cap", "shortest-queue-h95, 5% cap"
DUPLICATES, DUPLICATES_5 = with_duplicates("fastest", ""), with_duplicates("fastest")
HL = "linnos-hl, 5% cap"

#: Rivals that send reads twice, with a limit and without.
TWICE = (HEDGE_CAPPED, QUEUE_H95, "hedge", "hedge-ip", "shortest-queue-h95", "clone")

#: Rivals that need no model, and published ones, with at most 5 % of the reads sent twice.
RIVALS = (*RULES, "heimdall", HEDGE_CAPPED, QUEUE_H95, OFF)

#: Smaller relative differences of two means are not counted. The best rule is selected after the
#: replay, which favours it, so a policy counts as slower than this rule from the second level on.
LEVEL, RULES_LEVEL = 0.01, 0.02

_OURS = ("fastest", DUPLICATES, DUPLICATES_5, UNGUARDED, "linnos", HL)
COMPARED = (*_OURS, "shortest-queue", QUEUE_H95, HEDGE_CAPPED, ON)

MEAN, P99 = "mean_us", "p99_us"


@dataclass(frozen=True)
class Run:
    """A trace at a rate, calm or with bursts, under all policies."""

    table: LongTable
    place: Place

    @property
    def trace(self) -> str:
        """The trace's name on pages."""
        return trace_name(self.place[0])

    @property
    def slowness(self) -> str:
        """``CALM`` or ``BURSTS``."""
        return self.place[2]

    @property
    def name(self) -> str:
        """The name of the run in a table."""
        stalls = "with bursts" if self.slowness == BURSTS else "without bursts"
        return f"{self.trace} at {self.value('baseline', 'iops'):,.0f}, {stalls}"

    def value(self, policy: str, measure: str = MEAN) -> float:
        """Return the number of the run's only seed, or NaN if there is none."""
        return self.table.value(self.place, policy, measure, self.table.seeds()[0])

    def slowdown(
        self, policy: str, reference: str = "baseline", measure: str = MEAN
    ) -> float | None:
        """Return the share by which a policy is slower than another, or None if one is missing."""
        if reference == BEST_RULE:
            reference = self.best(RULES, measure)
        share = self.value(policy, measure) / self.value(reference, measure) - 1
        return None if math.isnan(share) else share

    def is_significant(self, policy: str, reference: str) -> bool | None:
        """Return whether two means differ significantly; None if the table lacks the comparison."""
        if reference == BEST_RULE:
            reference = self.best(RULES)
        if policy == reference:
            return False
        found = self.table.reduction(self.place, policy, reference)
        return None if found is None else found.excludes_zero

    def best(self, policies: Iterable[str], measure: str = MEAN) -> str:
        """Return the policy with the lowest value; `baseline` if no policy was replayed."""
        known = {name: us for name in policies if not math.isnan(us := self.value(name, measure))}
        return min(known, key=known.__getitem__, default="baseline")

    @property
    def rival(self) -> str:
        """The best rival within the limit of extra I/O; `baseline` if it gains less than 1 %."""
        frugal = [name for name in TWICE if self.value(name, "extra_io_ratio") <= EXTRA_IO_LIMIT]
        best = self.best(dict.fromkeys((*RIVALS, *frugal)))
        return "baseline" if (self.slowdown(best) or 0) > -LEVEL else best

    def share(self, policy: str) -> float | None:
        """Return the share of the oracle's gain over baseline, if the oracle gains over 1 %."""
        gain, ours = self.slowdown("oracle"), self.slowdown(policy)
        return None if gain is None or ours is None or gain > -LEVEL else ours / gain


def count(
    runs: list[Run], policy: str, reference: str, measure: str = MEAN
) -> dict[str, Any] | None:
    """Count the runs in which a policy is slower and faster than a reference.

    Returns
    -------
    dict or None
        ``slower``, ``faster``: the numbers of such runs; ``significantly_slower``,
        ``significantly_faster``: the numbers of runs with a significant difference, None for
        percentiles; ``worst``: the largest relative slowdown, and ``where``: the run that has it;
        ``calm``, ``bursts``: the median slowdown without and with bursts. None if the policy was
        never replayed.
    """
    found = [
        (share, run)
        for run in runs
        if (share := run.slowdown(policy, reference, measure)) is not None
    ]
    if not found:
        return None
    level = RULES_LEVEL if reference == BEST_RULE else LEVEL
    sides = {
        "slower": [run for share, run in found if share > level],
        "faster": [run for share, run in found if share < -LEVEL],
    }
    worst, where = max(found, key=lambda item: item[0])
    counted: dict[str, Any] = {"worst": worst, "where": where.name}
    for side, part in sides.items():
        known = (
            [run.is_significant(policy, reference) for run in part] if measure == MEAN else [None]
        )
        counted[side] = len(part)
        counted[f"significantly_{side}"] = None if None in known else sum(map(bool, known))
    for slowness in (CALM, BURSTS):
        shares = [share for share, run in found if run.slowness == slowness]
        counted[slowness] = median(shares) if shares else None
    return counted


def runs_of(table: LongTable) -> list[Run]:
    """Return all runs: the traces in the order of the pages, each from its slowest rate."""
    known = list(NAMES.values())
    runs = [Run(table, place) for place in table.places]
    order = {trace_name(run.place[0]): i for i, run in enumerate(runs)}

    def key(run: Run) -> tuple[int, int, float, bool]:
        at = known.index(run.trace) if run.trace in known else len(known)
        return at, order[run.trace], run.value("baseline", "iops"), run.slowness == BURSTS

    return sorted(runs, key=key)


def percent(share: float | None) -> str:
    """Write a share with its sign, to a tenth of a percent; a dash if there is none."""
    # Adding 0.0 avoids -0.0.
    return "-" if share is None else f"{round(100 * share, 1) + 0.0:+.1f}"


def us(run: Run, policy: str, measure: str = MEAN, among: Iterable[str] = ()) -> str:
    """Write a policy's mean or p99; bold if none of the policies `among` has a lower one.

    A mean of less than 100 us has a decimal.
    """
    value = run.value(policy, measure)
    if math.isnan(value):
        return "-"
    text = f"{value:,.{int(measure == MEAN and value < 100)}f}"
    return f"**{text}**" if value <= run.value(run.best(among, measure), measure) else text


def best_rule(run: Run, measure: str = MEAN, among: Iterable[str] = ()) -> str:
    """Write the best of the rules that need no model and send nothing twice, with its number."""
    best = run.best(RULES, measure)
    return f"{display_name(best)} | {us(run, best, measure, among)}"


def front_page(runs: list[Run]) -> list[Run]:
    """Return one run of each public trace at the demo's rate: with bursts if it is long enough.

    A replay that is shorter than the time from one burst to the next would meet one all the time,
    or none.
    """
    shown = []
    for run in runs:
        if run.trace not in list(NAMES.values())[:5]:
            continue
        rates = {r.value("baseline", "iops") for r in runs if r.trace == run.trace}
        at_demos = min(rate for rate in rates if rate >= demo.TARGET_IOPS)
        slowness = BURSTS if run.value("baseline", "elapsed_s") > BURSTS_EVERY_S else CALM
        if run.value("baseline", "iops") == at_demos and run.slowness == slowness:
            shown.append(run)
    if not shown:
        raise StepError(
            "the results have no public traces, which README.md shows: name their folder, "
            "LINNOS_TRACES=DIR, and commit again"
        )
    return shown


def change(run: Run, policy: str, reference: str = "baseline", among: Iterable[str] = ()) -> str:
    """Write by how much a policy changes the mean; bold if it is the lowest `among` policies."""
    share = run.slowdown(policy, reference)
    if share is None:
        return "-"
    direction = "higher" if share > 0 else "lower"
    text = "no change" if abs(share) < LEVEL else f"{abs(100 * share):.0f} % {direction}"
    return f"**{text}**" if share < -LEVEL and run.best(among) == policy else text


def page_data(table: LongTable) -> dict[str, Any]:
    """Return the values and functions of the templates."""
    runs = runs_of(table)
    constants = {name: value for name, value in globals().items() if name.isupper()}
    return {
        **constants, "RULES": list(RULES), "runs": runs, "front": front_page(runs),
        "change": change, "us": us, "best_rule": best_rule, "percent": percent,
        "count": lambda pair, measure=MEAN: count(runs, pair[0], pair[1], measure),
        "shares": lambda policy: [
            share for run in runs if (share := run.share(policy)) is not None
        ],
    }  # fmt: skip
