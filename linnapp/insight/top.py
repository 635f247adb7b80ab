# SPDX-License-Identifier: MIT
"""The screen of ``linnapp top``: drawing, and reactions to keys."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
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

#: orders that the key s selects in turn: title, sort key
_SORTS: tuple[tuple[str, Callable[[DriveRow], float | str]], ...] = (
    ("drive", lambda row: row.drive),
    ("mean us", lambda row: -(row.read_us_mean or 0)),
    ("p99 us", lambda row: -row.read_us_percentiles.get("p99", 0)),
    ("refused", lambda row: -(row.refused_share or 0)),
    ("reads/s", lambda row: -row.reads_per_s),
)


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
        "flight": f"{row.in_flight if row.pending_pages is None else row.pending_pages}",
        "admit/s": _rate(rates.get("admitted")),
        "revoke/s": _rate(rates.get("revoked")),
        "probe/s": _rate(rates.get("probes")),
        "burst": format_age(row.burst_s),
        "model": row.model_id or "none",
        "age": format_age(row.model_age_s),
    }


def table(rows: Sequence[DriveRow], width: int, selected: str | None = None) -> Text:
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
        burst = "bold red" if row.burst_s else ""
        style = f"{burst} reverse" if row.drive == selected else burst
        shown.append("\n")
        shown.append(line(values), style)
    return shown


def drive_details(row: DriveRow, width: int) -> RenderableType:
    """Draw one drive in detail: a wide sparkline, all counters and settings."""
    spark = sparkline(row.latencies_us, max(10, min(len(row.latencies_us), width - 2)))
    known = [value for value in row.latencies_us if value is not None]
    scale = f"{min(known):.0f} to {max(known):.0f} us" if known else "no reads yet"
    counters = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("counter", "total", "per second"):
        counters.add_column(title, justify="left" if title == "counter" else "right")
    for name, total in row.totals.items():
        counters.add_row(name, f"{total}", _rate(row.per_second[name]))
    knobs = ", ".join(f"{name} {value}" for name, value in row.settings.items())
    uploaded = (
        "upload time unknown"
        if row.model_age_s is None
        else f"uploaded {format_age(row.model_age_s)} ago"
    )
    model = f"model {row.model_id}, {uploaded}, slow above {row.threshold_us} us"
    return Group(
        Text(f"{row.drive}: {row.mode}, {model if row.model_id else 'no model'}"),
        Text(f"mean read latency of each interval, {scale}:"),
        Text(spark),
        Text(
            f"{_rate(row.reads_per_s)} reads/s, {_rate(row.writes_per_s)} writes/s, "
            f"{row.in_flight} in flight, "
            f"pending {'-' if row.pending_pages is None else row.pending_pages} pages"
        ),
        *([] if row.model_id is None else [Text(_slow_summary(row))]),
        *([] if row.array is None else [Text(_array_summary(row))]),
        Text(knobs),
        counters,
    )


def _slow_summary(row: DriveRow) -> str:
    """Return the fraction of slow reads among admitted reads and among all completed reads."""
    # `reads` counts arrivals and `slow` completions; refused reads never complete.
    completed = row.totals.get("reads", 0) - row.totals.get("revoked", 0)
    shares = (
        f"{slow / reads:.1%}" if reads > 0 else "-"
        for slow, reads in (
            (row.totals.get("false_submits", 0), row.totals.get("admitted", 0)),
            (row.totals.get("slow", 0), completed),
        )
    )
    of_admitted, of_all = shares
    return (
        f"slower than {row.threshold_us} us: {of_admitted} of the admitted reads (slow admitted, "
        f"stats/false_submits), {of_all} of all reads (stats/slow)"
    )


def _array_summary(row: DriveRow) -> str:
    share = "not known" if row.array_read_share is None else f"{row.array_read_share:.1%}"
    return f"in {row.array}; share of the array's reads: {share}"


def array_lines() -> list[Text]:
    """Return a line for each md array that queries its drives."""
    return [Text(each.words) for each in guards() if each.state != "off"]


class Screen:
    """State of the screen."""

    def __init__(self) -> None:
        self.rows: list[DriveRow] = []
        self.paused = False
        self.sort = 0
        self.reversed = False
        self.selected: str | None = None
        self.open = False
        self.done = False

    def ordered(self) -> list[DriveRow]:
        """Return the rows in the selected order."""
        return sorted(self.rows, key=_SORTS[self.sort][1], reverse=self.reversed)

    def press(self, key: bytes) -> None:
        """React to a key. Unknown keys are ignored."""
        if key in (b"q", b"Q"):
            self.done = True
        elif key in (b"p", b"P", b" "):
            self.paused = not self.paused
        elif key == b"s":
            self.sort = (self.sort + 1) % len(_SORTS)
        elif key == b"r":
            self.reversed = not self.reversed
        elif key in (b"j", b"\x1b[B", b"\x1bOB"):
            self._move(1)
        elif key in (b"k", b"\x1b[A", b"\x1bOA"):
            self._move(-1)
        elif key in (b"\r", b"\n") and self.rows:
            self._move(0)
            self.open = True
        elif key in (b"\x1b", b"\x7f", b"\x08"):
            self.open = False

    def _move(self, by: int) -> None:
        names = [row.drive for row in self.ordered()]
        if self.selected in names:
            self.selected = names[(names.index(self.selected) + by) % len(names)]
        elif names:
            self.selected = names[0 if by >= 0 else -1]

    def draw(self, width: int) -> RenderableType:
        """Draw the whole screen."""
        rows = self.ordered()
        chosen = next((row for row in rows if row.drive == self.selected), None)
        body: RenderableType
        if not rows:
            body = Text("measuring ...")
        elif self.open and chosen is not None:
            body = drive_details(chosen, width)
        else:
            body = table(rows, width, self.selected)
        order = f"sorted by {_SORTS[self.sort][0]}" + (", reversed" if self.reversed else "")
        state = "paused" if self.paused else order
        keys = "q quit  p pause  s sort  r reverse  ↑↓ choose  Enter open  Esc back"
        return Group(
            Text(
                f"linnapp top  {platform.node()}  {time.strftime('%H:%M:%S')}  {state}",
                style="bold",
                no_wrap=True,
            ),
            body,
            *array_lines(),
            Text(keys, style="dim", no_wrap=True),
        )


def _keys(data: bytes) -> Iterator[bytes]:
    """Split terminal input into keys. An arrow is an escape sequence of three bytes."""
    while data:
        length = 3 if data[:2] in (b"\x1b[", b"\x1bO") and len(data) > 2 else 1
        yield data[:length]
        data = data[length:]


@contextlib.contextmanager
def _unbuffered_keys(terminal: int) -> Iterator[None]:
    """Read keys immediately and without echo. Ctrl-C still interrupts."""
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def run(take_snapshot: Callable[[], list[DriveRow]], interval_s: float) -> None:
    """Take snapshots and draw them until the user quits."""
    terminal = sys.stdin.fileno()
    screen = Screen()
    take_snapshot()
    with (
        _unbuffered_keys(terminal),
        contextlib.suppress(KeyboardInterrupt),
        Live(screen=True, auto_refresh=False) as live,
    ):
        due = time.monotonic() + interval_s
        while not screen.done:
            live.update(screen.draw(live.console.width), refresh=True)
            left = max(0.0, due - time.monotonic())
            if select.select([terminal], [], [], left)[0]:
                data = os.read(terminal, 64)
                if not data:
                    return  # The terminal was closed.
                for key in _keys(data):
                    screen.press(key)
            if time.monotonic() >= due:
                due = time.monotonic() + interval_s
                rows = take_snapshot()
                if not screen.paused:
                    screen.rows = rows
