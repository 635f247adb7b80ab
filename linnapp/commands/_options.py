# SPDX-License-Identifier: MIT
"""Option types that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable

import click

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class ByteSize(click.ParamType[int]):
    """A size in bytes, with K, M, G or T (powers of 1024)."""

    name = "bytes"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Parse the text."""
        match = re.fullmatch(r"(\d+)([KMGT]?)(i?B)?", str(value), re.I)
        if not match:
            self.fail(f"{value!r}: expected a number of bytes, or e.g. 512M, 1G", param, ctx)
        return int(match[1]) * _UNITS[match[2].upper()]


class TimeSlice(click.ParamType[tuple[float, float]]):
    """A slice of time, "A:B" in seconds; either end may be left out."""

    name = "A:B"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        """Parse the text."""
        if isinstance(value, tuple):
            return value
        start, colon, end = str(value).partition(":")
        try:
            parsed = float(start or 0), float(end or "inf")
        except ValueError:
            parsed = (1.0, 0.0)
        if not colon or not 0 <= parsed[0] < parsed[1]:
            self.fail(f"{value!r}: expected START:END in seconds, e.g. 0:60", param, ctx)
        return parsed


def reader_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of reading a blktrace recording: keywords of ``BlktraceReader``."""
    for option in (
        click.option(
            "--allow-truncated", is_flag=True, help="Use what there is of a trace cut off."
        ),
        click.option("--dev", "device", help="major:minor of the drive, if a trace holds several."),
    ):
        command = option(command)
    return command


def labelling_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of finding inflection points."""
    for option in (
        click.option(
            "--failover-us",
            type=click.FloatRange(min=0),
            default=15.0,
            show_default=True,
            help="Cost of a failover in us.",
        ),
        click.option(
            "--replicas",
            type=click.IntRange(2),
            default=3,
            show_default=True,
            help="Drives that hold each block.",
        ),
        click.option(
            "--method",
            type=click.Choice(["exact", "simulate"]),
            default="exact",
            show_default=True,
            help="Closed form, or a million random reads.",
        ),
    ):
        command = option(command)
    return command
