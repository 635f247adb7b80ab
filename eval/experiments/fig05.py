# SPDX-License-Identifier: MIT
"""Inflection points: too low, too high and chosen; and their values per workload and drive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from eval import figures, grid, scores
from eval.cells import N_DRIVES, WORKLOADS, recorded
from eval.experiment import Context, Experiment, Table
from linnapp.learn.features.dataset import load_reads
from linnapp.learn.labelling.inflection import (
    FAILOVER_US,
    LabellingOptions,
    LatencyDistribution,
    find_inflection_points,
)
from linnapp.stats import mean_interval

#: Percentiles that stand for a point far too low and far too high.
TOO_LOW, TOO_HIGH = 50.0, 99.9

PARAMETERS: dict[str, Any] = {
    "workloads": WORKLOADS,
    **grid.PARTS,
    "shown": ("az-e", "enterprise"),
    "drawn": 200_000,
    "points": 400,
}


def run(context: Context) -> dict[str, Any]:
    """Label every recording of Fig. 8; draw three points of one of them."""
    cells = grid.cells(context.seeds, PARAMETERS["workloads"])
    folders = context.map(lambda cell: recorded(context.cache, cell), cells, "recording")
    rows, shown = [], None
    for cell, folder in zip(cells, folders, strict=True):
        distributions = [
            LatencyDistribution(load_reads(folder / "record" / f"flash{k}.blk").latency_us)
            for k in range(N_DRIVES)
        ]
        points = find_inflection_points(distributions)
        papers = find_inflection_points(distributions, LabellingOptions(search="paper"))
        for drive, (point, distribution) in enumerate(zip(points, distributions, strict=True)):
            rows.append(
                {
                    **grid.where(cell),
                    "drive": drive,
                    "reads": len(distribution),
                    "threshold_us": point.threshold_us,
                    "percentile": point.percentile,
                    "paper_percentile": papers[drive].percentile,
                    "slow_ratio": point.slow_ratio,
                    "lowest_candidate": float(point.candidate_percentiles[0]),
                    "start_percentile": point.start_percentile,
                    "at_edge": point.at_edge,
                    "gain_us": point.boost_area_us / N_DRIVES,
                    "mean_us": distribution.mean_us,
                }
            )
        if shown is None and (cell.workload, cell.array) == PARAMETERS["shown"]:
            shown = _three_points(distributions, points[0], cell.seed)
    return {"rows": rows, "shown": shown, "runs": []}


def _three_points(
    distributions: list[LatencyDistribution], chosen: Any, seed: int
) -> dict[str, Any]:
    """The first drive's CDF without admission control and with three thresholds."""
    first = distributions[0]
    percentiles = chosen.candidate_percentiles
    low, high = TOO_LOW, TOO_HIGH
    thresholds = {
        "too low": float(first.percentile_us(low)),
        "chosen": float(chosen.threshold_us),
        "too high": float(first.percentile_us(high)),
    }
    rng = np.random.default_rng(seed)
    draws = [distribution.draw(PARAMETERS["drawn"], rng) for distribution in distributions]
    grid = np.linspace(0.5, 99.95, PARAMETERS["points"])
    curves = {"without": np.percentile(draws[0], grid).tolist()}
    means = {"without": float(draws[0].mean())}
    for name, threshold_us in thresholds.items():
        latency_us: NDArray[np.float64] = draws[-1]
        for drawn in reversed(draws[:-1]):
            latency_us = np.where(drawn > threshold_us, FAILOVER_US + latency_us, drawn)
        curves[name] = np.percentile(latency_us, grid).tolist()
        means[name] = float(latency_us.mean())
    return {
        "percentile_grid": grid.tolist(),
        "curves_us": curves,
        "mean_us": means,
        "threshold_us": thresholds,
        "percentile": {"too low": low, "chosen": chosen.percentile, "too high": high},
        "candidate_percentiles": percentiles.tolist(),
        "candidate_areas_us": chosen.candidate_areas_us.tolist(),
    }


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Percentile and latency of the inflection point of every drive."""
    drives: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in data["rows"]:
        drives.setdefault((row["workload"], row["array"], row["drive"]), []).append(row)
    n_seeds = max((len(rows) for rows in drives.values()), default=0)
    return {
        "Inflection points (percentile: us), one column a seed": Table(
            ("workload", "array", "drive", *(f"seed {i + 1}" for i in range(n_seeds)),
             "percentile, mean", "slow reads", "percentile by the paper's search, mean"),
            tuple(
                (
                    workload, array, str(drive),
                    *(f"p{row['percentile']:.1f}: {row['threshold_us']}" for row in rows),
                    scores.number(mean_interval([row["percentile"] for row in rows]).to_json(), 1),
                    scores.percent(mean_interval([row["slow_ratio"] for row in rows]).to_json(), 1),
                    scores.number(
                        mean_interval([row["paper_percentile"] for row in rows]).to_json(), 1
                    ),
                )
                for (workload, array, drive), rows in drives.items()
            ),
        )
    }  # fmt: skip


def reading(data: dict[str, Any]) -> str:
    """The range of the points, and what a wrong one costs."""
    percentiles = [row["percentile"] for row in data["rows"]]
    papers = [row["paper_percentile"] for row in data["rows"]]
    at_top = sum(row["percentile"] >= 99.85 for row in data["rows"])
    at_bottom = sum(row["percentile"] < row["lowest_candidate"] + 0.15 for row in data["rows"])
    shown = data["shown"]
    means = shown["mean_us"]
    return (
        f"Inflection points lie from p{min(percentiles):.1f} to p{max(percentiles):.1f}, median "
        f"p{float(np.median(percentiles)):.1f}, over {len(percentiles)} recordings of a drive; "
        f"{at_top} of them at the top of what was searched and {at_bottom} at its bottom. The "
        "search begins where the CDF's slope is one and goes on while the best candidate is the "
        "last one tried: with a failover as cheap as 15 us it pays to revoke more than the "
        "paper's ten percentiles around that point allow. Held to those, they lie from "
        f"p{min(papers):.1f} to p{max(papers):.1f}, median p{float(np.median(papers)):.1f}.\n\n"
        f"For {PARAMETERS['shown'][0]} on {PARAMETERS['shown'][1]}, first drive: without admission "
        f"control {means['without']:.1f} us on average; with one far too low "
        f"(p{shown['percentile']['too low']:.1f}) {means['too low']:.1f} us, with the chosen one "
        f"(p{shown['percentile']['chosen']:.1f}, {shown['threshold_us']['chosen']:.0f} us) "
        f"{means['chosen']:.1f} us, with one far too high (p{shown['percentile']['too high']:.1f}) "
        f"{means['too high']:.1f} us. These are simulations that know each read's latency, as the "
        "algorithm has it: an upper bound of what a predictor could gain."
    )


def draw(data: dict[str, Any], path: Path) -> None:
    """CDFs with three thresholds, the area against the threshold, and all points."""
    shown = data["shown"]
    figure, panels = plt.subplots(1, 3, figsize=(16, 4.5))
    axes = panels[0]
    for name, curve in shown["curves_us"].items():
        label = f"{name}: mean {shown['mean_us'][name]:.0f} us"
        axes.plot(curve, shown["percentile_grid"], label=label)
    axes.set(xscale="log", xlabel="read latency (us)", ylabel="percentile")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    axes = panels[1]
    axes.plot(shown["candidate_percentiles"], shown["candidate_areas_us"])
    axes.axvline(shown["percentile"]["chosen"], color="black", linestyle=":")
    axes.set(xlabel="candidate percentile", ylabel="boost area (us)")
    axes.grid(alpha=0.3)
    axes = panels[2]
    cells = list(dict.fromkeys((row["workload"], row["array"]) for row in data["rows"]))
    for row in data["rows"]:
        x = cells.index((row["workload"], row["array"])) + 0.15 * (row["drive"] - 1)
        axes.plot(x, row["percentile"], ".", color=f"C{row['drive']}")
    axes.set_xticks(range(len(cells)), [f"{w}\n{a}" for w, a in cells], fontsize=6)
    axes.set_ylabel("percentile of the inflection point")
    axes.set_title("every drive and repeat", fontsize=9)
    axes.grid(alpha=0.3, axis="y")
    figure.tight_layout()
    figures.save(figure, path)


EXPERIMENT = Experiment(
    name="fig05",
    title="Inflection points, and their values",
    source="LinnOS Fig. 5, Table 2",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper="Inflection points from p72.0 to p98.5.",
    differs="Emulated drives; five seeds.",
    sources=("eval/grid.py",),
)
