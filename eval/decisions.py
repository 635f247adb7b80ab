# SPDX-License-Identifier: MIT
"""The kernel's decisions, one a latency-critical read, from its trace event."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TRACING = "/sys/kernel/debug/tracing"

#: What the kernel found, as its trace event numbers and names it (docs/formats.md).
FAST, SLOW, PROBE, NO_MODEL, STALL = 0, 1, 2, 4, 5
_REASONS = {b"fast": FAST, b"slow": SLOW, b"probe": PROBE, b"no-model": NO_MODEL, b"stalled": STALL}

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

_LINE = re.compile(
    rb" (\d+\.\d+): linnos_decision: dev=(\d+:\d+) sector=(\d+) nr_sector=\d+ pending=(\d+)"
    rb" hist_pending=(\d+),(\d+),(\d+),(\d+) hist_latency_us=(\d+),(\d+),(\d+),(\d+)"
    rb" out_fast=(-?\d+) out_slow=(-?\d+) revoked=(\d) reason=([a-z-]+)"
)


def read(folder: Path) -> NDArray[Any]:
    """Read the decisions that a replay left in its folder.

    Parameters
    ----------
    folder : Path
        With decisions.txt and devices.txt, as ``FINISH`` writes them.

    Returns
    -------
    ndarray of DECISION
        In the order of their times, which count from the guest's boot.

    Raises
    ------
    ValueError
        When events were lost, or there are none.
    """
    text = (folder / "decisions.txt").read_bytes()
    lost = re.search(rb"# entries-in-buffer/entries-written: (\d+)/(\d+)", text)
    if lost is not None and lost[1] != lost[2]:
        raise ValueError(
            f"{folder}/decisions.txt: {int(lost[2]) - int(lost[1])} events did not fit the buffer; "
            "replay less, or raise buffer_size_kb"
        )
    devices = (folder / "devices.txt").read_text().split()
    drive_of = {device.encode(): drive for drive, device in enumerate(devices)}
    rows = _LINE.findall(text)
    if not rows:
        raise ValueError(f"{folder}/decisions.txt: no decision in it")
    table = np.empty(len(rows), DECISION)
    table["time_us"] = [float(row[0]) * 1e6 for row in rows]
    table["drive"] = [drive_of[row[1]] for row in rows]
    table["offset_bytes"] = [int(row[2]) * 512 for row in rows]
    numbers = np.array([row[3:-1] for row in rows]).astype(np.int64)
    table["pending"] = numbers[:, 0]
    table["hist_pending"] = numbers[:, 1:5]
    table["hist_latency_us"] = numbers[:, 5:9]
    table["predicted_slow"] = numbers[:, 10] > numbers[:, 9]
    table["revoked"] = numbers[:, 11] == 1
    table["reason"] = [_REASONS[row[-1]] for row in rows]
    return table
