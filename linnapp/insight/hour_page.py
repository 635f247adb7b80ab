# SPDX-License-Identifier: MIT
"""The exporter's page: the last hour of every drive in minutes, as one HTML file."""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import threading
import time
from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import TYPE_CHECKING

from linnapp.drive.latencies import percentile_us
from linnapp.drive.snapshots import DriveRow
from linnapp.insight.top import format_age

if TYPE_CHECKING:
    import jinja2

MINUTES = 60

#: width of a minute in percent of the panel
_MINUTE_WIDTH = 100 / MINUTES

#: number of missed snapshots after which the page shows the age of its values
_STALE_AFTER = 3

_TEMPLATE = files("linnapp").joinpath("monitoring", "hour.html.j2")


@dataclasses.dataclass
class Minute:
    """One minute of one drive, summed over its snapshots."""

    #: since the epoch
    minute: int
    #: completed reads, and their mean latency from request to completion
    reads: float = 0.0
    mean_us: float | None = None
    #: Reads by latency, in the buckets of :mod:`linnapp.drive.latencies`; empty if the policy has
    #: timed none.
    latency_counts: list[int] = dataclasses.field(default_factory=list)
    hinted: float = 0.0
    refused: float = 0.0

    def add(self, row: DriveRow) -> None:
        """Add a snapshot."""
        count = {name: rate * row.interval_s for name, rate in row.per_second.items()}
        refused = count.get("revoked", 0.0)
        # A probe that is a query by md has no hint, and is not among the admitted reads.
        self.hinted += max(count.get("admitted", 0.0), count.get("probes", 0.0)) + refused
        self.refused += refused
        if any(row.latency_counts):
            before = self.latency_counts or [0] * len(row.latency_counts)
            self.latency_counts = [a + b for a, b in zip(before, row.latency_counts, strict=True)]
        if row.read_us_mean is not None:
            reads = row.reads_per_s * row.interval_s
            self.reads += reads
            before_us = self.mean_us or 0.0
            self.mean_us = before_us + (row.read_us_mean - before_us) * reads / self.reads

    @property
    def p99_us(self) -> float | None:
        """p99 of the reads that the policy has timed."""
        return percentile_us(self.latency_counts, 99)

    @property
    def refused_share(self) -> float:
        """Share of the hinted reads that was refused."""
        return self.refused / self.hinted if self.hinted else 0.0


class Hour:
    """Minutes of drives that come and go, shared by the thread that adds and those that show."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minutes: dict[str, collections.deque[Minute]] = {}
        self._last: dict[str, DriveRow] = {}
        #: time of the last snapshot, since the epoch
        self.last_snapshot_s: float | None = None

    def add(self, rows: Iterable[DriveRow], time_s: float) -> None:
        """Add the rows of one snapshot of the array, at a time since the epoch."""
        now = int(time_s // 60)
        with self._lock:
            self.last_snapshot_s = time_s
            self._last = {row.drive: row for row in rows}
            # After the clock was set back by more, the minutes in the future are not on the page,
            # and would receive all further snapshots, so drop them.
            for kept in self._minutes.values():
                while kept and kept[-1].minute > now + 1:
                    kept.pop()
            for row in self._last.values():
                kept = self._minutes.setdefault(row.drive, collections.deque())
                # If the clock was set back slightly, one minute is longer, and the order is kept.
                if not kept or kept[-1].minute < now:
                    kept.append(Minute(now))
                kept[-1].add(row)
            for drive, kept in list(self._minutes.items()):
                while kept and kept[0].minute <= now - MINUTES:
                    kept.popleft()
                if not kept:
                    del self._minutes[drive]

    def drives(self) -> dict[str, tuple[DriveRow | None, list[Minute]]]:
        """Return each drive seen in the hour: its last row, None if it is gone, and its minutes."""
        with self._lock:
            return {
                drive: (self._last.get(drive), [dataclasses.replace(m) for m in kept])
                for drive, kept in sorted(self._minutes.items())
            }


@dataclasses.dataclass(frozen=True)
class Scale:
    """Logarithmic axis of latencies in whole decades, common to all drives."""

    #: `low`, `high`: exponents of the ends in us
    low: int
    high: int

    @classmethod
    def containing(cls, minutes: Iterable[Minute]) -> Scale:
        """Return the shortest axis that includes all latencies."""
        known = [us for m in minutes for us in (m.mean_us, m.p99_us) if us]
        low = max(0, math.floor(math.log10(min(known, default=10))))
        return cls(low, max(low + 1, math.ceil(math.log10(max(known, default=1000)))))

    def percent(self, us: float) -> float:
        """Return the height of a latency in percent of the axis."""
        return 100 * max(0.0, math.log10(max(us, 1e-3)) - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[str, float]]:
        """Return the decades with their heights."""
        return [(_duration(10.0**k), self.percent(10.0**k)) for k in range(self.low, self.high)]


def _duration(us: float) -> str:
    """Format a latency in its largest unit."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} us"


@dataclasses.dataclass(frozen=True)
class _Panel:
    """A drive's panel. Positions are in percent of the panel, from the left and the top."""

    name: str
    row: DriveRow | None
    #: SVG paths
    mean: str
    p99: str
    #: minutes with refused reads: left edge, and percentage of the hinted reads
    refused: list[tuple[float, float]]
    #: description of the panel for screen readers
    description: str


def _panel(
    name: str, row: DriveRow | None, minutes: list[Minute], scale: Scale, now_minute: int
) -> _Panel:
    def left(minute: Minute) -> float:
        return 100 - (now_minute - minute.minute + 1) * _MINUTE_WIDTH

    def path(latency_of: Callable[[Minute], float | None]) -> str:
        points, before = [], None
        for minute in minutes:
            us = latency_of(minute)
            if us is None:
                continue
            # "h0" draws a dot for a minute without neighbours.
            x, y = left(minute) + _MINUTE_WIDTH / 2, 100 - scale.percent(us)
            points.append(f"{'L' if before == minute.minute - 1 else 'M'}{x:.2f} {y:.2f}h0")
            before = minute.minute
        return "".join(points)

    refused = [(left(m), 100 * share) for m in minutes if (share := m.refused_share)]
    reads = sum(m.reads for m in minutes)
    mean_us = sum((m.mean_us or 0) * m.reads for m in minutes) / reads if reads else None
    p99s = [m.p99_us for m in minutes if m.p99_us is not None]
    text = f"{name}, {len(minutes)} minutes: "
    text += "no reads" if mean_us is None else f"reads took {_duration(mean_us)} on average"
    text += f", p99 of a minute up to {_duration(max(p99s))}" if p99s else ""
    text += f"; {sum(m.refused for m in minutes):.0f} reads refused in {len(refused)} minutes"
    return _Panel(name, row, path(lambda m: m.mean_us), path(lambda m: m.p99_us), refused, text)


@functools.cache
def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters.update(age=format_age, duration=_duration)
    return environment.from_string(_TEMPLATE.read_text())


def render(hour: Hour, every_s: float, now_s: float | None = None) -> str:
    """Return the page for the time `now_s`. It reloads itself after each snapshot interval."""
    now_s = time.time() if now_s is None else now_s
    drives = hour.drives()
    scale = Scale.containing(minute for _, kept in drives.values() for minute in kept)
    silent_s = 0.0 if hour.last_snapshot_s is None else now_s - hour.last_snapshot_s
    return _template().render(
        drives=[
            _panel(name, row, kept, scale, int(now_s // 60)) for name, (row, kept) in drives.items()
        ],
        ticks=scale.ticks(),
        minute_width=_MINUTE_WIDTH,
        every_s=max(1, round(every_s)),
        silent_s=silent_s if silent_s > _STALE_AFTER * max(1.0, every_s) else None,
        when=time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now_s)),
    )
