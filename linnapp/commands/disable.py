# SPDX-License-Identifier: MIT
"""``linnapp disable``: undo ``linnapp enable``."""

from __future__ import annotations

from pathlib import Path

import click

from linnapp.commands._options import conf_option


@click.command()
@click.argument("devices", nargs=-1, metavar="[/dev/mdN | DRIVE...]")
@conf_option
def disable(devices: tuple[str, ...], conf: Path) -> None:
    """Undo `linnapp enable` completely; without a device, for all of drives.conf.

    md's linnos and the drives' modes are set to off, and the models and the entries in drives.conf
    are removed. A patched kernel keeps the models, unused, until a reboot.
    """
    from linnapp.drive.deployment import disable as undo
    from linnapp.errors import LinnappError

    failures = undo(list(devices), conf_path=conf, log=click.echo)
    for failure in failures:
        click.echo(f"linnapp: error: {failure}", err=True)
    if failures:
        raise LinnappError(f"{len(failures)} could not be switched off; {conf} has none of them")
