# SPDX-License-Identifier: MIT
"""Fig. 8 once more, with replicas that are given the same writes.

In Fig. 8, as in the paper, three traces are replayed on three drives and each drive has the writes
of its own trace: what they make slow is slow on one replica. Replicas of one volume are written
alike. Here each write goes to all three drives, and of each trace's writes one in three is left, so
that a drive is given as many as in Fig. 8 and nothing differs but what replicas have in common.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from eval import figures, scores
from eval.cache import RESULTS
from eval.experiment import Context, Experiment, Table
from eval.experiments import fig08, fig08_pages
from eval.work import StepError
from linnapp.stats import Interval

#: Whose gains over baseline are set beside those of Fig. 8.
COMPARED = fig08.KEPT

OWN, REPLICATED = "own writes", "replicated"


def run(context: Context) -> dict[str, Any]:
    """Fig. 8 with replicated writes, and what it has without."""
    return {**fig08.run(context, replicate_writes=True), "own_writes": _own_writes(context)}


def _own_writes(context: Context) -> dict[str, Any]:
    """How far below baseline policies are in Fig. 8: in this run, else as committed."""
    try:
        numbers, where = fig08.numbers(context.data_of("fig08")), "of the same run"
    except StepError:
        # What is committed is of other seeds than development's.
        committed = json.loads((RESULTS / "fig08.json").read_text())
        numbers = {} if context.development else committed["numbers"]
        where = "not run" if context.development else "as committed"
    below = {
        workload: {name: by_name[name]["baseline"] for name in COMPARED if name in by_name}
        for workload, by_name in numbers.items()
    }
    return {"where": where, "below_baseline": below}


def gains(data: dict[str, Any], cell: dict[str, Any], policy: str) -> tuple[Any, Any]:
    """How far a policy's mean is below baseline with own and with replicated writes, or None."""
    own = data["own_writes"]["below_baseline"].get(cell["workload"], {})
    return own.get(policy), cell["below"].get(policy, {}).get("baseline")


def beside_table(data: dict[str, Any]) -> Table:
    """A row a cell: how far below baseline, with own and with replicated writes."""
    return Table(
        ("workload and array", *(f"{name}, {kind}" for name in COMPARED
                                 for kind in (OWN, REPLICATED))),
        tuple(
            (
                fig08.label(cell),
                *(
                    scores.percent(gain)
                    for name in COMPARED
                    for gain in gains(data, cell, name)
                ),
            )
            for cell in data["cells"]
        ),
    )  # fmt: skip


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Beside Fig. 8; then all that Fig. 8 has."""
    beside = f"Mean below baseline's: each drive its own writes (Fig. 8, {_where(data)}), or all"
    return {beside: beside_table(data), **fig08.table(data)}


def _where(data: dict[str, Any]) -> str:
    return str(data["own_writes"]["where"])


def reading(data: dict[str, Any]) -> str:
    """What changes, and what Fig. 8 says."""
    return f"{what_changes(data)}\n\n{fig08.reading(data)}"


def what_changes(data: dict[str, Any]) -> str:
    """In how many cells a policy gains less over baseline where replicas are written alike."""
    parts = []
    for name in COMPARED:
        pairs = [gains(data, cell, name) for cell in data["cells"]]
        both = [(own[0], same[0]) for own, same in pairs if own and same]
        if both:
            own, same = (100 * float(np.median(values)) for values in zip(*both, strict=True))
            less = sum(b < a for a, b in both)
            parts.append(
                f"`{name}` {own:.0f} and {same:.0f} %, less with them in {less} of {len(both)}"
            )
    if not parts:
        return "Nothing to set beside it: Fig. 8 has not run."
    return (
        "By how much the mean is below baseline's in the median cell, where each drive has its own "
        f"writes (Fig. 8, {_where(data)}) and where each write goes to every drive: "
        + "; ".join(parts)
        + "."
    )


def draw(data: dict[str, Any], path: Path) -> None:
    """How far below baseline, with own and with replicated writes; a panel a policy."""
    shown = fig08.OURS
    figure, panels = plt.subplots(
        1, len(shown), figsize=(3 * len(shown), 3.5), sharey=True, squeeze=False
    )
    cells = data["cells"]
    for axes, name in zip(panels[0], shown, strict=True):
        for at, cell in enumerate(cells):
            for side, (gain, kind) in enumerate(
                zip(gains(data, cell, name), (OWN, REPLICATED), strict=True)
            ):
                if gain is None:
                    continue
                x = at + 0.3 * side - 0.15
                found = Interval.from_json(gain)
                colour = figures.style(name).get("color", "grey")
                axes.plot(
                    x, 100 * found.value, "os"[side], color=colour, mfc=colour if side else "white",
                    label=None if at else kind,
                )  # fmt: skip
                axes.plot([x, x], [100 * found.low, 100 * found.high], color=colour, linewidth=0.8)
        axes.axhline(0, color="black", linewidth=0.5)
        axes.set_xticks(range(len(cells)), [cell["workload"] for cell in cells], rotation=60)
        axes.set_title(name, fontsize=9)
        axes.legend(fontsize=7)
    panels[0][0].set_ylabel("mean below baseline's (%)")
    figure.tight_layout()
    figures.save(figure, path)


EXPERIMENT = Experiment(
    name="replicated",
    title="Mean read latency where each write goes to every replica",
    parameters=fig08.PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    differs="Fig. 8 but for the writes: each goes to all three drives, and of each trace's writes "
    "one in three is left, drawn from the seed, in the recorded part as in the replayed one. So a "
    "drive is given as many writes as in Fig. 8, and models learn from what they will meet.",
    sources=("eval/experiments/fig08.py", *fig08.EXPERIMENT.sources),
    uses=("fig08",),
    numbers=fig08.numbers,
    pages=fig08_pages.committed,
)
