# SPDX-License-Identifier: MIT
"""The last hour of every drive in minutes, computed from snapshots."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Iterable
from typing import Any

from linnapp.drive.latencies import percentile_us
from linnapp.drive.snapshots import DriveRow

MINUTES = 60


@dataclasses.dataclass
class Minute:
    """One minute of one drive, summed over its snapshots."""

    #: since the epoch
    minute: int
    looks: int = 0
    #: completed reads, and their mean latency from request to completion
    reads: float = 0.0
    read_us: float | None = None
    #: Reads by latency, in the buckets of :mod:`linnapp.drive.latencies`; empty if the
    #: policy has timed none.
    latency_counts: list[int] = dataclasses.field(default_factory=list)
    #: Hinted reads: those admitted without the probes, those refused, and the probes.
    admitted: float = 0.0
    revoked: float = 0.0
    probes: float = 0.0

    def add(self, row: DriveRow) -> None:
        """Add a snapshot."""
        self.looks += 1
        count = {name: rate * row.interval_s for name, rate in row.per_second.items()}
        probes = count.get("probes", 0.0)
        self.probes += probes
        # A probe that is a query by md has no hint, and is not among the admitted reads.
        self.admitted += max(0.0, count.get("admitted", 0.0) - probes)
        self.revoked += count.get("revoked", 0.0)
        if any(row.latency_counts):
            before = self.latency_counts or [0] * len(row.latency_counts)
            self.latency_counts = [a + b for a, b in zip(before, row.latency_counts, strict=True)]
        if row.read_us_mean is None:
            return
        reads = row.reads_per_s * row.interval_s
        self.reads += reads
        before_us = self.read_us or 0.0
        self.read_us = before_us + (row.read_us_mean - before_us) * reads / self.reads

    @property
    def p99_us(self) -> float | None:
        """p99 of the reads that the policy has timed."""
        return percentile_us(self.latency_counts, 99)

    @property
    def refused_share(self) -> float:
        """Share of the hinted reads that was refused."""
        hinted = self.admitted + self.revoked + self.probes
        return self.revoked / hinted if hinted else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return all fields by name, with percentiles instead of buckets."""
        fields = dataclasses.asdict(self)
        del fields["latency_counts"]
        return {**fields, "p50_us": percentile_us(self.latency_counts, 50), "p99_us": self.p99_us}


class Hour:
    """Minutes of drives that come and go, shared by the thread that adds and the one that shows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minutes: dict[str, collections.deque[Minute]] = {}
        self._last: dict[str, DriveRow] = {}
        #: time of the last snapshot, since the epoch
        self.looked_s: float | None = None

    def add(self, rows: Iterable[DriveRow], time_s: float) -> None:
        """Add the rows of one snapshot of the array, at a time since the epoch."""
        now = int(time_s // 60)
        with self._lock:
            self.looked_s = time_s
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
