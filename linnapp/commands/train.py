# SPDX-License-Identifier: MIT
"""``linnapp train``: one model per drive of an array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from linnapp.commands._options import recipe_from, recipe_options


@click.command()
@click.option(
    "--trace",
    "traces",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    help="A drive's blktrace recording; once per drive of the array.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory for the models; models/<trace> for a single trace.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 1024),
    help="Drives at once; the number of CPUs if not given.",
)
@recipe_options
def train(
    traces: tuple[Path, ...], output: Path | None, processes: int | None, **options: Any
) -> None:
    """Train one model per drive, to DIR/<trace>.linnos, with a record of it in DIR/<trace>.json.

    Several traces are the drives of one array, each other's replicas. A single trace stands for
    its replicas too. Ctrl-C keeps the best model so far.
    """
    if output is None and len(traces) > 1:
        raise click.UsageError("several traces: name the directory of their models with -o")

    from linnapp.commands._display import TrainingDisplay
    from linnapp.learn.recipe import train_array
    from linnapp.trace.recorded import drive_name

    directory = output or Path("models") / drive_name(traces[0])
    recipe = recipe_from(options)
    for drive in train_array(
        traces, directory, recipe, observer=TrainingDisplay(), processes=processes
    ):
        click.echo(directory / f"{drive}.linnos")
