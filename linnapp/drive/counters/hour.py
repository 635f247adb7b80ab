# SPDX-License-Identifier: MIT
"""The last hour of every drive, a minute at a time, from looks at it."""

from __future__ import annotations

import collections
import dataclasses
import math
import threading
from collections.abc import Iterable
from typing import Any

from linnapp.drive.counters.latencies import percentile_us
from linnapp.drive.counters.looks import DriveRow

MINUTES = 60


@dataclasses.dataclass
class Minute:
    """What the looks of one minute at one drive have seen."""

    #: Since the epoch.
    minute: int
    looks: int = 0
    #: Completed.
    reads: float = 0.0
    #: Mean latency over them, from request to completion; 0 without reads.
    read_us: float = 0.0
    #: `lowest_us`, `highest_us`: the least and the most of the looks' means; infinity and 0 without
    #: reads.
    lowest_us: float = math.inf
    highest_us: float = 0.0
    #: Reads that the policy has timed, in the buckets of :mod:`linnapp.drive.counters.latencies`;
    #: empty without any.
    latency_counts: list[int] = dataclasses.field(default_factory=list)
    #: `admitted`, `revoked`, `probes`: hinted reads: those that were not probes, those refused, and
    #: probes.
    admitted: float = 0.0
    revoked: float = 0.0
    probes: float = 0.0
    #: Looks at which at least half of the hinted reads were refused.
    in_burst: int = 0

    def add(self, row: DriveRow) -> None:
        """Count a look in."""
        self.looks += 1
        self.in_burst += row.burst_s is not None
        count = {name: rate * row.interval_s for name, rate in row.per_second.items()}
        probes = count.get("probes", 0.0)
        self.probes += probes
        # A probe that a mirror was asked for has no hint, and is not among the admitted.
        self.admitted += max(0.0, count.get("admitted", 0.0) - probes)
        self.revoked += count.get("revoked", 0.0)
        if any(row.latency_counts):
            before = self.latency_counts or [0] * len(row.latency_counts)
            self.latency_counts = [a + b for a, b in zip(before, row.latency_counts, strict=True)]
        if row.read_us_mean is None:
            return
        reads = row.reads_per_s * row.interval_s
        self.reads += reads
        self.read_us += (row.read_us_mean - self.read_us) * reads / self.reads
        self.lowest_us = min(self.lowest_us, row.read_us_mean)
        self.highest_us = max(self.highest_us, row.read_us_mean)

    @property
    def band_us(self) -> tuple[float, float] | None:
        """p50 and p99 of the reads that the policy has timed; None without any."""
        ends = [percentile_us(self.latency_counts, percent) for percent in (50, 99)]
        return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])

    def to_json(self) -> dict[str, Any]:
        """All fields by name, percentiles for buckets; latencies null without reads."""
        fields = dataclasses.asdict(self)
        del fields["latency_counts"]
        fields["p50_us"], fields["p99_us"] = self.band_us or (None, None)
        if not self.reads:
            fields.update(read_us=None, lowest_us=None, highest_us=None)
        return fields


class Hour:
    """Minutes of drives that come and go, shared by who looks and who shows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minutes: dict[str, collections.deque[Minute]] = {}
        self._last: dict[str, DriveRow] = {}
        #: when the last look was, since the epoch
        self.looked_s: float | None = None

    def add(self, rows: Iterable[DriveRow], time_s: float) -> None:
        """Count the rows of one look at the array in, at a time since the epoch."""
        now = int(time_s // 60)
        with self._lock:
            self.looked_s = time_s
            self._last = {row.drive: row for row in rows}
            # Of a clock that is set back by more, what it said before is not on the page, and
            # would take all that comes into a minute that is not either.
            for kept in self._minutes.values():
                while kept and kept[-1].minute > now + 1:
                    kept.pop()
            for row in self._last.values():
                kept = self._minutes.setdefault(row.drive, collections.deque())
                # A clock that is set back a little makes one long minute, no disorder.
                if not kept or kept[-1].minute < now:
                    kept.append(Minute(now))
                kept[-1].add(row)
            for drive, kept in list(self._minutes.items()):
                while kept and kept[0].minute <= now - MINUTES:
                    kept.popleft()
                if not kept:
                    del self._minutes[drive]

    def drives(self) -> dict[str, tuple[DriveRow | None, list[Minute]]]:
        """Of every drive seen in the hour its last look, None once it has gone, and minutes."""
        with self._lock:
            return {
                drive: (self._last.get(drive), [dataclasses.replace(m) for m in kept])
                for drive, kept in sorted(self._minutes.items())
            }
