# SPDX-License-Identifier: MIT
"""Measure the time of a recording's I/Os by layer of the block stack."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError
from linnapp.files import AnyPath
from linnapp.trace.blktrace import COMPLETED, DOUBTFUL, ERROR, ISSUED, REVOKED, BlktraceReader
from linnapp.trace.inspection import LatencyHistogram

#: key: description with blktrace's events at start and end
LAYERS = {
    "request": "waiting for a request: a free tag (Q to G)",
    "issue": "plug, scheduler, dispatch (G to D)",
    "drive": "driver and drive (D to C)",
}

#: percentiles of the total latency that separate the bands of I/Os
BANDS = (0.0, 50.0, 90.0, 99.0, 99.9, 100.0)


@dataclasses.dataclass(frozen=True)
class Band:
    """I/Os between two percentiles of the total latency."""

    #: `low`, `high`: the percentiles
    low: float
    high: float
    n: int
    #: mean time by layer
    mean_us: dict[str, float]


class NothingServedError(TraceError):
    """The recording contains no I/O of the requested kind that the drive served."""


class Layers:
    """Accumulates times of I/Os by layer."""

    def __init__(self) -> None:
        self.by_layer = {layer: LatencyHistogram() for layer in LAYERS}
        self.total = LatencyHistogram()
        #: time of each layer in ns by the bins of `total`
        self._sums = np.zeros((len(LAYERS), LatencyHistogram.N_BINS))
        #: events lost according to the kernel; neighbouring I/Os may be wrong or missing
        self.lost_events = 0
        self.reads_left_out = 0

    @property
    def n(self) -> int:
        """Return the number of I/Os."""
        return self.total.n

    def add(self, times: npt.NDArray[np.uint64]) -> None:
        """Add I/Os. `times` has the time in each layer in ns, shape (layers, n)."""
        total = np.sum(times, axis=0)
        self.total.add(total)
        bins = LatencyHistogram.bins(total)
        for i, (layer, time_ns) in enumerate(zip(LAYERS, times, strict=True)):
            self.by_layer[layer].add(time_ns)
            self._sums[i] += np.bincount(bins, time_ns, minlength=LatencyHistogram.N_BINS)

    def mean_us(self, layer: str) -> float:
        """Return the mean time in a layer."""
        return self.by_layer[layer].mean_us

    def bands(self) -> list[Band]:
        """Return the mean time in each layer for bands of fast to slow I/Os, without empty bands.

        An I/O belongs to the band that contains the upper end of its histogram bin, which is within
        1.6 % of its latency.
        """
        below = np.cumsum(self.total.counts)
        found = []
        start = 0
        for low, high in itertools.pairwise(BANDS):
            rank = int(np.ceil(high / 100 * self.n - 1e-9))
            end = int(np.searchsorted(below, max(rank, 1))) + 1
            n = int(self.total.counts[start:end].sum())
            if end > start and n:
                sums = self._sums[:, start:end].sum(axis=1) / n / 1000
                found.append(Band(low, high, n, dict(zip(LAYERS, sums.tolist(), strict=True))))
            start = max(start, end)
        return found

    def to_json(self) -> dict[str, Any]:
        """Return all values by name, latencies in us."""
        whole = self.total.mean_us
        return {
            "ios": self.n,
            "lost_events": self.lost_events,
            "reads_left_out": self.reads_left_out,
            "total": self.total.to_json(),
            "layers": {
                layer: {**histogram.to_json(), "share": histogram.mean_us / whole if whole else 0.0}
                for layer, histogram in self.by_layer.items()
            },
            "bands": [dataclasses.asdict(band) for band in self.bands()],
        }


def layers_of(trace: AnyPath, *, writes: bool = False, **reader: Any) -> Layers:
    """Read a blktrace recording; other formats do not contain issue times."""
    found = Layers()
    blktrace = BlktraceReader(trace, **reader)
    for chunk, times in blktrace.with_layers():
        served = (chunk.flags & (COMPLETED | ISSUED | ERROR | REVOKED | DOUBTFUL)) == (
            COMPLETED | ISSUED
        )
        served &= chunk.is_write if writes else chunk.is_read
        # The layers are unknown if the issue event was lost or the request was requeued.
        served &= times.any(axis=0)
        found.add(times[:, served])
    if not found.n:
        kind, other = ("write", "omit `writes=True`") if writes else ("read", "try `writes=True`")
        raise NothingServedError(
            f"{trace}: has no {kind} with issue (D) and completion (C); {other}, or record again"
        )
    found.lost_events = blktrace.stats["lost_events"]
    found.reads_left_out = blktrace.stats["doubtful_reads"]
    return found
