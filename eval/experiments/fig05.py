# SPDX-License-Identifier: MIT
"""Inflection points of every drive, and mean latencies with points too low and too high."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval import figures, grid
from eval.cells import N_DRIVES, WORKLOADS, recorded
from eval.experiment import Context
from eval.long_table import LongTable
from eval.study import Study, load_study_texts
from linnapp.learn.examples import load_reads
from linnapp.learn.labels import LatencyDistribution, find_inflection_points
from linnapp.learn.options import FAILOVER_US, LabellingOptions
from linnapp.stats import Interval

#: Percentiles that are far too low and far too high for an inflection point.
TOO_LOW, TOO_HIGH = 50.0, 99.9

#: The paper's inflection points, in percentiles.
PAPERS_RANGE = (72.0, 98.5)

#: Reads that are drawn to simulate admission control with a given point.
N_DRAWN = 200_000


def measure(context: Context, *, workload: str, policy: str, seed: int) -> list[dict[str, Any]]:
    """Find the inflection points of the drives, by our search and by the paper's."""
    folder = recorded(context.cache, grid.cell(workload, seed)) / "record"
    distributions = [
        LatencyDistribution(load_reads(folder / f"flash{drive}.blk").latency_us)
        for drive in range(N_DRIVES)
    ]
    points = find_inflection_points(distributions)
    of_paper = find_inflection_points(distributions, LabellingOptions(search="paper"))
    rows: list[dict[str, Any]] = [
        {
            "drive": drive,
            "percentile": points[drive].percentile,
            "threshold_us": points[drive].threshold_us,
            "slow_ratio": points[drive].slow_ratio,
            "paper_percentile": of_paper[drive].percentile,
        }
        for drive in range(N_DRIVES)
    ]
    rows[0].update(simulated_means(distributions, points[0].threshold_us, seed))
    return rows


def simulated_means(
    distributions: list[LatencyDistribution], chosen_us: float, seed: int
) -> dict[str, float]:
    """Return the mean latency of the first drive's reads for several points.

    A read that is slower than the point is redirected to the next drive. The simulation knows each
    read's latency, as the paper's algorithm does: it is an upper bound of a predictor's gain.
    """
    rng = np.random.default_rng(seed)
    draws = [distribution.draw(N_DRAWN, rng) for distribution in distributions]
    points: dict[str, float] = {
        "without_us": np.inf,
        "too_low_us": float(distributions[0].percentile_us(TOO_LOW)),
        "chosen_us": chosen_us,
        "too_high_us": float(distributions[0].percentile_us(TOO_HIGH)),
    }
    means = {}
    for name, point_us in points.items():
        latency_us: NDArray[np.float64] = draws[-1]
        for drawn in reversed(draws[:-1]):
            latency_us = np.where(drawn > point_us, FAILOVER_US + latency_us, drawn)
        means[name] = float(latency_us.mean())
    return means


def draw(table: LongTable, path: Path) -> None:
    """Draw the points of the paper's search in the paper's range, a point for each drive."""
    cases: dict[str, dict[str, Interval]] = {}
    for workload, drive in table.places:
        found = table.get((workload, drive), "", "paper_percentile")
        if found is not None:
            cases.setdefault(workload, {})[drive] = found
    title = "inflection point by the paper's search, percentile"
    figures.draw_ranges(dict.fromkeys(cases, PAPERS_RANGE), cases, 1.0, path, title)


EXPERIMENT = Study(
    **load_study_texts("fig05"),
    figure=draw,
    factors={"workload": WORKLOADS},
    groups=(("workload", "drive"),),
    cell=measure,
    prepare=grid.record_place,
)
