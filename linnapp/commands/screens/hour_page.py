# SPDX-License-Identifier: MIT
"""The exporter's page: the array's last hour, as one HTML file that needs nothing else."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from linnapp.commands.screens.top import age
from linnapp.drive.counters.hour import MINUTES, Hour, Minute
from linnapp.drive.counters.looks import DriveRow

if TYPE_CHECKING:
    import jinja2

#: Tick marks of a latency axis: no more than these, or decades alone.
_TICKS = 6

#: in percent of the panel: a minute, and its bar, which leaves a gap to the next
_MINUTE_WIDTH = 100 / MINUTES
_BAR_WIDTH = 0.8 * _MINUTE_WIDTH

#: without a look for as many times the time between two, the page says how old it is
_LATE_LOOKS = 3

_TEMPLATE = files("linnapp").joinpath("monitoring", "hour.html.j2")


@dataclasses.dataclass(frozen=True)
class Scale:
    """A logarithmic axis of latencies, the same for all drives."""

    #: `low_us`, `high_us`: at the bottom and at the top.
    low_us: float
    high_us: float

    @classmethod
    def of(cls, minutes: Iterable[Minute]) -> Scale:
        """The least axis from 1, 2 or 5 times a power of ten to another that shows all of them."""
        known = [us for m in minutes if m.reads for us in (*_band_us(m), m.read_us)]
        low = max(1.0, min(known, default=10.0))
        high = max(low, *known) if known else 1000.0
        marks = list(_marks(low, high))
        return cls(marks[0], marks[-1])

    def percent(self, us: float) -> float:
        """How far up a latency is."""
        share = math.log(max(us, self.low_us) / self.low_us) / math.log(self.high_us / self.low_us)
        return 100 * min(1.0, share)

    def ticks(self) -> list[tuple[str, float]]:
        """Words and places of the marks."""
        # The last one is beyond the axis.
        marks = list(_marks(self.low_us, self.high_us))[:-1]
        if len(marks) > _TICKS:
            marks = [mark for mark in marks if math.log10(mark).is_integer()]
        return [(duration(mark), self.percent(mark)) for mark in marks]


def _band_us(minute: Minute) -> tuple[float, float]:
    """The ends of a minute's band; of the looks' means where the policy has timed no read."""
    return minute.band_us or (minute.lowest_us, minute.highest_us)


def _marks(low: float, high: float) -> Iterator[float]:
    """1, 2, 5, 10, ... from the last that is not above `low` to the first above `high`."""
    power = 10.0 ** math.floor(math.log10(low))
    start = max(step for step in (1, 2, 5) if step * power <= low * 1.000001)
    steps = [step for step in (1, 2, 5) if step >= start]
    while True:
        for step in steps:
            yield step * power
            if step * power > high:
                return
        steps, power = [1, 2, 5], power * 10


def duration(us: float) -> str:
    """A latency in its largest unit."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} us"


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A drive as the page shows it; places in percent of the panel, from the left and the top."""

    name: str
    row: DriveRow | None
    band: str
    line: list[str]
    bursts: list[tuple[float, float]]
    bars: list[tuple[str, float, float, float]]
    words: str


def _drawn(
    name: str,
    row: DriveRow | None,
    minutes: list[Minute],
    scale: Scale,
    now_minute: int,
    most: float,
) -> Drawn:
    width = _MINUTE_WIDTH

    def left(minute: Minute) -> float:
        return 100 - (now_minute - minute.minute + 1) * width

    band, lines, line, before = [], [], list[str](), -1
    bursts, bars = [], []
    for minute in minutes:
        x = left(minute)
        if minute.in_burst:
            bursts.append((x, width))
        if not minute.reads:
            continue
        bottom, top = (100 - scale.percent(us) for us in _band_us(minute))
        # Minutes alike would have a band of no height.
        band.append(f"M{x:.3f} {top - 0.4:.2f}h{width:.3f}V{bottom + 0.4:.2f}h{-width:.3f}z")
        if minute.minute != before + 1 and line:
            lines.append(line)
            line = []
        before = minute.minute
        line.append(f"{x + width / 2:.3f},{100 - scale.percent(minute.read_us):.2f}")
    if line:
        lines.append(line)
    for minute in minutes:
        below = 100.0
        for kind in ("admitted", "probes", "revoked"):
            height = 100 * getattr(minute, kind) / most if most else 0.0
            if height:
                below -= height
                bars.append((kind, left(minute) + (width - _BAR_WIDTH) / 2, below, height))
    return Drawn(
        name,
        row,
        "".join(band),
        # A single minute would be a line of no length.
        [" ".join(points if len(points) > 1 else points * 2) for points in lines],
        bursts,
        bars,
        _words(name, minutes),
    )


def _band_words(minutes: list[Minute]) -> str:
    """What the bands are."""
    percentiles, means = (
        "p50 to p99 of a minute's reads",
        "means of a minute's looks, least to most",
    )
    timed = [m.band_us is not None for m in minutes]
    if all(timed):
        return percentiles
    return f"{percentiles}; where the policy timed none, {means}" if any(timed) else means


def _words(name: str, minutes: list[Minute]) -> str:
    """The panel for who cannot see it."""
    known = [m for m in minutes if m.reads]
    reads = sum(m.reads for m in known)
    mean = sum(m.read_us * m.reads for m in known) / reads if reads else 0.0
    burst = sum(bool(m.in_burst) for m in minutes)
    band = [us for m in known for us in _band_us(m)]
    latency = (
        f"reads took {duration(mean)} on average, {duration(min(band))} to {duration(max(band))}"
        if known
        else "no reads"
    )
    return (
        f"{name}, {len(minutes)} minutes: {latency}; {sum(m.revoked for m in minutes):.0f} reads "
        f"revoked; in a burst in {burst} of the minutes"
    )


@functools.cache
def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters.update(age=age, duration=duration)
    return environment.from_string(_TEMPLATE.read_text())


def page(hour: Hour, every_s: float, now_s: float | None = None) -> str:
    """The page as of now; it asks for itself anew as often as drives are looked at."""
    now_s = time.time() if now_s is None else now_s
    drives = hour.drives()
    minutes = [minute for _, kept in drives.values() for minute in kept]
    scale = Scale.of(minutes)
    most = max((m.admitted + m.probes + m.revoked for m in minutes), default=0.0)
    silent_s = 0.0 if hour.looked_s is None else now_s - hour.looked_s
    return _template().render(
        drives=[
            _drawn(name, row, kept, scale, int(now_s // 60), most)
            for name, (row, kept) in drives.items()
        ],
        band_words=_band_words([m for m in minutes if m.reads]),
        ticks=scale.ticks(),
        bar_width=_BAR_WIDTH,
        most_per_s=most / 60,
        every_s=max(1, round(every_s)),
        silent_s=silent_s if silent_s > _LATE_LOOKS * max(1.0, every_s) else None,
        when=time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now_s)),
    )


def data(hour: Hour) -> dict[str, Any]:
    """What the page is drawn from, for scripts."""
    return {
        "looked_s": hour.looked_s,
        "drives": [
            {
                "drive": name,
                "now": None if row is None else row.to_json(),
                "minutes": [minute.to_json() for minute in kept],
            }
            for name, (row, kept) in hour.drives().items()
        ],
    }
