# SPDX-License-Identifier: MIT
"""Metrics of drives and arrays for Prometheus (docs/monitoring.md)."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from linnapp import __version__
from linnapp.drive import switches
from linnapp.drive.latencies import LOWEST_US, MIDDLE_US
from linnapp.drive.md import arrays
from linnapp.drive.snapshots import Snapshot
from linnapp.drive.sysfs import MODES, Drive, drives
from linnapp.errors import DeviceError

#: Counter in stats/, or column of the disk's stat: metric, divisor for its unit, description.
_COUNTERS = {
    "reads": ("linnos_reads", 1, "Reads, with and without the hint, while the policy counts."),
    "latency_critical": (*("linnos_latency_critical_reads", 1), "Reads with the hint RWF_LATCRIT."),
    "admitted": ("linnos_admitted", 1, "Hinted reads that were admitted."),
    "revoked": ("linnos_revoked", 1, "Hinted reads that were refused with EBUSY."),
    "probes": ("linnos_probes", 1, "Hinted reads admitted although predicted to be slow."),
    "slow": ("linnos_slow_reads", 1, "Completed reads slower than the model's threshold."),
    "false_submits": ("linnos_false_submits", 1, "Slow reads that were predicted to be fast."),
    "false_revokes": (
        *("linnos_false_revokes", 1),
        "Reads predicted to be slow that were fast; counted in observe mode.",
    ),
    "inferences": ("linnos_inferences", 1, "Predictions."),
    "inference_ns": (
        *("linnos_inference_seconds", 1e9),
        "Time spent on predictions, measured on one in 64.",
    ),
    "read_ios": ("linnos_disk_reads", 1, "Reads that the disk completed."),
    "read_ms": (
        *("linnos_disk_read_seconds", 1e3),
        "Time of reads from request to completion, including time in a scheduler.",
    ),
    "read_sectors": ("linnos_disk_read_bytes", 1 / 512, "Bytes read."),
    "write_ios": ("linnos_disk_writes", 1, "Writes that the disk completed."),
    "write_ms": (
        *("linnos_disk_write_seconds", 1e3),
        "Time of writes from request to completion, including time in a scheduler.",
    ),
    "write_sectors": ("linnos_disk_write_bytes", 1 / 512, "Bytes written."),
    "busy_ms": ("linnos_disk_busy_seconds", 1e3, "Time with I/O in flight."),
}


def _build_info() -> GaugeMetricFamily:
    """Return the versions of linnapp and of the kernel, of which LinnOS is a part."""
    family = GaugeMetricFamily(
        "linnapp_build_info",
        "1, labelled with the version of linnapp and the kernel's release.",
        labels=["version", "kernel"],
    )
    family.add_metric([__version__, os.uname().release], 1)
    return family


def _reset_times() -> GaugeMetricFamily:
    """Return the drives that `linnapp keep` reset and that do not enforce again."""
    family = GaugeMetricFamily(
        "linnos_switched_back_timestamp_seconds",
        "When linnapp keep reset a drive; while it does not enforce again.",
        labels=["device"],
    )
    for each in switches.current_resets():
        family.add_metric([each.current_name], each.time_s)
    return family


def _array_asks() -> GaugeMetricFamily:
    """Return for each array whether it queries LinnOS. Arrays that cannot are left out."""
    family = GaugeMetricFamily(
        "linnos_array_asks",
        "1 if the md array queries LinnOS before it reads, 0 if this is switched off.",
        labels=["array"],
    )
    for array in arrays():
        with contextlib.suppress(DeviceError):
            asks = array.asks
            if asks is not None:
                family.add_metric([array.name], asks)
    return family


def _histogram(drives: dict[str, list[int]]) -> HistogramMetricFamily:
    """Return reads by latency; their sum, which the kernel lacks, is estimated from the buckets."""
    family = HistogramMetricFamily(
        "linnos_read_latency_seconds",
        "Reads from issue to completion, while the policy counts; the sum is estimated from the "
        "buckets.",
        labels=["drive"],
    )
    ends = [repr(us / 1e6) for us in LOWEST_US[1:]] + ["+Inf"]
    for name, counts in drives.items():
        family.add_metric(
            [name],
            list(zip(ends, itertools.accumulate(counts), strict=True)),
            sum(n * us for n, us in zip(counts, MIDDLE_US, strict=True)) / 1e6,
        )
    return family


def _gauges(now: Snapshot) -> Iterator[tuple[str, str, float | None, dict[str, str]]]:
    """Yield name, description, value (None if unknown) and labels of the gauges of a drive."""
    for mode in MODES:
        words = "1 for the mode that the drive is in."
        yield "linnos_mode", words, mode == now.mode, {"mode": mode}
    yield "linnos_disk_in_flight", "I/Os in flight.", now.disk["in_flight"], {}
    yield "linnos_model_loaded", "1 if the drive has a model.", now.model_id is not None, {}
    if now.model_id is not None:
        yield "linnos_model_info", "1, labelled with the model.", 1, {"model_id": now.model_id}
        words = "The model's inflection point: slower reads are slow."
        yield "linnos_threshold_seconds", words, now.threshold_us / 1e6, {}
        words = "When linnapp gave the drive its model."
        yield "linnos_model_uploaded_timestamp_seconds", words, now.uploaded_at, {}


class DriveCollector(Collector):
    """Reads the kernel's files at each scrape, for the named drives or all with LinnOS."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = tuple(names)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of all drives; a drive that is gone is left out."""
        families: dict[str, Any] = {}

        def add(kind: Any, name: str, text: str, drive: str, value: float, **labels: str) -> None:
            family = families.setdefault(name, kind(name, text, labels=["drive", *labels]))
            family.add_metric([drive, *labels.values()], value)

        found = []
        for name in self._names or drives():
            with contextlib.suppress(DeviceError):
                found.append(Snapshot.take(Drive(name)))
        for now in found:
            counters = {**now.stats, **now.disk}
            for column, (metric, divisor, text) in _COUNTERS.items():
                if column in counters:
                    add(CounterMetricFamily, metric, text, now.name, counters[column] / divisor)
            for metric, text, value, labels in _gauges(now):
                if value is not None:
                    add(GaugeMetricFamily, metric, text, now.name, value, **labels)
        yield _build_info()
        yield GaugeMetricFamily("linnos_drives", "Disks with LinnOS.", value=len(found))
        yield from families.values()
        yield _array_asks()
        yield _reset_times()
        yield _histogram({now.name: now.latency_counts for now in found})
