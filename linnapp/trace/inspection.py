# SPDX-License-Identifier: MIT
"""Summarise a trace: counts, rates, sizes and latencies, as in the paper's Table 1.

All values are accumulated chunk by chunk, so memory use does not depend on the length of the trace.
Latencies are counted in a histogram with 64 bins per power of two, which limits the error of a
percentile to 1.6 %.
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
from linnapp.trace import blktrace, replay_log
from linnapp.trace import convert as conversion
from linnapp.trace.convert import Workload
from linnapp.trace.reads import open_recording
from linnapp.trace.text import TextCounts, read_columns
from linnapp.trace.workload import WINDOW_S

#: Time in ms without I/O in flight after which the next I/O counts as slack.
SLACK_MS = 2

#: Default queue depth: SATA's native command queueing, the shallowest queue of a flash drive.
QUEUE_DEPTH = 32


class QueueSummary:
    """Counts the I/Os that arrive at a drive after a long idle time, and at a full queue."""

    def __init__(self, queue_depth: int = QUEUE_DEPTH) -> None:
        self.queue_depth = queue_depth
        self.ios = 0
        self._slack = 0
        self._waiting = 0
        #: Completion times of the I/Os that were in flight at the last arrival.
        self._completion = np.empty(0, np.int64)
        self._idle_since: int | None = None

    def add(self, arrival_ns: npt.NDArray[np.int64], completion_ns: npt.NDArray[np.int64]) -> None:
        """Count I/Os. Calls must be in order of arrival."""
        if not len(arrival_ns):
            return
        # The state before the first I/O is unknown, so it does not count as slack.
        idle_since = int(arrival_ns[0]) if self._idle_since is None else self._idle_since
        latest = np.maximum.accumulate(np.append(idle_since, completion_ns))
        self._slack += int(np.count_nonzero(arrival_ns - latest[:-1] >= SLACK_MS * 1_000_000))
        self._idle_since = int(latest[-1])

        n_arrived = len(self._completion) + np.arange(len(arrival_ns))
        completion = np.concatenate((self._completion, completion_ns))
        # I/Os that arrive at the same time are in each other's queue.
        n_completed = np.searchsorted(np.sort(completion), arrival_ns, side="right")
        self._waiting += int(np.count_nonzero(n_arrived - n_completed >= self.queue_depth))
        self.ios += len(arrival_ns)
        self._completion = completion[completion > arrival_ns[-1]]

    @property
    def slack(self) -> float | None:
        """Share of I/Os that find nothing in flight for `SLACK_MS`, or None without I/Os."""
        return self._slack / self.ios if self.ios else None

    @property
    def burstiness(self) -> float | None:
        """Share of I/Os that wait for `queue_depth` others in flight, or None without I/Os."""
        return self._waiting / self.ios if self.ios else None


PERCENTILES = (50, 80, 90, 95, 99, 99.9, 99.99)

#: Maximum of valid times and offsets.
_LAST = 2**62

_LATENCIES = ("read_latency", "write_latency", "read_response", "write_response")

_SUB_BINS = 64
_SUB_BITS = 6


class LatencyHistogram:
    """Histogram of latencies in ns, exact up to 127 ns and within 1.6 % for longer ones."""

    N_BINS = 64 * _SUB_BINS

    def __init__(self) -> None:
        self.counts = np.zeros(self.N_BINS, np.int64)
        self._sum_ns = 0.0
        self.n = 0
        self.max_ns = 0

    def add(self, latency_ns: npt.NDArray[np.uint64]) -> None:
        """Count latencies."""
        self.n += len(latency_ns)
        self._sum_ns += float(latency_ns.sum(dtype=np.float64))
        self.max_ns = max(self.max_ns, int(latency_ns.max(initial=0)))
        self.counts += np.bincount(self.bins(latency_ns), minlength=self.N_BINS)

    @staticmethod
    def bins(latency_ns: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Return the bin of each latency. Bins are in ascending order."""
        value = latency_ns.astype(np.int64)
        # frexp() is exact for integers that a double represents exactly, far beyond any latency.
        exponent = np.maximum(np.frexp(value.astype(np.float64))[1] - 1 - _SUB_BITS, 0)
        return np.asarray(exponent * _SUB_BINS + (value >> exponent), np.int64)

    @staticmethod
    def _upper_ns(index: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        exponent = np.maximum(index // _SUB_BINS - 1, 0)
        mantissa = index - exponent * _SUB_BINS
        return np.asarray((mantissa + 1.0) * 2.0**exponent - 1)

    @property
    def mean_us(self) -> float:
        """Mean latency, which is exact."""
        return self._sum_ns / self.n / 1000 if self.n else 0.0

    def percentile_us(self, percentile: float) -> float:
        """Return a percentile, rounded up to the end of its bin."""
        if not self.n:
            return 0.0
        rank = max(1, int(np.ceil(percentile / 100 * self.n - 1e-9)))
        index = np.searchsorted(np.cumsum(self.counts), rank)
        return min(float(self._upper_ns(np.array([index]))[0]), float(self.max_ns)) / 1000

    def to_json(self) -> dict[str, float]:
        """Return mean, percentiles and maximum in us."""
        named = {f"p{str(p).replace('.', '')}_us": self.percentile_us(p) for p in PERCENTILES}
        return {"mean_us": self.mean_us, **named, "max_us": self.max_ns / 1000}


#: Number of tenths of a second in a window of WINDOW_S. The busiest window begins at one of them.
_PARTS = 10 * WINDOW_S


class WindowCounts:
    """Number of I/Os in each tenth of a second.

    Only windows of WINDOW_S with an I/O are stored. Each tenth needs four bytes.
    """

    def __init__(self) -> None:
        self._windows: dict[int, npt.NDArray[np.uint32]] = {}

    def add(self, time_us: npt.NDArray[np.int64]) -> None:
        """Count I/Os. Times need not be in order."""
        tenths, counts = np.unique(time_us // 100_000, return_counts=True)
        window, place = np.divmod(tenths, _PARTS)
        for key in np.unique(window).tolist():
            row = self._windows.setdefault(key, np.zeros(_PARTS, np.uint32))
            row[place[window == key]] += counts[window == key].astype(np.uint32)

    def busiest(self) -> int:
        """Return the number of I/Os in the busiest WINDOW_S, which may begin at any tenth."""
        none = np.zeros(_PARTS, np.uint32)
        most = 0
        for key, row in self._windows.items():
            up_to = np.cumsum(np.concatenate(([0], row, self._windows.get(key + 1, none))))
            most = max(most, int((up_to[_PARTS:] - up_to[:-_PARTS]).max()))
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
        self._windows = WindowCounts()
        self._end_bytes = 0

    def add(self, chunk: Workload) -> None:
        """Count a chunk."""
        if not len(chunk):
            return
        # Windows begin at the start of the first chunk. A log in order of completion may go back
        # slightly.
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
        self._windows.add(chunk.time_us - self._origin_us)

    def to_json(self) -> dict[str, Any]:
        """Return all statistics by name."""
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
            # A trace that is shorter than the window has no 10 s average except its own mean.
            "iops_max_10s": self._windows.busiest() / min(WINDOW_S, duration_s)
            if duration_s
            else 0.0,
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
    """Summary of a trace."""

    trace: str
    #: A name of :func:`linnapp.trace.convert.detect_format`, or ``replay_log``.
    trace_format: str
    #: Counts, rates and sizes.
    summary: dict[str, Any]
    #: `read_latency`, `write_latency` for formats with latencies. The log of a replay also has
    #: `read_response` and `write_response`, which begin when an I/O was due, not when it was
    #: submitted.
    latencies: dict[str, LatencyHistogram]
    #: For formats with latencies: counts of events and of problems.
    events: dict[str, int]
    #: Contains no I/O if there are no latencies.
    queue: QueueSummary
    #: Description of the units that were assumed.
    units: str
    #: Notes on unexpected properties: several volumes, times out of order.
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return all statistics by name. Latencies are included only if the format has them."""
        out: dict[str, Any] = {"trace": self.trace, "format": self.trace_format}
        out |= {"units": self.units, "notes": self.notes, **self.summary}
        out["slack"], out["burstiness"] = self.queue.slack, self.queue.burstiness
        out["queue_depth"] = self.queue.queue_depth
        out |= {name: latency.to_json() for name, latency in self.latencies.items()}
        if self.events:
            out["events"] = self.events
        return out


def inspect(
    trace: AnyPath,
    source_format: str | None = None,
    *,
    queue_depth: int = QUEUE_DEPTH,
    volume: str | None = None,
    **reader_options: Any,
) -> Inspection:
    """Summarise a trace of any known format, or the replayer's per-I/O log.

    By default the format is detected. `queue_depth` is the number of I/Os in flight at which the
    next I/O has to wait for the drive's queue. `volume` is the volume to inspect, in a text trace
    with several. The other options are those of :func:`linnapp.trace.reads.open_recording`.
    """
    trace = Path(trace)
    summary = WorkloadSummary()
    latencies = {name: LatencyHistogram() for name in _LATENCIES}
    events: dict[str, int] = {}
    queue = QueueSummary(queue_depth)
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
            # Failed I/Os have no latency.
            answered = records["served_by"] != replay_log.NOBODY
            for kind, rows in (("read", ~chunk.is_write), ("write", chunk.is_write)):
                served = records[answered & rows]
                latencies[f"{kind}_latency"].add(served["latency_ns"].astype(np.uint64))
                latencies[f"{kind}_response"].add(replay_log.response_ns(served))
    elif text_format is None or (text_format.has_latency and not text_format.coarse):
        reader = open_recording(trace, text_format=text_format, **reader_options)
        for io in reader:
            summary.add(conversion.to_workload(io))
            others = blktrace.ERROR | blktrace.REVOKED | blktrace.DOUBTFUL
            served = (io.flags & (others | blktrace.COMPLETED)) == blktrace.COMPLETED
            latencies["read_latency"].add(io.latency_ns[served & io.is_read])
            latencies["write_latency"].add(io.latency_ns[served & io.is_write])
            # A failed I/O was in the drive nevertheless. A revoked one never was.
            rows = (io.latency_ns > 0) & ((io.flags & blktrace.REVOKED) == 0)
            arrival_ns = io.arrival_ns[rows].astype(np.int64)
            queue.add(arrival_ns, arrival_ns + io.latency_ns[rows].astype(np.int64))
        events = reader.stats.counts
    else:
        found: list[TextCounts] = []
        for columns in read_columns(trace, text_format, on_counts=found.append, volume=volume):
            chunk = Workload(columns.time_ns // 1000, *columns[1:4])
            summary.add(chunk)
            if text_format.has_latency:
                for kind, rows in (("read", ~chunk.is_write), ("write", chunk.is_write)):
                    latencies[f"{kind}_latency"].add(columns.latency_ns[rows].astype(np.uint64))
        for counts in found:
            notes += counts.notes(volume)
            if counts.empty:
                notes.append(f"{counts.empty} I/Os of no length are left out")
    if not summary.reads + summary.writes:
        raise TraceError(f"{trace}: contains no read or write")
    return Inspection(
        str(trace),
        name,
        summary.to_json(),
        {name: latencies[name] for name in _LATENCIES if latencies[name].n},
        events,
        queue,
        units,
        notes,
    )


def _replayed(path: Path) -> Iterator[tuple[Workload, npt.NDArray[Any]]]:
    """Return the I/Os of a per-I/O log, and its records."""
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
