# SPDX-License-Identifier: MIT
"""``linnapp convert``: convert a trace to an iolog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from linnapp.commands._options import format_options, reader_options
from linnapp.errors import as_options
from linnapp.option_types import FILE, PATH, ByteSize, FiniteRange, TimeSlice


@click.command()
@click.argument("source", type=PATH, metavar="IN")
@click.argument("target", type=FILE, metavar="OUT")
@format_options
@click.option("--device-name", help="The drive's name in OUT; by default /dev/<stem of OUT>.")
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
@reader_options
def convert(
    source: Path,
    target: Path,
    source_format: str | None,
    device_name: str | None,
    slice_s: tuple[float, float] | None,
    rerate: float,
    fit: int | None,
    volume: str | None,
    **reader: Any,
) -> None:
    """Convert the trace IN, of any known format, to OUT, fio's iolog version 3.

    IN is a blktrace recording, an iolog, or a text trace; `linnapp help formats` lists them.
    """
    from linnapp.trace import convert as conversion
    from linnapp.trace.text import TextCounts

    text_format = conversion.format_of(source, source_format)
    name = conversion.name_of_format(text_format)
    found: list[TextCounts] = []
    options: dict[str, Any] = {"on_counts": found.append}
    if volume is not None:
        if text_format is None or not text_format.has_volume:
            raise click.UsageError(f"--volume: {name} traces have no volumes")
        options["volume"] = volume
    if text_format is None:
        options = reader
    elif reader["device"] is not None:
        raise click.UsageError(f"--dev chooses a drive of a blktrace recording; {source} is {name}")
    ios = conversion.convert(
        source,
        target,
        source_format=text_format or "blktrace",
        device_name=device_name or f"/dev/{target.stem}",
        filters=conversion.Filters(slice_s, rerate, fit),
        **options,
    )
    empty = sum(counts.empty for counts in found)
    left_out = f"; {empty} of no length left out" if empty else ""
    click.echo(f"{target}: {ios} I/Os{left_out}")
    for counts in found:
        for note in counts.notes(volume):
            click.echo(as_options(f"{source}: {note}"), err=True)
