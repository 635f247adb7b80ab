# SPDX-License-Identifier: MIT
"""Where the time of the I/Os of a recording goes, layer by layer, and what changed between two."""

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

#: key, what it is: between which of blktrace's events
LAYERS = {
    "request": "until it has a request: a free tag (Q to G)",
    "issue": "plug, scheduler, dispatch (G to D)",
    "drive": "driver and drive (D to C)",
}

#: The I/Os are told apart by how long they took in all: percentiles that bound the groups.
BANDS = (0.0, 50.0, 90.0, 99.0, 99.9, 100.0)

#: Sums are kept of blocks of time, from which :mod:`linnapp.stats` makes longer ones. The blocks
#: become twice as long whenever there would be too many.
_BLOCK_NS, _BLOCKS_KEPT = 1_000_000, 4096


@dataclasses.dataclass(frozen=True)
class Band:
    """I/Os between two percentiles of the whole latency."""

    #: `low`, `high`: Percentiles.
    low: float
    high: float
    n: int
    #: By layer.
    mean_us: dict[str, float]


class NothingServedError(TraceError):
    """A recording without such an I/O that the drive served."""


class Layers:
    """Times of I/Os, layer by layer; of chunk after chunk."""

    def __init__(self) -> None:
        self.by_layer = {layer: LatencyHistogram() for layer in LAYERS}
        self.total = LatencyHistogram()
        #: of each layer in ns, by the bins of `total`
        self._sums = np.zeros((len(LAYERS), LatencyHistogram.N_BINS))
        #: block of time: how many I/Os, then the sum of each layer in ns
        self._blocks: dict[int, npt.NDArray[np.float64]] = {}
        self._block_ns = _BLOCK_NS
        #: by the kernel's own count; the I/Os next to them may have the wrong layers, or none
        self.lost_events = 0
        self.reads_left_out = 0

    @property
    def n(self) -> int:
        """I/Os counted."""
        return self.total.n

    def add(self, arrival_ns: npt.NDArray[np.uint64], times: npt.NDArray[np.uint64]) -> None:
        """Count I/Os, of each its layers' times in ns: shape (layers, n)."""
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
            every, self._blocks = self._blocks, {}
            for number, column in every.items():
                self._blocks[number // 2] = self._blocks.get(number // 2, 0.0) + column

    def mean_us(self, layer: str) -> float:
        """Mean time in a layer."""
        return self.by_layer[layer].mean_us

    def bands(self) -> list[Band]:
        """Fast I/Os, slow ones and the slowest: the mean of each layer; empty bands left out.

        An I/O belongs to the band in which the end of its bin is: bins are within 1.6 % of it.
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
        """I/Os, then us in each layer, by blocks of time; None if the recording has too few."""
        keys = np.array(sorted(self._blocks), np.uint64)
        blocks = stats.block_numbers(keys * np.uint64(self._block_ns))
        if blocks is None:
            return None
        n, *times_ns = np.array([self._blocks[int(key)] for key in keys]).T
        return stats.block_sums(blocks, n, *(ns / 1000 for ns in times_ns))

    def to_json(self) -> dict[str, Any]:
        """Everything, latencies in us."""
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
    """Read a recording of blktrace; no other format says when a request was issued."""
    found = Layers()
    blktrace = BlktraceReader(trace, **reader)
    for chunk, times in blktrace.with_layers():
        served = (chunk.flags & (COMPLETED | ISSUED | ERROR | REVOKED | DOUBTFUL)) == (
            COMPLETED | ISSUED
        )
        served &= chunk.is_write if writes else chunk.is_read
        # An issue that was lost, or handed back: where the time went is not known.
        served &= times.any(axis=0)
        found.add(chunk.arrival_ns[served], times[:, served])
    if not found.n:
        kind, other = (
            ("write", "leave `writes=True` away") if writes else ("read", "try `writes=True`")
        )
        raise NothingServedError(
            f"{trace}: no {kind} from its issue (D) to its completion (C); {other}, or record anew"
        )
    found.lost_events = blktrace.stats["lost_events"]
    found.reads_left_out = blktrace.stats["doubtful_reads"]
    return found


@dataclasses.dataclass(frozen=True)
class Change(stats.Difference):
    """How a layer's mean differs between two recordings, at 95 %."""

    layer: str


def changes(before: Layers, after: Layers) -> list[Change]:
    """How the mean of every layer changed, the largest change first."""
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
    """Draw a row of bars a recording; errors as of :func:`~linnapp.figures.check_can_draw`."""
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
    panels[-1, 0].set_xlabel("mean of the I/Os that took as long (us)", fontsize=9)
    # Beside the bars, none of which it may hide.
    figure.tight_layout(rect=(0, 0.3 / figure.get_figheight(), 1, 1))
    figure.legend(*panels[0, 0].get_legend_handles_labels(), fontsize=7, loc="lower center", ncol=3)
    save(figure, path)
