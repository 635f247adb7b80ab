# SPDX-License-Identifier: MIT
"""``linnapp restore``: give drives the models and modes of drives.conf, as after a reboot."""

from __future__ import annotations

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
    help="Seconds to wait for drives that are not there yet, all in all.",
)
def restore(conf: Path, wait_s: float) -> None:
    """Give drives and md arrays back what drives.conf has: models, modes, md's linnos.

    A drive or array whose name has changed is found by what drives.conf has recorded of it (WWID,
    serial number, UUID), and drives.conf gets the new name. A drive that has the name of another,
    as far as that can be told, is left alone.

    Each drive on its own: one that fails is named, the others are restored, and the exit status
    is 1. What is as it is to be is left alone.
    """
    from linnapp.drive.drives_conf import load_filled_conf, save_conf
    from linnapp.drive.enable.places import alone
    from linnapp.drive.keep import switched_back
    from linnapp.drive.restoring import restore as give_back
    from linnapp.drive.trial.state import put_back_left
    from linnapp.errors import LinnappError

    put_back_left(click.echo)
    found = load_filled_conf(conf)
    renamed: dict[str, str] = {}
    failures = give_back(found, wait_s=wait_s, log=click.echo, renamed=renamed)
    if renamed:
        try:
            with alone():
                save_conf(conf, load_filled_conf(conf).renamed(renamed))
            click.echo(f"{conf}: has the new names")
        except (LinnappError, ValueError) as error:
            click.echo(f"linnapp: warning: {conf} keeps the old names: {error}", err=True)
    for back in switched_back.standing():
        click.echo(back.words)
    for failure in failures:
        click.echo(f"linnapp: {failure}", err=True)
    if failures:
        n = len(found.drives) + len(found.arrays)
        raise LinnappError(f"{len(failures)} of {n} are not as {conf} has them")
