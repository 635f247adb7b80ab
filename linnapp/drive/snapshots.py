# SPDX-License-Identifier: MIT
"""Drives in periodic snapshots: the changes between two snapshots, and the history."""

from __future__ import annotations

import collections
import dataclasses
import time
from typing import Any

from linnapp.drive import state
from linnapp.drive.latencies import percentile_us
from linnapp.drive.sysfs import Drive, disk_stat, drives, md_drives
from linnapp.errors import DeviceError

#: Maximum number of snapshots in a sparkline.
HISTORY = 120

#: Share of refused hinted reads from which a drive is regarded as in a burst.
BURST_SHARE = 0.5


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The kernel's values for a drive at one time; all readers of counters use this."""

    drive: Drive
    time_s: float
    mode: str
    model_id: str | None
    threshold_us: int
    stats: dict[str, int]
    latency_counts: list[int]
    disk: dict[str, int]

    @classmethod
    def take(cls, drive: Drive) -> Snapshot:
        """Take a snapshot now; raises the errors of :class:`~linnapp.drive.sysfs.Drive`."""
        return cls(
            drive,
            time.monotonic(),
            drive.mode,
            drive.model_id,
            drive.threshold_us,
            drive.stats,
            drive.latency_counts,
            disk_stat(drive.name),
        )

    @property
    def name(self) -> str:
        """The drive's name."""
        return self.drive.name

    @property
    def uploaded_at(self) -> float | None:
        """Time at which linnapp uploaded the model, since 1970; None if it did not."""
        return state.uploaded_at(self.name, self.model_id) if self.model_id else None


@dataclasses.dataclass(frozen=True)
class DriveRow:
    """A drive between two snapshots."""

    drive: str
    mode: str
    #: Time between the snapshots.
    interval_s: float
    #: Mean latency of the reads that completed, from request to completion, including time in a
    #: scheduler; None without reads.
    read_us_mean: float | None
    #: `p50` and `p99` of the reads that the policy has timed between the snapshots, within 12 %,
    #: and their number `reads`. The times are from issue to completion, the drive's own. Empty if
    #: there were none, for example because the policy is off.
    read_us_percentiles: dict[str, float]
    #: `reads_per_s`, `writes_per_s`: completed I/Os.
    reads_per_s: float
    writes_per_s: float
    #: Current number of I/Os.
    in_flight: int
    #: Rate of every counter of ``stats/``.
    per_second: dict[str, float]
    #: Time for which at least half of the hinted reads have been refused; None if they are not.
    burst_s: float | None
    model_id: str | None
    #: Age since the upload; None if `linnapp` did not upload it.
    model_age_s: float | None
    threshold_us: int
    #: `read_us_mean` of this and the previous snapshots, oldest first.
    latencies_us: list[float | None]
    #: The counters themselves.
    totals: dict[str, int]
    #: md array that contains the drive.
    array: str | None = None
    #: Share of this drive in the reads that the drives of this array completed, for any reader;
    #: None without reads, and if not all of the drives are observed.
    array_read_share: float | None = None
    #: The reads of `read_us_percentiles`, in the buckets of :mod:`linnapp.drive.latencies`.
    latency_counts: list[int] = dataclasses.field(default_factory=list)

    @property
    def refused_share(self) -> float | None:
        """Share of the hinted reads that were refused; None without any."""
        hinted = self.per_second.get("latency_critical", 0)
        return self.per_second.get("revoked", 0) / hinted if hinted else None

    @property
    def is_asked(self) -> bool:
        """True if md or a program has ever queried the model about a read without a hint."""
        return is_asked(self.totals)

    def to_json(self) -> dict[str, Any]:
        """Return all fields by name, without the history and the buckets."""
        fields = dataclasses.asdict(self)
        del fields["latencies_us"], fields["latency_counts"]
        return fields


def is_asked(stats: dict[str, int]) -> bool:
    """Return true if the model was queried more often than there were hinted reads."""
    return stats.get("inferences", 0) > stats.get("latency_critical", 0)


class WatchedDrive:
    """A drive and its history."""

    def __init__(self, name: str) -> None:
        self._drive = Drive(name)
        self._before: Snapshot | None = None
        self._latencies_us: collections.deque[float | None] = collections.deque(maxlen=HISTORY)
        self._burst_since_s: float | None = None

    def take_snapshot(self) -> DriveRow | None:
        """Return the changes; None at the first snapshot, or if the counters were reset."""
        now = Snapshot.take(self._drive)
        before, self._before = self._before, now
        if before is None or now.time_s <= before.time_s:
            return None
        moved = {name: now.stats[name] - before.stats.get(name, 0) for name in now.stats}
        disk = {name: now.disk[name] - before.disk.get(name, 0) for name in now.disk}
        histograms = zip(now.latency_counts, before.latency_counts, strict=True)
        counts = [after - first for after, first in histograms]
        if min([*moved.values(), *counts, disk["read_ios"], disk["write_ios"]]) < 0:
            return None  # another disk of that name
        interval_s = now.time_s - before.time_s
        read_us = disk["read_ms"] * 1e3 / disk["read_ios"] if disk["read_ios"] else None
        self._latencies_us.append(read_us)
        hinted, revoked = moved.get("latency_critical", 0), moved.get("revoked", 0)
        if not hinted or revoked < BURST_SHARE * hinted:
            self._burst_since_s = None
        elif self._burst_since_s is None:
            self._burst_since_s = before.time_s
        percentiles: dict[str, float] = {}
        for percent in (50, 99):
            if (us := percentile_us(counts, percent)) is not None:
                percentiles |= {f"p{percent}": us, "reads": sum(counts)}
        uploaded = now.uploaded_at
        return DriveRow(
            drive=now.name,
            mode=now.mode,
            interval_s=interval_s,
            read_us_mean=read_us,
            read_us_percentiles=percentiles,
            reads_per_s=disk["read_ios"] / interval_s,
            writes_per_s=disk["write_ios"] / interval_s,
            in_flight=now.disk["in_flight"],
            per_second={name: delta / interval_s for name, delta in moved.items()},
            burst_s=None if self._burst_since_s is None else now.time_s - self._burst_since_s,
            model_id=now.model_id,
            model_age_s=None if uploaded is None else max(0.0, time.time() - uploaded),
            threshold_us=now.threshold_us,
            latencies_us=list(self._latencies_us),
            totals=now.stats,
            latency_counts=counts,
        )


class WatchedArray:
    """Drives that come and go: those that are named, otherwise all that currently have LinnOS."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._watched: dict[str, WatchedDrive] = {}

    def take_snapshot(self) -> list[DriveRow]:
        """Take a snapshot of all drives; those that are new or gone have no row."""
        rows = []
        watched = {}
        for name in self._names or drives():
            try:
                drive = self._watched.get(name) or WatchedDrive(name)
                row = drive.take_snapshot()
            except DeviceError:
                continue  # It is gone, or being removed: its files are missing, or already empty.
            watched[name] = drive
            if row is not None:
                rows.append(row)
        self._watched = watched
        return _with_shares(rows, md_drives())


def _with_shares(rows: list[DriveRow], arrays: dict[str, list[str]]) -> list[DriveRow]:
    """Add each drive's share of its md array's reads to the rows."""
    shown = {row.drive: row for row in rows}
    for array, names in arrays.items():
        # Partitions of a drive can be in several arrays. It is then shown with the first.
        here = [name for name in names if name in shown and shown[name].array is None]
        reads_per_s = sum(shown[name].reads_per_s for name in here)
        is_known = len(here) == len(names) and reads_per_s > 0
        for name in here:
            share = shown[name].reads_per_s / reads_per_s if is_known else None
            shown[name] = dataclasses.replace(shown[name], array=array, array_read_share=share)
    return list(shown.values())
