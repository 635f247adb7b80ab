# SPDX-License-Identifier: MIT
"""``linnapp enable``: record, train and upload, so that an array reads from the best mirror."""

from __future__ import annotations

from pathlib import Path

import click

from linnapp.commands._options import conf_option, recordings_option
from linnapp.option_types import FiniteRange
from linnapp.terminal import StatusLine


@click.command()
@click.argument("devices", nargs=-1, required=True, metavar="/dev/mdN | DRIVE...")
@click.option(
    "--for",
    "for_s",
    type=FiniteRange(0, 1e6, min_open=True),
    # Three of the checkpoints that databases make every five minutes, and enough reads from a rate
    # of 1.6 per second and drive.
    default=900.0,
    help="Seconds to record, under the usual load, including what makes the drives slow.",
)
@recordings_option
@conf_option
@click.option("--dry-run", is_flag=True, help="Check, print the steps, and change nothing.")
def enable(
    devices: tuple[str, ...], for_s: float, recordings: Path | None, conf: Path, dry_run: bool
) -> None:
    """Make an md array read from the mirror that is predicted to answer first.

    The command checks the array, records its own load, trains a latency model for each mirror, and
    evaluates the models on reads that were not used in training. It then uploads the models, sets
    mode observe and md's linnos to on, and writes these settings to drives.conf, from which
    `linnapp restore` applies them after a reboot. If a model has no benefit, nothing is changed.
    Ctrl-C keeps the recording and changes nothing. If the array is
    already enabled, it is recorded with linnos off, and trained again. `linnapp disable` undoes
    all of it. A recording is refused if more than 1 % is missing: see `linnapp help traces`.

    DRIVE... are drives with the same data, for programs that query LinnOS themselves (BLKEXPECT,
    liblinnos).
    """
    from linnapp.commands._training import TrainingDisplay
    from linnapp.drive import enabling
    from linnapp.drive.checks import find_target
    from linnapp.drive.stable_ids import warn_of_name

    target = find_target(devices)
    if dry_run:
        drives = enabling.check_enabling(target, conf, recordings)
        for step in enabling.steps(target, drives, conf, for_s, recordings):
            click.echo(f"would {step}")
        for name in target.names:
            if why := warn_of_name(name):
                click.echo(f"warning: {why}", err=True)
        return
    display = StatusLine()
    enabling.enable(
        target,
        conf_path=conf,
        for_s=for_s,
        recordings=recordings,
        log=display.log,
        show=display.show,
        observer=TrainingDisplay(),
    )
