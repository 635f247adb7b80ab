# SPDX-License-Identifier: MIT
"""Random, continuous and interval slow I/Os, and their effect on latency over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from eval import contenders, figures, grid, scores
from eval.cells import read_log, replayed
from eval.experiment import GRID_SOURCES, NOT_AVAILABLE, Context, Experiment, Table
from linnapp.stats import Interval

RATIOS = (10,)
ADDED_US = (100, 1000)
POLICIES = contenders.INJECTED
PATTERNS = ("random", "continuous", "interval")

#: Reads of the drive in one cycle of the continuous pattern: a replay has two or three cycles.
PERIOD_IOS = 500

#: Seconds of the cell's second part, some six thousand reads of the first drive.
REPLAYED_S = {"az-c": 20.0, "az-e": 1.0}

#: Each with a seed of its own.
WORKLOADS = ("az-e", "az-c")

PARAMETERS: dict[str, Any] = {
    "workloads": WORKLOADS,
    **grid.PARTS,
    "replayed_s": REPLAYED_S,
    "ratios_percent": RATIOS,
    "added_us": ADDED_US,
    "patterns": PATTERNS,
    "period_ios": PERIOD_IOS,
    "policies": POLICIES,
    "series_added_us": 1000,
    "series_ratio_percent": 10,
    "series_bin_ms": 50,
}


def inject_spec(pattern: str, ratio_percent: int, added_us: int) -> str:
    """The replayer's injection; on the first drive only, as a drive that begins to fail."""
    how = {
        "random": f"ratio={ratio_percent}%",
        "continuous": f"ratio={ratio_percent}%,period_ios={PERIOD_IOS}",
        "interval": f"interval={100 // ratio_percent}",
    }[pattern]
    return f"{pattern}:{how},op=read,latency_us={added_us},drive=0"


def run(context: Context) -> dict[str, Any]:
    """Every pattern, ratio and latency under every policy; series of some of them."""
    p = PARAMETERS
    cells = grid.seed_a_workload(WORKLOADS, context.seeds)
    grid.prepare(context, cells)
    who = contenders.named(POLICIES)
    points = [("none", 0, 0)] + [
        (pattern, ratio, added) for pattern in PATTERNS for ratio in RATIOS for added in ADDED_US
    ]
    replays = [
        (pattern, ratio, added, grid.replay_of(
            context.cache, cell, contender,
            inject=inject_spec(pattern, ratio, added) if added else None,
            options=("--duration", f"{REPLAYED_S[cell.workload]:g}"),
            keep_log=(added, ratio) == (p["series_added_us"], p["series_ratio_percent"]),
        ))
        for cell in cells
        for pattern, ratio, added in points
        for contender in who
    ]  # fmt: skip
    done = context.map(lambda r: replayed(context.cache, r[3]), replays, "replaying")
    rows, series = [], []
    for (pattern, ratio, added, replay), result in zip(replays, done, strict=True):
        where = {
            **grid.where(replay.cell),
            "policy": replay.policy,
            "pattern": pattern,
        }
        rows.append(
            {
                **where, "ratio_percent": ratio, "added_us": added,
                **{key: result.summary[key] for key in ("mean_us", "p95_us", "p99_us", "p999_us",
                   "revoked", "reads", "false_submit_ratio", "extra_io_ratio", "data_errors",
                   "io_errors")},
            }
        )  # fmt: skip
        if replay.keep_log:
            series.append({**where, "mean_us": over_time(result.log)})
    n = len(who)
    pairs = [
        {
            **{key: rows[i][key] for key in ("workload", "array", "pattern", "ratio_percent",
                                             "added_us")},
            "compared": scores.compared(
                dict(zip(POLICIES, done[i : i + n], strict=True)),
                REPLAYED_S[rows[i]["workload"]], contenders.INJECTED_PAIRS,
            ),
        }
        for i in range(0, len(done), n)
    ]  # fmt: skip
    return {"points": rows, "pairs": pairs, "series": series, "bin_ms": p["series_bin_ms"],
            "runs": [result.summary for result in done]}  # fmt: skip


def over_time(log_path: Path) -> list[float | None]:
    """Mean of each stretch of time of the first drive's readers; the others hardly notice."""
    log = read_log(log_path)
    bins = (log["start_us"] / (1000 * PARAMETERS["series_bin_ms"])).astype(int)
    at_home = log["home"] == 0
    total = np.bincount(bins[at_home], log["latency_us"][at_home])
    count = np.bincount(bins[at_home])
    return [None if n == 0 else float(t / n) for t, n in zip(total, count, strict=True)]


#: Where and what: workload, array, pattern, share in percent, added latency.
Point = tuple[str, str, str, int, int]


def _by_point(data: dict[str, Any], key: str) -> dict[Point, dict[str, float]]:
    points: dict[Point, dict[str, float]] = {}
    for row in data["points"]:
        point = (
            row["workload"], row["array"], row["pattern"], row["ratio_percent"], row["added_us"]
        )  # fmt: skip
        points.setdefault(point, {})[row["policy"]] = row[key]
    return points


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Mean and p99 at every point."""
    tables = {}
    measured = {row["policy"] for row in data["points"]}
    policies = [policy for policy in POLICIES if policy in measured]
    for key, name in (("mean_us", "Mean"), ("p99_us", "p99")):
        tables[f"{name} read latency (us)"] = Table(
            ("workload", "array", "pattern", "share", "added us", *policies),
            tuple(
                (
                    workload, array, pattern, f"{ratio} %", str(added),
                    *(f"{values[p]:.1f}" for p in policies),
                )
                for (workload, array, pattern, ratio, added), values in _by_point(data, key).items()
            ),
        )  # fmt: skip
    tables["Mean below that of others, 95 % interval: a difference only where zero is outside"] = (
        Table(
            ("workload", "pattern", "share", "added us",
             *(f"{pair['policy']} below {pair['reference']}"
               for pair in data["pairs"][0]["compared"])),
            tuple(
                (
                    row["workload"], row["pattern"], f"{row['ratio_percent']} %",
                    str(row["added_us"]),
                    *(scores.percent(pair["below"], 1) for pair in row["compared"]),
                )
                for row in data["pairs"]
            ),
        )
    )  # fmt: skip
    return tables


def reading(data: dict[str, Any]) -> str:
    """Against whom `linnos` is below, and above."""
    parts = [
        f"`linnos` against {reference}: "
        + scores.by_verdict(
            (
                f"{row['workload']} {row['pattern']} {row['added_us']} us",
                Interval.from_json(pair["below"]),
            )
            for row in data["pairs"]
            for pair in row["compared"]
            if (pair["policy"], pair["reference"]) == ("linnos", reference)
        )
        + "."
        for reference in ("baseline", "hedge", "clone", "shortest-queue")
    ]
    parts.append(
        "All three patterns count reads or throw dice: a read that is kept from the drive leaves "
        "the slow one to the next. So the oracle, which decides read by read, is no bound here."
    )
    return "\n\n".join((*parts, scores.errors(data["points"])))


def draw(data: dict[str, Any], path: Path) -> None:
    """Mean against the added latency by pattern and array, and latency over time."""
    patterns = [p for p in dict.fromkeys(row["pattern"] for row in data["points"]) if p != "none"]
    ratios = sorted({row["ratio_percent"] for row in data["points"] if row["ratio_percent"]})
    arrays = list(dict.fromkeys(row["array"] for row in data["points"]))
    shown = data["series"][-1]["workload"], data["series"][-1]["array"]
    n_rows = len(ratios) * len(arrays) + 1
    figure, panels = plt.subplots(
        n_rows, len(patterns), squeeze=False, figsize=(5 * len(patterns), 3.2 * n_rows)
    )
    for i, pattern in enumerate(patterns):
        for j, (array, ratio) in enumerate((a, r) for a in arrays for r in ratios):
            axes = panels[j][i]
            curves: dict[str, dict[int, list[float]]] = {}
            for row in data["points"]:
                if (row["array"], row["pattern"], row["ratio_percent"]) == (array, pattern, ratio):
                    curve = curves.setdefault(row["policy"], {})
                    curve.setdefault(row["added_us"], []).append(row["mean_us"])
            for policy, curve in curves.items():
                axes.plot(
                    list(curve), [float(np.mean(values)) for values in curve.values()],
                    label=policy, marker=".", **figures.style(policy),
                )  # fmt: skip
            axes.set(xscale="log", yscale="log")
            axes.set_title(f"{array}: {pattern}, {ratio} % of the first drive's reads", fontsize=9)
            axes.set_xlabel("added latency (us)", fontsize=8)
            axes.set_ylabel("mean read latency (us)", fontsize=8)
            axes.grid(alpha=0.3, which="both")
        axes = panels[-1][i]
        for series in data["series"]:
            if (series["workload"], series["array"], series["pattern"]) == (*shown, pattern):
                values = [np.nan if v is None else v for v in series["mean_us"]]
                time_s = np.arange(len(values)) * data["bin_ms"] / 1000
                axes.plot(time_s, values, label=series["policy"], linewidth=0.8,
                          **figures.style(series["policy"]))  # fmt: skip
        axes.set_yscale("log")
        axes.set_title(f"{' on '.join(shown)}: {pattern}, first drive's readers", fontsize=9)
        axes.set_xlabel("time (s)", fontsize=8)
        axes.set_ylabel(f"mean of {data['bin_ms']} ms (us)", fontsize=8)
    panels[0][0].legend(fontsize=7)
    figure.tight_layout()
    figures.save(figure, path)


EXPERIMENT = Experiment(
    name="uscope",
    title="Slow I/Os by pattern, and latency over time",
    source="uScope Fig. 10, 11",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper=f"LinnOS predicts single slow I/Os, and loses accuracy on continuous ones; numbers: "
    f"{NOT_AVAILABLE}.",
    differs="Slow I/Os on one drive of the three; the cycle of the continuous pattern is "
    f"{PERIOD_IOS} reads, not 100 000, so that two or three fit into a replay.",
    sources=GRID_SOURCES,
)
