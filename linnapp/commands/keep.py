# SPDX-License-Identifier: MIT
"""``linnapp keep``: the watchdog that linnapp-keep.service runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from linnapp.commands._options import conf_option
from linnapp.option_types import FiniteRange


@click.command()
@conf_option
@click.option(
    "--window",
    "window_s",
    type=FiniteRange(0, 1e6),
    default=600.0,
    help="Seconds for which a value must exceed its bound.",
)
@click.option(
    "--every",
    "every_s",
    type=FiniteRange(0.1, 1e6),
    default=60.0,
    help="Seconds between two checks.",
)
@click.option("--verbose", is_flag=True, help="Print the values of each check.")
def keep(conf: Path, window_s: float, every_s: float, verbose: bool) -> None:
    """Reset drives and arrays of drives.conf when they deviate from their training data.

    This watchdog checks each drive that enforces, and each md array that queries LinnOS: how many
    reads are refused, how many are redirected to another mirror because of predictions, and how far
    predictions are off. If a value exceeds its bound at every check for ten minutes, the drive is
    set to observe, or the array's linnos to off, also in drives.conf, with a line in the journal.
    `linnapp status` then shows the reason and the remedy. The command needs root and runs until a
    signal ends it.
    """
    from linnapp.drive.drives_conf import load_filled_conf
    from linnapp.drive.watchdog import keep as go_on

    # Fail now if the file is missing. If it becomes unreadable later, that is logged and waited
    # out.
    load_filled_conf(conf)
    log = partial(click.echo, err=True)
    go_on(conf, window_s=window_s, every_s=every_s, log=log, verbose=verbose)
