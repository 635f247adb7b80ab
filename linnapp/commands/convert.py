# SPDX-License-Identifier: MIT
"""``linnapp convert``: convert a trace to another format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from linnapp.errors import as_options
from linnapp.option_types import TRACE_IN, TRACE_OUT, ByteSize, FiniteRange, TimeSlice


@click.command()
@click.argument("source", type=TRACE_IN, metavar="IN")
@click.argument("target", type=TRACE_OUT, metavar="OUT")
@click.option(
    "--from",
    "source_format",
    help="Format of IN, FORMAT or FORMAT:UNIT with another unit of time; found out when not given.",
)
@click.option("--to", "target_format", default="iolog", help="Format of OUT.")
@click.option("--device-name", help="The drive's name in OUT; /dev/<stem of OUT> if not given.")
@click.option(
    "--slice",
    "slice_s",
    type=TimeSlice(),
    help="Keep this part of IN's time, in seconds; it starts at 0 in OUT.",
)
@click.option(
    "--rerate",
    type=FiniteRange(1e-6, 1e6),
    default=1.0,
    help="Multiply the rate of arrivals, after --slice.",
)
@click.option(
    "--fit",
    type=ByteSize(),
    help="Wrap offsets into a drive of this size, and align to 4 KiB (e.g. 1G).",
)
@click.option(
    "--volume", help="The volume (device, disk, LUN, file) to keep of a text trace of several."
)
@click.option("--dev", help="major:minor of the drive to keep, if a .blk holds several.")
@click.option("--allow-truncated", is_flag=True, help="Use what there is of a .blk cut off.")
def convert(
    source: Path,
    target: Path,
    source_format: str | None,
    target_format: str,
    device_name: str | None,
    slice_s: tuple[float, float] | None,
    rerate: float,
    fit: int | None,
    volume: str | None,
    dev: str | None,
    allow_truncated: bool,
) -> None:
    """Convert the trace IN to OUT: any known format to fio's iolog version 3, or to --to.

    IN is a blktrace recording, an iolog, or a text trace; `linnapp help formats` lists them. "-" is
    standard input as IN, and standard output as OUT. The number of I/Os goes to standard error
    then, as notes about IN always do.
    """
    from linnapp.files import is_standard_output
    from linnapp.trace import convert as conversion
    from linnapp.trace.packed import named
    from linnapp.trace.text import TextCounts

    if target_format not in conversion.output_formats():
        raise click.UsageError(
            f"--to {target_format}: known are {', '.join(conversion.output_formats())}"
        )
    text_format = conversion.format_of(source, source_format)
    name = conversion.name_of_format(text_format)
    found: list[TextCounts] = []
    options: dict[str, Any] = {"on_counts": found.append}
    if volume is not None:
        if text_format is None or "volume" not in text_format.columns:
            raise click.UsageError(f"--volume: {name} traces have no volumes")
        options["volume"] = volume
    if text_format is None:
        options = {"device": dev, "allow_truncated": allow_truncated}
    elif dev is not None:
        raise click.UsageError(f"--dev chooses a drive of a blktrace recording; {source} is {name}")
    to_output = is_standard_output(target)
    ios = conversion.convert(
        source,
        target,
        source_format=text_format or "blktrace",
        target_format=target_format,
        device_name=device_name or ("/dev/flash0" if to_output else f"/dev/{target.stem}"),
        filters=conversion.Filters(slice_s, rerate, fit),
        **options,
    )
    empty = sum(counts.empty for counts in found)
    left_out = f"; {empty} of no length left out" if empty else ""
    click.echo(f"{target}: {ios} I/Os{left_out}", err=to_output)
    for counts in found:
        for note in counts.notes(volume):
            click.echo(as_options(named(f"{source}: {note}")), err=True)
