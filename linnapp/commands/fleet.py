# SPDX-License-Identifier: MIT
"""``linnapp fleet``: train the drives of many arrays on a Dask cluster."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from linnapp.commands._options import recipe_from, recipe_options
from linnapp.option_types import FOLDER, PATH


@click.command()
@click.argument("traces", nargs=-1, required=True, type=PATH, metavar="TRACE...")
@click.option(
    "-o", "--output", type=FOLDER, required=True, help="Gets <array>/<drive>.linnos and its record."
)
@click.option(
    "--scheduler", metavar="ADDRESS", help="A Dask scheduler; a local cluster if not given."
)
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes of the local cluster.")
@click.option(
    "--alone", is_flag=True, help="Every trace is an array of its own, not those of a directory."
)
@recipe_options
def fleet(
    traces: tuple[Path, ...],
    output: Path,
    scheduler: str | None,
    workers: int | None,
    alone: bool,
    **options: Any,
) -> None:
    """Train the drives of many arrays; the traces of one directory are one array.

    TRACE is a .blk file, or a directory that is searched for them. Drives that have a model and
    a record in DIR are left alone, so a fleet that was stopped goes on where it was.
    """
    if scheduler is not None and workers is not None:
        raise click.UsageError("--workers are those of a local cluster; --scheduler has its own")

    from linnapp.errors import LinnappError
    from linnapp.learn.fleet import Progress, group_by_directory, train_fleet

    found: list[Path] = []
    for path in traces:
        found += sorted(path.rglob("*.blk")) if path.is_dir() else [path]
    if not found:
        raise LinnappError(f"{', '.join(map(str, traces))}: no .blk file there")
    arrays = {path.stem: [path] for path in found} if alone else group_by_directory(found)
    if alone and len(arrays) < len(found):
        raise LinnappError("two traces have the same name; rename one, or drop --alone")
    start = time.monotonic()
    done = 0

    def show(progress: Progress) -> None:
        nonlocal done
        done += 1
        what = f"model {progress.model_id}" if progress.model_id else f"FAILED: {progress.error}"
        print(
            f"[{done}/{len(found)}] {time.monotonic() - start:7.1f} s  "
            f"{progress.array}/{progress.drive}: {what}",
            file=sys.stderr,
            flush=True,
        )

    results = train_fleet(
        arrays, output, recipe_from(options), scheduler=scheduler, workers=workers, on_progress=show
    )
    failed = sum(1 for progress in results if progress.error)
    click.echo(
        f"{len(results) - failed} of {len(found)} drives trained in "
        f"{time.monotonic() - start:.1f} s, {len(found) - len(results)} had a model, "
        f"{failed} failed"
    )
    if failed:
        raise LinnappError(f"{failed} drives failed; run the same command again for these")
