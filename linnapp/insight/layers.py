# SPDX-License-Identifier: MIT
"""Measure the time of a recording's I/Os by layer of the block stack, and compare two."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import stats
from linnapp.errors import TraceError
from linnapp.figures import check_can_draw, save
from linnapp.files import AnyPath
from linnapp.trace.blktrace import (
    COMPLETED,
    DOUBTFUL,
    ERROR,
    ISSUED,
    REVOKED,
    BlktraceReader,
)
from linnapp.trace.inspection import LatencyHistogram

#: key: description with blktrace's events at start and end
LAYERS = {
    "request": "waiting for a request: a free tag (Q to G)",
    "issue": "plug, scheduler, dispatch (G to D)",
    "drive": "driver and drive (D to C)",
}

#: percentiles of the total latency that separate the bands of I/Os
BANDS = (0.0, 50.0, 90.0, 99.0, 99.9, 100.0)

#: Sums are kept for blocks of time, which :mod:`linnapp.stats` combines into longer ones. The block
#: length doubles whenever there would be too many blocks.
_BLOCK_NS, _BLOCKS_KEPT = 1_000_000, 4096


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
        #: block of time: number of I/Os, then the sum of each layer in ns
        self._blocks: dict[int, npt.NDArray[np.float64]] = {}
        self._block_ns = _BLOCK_NS
        #: events lost according to the kernel; neighbouring I/Os may be wrong or missing
        self.lost_events = 0
        self.reads_left_out = 0

    @property
    def n(self) -> int:
        """Return the number of I/Os."""
        return self.total.n

    def add(self, arrival_ns: npt.NDArray[np.uint64], times: npt.NDArray[np.uint64]) -> None:
        """Add I/Os. `times` has the time in each layer in ns, shape (layers, n)."""
        if not len(arrival_ns):
            return
        total = np.sum(times, axis=0)
        self.total.add(total)
        bins = LatencyHistogram.bins(total)
        first, block = np.unique(arrival_ns // self._block_ns, return_inverse=True)
        sums = np.empty((1 + len(LAYERS), len(first)))
        sums[0] = np.bincount(block)
        for i, (layer, time_ns) in enumerate(zip(LAYERS, times, strict=True)):
            self.by_layer[layer].add(time_ns)
            self._sums[i] += np.bincount(bins, time_ns, minlength=LatencyHistogram.N_BINS)
            sums[1 + i] = np.bincount(block, time_ns)
        for key, column in zip(first, sums.T, strict=True):
            self._blocks[int(key)] = self._blocks.get(int(key), 0.0) + column
        while len(self._blocks) > _BLOCKS_KEPT:
            self._block_ns *= 2
            shorter, self._blocks = self._blocks, {}
            for number, column in shorter.items():
                self._blocks[number // 2] = self._blocks.get(number // 2, 0.0) + column

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

    def block_sums(self) -> stats.Floats | None:
        """Return number of I/Os and us in each layer by block of time, None if too few."""
        keys = np.array(sorted(self._blocks), np.uint64)
        blocks = stats.block_numbers(keys * np.uint64(self._block_ns))
        if blocks is None:
            return None
        n, *times_ns = np.array([self._blocks[int(key)] for key in keys]).T
        return stats.block_sums(blocks, n, *(ns / 1000 for ns in times_ns))

    def to_json(self) -> dict[str, Any]:
        """Return all values by name, latencies in us."""
        whole = self.total.mean_us
        return {
            "ios": self.n,
            "lost_events": self.lost_events,
            "reads_left_out": self.reads_left_out,
            "total": self.total.to_json(),
            "layers": {
                layer: {
                    **histogram.to_json(),
                    "share": histogram.mean_us / whole if whole else 0.0,
                }
                for layer, histogram in self.by_layer.items()
            },
            "doublings": [{"from_us": low_us, "n": n} for low_us, n in self.total.doublings()],
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
        found.add(chunk.arrival_ns[served], times[:, served])
    if not found.n:
        kind, other = ("write", "omit `writes=True`") if writes else ("read", "try `writes=True`")
        raise NothingServedError(
            f"{trace}: has no {kind} with issue (D) and completion (C); {other}, or record again"
        )
    found.lost_events = blktrace.stats["lost_events"]
    found.reads_left_out = blktrace.stats["doubtful_reads"]
    return found


@dataclasses.dataclass(frozen=True)
class Change(stats.Difference):
    """Difference of a layer's mean between two recordings, with a 95 % interval."""

    layer: str


def changes(before: Layers, after: Layers) -> list[Change]:
    """Return the change of each layer's mean, the largest first."""
    sums = before.block_sums(), after.block_sums()
    intervals = [stats.Interval.unknown()] * len(LAYERS)
    if sums[0] is not None and sums[1] is not None:
        intervals = stats.differences(sums[0], sums[1])
    found = []
    for layer, interval in zip(LAYERS, intervals, strict=True):
        us = after.mean_us(layer) - before.mean_us(layer)
        found.append(Change(us, *interval.ends, layer))
    return sorted(found, key=lambda change: -abs(change.us))


_COLOURS = {"request": "#e69f00", "issue": "#56b4e9", "drive": "#555555"}


def draw(found: Sequence[tuple[str, Layers]], path: AnyPath) -> None:
    """Draw a panel of bars for each recording."""
    check_can_draw(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 0.6 + 1.9 * len(found)))
    panels = figure.subplots(len(found), 1, squeeze=False, sharex=True)
    for axes, (name, each) in zip(panels[:, 0], found, strict=True):
        bands = each.bands()
        labels = [f"p{band.low:g} to p{band.high:g}" for band in bands]
        left = [0.0] * len(bands)
        for layer, words in LAYERS.items():
            widths = [band.mean_us[layer] for band in bands]
            axes.barh(labels, widths, left=left, color=_COLOURS[layer], label=f"{layer}: {words}")
            left = [a + b for a, b in zip(left, widths, strict=True)]
        axes.invert_yaxis()
        axes.set_title(f"{name}: {each.n} I/Os", fontsize=9, loc="left")
        axes.tick_params(labelsize=8)
    panels[-1, 0].set_xlabel("mean of the I/Os in the band (us)", fontsize=9)
    # The legend is placed below the bars, so that it hides none.
    figure.tight_layout(rect=(0, 0.3 / figure.get_figheight(), 1, 1))
    figure.legend(*panels[0, 0].get_legend_handles_labels(), fontsize=7, loc="lower center", ncol=3)
    save(figure, path)
