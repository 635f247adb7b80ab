# SPDX-License-Identifier: MIT
"""Types of command-line options: accepted values, and error messages for all others."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import click


class NamedPath(click.Path):
    """A path. "-" is refused, because no command reads standard input or writes such a file."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check the path."""
        if str(value) == "-":
            self.fail(
                "'-' is not taken as standard input or output here; name a file ('./-' is one that "
                "is called so)",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


#: A file or folder, or only one of these, which may not exist.
PATH = NamedPath()
FILE = NamedPath(dir_okay=False)
FOLDER = NamedPath(file_okay=False)
#: Readability is not checked: the check for root has the better message.
DRIVE = NamedPath(readable=False)

#: Nearly three centuries. In nanoseconds, this fits in 63 bits.
_MOST_SECONDS = 9e9
#: An EiB. Offsets and values computed from them fit in 63 bits.
_MOST_BYTES = 1 << 60
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class FiniteRange(click.FloatRange):
    """A number between bounds; "nan" and "inf", which ``float`` accepts, are refused."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse the text."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class ByteSize(click.ParamType):  # type: ignore[type-arg]
    """A size in bytes, with K, M, G or T (powers of 1024)."""

    name = "bytes"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Parse the text."""
        match = re.fullmatch(r"(\d+)([KMGT]?)(i?B)?", str(value), re.I)
        if not match:
            self.fail(f"{value!r}: expected a number of bytes, or e.g. 512M, 1G", param, ctx)
        # Digits are counted first, because int() refuses numbers with thousands of digits.
        digits = match[1].lstrip("0") or "0"
        size = int(digits) * _UNITS[match[2].upper()] if len(digits) < 20 else _MOST_BYTES + 1
        if size > _MOST_BYTES:
            self.fail(f"{value!r}: no drive has more than {_MOST_BYTES} bytes", param, ctx)
        return size


class TimeSlice(click.ParamType):  # type: ignore[type-arg]
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
        if not colon or not 0 <= parsed[0] < parsed[1] or parsed[0] > _MOST_SECONDS:
            self.fail(f"{value!r}: expected START:END in seconds, e.g. 0:60", param, ctx)
        return parsed


class Bias(click.ParamType):  # type: ignore[type-arg]
    """A positive number, or "auto"."""

    name = "number|auto"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        """Parse the text."""
        if value == "auto":
            return "auto"
        try:
            number = float(str(value))
        except ValueError:
            number = 0.0
        if not 0 < number <= 1e6:
            self.fail(f"{value!r}: expected a positive number up to 1e6, or auto", param, ctx)
        return number
