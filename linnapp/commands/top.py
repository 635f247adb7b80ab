# SPDX-License-Identifier: MIT
"""``linnapp top``: the drives at work, live."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from linnapp.option_types import FiniteRange

if TYPE_CHECKING:
    from linnapp.drive.tracefs import Recorder
    from linnapp.drive.watching import Row

#: Enough for the newest thousand reads or two, and little to read each time.
_BUFFER_KIB = 256


@click.command()
@click.argument("devices", nargs=-1, metavar="[DEV...]")
@click.option(
    "--interval",
    type=FiniteRange(0.1, 1e6),
    default=1.0,
    show_default=True,
    help="Seconds between looks; rates and means are those of one.",
)
@click.option(
    "--percentiles",
    is_flag=True,
    help="Also p50 and p99 of the reads, from the block layer's trace events (root).",
)
@click.option("--once", is_flag=True, help="Print what one interval shows and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON at each look.")
def top(
    devices: tuple[str, ...], interval: float, percentiles: bool, once: bool, as_json: bool
) -> None:
    """Show the drives named, or all that have LinnOS, as they work: a row a drive.

    \b
    latency      mean of the reads of each of the last looks, a bar each, low to high
    us           mean of the reads since the last look, from request to completion
    reads/s      completed, with and without the hint
    flight       I/Os in flight; as root, pages pending as the policy counts them
    admit/s, revoke/s, probe/s   hinted reads: admitted, refused, admitted as probes
    kept/s       of drives with peers: predicted slow, admitted as no peer was sooner
    gain us      ... what a refused read has won, as predicted: by how much sooner
                 a peer was to serve it, a failover taken off (expected_gain_us)
    false/s      slow reads that were predicted to be fast
    burst        for how long at least half of the hinted reads have been refused
    model, age   the active model, and how long ago linnapp uploaded it

    \b
    Keys: q quit, p pause, s sort by the next column, r reverse,
    up and down choose a drive, Enter opens it, Escape goes back.

    Nothing is traced but with --percentiles, which looks at the newest reads only (a thousand or
    two): their latencies are from issue to completion, the drive's own.
    """
    from linnapp.drive.sysfs import Drive, drives
    from linnapp.drive.watching import Array
    from linnapp.errors import DeviceError, LinnappError

    names = [Drive(device).name for device in devices]
    if not names and not drives():
        raise DeviceError(
            "no disk has LinnOS: this kernel lacks the patch (CONFIG_BLK_LINNOS); boot the "
            "patched kernel"
        )
    if not once and not as_json and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LinnappError(
            "top needs a terminal; --once prints one look, --json a line of JSON at each"
        )
    array = Array(names)
    with contextlib.ExitStack() as stack:
        sampler = _Sampler(stack, array.names() if percentiles else [])
        if not once and not as_json:
            from linnapp.commands._top_screen import run

            run(lambda: array.look(sampler.percentiles()), interval)
            return
        array.look()
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(interval)
                rows = array.look(sampler.percentiles())
                if as_json:
                    click.echo(json.dumps({"drives": [row.to_json() for row in rows]}))
                    sys.stdout.flush()
                else:
                    _print(rows)
                if once:
                    return


def _print(rows: list[Row]) -> None:
    from rich.console import Console

    from linnapp.commands._top_screen import table

    # Nobody's terminal: whoever reads it can scroll.
    console = Console() if sys.stdout.isatty() or "COLUMNS" in os.environ else Console(width=160)
    console.print(table(rows, console.width))


class _Sampler:
    """Latencies of the newest reads, from trace events."""

    def __init__(self, stack: contextlib.ExitStack, names: list[str]) -> None:
        from linnapp.drive import tracefs
        from linnapp.drive.sysfs import Drive

        self._recorders: dict[str, Recorder] = {
            name: stack.enter_context(
                tracefs.recording(
                    tracefs.REQUESTS, Drive(name).device_number, buffer_kib=_BUFFER_KIB
                )
            )
            for name in names
        }

    def percentiles(self) -> dict[str, dict[str, float]]:
        """p50 and p99 in us by drive, of what was recorded since the last time."""
        return dict(self._each())

    def _each(self) -> Iterator[tuple[str, dict[str, float]]]:
        import numpy as np

        from linnapp.trace.decisions import read_latencies_us

        for name, recorder in self._recorders.items():
            latencies: Any = read_latencies_us(recorder.text())
            recorder.clear()
            if latencies:
                p50, p99 = np.percentile(latencies, (50, 99), method="inverted_cdf")
                yield name, {"p50": float(p50), "p99": float(p99), "reads": len(latencies)}
