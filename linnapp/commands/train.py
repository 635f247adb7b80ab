# SPDX-License-Identifier: MIT
"""``linnapp train``: one model per drive of an array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from linnapp.commands._options import labelling_options, reader_options


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
    "--bias",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="How much worse a false submit is than a false revoke.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--epochs", type=click.IntRange(1), default=60, show_default=True, help="At most.")
@click.option(
    "--patience",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Stop after so many epochs without a better validation loss.",
)
@click.option(
    "--validation",
    type=click.FloatRange(0.01, 0.9),
    default=0.2,
    show_default=True,
    help="Share of the trace, its end, kept for validation.",
)
@labelling_options
@reader_options
def train(
    traces: tuple[Path, ...],
    output: Path | None,
    bias: float,
    seed: int,
    epochs: int,
    patience: int,
    validation: float,
    method: str,
    replicas: int,
    failover_us: float,
    **reader: Any,
) -> None:
    """Train one model per drive, to DIR/<trace>.linnos, with a record of it in DIR/<trace>.json.

    Several traces are the drives of one array, each other's replicas. A single trace stands for
    its replicas too. Ctrl-C keeps the best model so far.
    """
    if output is None and len(traces) > 1:
        raise click.UsageError("several traces: name the directory of their models with -o")

    from linnapp.array_training import LabellingOptions, drive_name, train_array
    from linnapp.commands._display import TrainingDisplay
    from linnapp.training import TrainingOptions

    directory = output or Path("models") / drive_name(traces[0])
    train_array(
        traces,
        directory,
        labelling=LabellingOptions(method, replicas, failover_us),  # type: ignore[arg-type]
        options=TrainingOptions(
            bias=bias,
            seed=seed,
            max_epochs=epochs,
            patience_epochs=patience,
            validation_share=validation,
        ),
        observer=TrainingDisplay(),
        **reader,
    )
    for model in sorted(directory.glob("*.linnos")):
        click.echo(model)
