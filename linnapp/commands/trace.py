# SPDX-License-Identifier: MIT
"""``linnapp trace``: record drives with blktrace."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from linnapp.commands._options import COMMAND, CommandAfterDashes
from linnapp.errors import DeviceError
from linnapp.option_types import DRIVE, FOLDER, FiniteRange
from linnapp.terminal import StatusLine


@click.command(cls=CommandAfterDashes, options_metavar="[OPTIONS]")
@click.argument("devices", nargs=-1, required=True, type=DRIVE, metavar="DEV...")
@click.option(
    "-o",
    "--output",
    type=FOLDER,
    required=True,
    help="Directory for the traces, one <drive>.blk per drive.",
)
@click.option("--duration", type=FiniteRange(0, 1e9, min_open=True), help="Seconds to trace.")
@click.pass_context
def trace(
    ctx: click.Context, devices: tuple[Path, ...], output: Path, duration: float | None
) -> None:
    """Record drives with blktrace, one DIR/<drive>.blk per drive.

    The recording ends after the duration, at ctrl-C, or, with `-- CMD ...`, when CMD ends; the exit
    status is then that of CMD. An existing recording in DIR is not overwritten. Root and a kernel
    with blktrace are needed.
    """
    from linnapp.drive.recording import RecordingProgress, record
    from linnapp.drive.sysfs import disk_name, explain_no_node, explain_no_queue

    display = StatusLine()
    for device in devices:
        if why := explain_no_node(device.name):
            raise DeviceError(why)
        with contextlib.suppress(DeviceError):  # the recording reports the error
            if why := explain_no_queue(disk_name(str(device))):
                display.log(f"linnapp: warning: no requests are issued to this device: {why}")

    def show(progress: RecordingProgress) -> None:
        drops = f", {progress.dropped} DROPPED" if progress.dropped else ""
        display.show(
            f"{progress.seconds:6.1f} s  {progress.events} events  "
            f"{progress.size_bytes / 1e6:.1f} MB{drops}"
        )

    recordings, status = record(
        devices,
        output,
        duration_s=duration,
        command=ctx.meta[COMMAND],
        on_progress=show if display.is_live else None,
    )
    for recording in recordings:
        idle = "" if recording.events else ": the drive did nothing; trace while it is in use"
        display.log(f"{recording.path}: {recording.events} events{idle}")
        if recording.dropped:
            display.log(
                f"linnapp: warning: {recording.path}: {recording.dropped} events were dropped; "
                "features near the gaps are wrong. Trace a shorter time, write the trace to a "
                "faster disk than the one traced, or trace fewer drives at once"
            )
    ctx.exit(status)
