# SPDX-License-Identifier: MIT
"""LinnOS with hedging: at the smaller of p95 and 1 - false-submit ratio, and at p99."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eval import grid
from eval.experiment import NOT_AVAILABLE, Context, Experiment, Table
from eval.experiments import fig08, fig09
from eval.metrics import improvement, percent

POLICIES = ("hedge", "linnos", "linnos-hl", "linnos-h99", "oracle")
KEYS = ("mean_us", "p95_us", "p99_us", "p999_us")
PARAMETERS: dict[str, Any] = {**fig08.PARAMETERS, "policies": POLICIES}


def run(context: Context) -> dict[str, Any]:
    """Part of the replays of Fig. 8."""
    done = grid.replay(context, POLICIES)
    data = grid.data(done)
    for row, result in zip(data["grid"], done, strict=True):
        row["hedge_percentile"] = result.summary["config"].get("hedge_percentile")
    return data


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Mean, tail and price of each policy."""
    fields = {key: grid.means(data, key) for key in (*KEYS, "extra_io_ratio")}
    rows = []
    for cell in fields["mean_us"]:
        for policy in POLICIES:
            rows.append(
                (
                    f"{cell[0]} on {cell[1]}",
                    policy,
                    *(f"{fields[key][cell][policy]:.1f}" for key in KEYS),
                    percent(fields["extra_io_ratio"][cell][policy], 2),
                )
            )
    header = ("workload and array", "policy", "mean", "p95", "p99", "p99.9", "extra I/O")
    return {"Latency (us) and reads sent twice, average of the repeats": Table(header, tuple(rows))}


def reading(data: dict[str, Any]) -> str:
    """What hedging adds to LinnOS, and what it costs."""
    lines = []
    for key in KEYS:
        by_cell = grid.means(data, key)
        over_plain = [improvement(v["linnos-hl"], v["linnos"]) for v in by_cell.values()]
        over_h99 = [improvement(v["linnos-hl"], v["linnos-h99"]) for v in by_cell.values()]
        lines.append(
            f"{key}: `linnos-hl` is {percent(min(over_plain))} to {percent(max(over_plain))} below "
            f"`linnos` and {percent(min(over_h99))} to {percent(max(over_h99))} below `linnos-h99` "
            "(negative: above)."
        )
    extra = grid.means(data, "extra_io_ratio")
    lines.append(
        "Reads sent twice: "
        + ", ".join(
            f"`{policy}` up to {percent(max(v[policy] for v in extra.values()), 2)}"
            for policy in ("hedge", "linnos-hl", "linnos-h99")
        )
        + "."
    )
    return "\n\n".join(lines)


def draw(data: dict[str, Any], path: Path) -> None:
    """LinnOS with and without hedging: the tail, one panel a cell."""
    fig09.draw(data, path)


EXPERIMENT = Experiment(
    name="fig11",
    title="LinnOS with hedging at its false-submit rate, and at p99",
    source="LinnOS Fig. 11",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper=NOT_AVAILABLE,
    differs="As for Fig. 8. The budget on hedges is 5 % of the reads.",
    sources=("eval/grid.py",),
)
