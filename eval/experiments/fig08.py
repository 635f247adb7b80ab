# SPDX-License-Identifier: MIT
"""Mean read latency of every policy: four workloads on two arrays, three repeats."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from eval import figures, grid
from eval.cells import POLICIES, RATES, WORKLOADS
from eval.experiment import Context, Experiment, Table
from eval.metrics import improvement, oracle_share, percent, quantiles

PARAMETERS: dict[str, Any] = {
    "workloads": WORKLOADS,
    "arrays": grid.ARRAYS,
    "policies": POLICIES,
    **grid.PARTS,
    "rates": RATES,
}


#: Repeats that are further apart than this share of their mean are told of.
WIDE = 0.3


def run(context: Context) -> dict[str, Any]:
    """Record and train every cell, then replay it under every policy."""
    return grid.data(grid.replay(context, PARAMETERS["policies"]))


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Means by cell and policy."""
    policies = list(dict.fromkeys(run_["policy"] for run_ in data["grid"]))
    by_cell = grid.means(data)
    mean_rows = [
        (f"{workload} on {array}", *(f"{values[policy]:.1f}" for policy in policies))
        for (workload, array), values in by_cell.items()
    ]
    share_rows = [
        (
            f"{workload} on {array}",
            *(
                percent(oracle_share(values[p], values["baseline"], values["oracle"]), 0)
                for p in policies
            ),
        )
        for (workload, array), values in by_cell.items()
    ]
    header = ("workload and array", *policies)
    repeats = [
        (
            run_["workload"], run_["array"], str(run_["seed"]), run_["policy"], str(run_["reads"]),
            f"{run_['mean_us']:.3f}", str(run_["revoked"]), str(run_["hedged"]),
        )
        for run_ in data["grid"]
    ]  # fmt: skip
    return {
        "Mean read latency (us), average of three repeats": Table(header, tuple(mean_rows)),
        "Share of the oracle's gain": Table(header, tuple(share_rows)),
        "Every repeat": Table(
            ("workload", "array", "seed", "policy", "reads", "mean_us", "revoked", "hedged"),
            tuple(repeats),
        ),
    }


def reading(data: dict[str, Any]) -> str:
    """Where LinnOS stands, won and lost."""
    by_cell = grid.means(data)
    parts = []
    others = [
        policy
        for policy in next(iter(by_cell.values()))
        if policy not in ("linnos", "linnos-hl", "linnos-h99", "oracle")
    ]
    for ours in ("linnos", "linnos-hl"):
        gains = {
            other: [improvement(values[ours], values[other]) for values in by_cell.values()]
            for other in others
        }
        parts.append(
            f"`{ours}` against each other policy, mean latency, worst and best of "
            f"{len(by_cell)} cells: "
            + ", ".join(
                f"{other} {percent(min(gain))} to {percent(max(gain))}"
                for other, gain in gains.items()
            )
            + "."
        )
        shares = [
            oracle_share(values[ours], values["baseline"], values["oracle"])
            for values in by_cell.values()
        ]
        low, middle, high = quantiles(shares, (0, 50, 100))
        parts.append(
            f"Of the oracle's gain over baseline it reaches {percent(low, 0)} to "
            f"{percent(high, 0)}, median {percent(middle, 0)}."
        )
        lost = [
            f"{workload} on {array} ({', '.join(o for o in others if values[o] < values[ours])})"
            for (workload, array), values in by_cell.items()
            if any(values[other] < values[ours] for other in others)
        ]
        parts.append(
            f"Cells where another policy has the lower mean: {'; '.join(lost) if lost else 'none'}."
        )
    spread = defaultdict(list)
    for run_ in data["grid"]:
        spread[run_["workload"], run_["array"], run_["policy"]].append(run_["mean_us"])
    width = {key: (max(v) - min(v)) / float(np.mean(v)) for key, v in spread.items()}
    workload, array, policy = max(width, key=lambda key: width[key])
    wide = sum(w > WIDE for w in width.values())
    errors = sum(run_["data_errors"] + run_["io_errors"] for run_ in data["grid"])
    parts.append(
        f"The repeats of a bar, each with drives, workload and training of its own, differ by "
        f"{percent(float(np.median(list(width.values()))))} of their mean in the median, by more "
        f"than {percent(WIDE, 0)} in {wide} of {len(width)} bars, most for `{policy}` at "
        f"{workload} on {array} ({percent(width[workload, array, policy])}). "
        f"Data and I/O errors: {errors}."
    )
    return "\n\n".join(parts)


def draw(data: dict[str, Any], path: Path) -> None:
    """Bars of the mean, one panel a cell; whiskers from the least to the most of the repeats."""
    cells = figures.by_cell(data)
    figure, panels = figures.grid_axes(cells)
    for cell, policies in cells.items():
        axes = panels[cell]
        for i, (policy, runs) in enumerate(policies.items()):
            means = [run["mean_us"] for run in runs]
            middle = float(np.mean(means))
            axes.bar(i, middle, color=figures.style(policy).get("color", "grey"))
            axes.plot([i, i], [min(means), max(means)], color="black", linewidth=1)
        axes.set_xticks(range(len(policies)), list(policies), rotation=60, ha="right", fontsize=7)
        axes.set_title(f"{cell[0]} on {cell[1]}", fontsize=9)
        axes.set_ylabel("mean read latency (us)", fontsize=8)
    figure.tight_layout()
    figures.save(figure, path)


EXPERIMENT = Experiment(
    name="fig08",
    title="Mean read latency, all policies",
    source="LinnOS Fig. 8",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper="LinnOS lowers the average latency by 9.6 to 79.6 % compared to hedging and heuristic "
    "policies (abstract).",
    differs="Emulated drives of 1 GiB and generated workloads with the statistics of the paper's, "
    "not its production traces on real SSDs; the bars are means over three seeds of drives and "
    "workload alike. The oracle is an addition.",
    sources=("eval/grid.py",),
)
