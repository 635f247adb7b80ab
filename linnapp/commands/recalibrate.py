# SPDX-License-Identifier: MIT
"""``linnapp recalibrate``: keep an array's models current."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

import click

from linnapp.commands._options import conf_option, recipe_from, recipe_options, recordings_option
from linnapp.option_types import DRIVE, FOLDER, FiniteRange


@click.command()
@click.argument("devices", nargs=-1, required=True, type=DRIVE, metavar="DEV...")
@click.option(
    "--models",
    type=FOLDER,
    default=Path("/var/lib/linnapp/models"),
    help="Directory for new models.",
)
@click.option(
    "--duration", type=FiniteRange(0, 1e6, min_open=True), default=60.0, help="Seconds to record."
)
@click.option(
    "--shift",
    type=FiniteRange(0, 100),
    default=5.0,
    help="Retrain when the inflection point has moved by this many percentiles.",
)
@click.option(
    "--kind",
    type=click.Choice(["network", "latency"]),
    help="Kind of the new models; by default the active kind, or a network if there is none. "
    "Latency models are trained each time, without --shift.",
)
@recordings_option
@conf_option
@recipe_options
def recalibrate(
    devices: tuple[Path, ...],
    models: Path,
    duration: float,
    shift: float,
    kind: Literal["network", "latency"] | None,
    recordings: Path | None,
    conf: Path,
    **options: Any,
) -> None:
    """Record the array's drives again, retrain, and upload the models that are better.

    DEV... are the drives of one array, each other's replicas. A network is retrained if its
    inflection point has moved, a latency model each time. A drive keeps its active model until a
    new one is complete and serves the newest reads significantly better. This can be shown by a
    recording of at least 54 seconds and 5,400 reads. Ctrl-C uploads nothing. Decisions are logged
    to stderr and to recalibration.jsonl in the drive's state. During the recording, drives in
    enforce are set to observe and md's linnos to off, so that slow reads are recorded too; both are
    restored afterwards, also if the command is killed. Drives in drives.conf get their new model
    there, too. A recording is refused if more than 1 % is missing: see `linnapp help traces`.
    """
    from linnapp.drive.maintain import recalibrate as run_once

    def log(line: str) -> None:
        click.echo(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}", err=True)

    run_once(
        devices,
        models,
        recipe_from(options),
        duration_s=duration,
        shift_percentiles=shift,
        kind=kind,
        recordings=recordings,
        conf_path=conf,
        log=log,
    )
