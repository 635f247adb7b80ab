# SPDX-License-Identifier: MIT
"""``linnapp label``: find the inflection points of an array's drives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from linnapp.commands._options import labelling_options, reader_options, traces_option
from linnapp.errors import as_options


@click.command()
@traces_option("A drive's blktrace recording; once per drive of the array.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@labelling_options
@reader_options
def label(
    traces: tuple[Path, ...],
    as_json: bool,
    device: str | None,
    allow_truncated: bool,
    **labelling: Any,
) -> None:
    """Find the inflection points of an array's drives.

    A read that takes longer than the point is slow. The point of a drive is the latency at which
    admission control over the replicas lowers the array's read latency most. Several traces are
    replicas of each other; a single trace also represents its replicas. A refused read goes to a
    random other drive, so the order of the traces does not matter. A warning is printed if a point
    is lower than the drive's median. The command uses whole traces; training uses only the part
    that it trains on.
    """
    from linnapp.learn.fit import drive_names, read_latencies
    from linnapp.learn.labels import find_inflection_points
    from linnapp.learn.options import LabellingOptions, Recipe
    from linnapp.trace.blktrace import losses_of

    options = LabellingOptions(**labelling)
    recipe = Recipe(options, reader={"device": device, "allow_truncated": allow_truncated})
    names = drive_names(traces)
    distributions = [read_latencies(trace, recipe, whole=True) for trace in traces]
    points = find_inflection_points(distributions, options)
    rows = [
        {
            "drive": name,
            "reads": len(distribution),
            "threshold_us": point.threshold_us,
            "percentile": round(point.percentile, 2),
            "start_percentile": round(point.start_percentile, 2),
            "searched_percentiles": [round(end, 2) for end in point.searched_percentiles],
            "search_ended_at_edge": point.at_edge,
            "replicas": point.replicas,
            "slow_ratio": point.slow_ratio,
            "boost_area_us": point.boost_area_us,
            **losses_of(trace),
        }
        for trace, name, distribution, point in zip(
            traces, names, distributions, points, strict=True
        )
    ]
    for name, point in zip(names, points, strict=True):
        if warning := point.warning(name):
            click.echo(as_options(warning), err=True)
    if as_json:
        click.echo(json.dumps({**labelling, "drives": rows}, indent=1))
        return
    click.echo(
        f"{'drive':12} {'reads':>9} {'point':>10} {'percentile':>10} {'slow':>8} {'boost':>10}"
    )
    for row in rows:
        click.echo(
            f"{row['drive']:12} {row['reads']:9d} {row['threshold_us']:7d} us "
            f"{row['percentile']:10.1f} {row['slow_ratio']:8.2%} {row['boost_area_us']:7.1f} us"
        )
