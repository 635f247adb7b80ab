# SPDX-License-Identifier: MIT
"""Mean read latency of every policy on the paper's eight workloads, with bounds and intervals."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from eval import contenders, figures, grid, learnt, scores
from eval.cache import Cache
from eval.cells import WORKLOADS, Cell, Replayed
from eval.contenders import LEARNT, LITTLE
from eval.experiment import Context, Experiment, Table
from eval.experiments import fig08_pages
from eval.intervals import BLOCKS, RESAMPLES, RESTS_ON
from eval.metrics import percent
from eval.work import Step
from linnapp.stats import LEVEL

PARAMETERS: dict[str, Any] = {
    "workloads": WORKLOADS,
    "contenders": contenders.NAMES,
    **grid.PARTS,
    "level": LEVEL,
    "resamples": RESAMPLES,
    "blocks": BLOCKS,
    "rests_on": RESTS_ON,
}

#: LinnOS as the paper runs it, and as operators would have it; and what goes beyond it.
OURS = (
    "linnos", "linnos-hl", "linnos-hl, 5% cap", "lowest", "lowest-h95, 5% cap",
    "lowest-two, 5% cap",
)  # fmt: skip

#: Whose differences from everyone are kept as numbers: what is said of any of these is in there.
KEPT = (*OURS, "lowest-two, 10% cap", "heuristic-adv", "verdict")


def run(context: Context, *, replicate_writes: bool = False) -> dict[str, Any]:
    """Record and train every cell, then replay it under every policy."""
    cache, work = context.cache, context.work()
    who = contenders.named(PARAMETERS["contenders"])
    replays: dict[Cell, dict[str, Step[Replayed]]] = {}
    for seed in context.seeds:
        cells = [
            replace(cell, replicate_writes=replicate_writes)
            for cell in grid.cells([seed], PARAMETERS["workloads"])
        ]
        ready = grid.preparing(work, cache, cells)
        replays.update(grid.replaying(work, cache, ready, who))
        for cell in cells:
            random = replays[cell]["random"]
            work.add("boosted trees", partial(_learn_trees, cache, random), [random])
    work.do()
    results = grid.results(replays)
    scored, knew = scores.scored(cache, results)
    return {
        "cells": scored,
        "learnt": knew,
        "prepared": grid.learnt_from(cache, list(results)),
        "replicate_writes": replicate_writes,
        "grid": grid.rows(results),
        "runs": [run_.summary for by_name in results.values() for run_ in by_name.values()],
    }


def _learn_trees(cache: Cache, random: Step[Replayed]) -> None:
    learnt.chosen(cache, random.result)


def label(cell: dict[str, Any]) -> str:
    """A cell as tables call it."""
    return f"{cell['workload']} on {cell['array']}"


def standing(cell: dict[str, Any], policy: str, rival: str) -> str:
    """A policy against a rival, in a few words; a difference only where there is one."""
    triple = cell["below"][policy][rival]
    return f"{scores.percent(triple, 1)}: {_said(cell, policy, rival)}"


def _said(cell: dict[str, Any], policy: str, rival: str) -> str:
    """What may be said of a difference, in bold where it may be called one."""
    said = scores.verdict(scores.below(cell, policy, rival))
    return said if said == "undecided" else f"**{said}**"


def _cost(fields: dict[str, Any]) -> str:
    return percent(fields["extra_io_ratio"], 2) if "extra_io_ratio" in fields else "-"


def summary_table(data: dict[str, Any]) -> Table:
    """A row a cell: the best rival, LinnOS against it, and the bounds."""
    bounds = ("oracle", "verdict", LEARNT)
    rows = []
    for cell in data["cells"]:
        policies = cell["policies"]
        rival = scores.best_rival(cell)
        rows.append(
            (
                label(cell), scores.number(policies["baseline"]["mean_us"]),
                f"{rival} ({_cost(policies[rival])})", scores.number(policies[rival]["mean_us"]),
                *(
                    f"{scores.number(policies[name]['mean_us'])} ({_cost(policies[name])})"
                    for name in OURS
                ),
                *(
                    scores.number(policies[name]["mean_us"]) if name in policies else "-"
                    for name in bounds
                ),
            )
        )  # fmt: skip
    return Table(
        ("workload and array", "baseline", "best rival (extra I/O)", "its mean",
         *(f"{name} (extra I/O)" for name in OURS), *bounds),
        tuple(rows),
    )  # fmt: skip


def standing_table(data: dict[str, Any], most_extra: float = math.inf) -> Table:
    """A row a cell: by how much each of ours is below the best rival, and what may be said."""
    rows = []
    for cell in data["cells"]:
        rival = scores.best_rival(cell, most_extra=most_extra)
        rows.append((label(cell), rival, *(standing(cell, name, rival) for name in OURS)))
    return Table(("workload and array", "best rival", *OURS), tuple(rows))


def cell_table(cell: dict[str, Any]) -> Table:
    """Every policy of a cell: mean, tail, cost, and how far below baseline and the best rival."""
    rival = scores.best_rival(cell)
    rows = []
    for name, fields in cell["policies"].items():
        shown = f"**{name}**" if name == rival else name
        against = "-"
        if name not in (rival, "baseline"):
            triple = cell["below"][name][rival]
            against = f"{scores.percent(triple, 1)}: {_said(cell, name, rival)}"
        rows.append(
            (
                shown, scores.number(fields["mean_us"], 1),
                *(scores.number(fields[scores.key(p)]) for p in (50.0, 95.0, 99.0, 99.9)),
                _cost(fields),
                percent(fields["revoked_ratio"], 1) if "revoked_ratio" in fields else "-",
                scores.percent(fields.get("share_of_oracle")),
                "-" if name == "baseline" else scores.percent(cell["below"][name]["baseline"], 1),
                against,
            )
        )  # fmt: skip
    return Table(
        ("policy", "mean us", "p50", "p95", "p99", "p99.9", "extra I/O", "revoked",
         "of the oracle's gain", "mean below baseline", f"mean below {rival}, the best rival"),
        tuple(rows),
    )  # fmt: skip


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Best rival, ours and bounds of every cell; then each cell; then what it rests on."""
    tables = {
        "Mean read latency (us), best rival, LinnOS and bounds": summary_table(data),
        "Mean below the best rival's: a difference only where zero is outside": standing_table(
            data
        ),
        f"The same, of rivals with at most {percent(LITTLE, 0)} extra I/O": standing_table(
            data, LITTLE
        ),
    }
    for cell in data["cells"]:
        tables[f"{label(cell)}: {cell['reads']} reads, {cell['seeds']} seeds"] = cell_table(cell)
    tables["What the models and heuristic-adv learnt from"] = Table(
        ("workload", "seed", "training reads a drive", "heuristic-adv tuned to",
         "tried (mean us on the slice)"),
        tuple(
            (
                row["workload"], str(row["seed"]),
                ", ".join(str(n) for n in row["training_reads"])
                + ("" if row["enough"] else f" (fewer than {grid.TRAINING_READS})"),
                " ".join(row["heuristic_adv"]["options"]),
                "; ".join(
                    f"{' '.join(t['options'])}: {t['mean_us']:.0f}"
                    for t in row["heuristic_adv"]["tried"]
                ),
            )
            for row in data["prepared"]
        ),
    )  # fmt: skip
    tables["Every repeat"] = Table(
        ("workload", "array", "seed", "policy", "reads", "response mean us", "revoked", "hedged",
         "I/Os submitted late"),
        tuple(
            (
                run_["workload"], run_["array"], str(run_["seed"]), run_["policy"],
                str(run_["reads"]), f"{run_['response_mean_us']:.3f}", str(run_["revoked"]),
                str(run_["hedged"]), str(run_["late_ios"]),
            )
            for run_ in data["grid"]
        ),
    )  # fmt: skip
    return tables


def reading(data: dict[str, Any]) -> str:
    """Where LinnOS stands, won and lost, against the best rival of each cell."""
    cells = data["cells"]
    parts = [
        f"`{policy}` against the best rival of each cell: "
        + scores.by_verdict(
            (cell["workload"], scores.below(cell, policy, scores.best_rival(cell)))
            for cell in cells
        )
        + "."
        for policy in OURS
    ]
    for bound, policy, other in (("verdict", "linnos", ""), (LEARNT, LEARNT, scores.HOME)):
        shares = [
            f"{cell['workload']} {scores.percent(triple)}"
            for cell in cells
            if policy in cell["policies"]
            and (triple := cell["below"][policy][other] if other
                 else cell["policies"][policy].get(f"share_of_{bound}"))
        ]  # fmt: skip
        what = f"mean below {other}" if other else f"share of what `{bound}` gains over baseline"
        if shares:
            parts.append(f"`{policy}`, {what}: {'; '.join(shares)}.")
    late = [
        f"{run_['workload']} seed {run_['seed']} ({percent(run_['late_ios'] / n)} of its I/Os)"
        for run_ in data["grid"]
        if run_["policy"] == "baseline"
        and run_["late_ios"] > 0.01 * (n := run_["reads"] + run_["writes"])
    ]
    parts.append(
        "Where a drive could not sustain the workload for a while, I/Os were submitted late under "
        f"baseline: {'; '.join(late) if late else 'nowhere'}. Latencies count from when a read was "
        f"due. {scores.errors(data['grid'])} "
        + (
            "Each write went to every drive."
            if data.get("replicate_writes")
            else "Each drive had its own writes, and a read was compared with those of the drive "
            "that served it."
        )
    )
    return "\n\n".join(parts)


def numbers(data: dict[str, Any]) -> dict[str, Any]:
    """By how much the means of some are below everyone's, by workload, as [share, low, high]."""
    return {
        cell["workload"]: {name: cell["below"][name] for name in KEPT if name in cell["below"]}
        for cell in data["cells"]
    }


def drawn(cell: dict[str, Any]) -> dict[str, str]:
    """Whom the picture shows, and by what name: doing nothing, the best rivals, ours, a bound.

    All others stand in the cell's table.
    """
    shown = {"baseline": "baseline"}
    for most_extra, what in ((LITTLE, "best rival, 5 %"), (math.inf, "best rival")):
        rival = scores.best_rival(cell, most_extra=most_extra)
        shown[rival] = f"{rival}\n({what})"
    shown |= {name: name for name in ("linnos", "lowest", "lowest-two, 5% cap", "oracle")}
    return {name: said for name, said in shown.items() if name in cell["policies"]}


def draw(data: dict[str, Any], path: Path) -> None:
    """Dots of the mean, ranked, one panel a cell; whiskers are the 95 % intervals."""
    by_cell = {(cell["workload"], cell["array"]): cell for cell in data["cells"]}
    figure, panels = figures.grid_axes(list(by_cell), height=2.8)
    for where, cell in by_cell.items():
        axes, shown = panels[where], drawn(cell)
        ranked = sorted(shown, key=lambda name: cell["policies"][name]["mean_us"][0])
        for row, name in enumerate(ranked):
            triple = cell["policies"][name]["mean_us"]
            colour = figures.style(name).get("color", "grey")
            if triple[1] is not None:
                axes.plot(triple[1:], [row, row], color=colour, linewidth=1.5)
            ours = name in OURS
            axes.plot(triple[0], row, "o" if ours else "s", color=colour, markersize=6)
            axes.annotate(
                f"{triple[0]:.0f}", (triple[0], row), (0, 5), textcoords="offset points",
                ha="center", fontsize=7, fontweight="bold" if ours else "normal",
            )  # fmt: skip
        axes.set_yticks(range(len(ranked)), [shown[name] for name in ranked], fontsize=8)
        for tick, name in zip(axes.get_yticklabels(), ranked, strict=True):
            tick.set_fontweight("bold" if name in OURS else "normal")
        axes.set_ylim(len(ranked) - 0.5, -0.7)
        axes.set_xlim(left=0)
        axes.grid(axis="x", alpha=0.3)
        axes.set_title(f"{where[0]} on {where[1]}", fontsize=9)
        axes.set_xlabel("mean read latency (us), 95 % interval", fontsize=8)
    figure.tight_layout()
    figures.save(figure, path)


EXPERIMENT = Experiment(
    name="fig08",
    title="Mean read latency, all policies and bounds",
    source="LinnOS Fig. 8",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper="LinnOS with hedging lowers the average latency by 9.6 to 79.6 % compared to hedging at "
    "p95, 14.2 to 49.5 % to hedging at the inflection point, 10.7 to 71.2 % to the advanced "
    "heuristic, on all eight workloads.",
    differs="Emulated drives and generated workloads with the figures of the paper's Table 1, "
    "not its production traces on real SSDs. On the enterprise array each ten seconds of a "
    "workload are represented by their first part. The rivals run as published and with extra I/O "
    "capped at 5 %; `heuristic-adv` is tuned on the recording. The bounds are additions: `oracle` "
    "asks the emulator which replica would answer first, `verdict` whether each would be slow, and "
    "`learnt` is what boosted trees make of all that can be seen from outside, told from the reads "
    "for which `random` happened to choose as they would; `home, at random's load` is what reads "
    "that stayed at home took in that same replay.",
    sources=("eval/grid.py", "eval/contenders.py", "eval/heimdall.py", "eval/tuning.py",
             "eval/scores.py", "eval/intervals.py", "eval/learnt.py"),
    numbers=numbers,
    pages=fig08_pages.committed,
)  # fmt: skip
