# SPDX-License-Identifier: MIT
"""``linnapp convert``: a trace from one format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from linnapp.option_types import FILE, PATH, ByteSize, FiniteRange, TimeSlice


@click.command()
@click.argument("source", type=PATH, metavar="IN")
@click.argument("target", type=FILE, metavar="OUT")
@click.option("--from", "source_format", help="Format of IN; found out when not given.")
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
@click.option("--volume", help="The volume (device, disk, LUN) to keep of a text trace of several.")
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

    IN is a blktrace recording, an iolog, or a text trace; `linnapp help formats` lists them.
    """
    from linnapp.trace.formats import conversion

    if target_format not in conversion.output_formats():
        raise click.UsageError(
            f"--to {target_format}: known are {', '.join(conversion.output_formats())}"
        )
    name = source_format or conversion.detect_format(source)
    empty: list[int] = []
    options: dict[str, Any] = {"on_empty": empty.append}
    if volume is not None:
        if "volume" not in getattr(conversion.TEXT_FORMATS.get(name), "columns", ()):
            raise click.UsageError(f"--volume: {name} traces have no volumes")
        options["volume"] = volume
    if name == "blktrace":
        options = {"device": dev, "allow_truncated": allow_truncated}
    elif dev is not None:
        raise click.UsageError(f"--dev chooses a drive of a blktrace recording; {source} is {name}")
    ios = conversion.convert(
        source,
        target,
        source_format=name,
        target_format=target_format,
        device_name=device_name or f"/dev/{target.stem}",
        filters=conversion.Filters(slice_s, rerate, fit),
        **options,
    )
    left_out = f"; {sum(empty)} of no length left out" if sum(empty) else ""
    click.echo(f"{target}: {ios} I/Os{left_out}")
