# SPDX-License-Identifier: MIT
"""``linnapp top``: show the activity of drives live."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import time

import click

from linnapp.option_types import FiniteRange


@click.command()
@click.argument("devices", nargs=-1, metavar="[DEV...]")
@click.option(
    "--interval",
    type=FiniteRange(0.1, 1e6),
    default=1.0,
    help="Seconds between two snapshots; rates and means are those of the interval.",
)
@click.option("--once", is_flag=True, help="Print one interval and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each interval.")
def top(devices: tuple[str, ...], interval: float, once: bool, as_json: bool) -> None:
    """Show the activity of the named drives, or of all that have LinnOS, until ctrl-C.

    \b
    latency      mean read latency of the last intervals, a bar for each
    mean us      mean latency of the reads in the interval, from request to completion
    p50, p99 us  of the same reads, from issue to completion, within 12 %; the policy
                 times them while it is not off
    refused      share of the hinted reads that was refused with EBUSY
    reads/s      completed reads, with and without the hint
    share        in an md array: the share of the array's reads that this drive served
    asked/s      predictions queried by md or programs, including hinted reads
    flight       I/Os in flight
    admit/s, revoke/s, probe/s   hinted reads: admitted, refused, admitted as probes
    burst        for how long at least half of the hinted reads have been refused
    model, age   the active model, and how long ago linnapp uploaded it

    Virtual disks (null_blk, loop, ram, zram) and drives without a medium must be named.

    The table is followed by the md arrays that query their drives, as in `linnapp status`, and by
    what a prediction costs on this machine.

    The command reads counters only. It traces no I/Os.
    """
    from linnapp.drive.md import guards
    from linnapp.drive.snapshots import WatchedArray
    from linnapp.drive.sysfs import Drive, check_has_drives
    from linnapp.errors import LinnappError

    names = [Drive(device).name for device in devices]
    if not names:
        check_has_drives()
    if not once and not as_json and not sys.stdout.isatty():
        raise LinnappError(
            "top needs a terminal; --once prints one interval, --json a line of JSON for each"
        )
    array = WatchedArray(names)
    if not once and not as_json:
        from linnapp.insight.top import run

        run(array.take_snapshot, interval)
        return
    from rich.console import Console

    from linnapp.insight.top import array_lines, table

    # Output to a file or pipe is not limited by the width of a terminal.
    console = Console() if sys.stdout.isatty() or "COLUMNS" in os.environ else Console(width=160)
    array.take_snapshot()
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(interval)
            rows = array.take_snapshot()
            if as_json:
                arrays = [dataclasses.asdict(each) for each in guards()]
                drives = [row.to_json() for row in rows]
                click.echo(json.dumps({"drives": drives, "arrays": arrays}))
                sys.stdout.flush()
            else:
                console.print(table(rows, console.width), *array_lines(), sep="\n")
            if once:
                return
