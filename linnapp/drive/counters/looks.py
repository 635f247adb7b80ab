# SPDX-License-Identifier: MIT
"""Drives looked at again and again: what changed between two looks, and what came before."""

from __future__ import annotations

import collections
import dataclasses
import time
from typing import Any

from linnapp.drive import state
from linnapp.drive.counters.latencies import percentile_us
from linnapp.drive.sysfs import Drive
from linnapp.errors import DeviceError
from linnapp.model.latency_model import Choosing

#: looks that a sparkline shows at most
HISTORY = 120

#: From this share of refused hinted reads on a drive is taken to be in a burst.
BURST_SHARE = 0.5


@dataclasses.dataclass(frozen=True)
class Look:
    """Everything the kernel says of a drive at one time."""

    time_s: float
    mode: str
    model_id: str | None
    model_usage: Choosing | None
    threshold_us: int
    stats: dict[str, int]
    latency_counts: list[int] | None
    disk: dict[str, int]
    pending_pages: int | None
    settings: dict[str, int]

    @classmethod
    def at(cls, drive: Drive) -> Look:
        """Look now; errors as :class:`~linnapp.drive.sysfs.Drive` has them."""
        return cls(
            time.monotonic(),
            drive.mode,
            drive.model_id,
            drive.model_usage,
            drive.threshold_us,
            drive.stats,
            drive.latency_counts,
            drive.disk_stat,
            drive.pending_pages,
            drive.probes,
        )


@dataclasses.dataclass(frozen=True)
class DriveRow:
    """A drive between two looks."""

    drive: str
    mode: str
    #: Between the looks.
    interval_s: float
    #: Mean latency of the reads that completed, from request to completion, a scheduler's time
    #: included; None without reads.
    read_us_mean: float | None
    #: `p50` and `p99` of the reads that the policy has timed between the looks, within 12 %, and
    #: how many `reads` these were: from issue to completion, the drive's own. Empty where there
    #: were none: the policy is off, or the kernel is an older one.
    read_us_percentiles: dict[str, float]
    #: `reads_per_s`, `writes_per_s`: Completed.
    reads_per_s: float
    writes_per_s: float
    #: I/Os, now.
    in_flight: int
    #: Pages of 4 KiB in flight, as the policy counts them; None where only root may know.
    pending_pages: int | None
    #: Of every counter of ``stats/``.
    per_second: dict[str, float]
    #: For how long at least half of the hinted reads have been refused; None if they are not.
    burst_s: float | None
    model_id: str | None
    #: Since the upload; None where `linnapp` did not do it.
    model_age_s: float | None
    threshold_us: int
    #: `read_us_mean` of this and the looks before, oldest first.
    latencies_us: list[float | None]
    #: `totals`, `settings`: the counters themselves, and the knobs.
    totals: dict[str, int]
    settings: dict[str, int]
    #: md array that the drive is in.
    array: str | None = None
    #: Of the reads that the drives of this array completed, whoever read; None without reads, and
    #: where not all of them are looked at.
    array_read_share: float | None = None
    #: Whether reads may be refused, or sent elsewhere, by it; None if that is not known.
    model_usage: Choosing | None = None
    #: The reads of `read_us_percentiles`, in the buckets of
    #: :mod:`linnapp.drive.counters.latencies`.
    latency_counts: list[int] = dataclasses.field(default_factory=list)

    @property
    def refused_share(self) -> float | None:
        """Of the hinted reads those that were refused; None without any."""
        hinted = self.per_second.get("latency_critical", 0)
        return self.per_second.get("revoked", 0) / hinted if hinted else None

    @property
    def is_asked(self) -> bool:
        """Whether anybody has ever asked the model about a read without a hint: md, a program."""
        return self.totals.get("inferences", 0) > self.totals.get("latency_critical", 0)

    def to_json(self) -> dict[str, Any]:
        """All fields by name, without the looks before and the buckets."""
        fields = dataclasses.asdict(self)
        del fields["latencies_us"], fields["latency_counts"]
        return fields


class WatchedDrive:
    """A drive and what was seen of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._drive = Drive(name)
        self._before: Look | None = None
        self._latencies_us: collections.deque[float | None] = collections.deque(maxlen=HISTORY)
        self._burst_since_s: float | None = None

    def look(self) -> DriveRow | None:
        """Look at the drive; None at the first look, or when its counters began anew."""
        now = Look.at(self._drive)
        before, self._before = self._before, now
        if before is None or now.time_s <= before.time_s:
            return None
        moved = {name: now.stats[name] - before.stats.get(name, 0) for name in now.stats}
        disk = {name: now.disk[name] - before.disk.get(name, 0) for name in now.disk}
        counts = [
            now_n - before_n
            for now_n, before_n in zip(
                now.latency_counts or [], before.latency_counts or [], strict=False
            )
        ]
        if min([*moved.values(), *counts, disk["read_ios"], disk["write_ios"]]) < 0:
            return None  # another disk of that name
        interval_s = now.time_s - before.time_s
        read_us = disk["read_ms"] * 1e3 / disk["read_ios"] if disk["read_ios"] else None
        self._latencies_us.append(read_us)
        hinted, revoked = moved.get("latency_critical", 0), moved.get("revoked", 0)
        if hinted and revoked >= BURST_SHARE * hinted:
            if self._burst_since_s is None:
                self._burst_since_s = before.time_s
        else:
            self._burst_since_s = None
        uploaded = state.uploaded_at(self.name, now.model_id) if now.model_id else None
        return DriveRow(
            drive=self.name,
            mode=now.mode,
            interval_s=interval_s,
            read_us_mean=read_us,
            read_us_percentiles=_percentiles(counts),
            reads_per_s=disk["read_ios"] / interval_s,
            writes_per_s=disk["write_ios"] / interval_s,
            in_flight=now.disk["in_flight"],
            pending_pages=now.pending_pages,
            per_second={name: delta / interval_s for name, delta in moved.items()},
            burst_s=None if self._burst_since_s is None else now.time_s - self._burst_since_s,
            model_id=now.model_id,
            model_age_s=None if uploaded is None else max(0.0, time.time() - uploaded),
            threshold_us=now.threshold_us,
            latencies_us=list(self._latencies_us),
            totals=now.stats,
            settings=now.settings,
            model_usage=now.model_usage,
            latency_counts=counts,
        )


def _percentiles(counts: list[int]) -> dict[str, float]:
    """What :class:`DriveRow` shows of reads in buckets."""
    p50, p99 = (percentile_us(counts, percent) for percent in (50, 99))
    if p50 is None or p99 is None:
        return {}
    return {"p50": p50, "p99": p99, "reads": sum(counts)}


class WatchedArray:
    """Drives that come and go: those that are named, else all that have LinnOS at the time."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._watched: dict[str, WatchedDrive] = {}

    def look(self) -> list[DriveRow]:
        """Look at all drives; those seen for the first time, or gone, have no row."""
        from linnapp.drive.sysfs import drives, md_drives

        rows = []
        names = self._names or drives()
        self._watched = {name: w for name, w in self._watched.items() if name in names}
        for name in names:
            try:
                watched = self._watched.get(name) or WatchedDrive(name)
                row = watched.look()
            except DeviceError:
                # Not there any more, or going: its files are gone, or empty already.
                self._watched.pop(name, None)
                continue
            self._watched[name] = watched
            if row is not None:
                rows.append(row)
        return _with_shares(rows, md_drives())


def _with_shares(rows: list[DriveRow], arrays: dict[str, list[str]]) -> list[DriveRow]:
    """The rows with what part of its md array's reads each drive had."""
    shown = {row.drive: row for row in rows}
    for array, names in arrays.items():
        here = [name for name in names if name in shown]
        # Partitions of a drive can be in several.
        here = [name for name in here if shown[name].array is None]
        reads_per_s = sum(shown[name].reads_per_s for name in here)
        is_known = len(here) == len(names) and reads_per_s > 0
        for name in here:
            share = shown[name].reads_per_s / reads_per_s if is_known else None
            shown[name] = dataclasses.replace(shown[name], array=array, array_read_share=share)
    return list(shown.values())
