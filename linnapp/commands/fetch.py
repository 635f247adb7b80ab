# SPDX-License-Identifier: MIT
"""``linnapp fetch``: fetch models that were trained elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from linnapp.commands._options import conf_option, mode_option


@click.command()
@click.argument("store")
@click.argument("drives", nargs=-1, required=True, metavar="DEV[=NAME]...")
@mode_option
@conf_option
def fetch(store: str, drives: tuple[str, ...], mode: str | None, conf: Path) -> None:
    """Upload models from a store to drives, and write them to drives.conf.

    STORE is a directory written by `linnapp fleet` or `train`, or its http:// or https:// address.
    NAME is the name of the drive's model in the store, without .linnos, for example host7/nvme0n1;
    the default is the drive's own name. If `linnapp train` wrote models of both kinds for it, the
    latency model is fetched.

    A drive that already has the model named by its record is not changed, so this can be run every
    hour. A fetched model is uploaded only if its id is that of its record and it passes all checks
    of the kernel. Each drive is treated independently: if one fails, it is named, and the exit
    status is 1.
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
        click.echo(f"linnapp: error: {failure}", err=True)
    if failures:
        raise LinnappError(f"{len(failures)} of {len(wanted)} drives failed")
