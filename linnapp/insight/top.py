# SPDX-License-Identifier: MIT
"""The screen of ``linnapp top``."""

from __future__ import annotations

import contextlib
import math
import platform
import time
from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from linnapp.drive.md import guards
from linnapp.drive.snapshots import DriveRow

_BARS = "▁▂▃▄▅▆▇█"

#: relative width of a bin of the kernel's histogram, the maximum error of a percentile
_BIN_RATIO = 1.12

#: columns: title, minimum width, rank; if not all fit, the highest rank is dropped first
_COLUMNS = (
    ("drive", 8, 0),
    ("mode", 7, 5),
    ("latency", 10, 4),
    ("mean us", 7, 0),
    ("p50 us", 7, 2),
    ("p99 us", 7, 1),
    ("refused", 7, 0),
    ("reads/s", 8, 2),
    ("share", 5, 4),
    ("asked/s", 7, 3),
    ("flight", 6, 6),
    ("admit/s", 8, 2),
    ("revoke/s", 8, 2),
    ("probe/s", 7, 7),
    ("burst", 7, 3),
    ("model", 8, 9),
    ("age", 6, 8),
)
_LEFT = ("drive", "mode", "latency", "model")


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Draw the last values as bars on a logarithmic scale from their minimum to their maximum."""
    shown = list(values[-width:])
    logs = [math.log(value) if value else None for value in shown]
    known = [log for log in logs if log is not None]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    # The scale covers at least a factor of two, so that noise does not look like bursts.
    span = max(high - low, math.log(2))
    bars = "".join(
        " " if log is None else _BARS[min(7, int((log - low) / span * 8))] for log in logs
    )
    return bars.rjust(width)


def format_age(seconds: float | None) -> str:
    """Format a time in its largest unit."""
    if seconds is None:
        return "-"
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def _rate(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if 0 < value < 10 else f"{value:.0f}"


def _p99_us(row: DriveRow) -> float | None:
    """Return the 99th percentile. Use the mean if p99 is smaller only because of the bin width."""
    p99, mean = row.read_us_percentiles.get("p99"), row.read_us_mean
    return mean if p99 and mean and p99 < mean <= _BIN_RATIO * p99 else p99


def _cells(row: DriveRow) -> dict[str, str]:
    """Return the text of a drive's cells by column, without the bars."""
    rates = row.per_second
    us = row.read_us_mean
    return {
        "drive": row.drive,
        "mode": row.mode,
        "mean us": "-" if us is None else f"{us:.0f}",
        "p50 us": _rate(row.read_us_percentiles.get("p50")),
        "p99 us": _rate(_p99_us(row)),
        "refused": "-" if row.refused_share is None else f"{row.refused_share:.0%}",
        "reads/s": _rate(row.reads_per_s),
        "share": "-" if row.array_read_share is None else f"{row.array_read_share:.0%}",
        "asked/s": _rate(rates.get("inferences")),
        "flight": f"{row.in_flight}",
        "admit/s": _rate(rates.get("admitted")),
        "revoke/s": _rate(rates.get("revoked")),
        "probe/s": _rate(rates.get("probes")),
        "burst": format_age(row.burst_s),
        "model": row.model_id or "none",
        "age": format_age(row.model_age_s),
    }


def table(rows: Sequence[DriveRow], width: int) -> Text:
    """Draw a line for each drive with the columns that fit. The bars use the remaining width.

    The result is plain text because a rich Table takes several times as long to draw.
    """
    without = set()
    if not any(row.read_us_percentiles for row in rows):
        without |= {"p50 us", "p99 us"}
    if all(row.array is None for row in rows):
        without.add("share")
    # Otherwise the column would repeat the hinted reads.
    if not any(row.is_asked for row in rows):
        without.add("asked/s")
    columns = [column for column in _COLUMNS if column[0] not in without]
    cells = [_cells(row) for row in rows]
    widths = {
        title: max([at_least, *(len(each.get(title, "")) for each in cells)])
        for title, at_least, _ in columns
    }
    while sum(widths[title] + 2 for title, _, _ in columns) > width and len(columns) > 1:
        columns.remove(max(columns, key=lambda column: column[2]))
    spare = width - sum(widths[title] + 2 for title, _, _ in columns)
    widths["latency"] = max(widths["latency"], min(60, widths["latency"] + spare))

    def line(values: dict[str, str]) -> str:
        return "  ".join(
            values[title].ljust(widths[title])
            if title in _LEFT
            else values[title].rjust(widths[title])
            for title, _, _ in columns
        )

    shown = Text(no_wrap=True, overflow="ellipsis")
    shown.append(line({title: title for title, _, _ in columns}), "bold")
    for row, values in zip(rows, cells, strict=True):
        values["latency"] = sparkline(row.latencies_us, widths["latency"])
        shown.append("\n")
        shown.append(line(values), "bold red" if row.burst_s else "")
    return shown


def cost_lines(rows: Sequence[DriveRow]) -> list[Text]:
    """Return what predictions cost on this machine, by the kernel's sample."""
    if not (n := sum(row.totals.get("inferences", 0) for row in rows)):
        return []
    ns = sum(row.totals.get("inference_ns", 0) for row in rows) / n
    busy = sum(row.per_second.get("inference_ns", 0) for row in rows) / 1e9
    if round(ns) == 0:  # The virtual time of the lab does not see software.
        return []
    return [Text(f"a prediction takes {ns:.0f} ns; all of them take {busy:.3%} of a processor")]


def array_lines() -> list[Text]:
    """Return a line for each md array that queries its drives."""
    return [Text(each.words) for each in guards() if each.state != "off"]


def draw(rows: Sequence[DriveRow], width: int) -> RenderableType:
    """Draw the whole screen."""
    title = f"linnapp top  {platform.node()}  {time.strftime('%H:%M:%S')}  ctrl-C ends it"
    return Group(
        Text(title, style="bold", no_wrap=True),
        table(rows, width) if rows else Text("measuring ..."),
        *cost_lines(rows),
        *array_lines(),
    )


def run(take_snapshot: Callable[[], list[DriveRow]], interval_s: float) -> None:
    """Take snapshots and draw them until ctrl-C."""
    rows = take_snapshot()
    with contextlib.suppress(KeyboardInterrupt), Live(screen=True, auto_refresh=False) as live:
        while True:
            live.update(draw(rows, live.console.width), refresh=True)
            time.sleep(interval_s)
            rows = take_snapshot()
