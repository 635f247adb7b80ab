# SPDX-License-Identifier: MIT
"""What a trace holds: counts, mix, rates, sizes (the columns of the paper's Table 1), latencies.

Everything is accumulated chunk by chunk, so memory does not grow with the trace: latencies go
into a histogram with 64 bins per power of two, which bounds the error of a percentile to 1.6 %.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError
from linnapp.files import AnyPath
from linnapp.trace import blktrace
from linnapp.trace.formats import conversion, replay_log
from linnapp.trace.formats.iolog import Workload
from linnapp.trace.formats.text_trace import read_columns
from linnapp.trace.in_flight import QUEUE_DEPTH, AssumedService, QueueSummary
from linnapp.trace.recorded import open_recording
from linnapp.trace.workloads.arrivals import WINDOW_S

PERCENTILES = (50, 80, 90, 95, 99, 99.9, 99.99)

#: beyond it no time or place is
_LAST = 2**62

_LATENCIES = ("read_latency", "write_latency", "read_response", "write_response")

_SUB_BINS = 64
_SUB_BITS = 6


class LatencyHistogram:
    """Counts of latencies in ns: exact below 128 ns, within 1.6 % above."""

    N_BINS = 64 * _SUB_BINS

    def __init__(self) -> None:
        self.counts = np.zeros(self.N_BINS, np.int64)
        self._sum_ns = 0.0
        self.n = 0
        self.max_ns = 0

    def add(self, latency_ns: npt.NDArray[np.uint64]) -> None:
        """Count latencies."""
        if not len(latency_ns):
            return
        self.n += len(latency_ns)
        self._sum_ns += float(latency_ns.sum(dtype=np.float64))
        self.max_ns = max(self.max_ns, int(latency_ns.max()))
        self.counts += np.bincount(self.bins(latency_ns), minlength=self.N_BINS)

    @staticmethod
    def bins(latency_ns: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """The bin of each latency; they are in order."""
        value = latency_ns.astype(np.int64)
        # frexp is exact for what a double holds exactly, far above any latency.
        exponent = np.maximum(np.frexp(value.astype(np.float64))[1] - 1 - _SUB_BITS, 0)
        return np.asarray(exponent * _SUB_BINS + (value >> exponent), np.int64)

    @staticmethod
    def _upper_ns(index: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        exponent = np.maximum(index // _SUB_BINS - 1, 0)
        mantissa = index - exponent * _SUB_BINS
        return np.asarray((mantissa + 1.0) * 2.0**exponent - 1)

    @property
    def mean_us(self) -> float:
        """Mean latency; exact."""
        return self._sum_ns / self.n / 1000 if self.n else 0.0

    def percentile_us(self, percentile: float) -> float:
        """A percentile, rounded up to its bin's end."""
        if not self.n:
            return 0.0
        rank = max(1, int(np.ceil(percentile / 100 * self.n - 1e-9)))
        index = np.searchsorted(np.cumsum(self.counts), rank)
        return min(float(self._upper_ns(np.array([index]))[0]), float(self.max_ns)) / 1000

    def to_json(self) -> dict[str, float]:
        """Mean, percentiles and maximum in us."""
        named = {f"p{str(p).replace('.', '')}_us": self.percentile_us(p) for p in PERCENTILES}
        return {"mean_us": self.mean_us, **named, "max_us": self.max_ns / 1000}

    def doublings(self) -> list[tuple[float, int]]:
        """From which power of two of us on, and how many up to the next; empty ones between, too.

        A latency belongs where the end of its bin is, within 1.6 %.
        """
        used = np.nonzero(self.counts)[0]
        power = np.floor(np.log2(np.maximum(self._upper_ns(used), 1) / 1000)).astype(int)
        if not len(used):
            return []
        counts = np.bincount(power - power[0], self.counts[used]).astype(int).tolist()
        return [(2.0 ** (int(power[0]) + i), n) for i, n in enumerate(counts)]

    def cdf(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Latency in us and cumulative share, one point per bin that is not empty."""
        used = np.nonzero(self.counts)[0]
        share = np.cumsum(self.counts[used]) / max(self.n, 1)
        return np.minimum(self._upper_ns(used), self.max_ns) / 1000, share


class WindowCounts:
    """I/Os in each part of 10 s; kept are those of 10 s with an I/O in them, four bytes a part."""

    def __init__(self, parts: int) -> None:
        self._parts = parts
        self._part_us = WINDOW_S * 1_000_000 // parts
        self._windows: dict[int, npt.NDArray[np.uint32]] = {}

    def add(self, time_us: npt.NDArray[np.int64]) -> None:
        """Count I/Os; times may go back."""
        parts, counts = np.unique(time_us // self._part_us, return_counts=True)
        window, place = np.divmod(parts, self._parts)
        for key in np.unique(window).tolist():
            row = self._windows.setdefault(key, np.zeros(self._parts, np.uint32))
            row[place[window == key]] += counts[window == key].astype(np.uint32)

    def most(self) -> int:
        """Those in the busiest 10 s, whenever they begin; to a part."""
        none = np.zeros(self._parts, np.int64)
        most = 0
        for key, row in self._windows.items():
            upto = np.cumsum(np.concatenate(([0], row, self._windows.get(key + 1, none))))
            most = max(most, int((upto[self._parts :] - upto[: -self._parts]).max()))
        return most


class WorkloadSummary:
    """Counts, rates and sizes of I/Os in order of time."""

    def __init__(self) -> None:
        self.reads = 0
        self.writes = 0
        self._bytes = {"read": 0, "write": 0}
        self._max_bytes = {"read": 0, "write": 0}
        self._origin_us: int | None = None
        self._first_us = 0
        self._last_us = 0
        #: to a tenth of a second
        self._busiest = WindowCounts(100)
        self._end_bytes = 0

    def add(self, chunk: Workload) -> None:
        """Count a chunk."""
        if not len(chunk):
            return
        # Windows count from the first chunk's start; a log in completion order may go back a bit.
        if self._origin_us is None:
            self._origin_us = self._first_us = int(chunk.time_us.min())
        self._first_us = min(self._first_us, int(chunk.time_us.min()))
        self._last_us = max(self._last_us, int(chunk.time_us.max()))
        self._end_bytes = max(self._end_bytes, int((chunk.offset_bytes + chunk.size_bytes).max()))
        for kind, rows in (("read", ~chunk.is_write), ("write", chunk.is_write)):
            sizes = chunk.size_bytes[rows]
            if len(sizes):
                self._bytes[kind] += int(sizes.sum())
                self._max_bytes[kind] = max(self._max_bytes[kind], int(sizes.max()))
        n_writes = int(np.count_nonzero(chunk.is_write))
        self.writes += n_writes
        self.reads += len(chunk) - n_writes
        self._busiest.add(chunk.time_us - self._origin_us)

    def to_json(self) -> dict[str, Any]:
        """All figures by name."""
        total = self.reads + self.writes
        span_us = self._last_us - self._first_us
        duration_s = span_us / 1e6

        def mean(kind: str, count: int) -> float:
            return self._bytes[kind] / count if count else 0.0

        return {
            "ios": total,
            "reads": self.reads,
            "writes": self.writes,
            "read_fraction": self.reads / total if total else 0.0,
            "duration_s": duration_s,
            "iops_mean": total / duration_s if duration_s else 0.0,
            # A trace shorter than the window has no 10 s average but its own.
            "iops_max_10s": self._busiest.most() / min(WINDOW_S, duration_s) if duration_s else 0.0,
            "read_bytes_mean": mean("read", self.reads),
            "write_bytes_mean": mean("write", self.writes),
            "read_bytes_max": self._max_bytes["read"],
            "write_bytes_max": self._max_bytes["write"],
            "read_mb_s": self._bytes["read"] / 1e6 / duration_s if duration_s else 0.0,
            "write_mb_s": self._bytes["write"] / 1e6 / duration_s if duration_s else 0.0,
            "end_bytes": self._end_bytes,
        }


@dataclasses.dataclass(frozen=True)
class Inspection:
    """What a trace holds."""

    trace: str
    #: As :func:`linnapp.trace.formats.conversion.detect_format` calls it, or ``replay_log``.
    trace_format: str
    #: Counts, rates and sizes.
    summary: dict[str, Any]
    #: `read_latency`, `write_latency` of formats with latencies; of a replay's log `read_response`
    #: and `write_response`, too: from when an I/O was due, not from its submission.
    latencies: dict[str, LatencyHistogram]
    #: For formats with latencies: counts of events and of what was wrong with them.
    events: dict[str, int]
    #: Of no I/O when there are neither latencies nor an assumption.
    queue: QueueSummary
    #: What stood in for latencies.
    service: AssumedService | None
    #: The units that were assumed, in words.
    units: str
    #: Sentences about what is not as it seems: several volumes, times out of order.
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        """All figures by name; latencies only where the format has them."""
        out: dict[str, Any] = {"trace": self.trace, "format": self.trace_format}
        out |= {"units": self.units, "notes": self.notes, **self.summary}
        out["slack"], out["burstiness"] = self.queue.slack, self.queue.burstiness
        out["queue_depth"] = self.queue.queue_depth
        if self.service is not None:
            out["assumed_service"] = {"io_us": self.service.io_us, "mb_s": self.service.mb_s}
        out |= {name: latency.to_json() for name, latency in self.latencies.items()}
        if self.events:
            out["events"] = self.events
        return out


def inspect(
    trace: AnyPath,
    source_format: str | None = None,
    *,
    queue_depth: int = QUEUE_DEPTH,
    service: tuple[float, float] | None = None,
    volume: str | None = None,
    **reader_options: Any,
) -> Inspection:
    """Summarise a trace of any known format, or the replayer's per-I/O log.

    Parameters
    ----------
    queue_depth : int
        Others in flight from which on an I/O has to wait for the drive's queue.
    service : (float, float), optional
        Of a workload that has no latencies: us per I/O and MB/s of the drive to assume. Other
        traces do not use it.
    volume : str, optional
        Of a text trace of several volumes, the one to look at.
    **reader_options
        Those of :func:`linnapp.trace.recorded.open_recording`.
    """
    trace = Path(trace)
    summary = WorkloadSummary()
    latencies = {name: LatencyHistogram() for name in _LATENCIES}
    events: dict[str, int] = {}
    queue = QueueSummary(queue_depth)
    assumed = None
    units, notes = "times in ns, sectors of 512 bytes", list[str]()
    replayed = source_format is None and trace.is_file() and replay_log.is_replay_log(trace)
    text_format = None if replayed else conversion.format_of(trace, source_format)
    name = "replay_log" if replayed else conversion.name_of_format(text_format)
    if text_format is not None:
        units = text_format.units
    if reader_options.get("device") and name != "blktrace":
        raise TraceError(
            f"{trace}: `device=` chooses a drive of a blktrace recording; this is {name}"
        )
    if replayed:
        for chunk, records in _replayed(trace):
            summary.add(chunk)
            # What failed was not answered.
            answered = records["served_by"] != replay_log.NOBODY
            for kind, rows in (("read", ~chunk.is_write), ("write", chunk.is_write)):
                served = records[answered & rows]
                latencies[f"{kind}_latency"].add(served["latency_ns"].astype(np.uint64))
                latencies[f"{kind}_response"].add(replay_log.response_ns(served))
    elif text_format is None or (text_format.has_latency and not text_format.coarse):
        reader = open_recording(trace, text_format=text_format, **reader_options)
        for io in reader:
            summary.add(
                Workload(
                    (io.arrival_ns // np.uint64(1000)).astype(np.int64),
                    (io.sector * np.uint64(512)).astype(np.int64),
                    io.size_bytes.astype(np.int64),
                    io.is_write,
                )
            )
            others = blktrace.ERROR | blktrace.REVOKED | blktrace.DOUBTFUL
            served = (io.flags & (others | blktrace.COMPLETED)) == blktrace.COMPLETED
            latencies["read_latency"].add(io.latency_ns[served & io.is_read])
            latencies["write_latency"].add(io.latency_ns[served & io.is_write])
            # One that failed was in the drive all the same, one that was revoked never.
            rows = (io.latency_ns > 0) & ((io.flags & blktrace.REVOKED) == 0)
            arrival_ns = io.arrival_ns[rows].astype(np.int64)
            queue.add(arrival_ns, arrival_ns + io.latency_ns[rows].astype(np.int64))
        events = reader.stats.counts
    else:
        assumed = None if service is None else AssumedService(*service)
        for columns in read_columns(
            trace, text_format, on_counts=lambda counts: notes.extend(counts.notes(volume)),
            volume=volume,
        ):  # fmt: skip
            chunk = Workload(columns.time_ns // 1000, *columns[1:4])
            summary.add(chunk)
            if text_format.has_latency:
                for kind, rows in (("read", ~chunk.is_write), ("write", chunk.is_write)):
                    latencies[f"{kind}_latency"].add(columns.latency_ns[rows].astype(np.uint64))
            if assumed is not None and len(chunk):
                queue.add(*assumed.serve(chunk.time_us, chunk.size_bytes))
    if not summary.reads + summary.writes:
        raise TraceError(f"{trace}: holds no read or write")
    return Inspection(
        str(trace),
        name,
        summary.to_json(),
        {name: latencies[name] for name in _LATENCIES if latencies[name].n},
        events,
        queue,
        assumed,
        units,
        notes,
    )


def _replayed(path: Path) -> Iterator[tuple[Workload, npt.NDArray[Any]]]:
    """I/Os of a per-I/O log, and its records of them."""
    try:
        records = replay_log.read(path)
    except ValueError as error:
        raise TraceError(str(error)) from error
    if not len(records):
        return
    first_ns = int(records["due_ns"].min())
    for start in range(0, len(records), 1 << 18):
        part = records[start : start + (1 << 18)]
        for name in ("due_ns", "latency_ns", "lag_ns", "offset_bytes"):
            if int(part[name].max()) > _LAST:
                raise TraceError(f"{path}: corrupt: {name} is {part[name].max()}; record it again")
        yield (
            Workload(
                (part["due_ns"].astype(np.int64) - first_ns) // 1000,
                part["offset_bytes"].astype(np.int64),
                part["size_bytes"].astype(np.int64),
                part["op"] == replay_log.WRITE,
            ),
            part,
        )
