# SPDX-License-Identifier: MIT
"""Inside a burst: what LinnOS knows at the first, second, third ... slow read.

There are two parts. *Observed*: the drives are in `observe` mode, in which they decide but never
refuse, so the correct decision is always known: recall by position within the burst, and causes of
misses. *Enforced*: bursts in time that wander over the array: the latency at each position, the
time until a drive is trusted after its burst, and the costs and gains of probing it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from eval import contenders, figures, scores
from eval.experiment import GRID_SOURCES, NOT_AVAILABLE, Context
from eval.experiments.bursts.design import BINS, PARAMETERS, SETTINGS, SLOT_MS, bin_name
from eval.experiments.bursts.enforced import Enforced, enforce
from eval.experiments.bursts.observed import CAUSES, Observed, observe
from eval.long_table import LongTable
from eval.study import READ_MEASURES, Measure, Study
from linnapp.stats import ratio_interval

FACTORS = ("workload", "pattern", "trained_on", "burst_ms", "probing", "position")

#: The tables: recall, recall by position, recall in each workload; then latencies, latencies by
#: position, probing; and both latencies and probing in each workload.
GROUPS = (
    ("pattern", "trained_on"),
    ("pattern", "trained_on", "position"),
    ("workload", "pattern", "trained_on"),
    ("burst_ms",),
    ("burst_ms", "position"),
    ("burst_ms", "probing"),
    ("workload", "burst_ms"),
    ("workload", "burst_ms", "probing"),
)

MEASURES = {
    "reads": Measure("reads"),
    "slow_in_bursts": Measure("slow reads in bursts"),
    "recall": Measure("recall %", 1, 100),
    "missed": Measure("missed"),
    **{cause: Measure(cause) for cause in CAUSES},
    "accuracy": Measure("accuracy %", 1, 100),
    "false_revokes": Measure("false refusals %", 1, 100),
    "false_submits": Measure("false submits %", 1, 100),
    "mean_us": READ_MEASURES["mean_us"],
    "burst_mean_us": Measure("in bursts us", 1),
    "calm_us": Measure("calm us", 1),
    "excess_us": Measure("mean above that of calm times, us"),
    "recovery_p50_us": Measure("trusted again p50 us"),
    "recovery_p90_us": Measure("p90 us"),
    "never_trusted": Measure("never"),
    "bursts": Measure("bursts"),
    "revoked_after_burst": Measure("refused in that time"),
    "probes": Measure("probes"),
    "probe_mean_us": Measure("mean us of a probe"),
}


def place(**values: Any) -> tuple[str, ...]:
    """Return a place of the table; factors without a value are empty."""
    return tuple(str(values.get(name, "")) for name in FACTORS)


def run(context: Context) -> LongTable:
    """Measure both parts."""
    table = LongTable(FACTORS)
    add_observed(table, observe(context))
    add_enforced(table, enforce(context))
    return table


def add_observed(table: LongTable, results: list[Observed]) -> None:
    """Add counts of reads, over all workloads and in each."""
    for pattern, trained_on in dict.fromkeys((one.pattern, one.trained_on) for one in results):
        same = [one for one in results if (one.pattern, one.trained_on) == (pattern, trained_on)]
        where = {"pattern": pattern, "trained_on": trained_on}
        _add_counts(table, place(**where), [one.numbers for one in same])
        for one in same:
            _add_counts(table, place(**where, workload=one.workload), [one.numbers])
        _add_positions(table, where, [one.numbers["by_position"] for one in same])


def _add_counts(table: LongTable, at: tuple[str, ...], numbers: list[dict[str, Any]]) -> None:
    names = ("reads", "slow_in_bursts", "missed", *CAUSES, "right", "false_revokes")
    total = {name: sum(of[name] for of in numbers) for name in names}
    found, slow = (
        [n for of in numbers for n in of["by_block"][name]] for name in ("found", "slow")
    )
    table.add(at, "", "recall", ratio_interval(found, slow))
    table.add(at, "", "accuracy", total["right"] / total["reads"])
    table.add(at, "", "false_revokes", total["false_revokes"] / total["reads"])
    for name in ("slow_in_bursts", "missed", *CAUSES):
        table.add(at, "", name, total[name])


def _add_positions(
    table: LongTable, where: dict[str, Any], by_position: list[dict[str, dict[str, int]]]
) -> None:
    for position in map(bin_name, range(len(BINS))):
        total: Counter[str] = Counter()
        for counts in by_position:
            total.update(counts.get(position, {}))
        if not total["reads"]:
            continue
        at = place(**where, position=position)
        table.add(at, "", "reads", total["reads"])
        table.add(at, "", "slow_in_bursts", total["slow"])
        if total["slow"]:
            table.add(at, "", "recall", total["found"] / total["slow"])
        missed = total["slow"] - total["found"]
        table.add(at, "", "false_submits", missed / total["reads"])


def add_enforced(table: LongTable, results: list[Enforced]) -> None:
    """Add latencies, which are averaged over the workloads, and counts, which are added up."""
    for slot_ms in SLOT_MS:
        default = [one for one in results if (one.slot_ms, one.probing) == (slot_ms, "default")]
        for workload in dict.fromkeys(one.workload for one in default):
            replays = {one.policy: one.result for one in default if one.workload == workload}
            at = place(workload=workload, burst_ms=slot_ms)
            scores.add_reads(table, at, {0: replays}, fields=())
        for policy in dict.fromkeys(one.policy for one in default):
            same = [one for one in default if one.policy == policy]
            _add_latencies(table, {"burst_ms": slot_ms}, same)
        for probing in ("default", *SETTINGS):
            same = [
                one
                for one in results
                if (one.slot_ms, one.policy, one.probing) == (slot_ms, "linnos", probing)
            ]
            where = {"burst_ms": slot_ms, "probing": probing}
            _add_latencies(table, where, same)
            _add_probing(table, place(**where), [one.numbers for one in same])


def _add_latencies(table: LongTable, where: dict[str, Any], results: list[Enforced]) -> None:
    policy = results[0].policy
    for name in ("mean_us", "burst_mean_us", "calm_us"):
        for one in results:
            at = place(**where, workload=one.workload)
            if table.get(at, policy, name) is None:
                table.add(at, policy, name, one.numbers[name])
        mean = float(np.mean([one.numbers[name] for one in results]))
        table.add(place(**where), policy, name, mean)
    if "probing" in where:
        return
    for position in map(bin_name, range(len(BINS))):
        excess_us = [
            of[position] for one in results if position in (of := one.numbers["excess_us"])
        ]
        if excess_us:
            at = place(**where, position=position)
            table.add(at, policy, "excess_us", float(np.mean(excess_us)))


def _add_probing(table: LongTable, at: tuple[str, ...], numbers: list[dict[str, Any]]) -> None:
    for name in ("bursts", "never_trusted", "revoked_after_burst", "probes"):
        table.add(at, "linnos", name, sum(of[name] for of in numbers))
    recovery_us = [value for of in numbers for value in of["recovery_us"]]
    for percent in (50, 90) if recovery_us else ():
        value = float(np.percentile(recovery_us, percent))
        table.add(at, "linnos", f"recovery_p{percent}_us", value)
    if answered := sum(of["answered_probes"] for of in numbers):
        total_us = sum(of["answered_probes_us"] for of in numbers)
        table.add(at, "linnos", "probe_mean_us", total_us / answered)


def draw(table: LongTable, path: Path) -> None:
    """Draw recall and latency by position, and the causes of misses."""
    figure, panels = plt.subplots(1, 3, figsize=(19, 5))
    labels = [bin_name(i) for i in range(len(BINS))]
    kinds = table.places_of(("pattern", "trained_on"))
    bottom = np.zeros(len(kinds))
    for at in kinds:
        _, pattern, trained_on, *_ = at
        where = {"pattern": pattern, "trained_on": trained_on}
        recall = [table.value(place(**where, position=p), "", "recall") for p in labels]
        panels[0].plot(labels, recall, marker="o", label=f"{pattern}; {trained_on}")
    panels[0].set(xlabel="position within the burst", ylabel="slow reads predicted slow")
    for policy in table.policies(place(burst_ms=SLOT_MS[-1])):
        excess_us = [
            table.value(place(burst_ms=SLOT_MS[-1], position=p), policy, "excess_us")
            for p in labels
        ]
        panels[1].plot(labels, excess_us, marker=".", label=policy, **figures.style(policy))
    panels[1].set(xlabel="position within the burst", ylabel="mean latency above calm times (us)")
    panels[1].set_title(f"bursts of {SLOT_MS[-1]} ms, enforced", fontsize=9)
    for cause in CAUSES:
        n_slow = np.array([table.value(at, "", "slow_in_bursts") for at in kinds])
        share = 100 * np.array([table.value(at, "", cause) for at in kinds]) / np.maximum(n_slow, 1)
        panels[2].barh(range(len(kinds)), share, left=bottom, label=cause)
        bottom += share
    panels[2].set_yticks(range(len(kinds)), [f"{at[1]}; {at[2]}" for at in kinds], fontsize=6)
    panels[2].invert_yaxis()
    panels[2].set_xlabel("share of the slow reads in bursts that were not refused (%)")
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.legend(fontsize=6)
    figure.tight_layout()
    figures.save(figure, path)


EXPERIMENT = Study(
    name="bursts",
    title="Inside a burst",
    policies=contenders.INJECTED,
    measure_all=run,
    measures=MEASURES,
    groups=GROUPS,
    pairs=contenders.INJECTED_PAIRS,
    figure=draw,
    settings=PARAMETERS,
    paper="uScope reports that LinnOS predicts single slow I/Os but loses accuracy on continuous "
    f"ones; its numbers: {NOT_AVAILABLE}.",
    differs="Added latency occupies no chip of the emulated drive: a slow read delays no other.",
    notes="Each slow read that was not refused is counted under the first cause that applies: "
    + "; ".join(f"*{name}*: {text}" for name, text in CAUSES.items())
    + ".\n\n*First* is a limit of the pattern: no completed read announces a burst, and random "
    "slow reads, or one at a time, are all first. *Blind* is a limit of the features: only "
    "completed reads inform them, so a burst is not seen for as long as its reads take; to see it "
    "earlier, the network would need the age of the reads in flight. *Clear signs* is a fault of "
    "the weights: the last latencies showed the burst, but the network had learnt from none "
    "like it.",
    sources=("eval/decisions.py", *GRID_SOURCES),
)
