# SPDX-License-Identifier: MIT
"""The kernel's decisions, one a latency-critical read, from its trace event."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnapp.trace.blktrace import parse_device
from linnapp.trace.decisions import lost_events, parse_decisions

_TRACING = "/sys/kernel/debug/tracing"

#: In the guest, before a replay: room for all events of a replay.
PREPARE = f"""
echo 64000 >{_TRACING}/buffer_size_kb
echo mono >{_TRACING}/trace_clock
echo 1 >{_TRACING}/events/linnos/linnos_decision/enable
"""

#: And after it.
FINISH = f"""
echo 0 >{_TRACING}/events/linnos/linnos_decision/enable
cat {_TRACING}/trace >$LINNOS_OUT/decisions.txt
for drive in /sys/block/flash*; do cat $drive/dev; done >$LINNOS_OUT/devices.txt
"""

DECISION = np.dtype(
    [
        ("time_us", "<f8"),
        ("drive", "u1"),
        ("offset_bytes", "<u8"),
        ("pending", "<u4"),
        ("hist_pending", "<u4", 4),
        ("hist_latency_us", "<u4", 4),
        ("predicted_slow", "?"),
        ("revoked", "?"),
        ("reason", "u1"),
    ]
)


def read(folder: Path) -> NDArray[Any]:
    """Read the decisions that a replay left in its folder, as ``FINISH`` writes them.

    They are in the order of their times, which count from the guest's boot.
    """
    text = (folder / "decisions.txt").read_bytes()
    lost = lost_events(text)
    if lost:
        raise ValueError(
            f"{folder}/decisions.txt: {lost} events did not fit the buffer; "
            "replay less, or raise buffer_size_kb"
        )
    devices = (folder / "devices.txt").read_text().split()
    drive_of = {parse_device(device): drive for drive, device in enumerate(devices)}
    seen = parse_decisions(text)
    if not len(seen):
        raise ValueError(f"{folder}/decisions.txt: no decision in it")
    table = np.empty(len(seen), DECISION)
    table["drive"] = [drive_of[device] for device in seen["device"].tolist()]
    table["offset_bytes"] = seen["sector"] * np.uint64(512)
    table["predicted_slow"] = seen["out_slow"] > seen["out_fast"]
    for name in ("time_us", "pending", "hist_pending", "hist_latency_us", "revoked", "reason"):
        table[name] = seen[name]
    return table
