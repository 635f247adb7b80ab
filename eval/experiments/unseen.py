# SPDX-License-Identifier: MIT
"""Slowness that nobody trained for, beside the kind that the training adds.

The default training adds bursts of a constant delay to what was recorded, for 5 to 320 ms. Injected
bursts of a constant delay are the same kind; what a policy gains on them says little of what it
gains on others. So kinds that no model has seen are injected too, and told apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from eval import contenders, figures, grid, scores
from eval.cells import replayed
from eval.experiment import GRID_SOURCES, Context, Experiment, Table
from eval.metrics import percent
from linnapp.stats import Interval


class Kind(NamedTuple):
    """A kind of slowness."""

    name: str
    #: The replayer's `--inject`; ``{...}`` stands for what depends on the cell.
    spec: str | None
    #: Whether training adds bursts of this kind.
    seen: bool


#: All that is injected.
_SLOTS = "op=read,slot_ms={slot_ms},every_ms={every_ms},rotate"
KINDS = (
    Kind("none", None, True),
    Kind(
        "constant, one drive after another",
        f"continuous:ratio=100%,latency_us=2000,{_SLOTS}",
        True,
    ),
    Kind("ramp", f"continuous:ratio=100%,shape=ramp,latency_us=4000,{_SLOTS}", False),
    Kind(
        "proportional to the queue",
        f"continuous:ratio=100%,shape=queue,at_depth=4,latency_us=1000,{_SLOTS}",
        False,
    ),
    Kind(
        "heavy-tailed",
        f"continuous:ratio=100%,shape=pareto,tail=1.2,latency_us=500,{_SLOTS}",
        False,
    ),
    Kind(
        "a slow region",
        "continuous:ratio=100%,latency_us=2000,op=read,drive=0,region_start_mb=0,region_mb=256",
        False,
    ),
    Kind(
        "two drives at once",
        f"continuous:ratio=100%,latency_us=2000,{_SLOTS},at_once=2",
        False,
    ),
    Kind(
        "fail-slow, one drive from a fifth of the time on",
        "continuous:ratio=100%,latency_us=2000,op=read,drive=1,start_ms={every_ms},"
        "slot_ms={rest_ms}",
        False,
    ),
)

#: Each with a seed of its own, and how long it is replayed.
REPLAYED_S = {"az-e": 1.0, "az-c": 20.0}

#: Of the replayed time: how long a burst is, and how often one comes.
SLOT_SHARE, EVERY_SHARE = 0.04, 0.2

POLICIES = (
    "baseline", "clone", "shortest-queue", "shortest-queue-h95", "shortest-queue-h95, 5% cap",
    "prequal", "c3", "heimdall", "hedge", "hedge, 5% cap", "hedge-ip", "heuristic", "heuristic-adv",
    "linnos", "linnos-hl", "lowest", "oracle",
)  # fmt: skip
OURS = ("linnos", "linnos-hl", "lowest")

PARAMETERS: dict[str, Any] = {
    "kinds": [tuple(kind) for kind in KINDS],
    "replayed_s": REPLAYED_S,
    "slot_share": SLOT_SHARE,
    "every_share": EVERY_SHARE,
    "policies": POLICIES,
    **grid.PARTS,
}


def spec(kind: Kind, workload: str) -> str | None:
    """The replayer's option for a kind on a workload."""
    length_ms = 1000 * REPLAYED_S[workload]
    every_ms = round(EVERY_SHARE * length_ms)
    return kind.spec and kind.spec.format(
        slot_ms=round(SLOT_SHARE * length_ms),
        every_ms=every_ms,
        rest_ms=round(length_ms) - every_ms,
    )


def run(context: Context) -> dict[str, Any]:
    """Every kind under every policy."""
    cells = grid.seed_a_workload(tuple(REPLAYED_S), context.seeds)
    grid.prepare(context, cells)
    who = contenders.named(POLICIES)
    pairs = [(cell, kind) for cell in cells for kind in KINDS]
    replays = [
        grid.replay_of(
            context.cache, cell, contender, inject=spec(kind, cell.workload),
            options=("--duration", f"{REPLAYED_S[cell.workload]:g}"),
        )
        for cell, kind in pairs
        for contender in who
    ]  # fmt: skip
    done = context.map(lambda replay: replayed(context.cache, replay), replays, "replaying")
    rows = []
    for i, (cell, kind) in enumerate(pairs):
        results = {contender.name: done[i * len(who) + j] for j, contender in enumerate(who)}
        references = [name for name in contenders.rivals(results)]
        rows.append(
            {
                **grid.where(cell), "kind": kind.name, "seen": kind.seen,
                "inject": spec(kind, cell.workload),
                "mean_us": {n: r.summary["response_mean_us"] for n, r in results.items()},
                "extra_io_ratio": {n: r.summary["extra_io_ratio"] for n, r in results.items()},
                "errors": sum(
                    r.summary["data_errors"] + r.summary["io_errors"] for r in results.values()
                ),
                "compared": scores.compared(
                    results, REPLAYED_S[cell.workload],
                    [
                        *((ours, reference) for ours in OURS for reference in references),
                        ("lowest", "linnos"),
                        ("lowest", "linnos-hl"),
                    ],
                ),
            }
        )  # fmt: skip
    return {"rows": rows, "runs": [result.summary for result in done]}


def best_rival(row: dict[str, Any]) -> str:
    """The policy with the lowest mean that is neither ours nor a bound."""
    return min(contenders.rivals(row["mean_us"]), key=lambda name: row["mean_us"][name])


def against_best(row: dict[str, Any], policy: str) -> Interval:
    """By how much a policy is below the best rival."""
    rival = best_rival(row)
    (triple,) = (
        pair["below"]
        for pair in row["compared"]
        if (pair["policy"], pair["reference"]) == (policy, rival)
    )
    return Interval.from_json(triple)


def _rows(data: dict[str, Any], seen: bool) -> list[dict[str, Any]]:
    return [row for row in data["rows"] if row["seen"] == seen]


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Kinds seen in training, and unseen ones, apart."""
    tables = {}
    for heading, seen in (("Seen in training", True), ("Not seen in training", False)):
        rows = _rows(data, seen)
        if not rows:
            continue
        policies = list(rows[0]["mean_us"])
        tables[f"{heading}: mean read latency (us)"] = Table(
            ("workload", "kind", *policies, "best rival (extra I/O)",
             *(f"{ours} below it" for ours in OURS)),
            tuple(
                (
                    row["workload"], row["kind"],
                    *(f"{row['mean_us'][p]:.1f}" for p in policies),
                    f"{(rival := best_rival(row))} ({percent(row['extra_io_ratio'][rival])})",
                    *(
                        f"{scores.percent(against_best(row, ours).to_json(), 1)}: "
                        f"{scores.verdict(against_best(row, ours))}"
                        for ours in OURS
                    ),
                )
                for row in rows
            ),
        )  # fmt: skip
    return tables


def reading(data: dict[str, Any]) -> str:
    """Seen and unseen, each in a sentence."""
    parts = []
    for heading, seen in (("Seen in training", True), ("Not seen in training", False)):
        rows = _rows(data, seen)
        for policy in OURS if rows else ():
            words = [scores.verdict(against_best(row, policy)) for row in rows]
            parts.append(
                f"{heading}, `{policy}` against the best rival of each of {len(rows)}: below "
                f"{words.count('below')}, above {words.count('above')}, undecided "
                f"{words.count('undecided')}."
            )
    parts.append(f"Data and I/O errors: {sum(row['errors'] for row in data['rows'])}.")
    return "\n\n".join(parts)


def draw(data: dict[str, Any], path: Path) -> None:
    """How far below the best rival, kind by kind, with intervals."""
    rows = data["rows"]
    figure, axes = plt.subplots(figsize=(9, 0.4 * len(rows) + 1.5))
    for i, row in enumerate(rows):
        for j, policy in enumerate(OURS):
            found = against_best(row, policy)
            y = i + 0.2 * (j - 0.5)
            colour = figures.style(policy).get("color")
            axes.plot([100 * found.low, 100 * found.high], [y, y], color=colour)
            axes.plot(100 * found.value, y, "o", color=colour, label=None if i else policy)
    axes.axvline(0, color="black", linewidth=0.5)
    labels = [
        f"{row['workload']}: {row['kind']} ({'seen' if row['seen'] else 'unseen'})" for row in rows
    ]
    axes.set_yticks(np.arange(len(rows)), labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("mean below the best rival's (%)")
    axes.legend(fontsize=7)
    figures.save(figure, path)


EXPERIMENT = Experiment(
    name="unseen",
    title="Slowness that nobody trained for",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    differs="The heuristics and models know the recording, which has no injection, and the bursts "
    "that training adds: a constant delay for 5 to 320 ms.",
    sources=GRID_SOURCES,
    numbers=lambda data: [
        {key: row[key] for key in ("workload", "kind", "mean_us", "compared")}
        for row in data["rows"]
    ],
)
