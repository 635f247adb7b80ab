# SPDX-License-Identifier: MIT
"""``linnapp restore``: apply drives.conf, as after a reboot."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from linnapp.commands._options import conf_option
from linnapp.option_types import FiniteRange


@click.command()
@conf_option
@click.option(
    "--wait",
    "wait_s",
    type=FiniteRange(0, 3600),
    default=0.0,
    help="Seconds to wait in total for drives that do not exist yet.",
)
def restore(conf: Path, wait_s: float) -> None:
    """Apply the models and modes of drives.conf to drives, and its setting of linnos to md arrays.

    A drive or array whose name has changed is found by the values recorded in drives.conf (WWID,
    serial number, UUID), and drives.conf gets the new name. If another drive has the name of a
    recorded one, it is not changed, provided that its values differ.

    Each drive is restored independently: if one fails, it is named, and the exit status is 1.
    Settings that are already correct are not written again.
    """
    from linnapp.drive.deployment import restore as apply_conf
    from linnapp.drive.switches import current_resets
    from linnapp.errors import LinnappError

    def print_error(prefix: str, message: str) -> None:
        click.echo(f"linnapp: {prefix}{message}", err=True)

    failures = apply_conf(
        conf, wait_s=wait_s, log=click.echo, warn=partial(print_error, "warning: ")
    )
    for reset in current_resets():
        click.echo(reset.describe())
    for failure in failures:
        print_error("error: ", failure)
    if failures:
        raise LinnappError(f"{len(failures)} drives or arrays are not as in {conf}")
