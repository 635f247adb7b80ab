# SPDX-License-Identifier: MIT
"""``linnapp fleet``: train the drives of many arrays on a Dask cluster."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from linnapp.commands._options import check_kind, recipe_from, recipe_options
from linnapp.option_types import FOLDER, PATH

if TYPE_CHECKING:
    from linnapp.learn.options import Kind


@click.command()
@click.argument("traces", nargs=-1, required=True, type=PATH, metavar="TRACE...")
@click.option(
    "-o",
    "--output",
    type=FOLDER,
    required=True,
    help="Folder for <array>/<drive>.linnos and its record.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Address of a Dask scheduler; by default a local cluster is started.",
)
@click.option(
    "--workers", type=click.IntRange(1, 1024), help="Number of processes of the local cluster."
)
@click.option(
    "--kind",
    type=click.Choice(["latency", "network"]),
    default="latency",
    show_default=True,
    help="Latency models, or the paper's networks, which predict slow or fast.",
)
@recipe_options
@click.pass_context
def fleet(
    context: click.Context,
    /,
    traces: tuple[Path, ...],
    output: Path,
    scheduler: str | None,
    workers: int | None,
    kind: Kind,
    **options: Any,
) -> None:
    """Train the drives of many arrays. The traces of a directory belong to one array.

    TRACE is a .blk file, packed or not, or a directory that is searched for them. Drives that
    have a model and a record in DIR are skipped, so that an interrupted command can be continued.
    As with `linnapp train`, a drive gets no model if none has a benefit.
    """
    check_kind(context, kind)
    if scheduler is not None and workers is not None:
        raise click.UsageError(
            "--workers applies to a local cluster; leave it out with --scheduler"
        )

    from linnapp.errors import LinnappError
    from linnapp.learn.fleet import group_by_directory, train_fleet
    from linnapp.learn.labels import LOWEST_PERCENTILE
    from linnapp.trace.blktrace import SUFFIXES

    found: list[Path] = []
    ends = [f".blk{suffix}" for suffix in ("", *SUFFIXES)]
    for path in traces:
        named = (each for end in ends for each in path.rglob(f"*{end}"))
        found += sorted(named) if path.is_dir() else [path]
    if not found:
        raise LinnappError(f"{', '.join(map(str, traces))}: no .blk file there")
    start = time.monotonic()
    n_done = n_trained = n_failed = 0
    for result in train_fleet(
        group_by_directory(found),
        output,
        recipe_from(options, kind),
        scheduler=scheduler,
        workers=workers,
    ):
        n_done += 1
        n_trained += result.model is not None
        n_failed += result.failed
        if result.model is None:
            error = str(result.error) or repr(result.error)
            outcome = f"{'FAILED' if result.failed else 'no model'}: {error}"
        else:
            outcome = f"model {result.model.model_id}"
            percentile = result.model.record_["threshold_percentile"]
            if percentile < LOWEST_PERCENTILE:
                outcome += (
                    f"; WARNING: its inflection point is at p{percentile:.1f}, below the median, "
                    "and it may refuse most reads (linnapp help labelling)"
                )
        print(
            f"[{n_done}/{len(found)}] {time.monotonic() - start:7.1f} s  "
            f"{result.array}/{result.drive}: {outcome}",
            file=sys.stderr,
            flush=True,
        )
    click.echo(
        f"{n_trained} of {len(found)} drives trained in {time.monotonic() - start:.1f} s; "
        f"{len(found) - n_done} already had a model, for {n_done - n_trained - n_failed} no model "
        f"is better, {n_failed} failed"
    )
    if n_failed:
        raise LinnappError(f"{n_failed} drives failed; run the same command again for these")
