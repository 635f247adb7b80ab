# SPDX-License-Identifier: MIT
"""``linnapp keep``: the watchdog that linnapp-keep.service runs."""

from __future__ import annotations

import time
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
    help="Seconds for which a share must exceed its bound.",
)
@click.option(
    "--every",
    "every_s",
    type=FiniteRange(0.1, 1e6),
    default=60.0,
    help="Seconds between two checks.",
)
def keep(conf: Path, window_s: float, every_s: float) -> None:
    """Reset drives of drives.conf in mode enforce if they deviate from their training data.

    This watchdog reads the kernel's counters of each such drive: how many hinted reads are
    refused, and how many of the admitted ones are slow. If a share exceeds its bound at every check
    for ten minutes, the drive is set to observe, also in drives.conf, with a line in the journal.
    `linnapp status` then shows the reason and the remedy. The command needs root and runs until a
    signal ends it. md arrays need no watchdog: md itself stops redirecting reads if that has no
    benefit.
    """
    from linnapp.drive.drives_conf import load_filled_conf
    from linnapp.drive.maintain import Watchdog

    # Fail now if the file is missing. If it becomes unreadable later, the error is logged, and the
    # next check reads it again.
    load_filled_conf(conf)
    watchdog = Watchdog(conf, window_s, partial(click.echo, err=True))
    while True:
        watchdog.check()
        time.sleep(every_s)
