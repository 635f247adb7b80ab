# SPDX-License-Identifier: MIT
"""Figure of a drive's inflection point: CDF (top), candidates and their areas (bottom)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from linnapp.errors import needs
from linnapp.figures import in_plain_numbers, save
from linnapp.files import AnyPath, os_errors
from linnapp.learn.labelling.inflection import InflectionPoint, LatencyDistribution


def draw(
    path: AnyPath, drive: str, distribution: LatencyDistribution, point: InflectionPoint
) -> None:
    """Write the figure as a PNG file."""
    path = Path(path)
    with needs("figures need matplotlib", "matplotlib"):
        from matplotlib.figure import Figure
    percentiles = np.concatenate((np.arange(1, 99, 0.25), np.arange(99, 99.99, 0.01)))
    figure = Figure(figsize=(6.4, 6.4), layout="constrained")
    cdf, areas = figure.subplots(2, 1)
    # Set first: a logarithmic axis has a range even if all latencies are equal, a linear one does
    # not.
    cdf.set_xscale("log")
    cdf.plot(distribution.percentile_us(percentiles), percentiles, color="tab:blue")
    start_us = float(distribution.percentile_us(point.start_percentile))
    cdf.plot(start_us, point.start_percentile, "o", color="tab:gray", label="slope one")
    cdf.axvline(
        point.threshold_us,
        color="tab:red",
        label=f"inflection point, {point.threshold_us} us (p{point.percentile:.1f})",
    )
    in_plain_numbers(cdf.xaxis)
    cdf.set_xlabel("read latency, us")
    cdf.set_ylabel("reads, %")
    cdf.set_title(f"{drive}: {len(distribution)} reads")
    cdf.legend(loc="lower right")
    point.plot(areas)
    with os_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)
