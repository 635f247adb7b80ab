# SPDX-License-Identifier: MIT
"""``linnapp train``: train one model per drive of an array."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from linnapp.commands._options import check_kind, kind_option, recipe_from, recipe_options
from linnapp.option_types import FOLDER, PATH

if TYPE_CHECKING:
    from linnapp.learn.options import Kind


@click.command()
@click.option(
    "--trace",
    "traces",
    type=PATH,
    multiple=True,
    required=True,
    help="A drive's blktrace recording; once per drive of the array.",
)
@click.option(
    "-o",
    "--output",
    type=FOLDER,
    help="Directory for the models; models/<trace> for a single trace.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 1024),
    help="Drives at once; the number of CPUs if not given.",
)
@kind_option
@recipe_options
@click.pass_context
def train(
    context: click.Context,
    /,
    traces: tuple[Path, ...],
    output: Path | None,
    processes: int | None,
    kind: Kind,
    **options: Any,
) -> None:
    """Train one model per drive, to DIR/<trace>.linnos, with a record of it in DIR/<trace>.json.

    The library takes more options (docs/library.md).

    Several traces are the drives of one array, each other's replicas; their order does not matter.
    A single trace stands for its replicas too. Models of other drives in DIR stay. Ctrl-C keeps the
    best model so far; once more, or of a latency model, none.

    A network is held against predicting every read fast, on reads that it was not trained on. If
    that would be better for the array's mean latency, the drive gets no model, the exit status is
    1, and what DIR held of it stays. A network that refuses more of the fast reads than
    --max-refused has its margin raised: by how much its output for slow must be the larger one.
    """
    if output is None and len(traces) > 1:
        raise click.UsageError("several traces: name the directory of their models with -o")
    check_kind(context, kind)

    from linnapp.commands._training import TrainingDisplay
    from linnapp.errors import NoGainError
    from linnapp.learn.fit import train_array
    from linnapp.trace.reads import drive_name

    directory = output or Path("models") / drive_name(traces[0])
    display = TrainingDisplay()
    for drive in train_array(
        traces, directory, recipe_from(options, kind), observer=display, processes=processes
    ):
        click.echo(directory / f"{drive}.linnos")
    if display.without_model:
        raise NoGainError(f"no model for {', '.join(display.without_model)}: see above")
