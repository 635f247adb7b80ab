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
    help="Seconds for which a figure has to be beyond its bound.",
)
@click.option(
    "--every",
    "every_s",
    type=FiniteRange(0.1, 1e6),
    default=60.0,
    help="Seconds from one look to the next.",
)
@click.option("--verbose", is_flag=True, help="Say at each look what was seen.")
def keep(conf: Path, window_s: float, every_s: float, verbose: bool) -> None:
    """Switch drives and arrays of drives.conf back when they are not as training foresaw.

    Looks at each drive that enforces, and at each md array that asks: how many reads are refused,
    how many are steered (sent to another mirror by what is predicted), and how far predictions are
    off. What is beyond its bound at every look for ten minutes goes back to observe, an array's
    linnos to off, also in drives.conf, with a line in the journal. `linnapp status` says so from
    then on, and what to do. Needs root; goes on until it is told to end.
    """
    from linnapp.drive.drives_conf import load_filled_conf
    from linnapp.drive.watchdog import keep as go_on

    # Fail now if the file is missing. If it becomes unreadable later, that is logged and waited
    # out.
    load_filled_conf(conf)
    log = partial(click.echo, err=True)
    go_on(conf, window_s=window_s, every_s=every_s, log=log, verbose=verbose)
