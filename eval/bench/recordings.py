# SPDX-License-Identifier: MIT
"""Recordings made up for benchmarks.

One has the events and the size of a real one, and a drive that is slow in bursts, so that there
is something to learn; nothing about the policy's gain can be read from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.trace.formats.iolog import Workload

EVENT = np.dtype(
    [
        ("magic", "<u4"),
        ("sequence", "<u4"),
        ("time", "<u8"),
        ("sector", "<u8"),
        ("bytes", "<u4"),
        ("action", "<u4"),
        ("pid", "<u4"),
        ("device", "<u4"),
        ("cpu", "<u4"),
        ("error", "<u2"),
        ("pdu_len", "<u2"),
    ]
)
_MAGIC = 0x65617407
_QUEUE, _ISSUE, _COMPLETE = 1, 7, 8
_READ, _WRITE = 1 << 16, 1 << 17

#: of the made-up drive: one queue, slow now and then for some milliseconds
_MEAN_IOPS = 3000
_SERVICE_NS = 70_000
_SLOW_SERVICE_NS = 900_000
_SLOW_EVERY_NS = 200_000_000
_SLOW_NS = 4_000_000
_BLOCK_IOS = 1 << 20


def workload(n_ios: int, seed: int) -> Iterator[Workload]:
    """Reads and writes at random times and places, in blocks."""
    rng = np.random.default_rng(seed)
    now = 0.0
    for start in range(0, n_ios, _BLOCK_IOS):
        n = min(_BLOCK_IOS, n_ios - start)
        time_us = now + np.cumsum(rng.exponential(1e6 / _MEAN_IOPS, n))
        now = float(time_us[-1])
        yield Workload(
            time_us.astype(np.int64),
            rng.integers(0, 1 << 18, n) * 4096,
            4096 << rng.integers(0, 4, n),
            rng.random(n) < 0.4,
        )


def write_recording(path: Path, n_ios: int, seed: int) -> None:
    """Write a merged blktrace file of `n_ios` I/Os; memory does not grow with it."""
    rng = np.random.default_rng([seed, 1])
    busy_until = 0
    sequence = 0
    waiting = np.empty(0, EVENT)
    with path.open("wb") as stream:
        for chunk in workload(n_ios, seed):
            arrival = chunk.time_us * 1000
            done = _completions(arrival, busy_until, rng)
            busy_until = int(done[-1])
            events = np.concatenate(
                (
                    waiting,
                    _events(chunk, arrival, _QUEUE),
                    _events(chunk, arrival, _ISSUE),
                    _events(chunk, done, _COMPLETE),
                )
            )
            events = events[np.argsort(events["time"], kind="stable")]
            ready = int(np.searchsorted(events["time"], arrival[-1], "right"))
            waiting = events[ready:].copy()
            sequence = _put(stream, events[:ready], sequence)
        _put(stream, waiting, sequence)


def _completions(
    arrival: npt.NDArray[np.int64], busy_until: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """When a drive that serves one I/O after the other is done with each."""
    span = int(arrival[-1] - arrival[0]) + 1
    slow_at = np.sort(arrival[0] + rng.integers(0, span, max(1, span // _SLOW_EVERY_NS)))
    before = np.searchsorted(slow_at, arrival, "right") - 1
    is_slow = (before >= 0) & (arrival - slow_at[np.maximum(before, 0)] < _SLOW_NS)
    service = np.where(is_slow, _SLOW_SERVICE_NS, _SERVICE_NS)
    service = (service * rng.uniform(0.8, 1.25, len(arrival))).astype(np.int64)
    total = np.cumsum(service)
    # done[i] = max(arrival[i], done[i - 1]) + service[i], without a loop
    starts = np.maximum(arrival, busy_until) - (total - service)
    return np.asarray(total + np.maximum.accumulate(starts))


def _events(chunk: Workload, at: npt.NDArray[np.int64], action: int) -> npt.NDArray[Any]:
    events = np.zeros(len(chunk), EVENT)
    events["magic"] = _MAGIC
    events["time"] = at
    events["sector"] = chunk.offset_bytes // 512
    events["bytes"] = chunk.size_bytes
    events["action"] = action | np.where(chunk.is_write, _WRITE, _READ)
    events["pid"] = 1
    events["device"] = 8 << 20
    return events


def _put(stream: Any, events: npt.NDArray[Any], sequence: int) -> int:
    events["sequence"] = np.arange(sequence + 1, sequence + 1 + len(events), dtype=np.uint32)
    stream.write(events.tobytes())
    return sequence + len(events)
