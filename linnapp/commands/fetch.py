# SPDX-License-Identifier: MIT
"""``linnapp fetch``: fetch models that were trained elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from linnapp.commands._options import conf_option


@click.command()
@click.argument("store")
@click.argument("drives", nargs=-1, required=True, metavar="DEV[=NAME]...")
@click.option("--mode", type=click.Choice(["off", "observe", "enforce"]), help="Then switch to it.")
@conf_option
def fetch(store: str, drives: tuple[str, ...], mode: str | None, conf: Path) -> None:
    """Give drives the models that a store has, and have drives.conf say so.

    STORE is what `linnapp fleet` or `train` has written: a directory, or http:// or https:// before
    it. NAME is what the drive's model is called there, without .linnos: its own name unless given,
    else host7/nvme0n1 and the like.

    A drive that has the model which the record names is left alone, so this can be done every hour.
    What is fetched is loaded if it is the model of the record, by its id, and one by all that a
    kernel checks. Each drive on its own: one that fails is named, and the exit status is 1.
    """
    from linnapp.drive.fetching import ModelStore
    from linnapp.drive.fetching import fetch as give
    from linnapp.errors import LinnappError

    wanted: dict[str, str | None] = {}
    for given in drives:
        device, _, name = given.partition("=")
        if device in wanted:
            raise click.UsageError(f"{device} is named twice")
        wanted[device] = name or None
    failures = give(ModelStore(store), wanted, conf, mode=mode, log=click.echo)
    for failure in failures:
        click.echo(f"linnapp: {failure}", err=True)
    if failures:
        raise LinnappError(f"{len(failures)} of {len(wanted)} drives are not as the store has them")
