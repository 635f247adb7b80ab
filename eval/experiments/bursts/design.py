# SPDX-License-Identifier: MIT
"""The injected slow I/Os, and the bins of positions within a burst."""

from __future__ import annotations

from typing import Any

from eval import grid
from eval.contenders import INJECTED

#: Injection patterns, in each of which a tenth of the reads is slow: options of the replayer, and
#: the number of slow reads in a row (0: random).
PATTERNS = {
    "random 10 %": ("random:ratio=10%", 0),
    "every 10th": ("interval:interval=10", 1),
    "10 in a row": ("continuous:ratio=10%,period_ios=100", 10),
    "100 in a row": ("continuous:ratio=10%,period_ios=1000", 100),
}
#: The latency that injection adds.
ADDED_US = 1000

#: The lengths of bursts in time.
SLOT_MS = (50, 200)

#: Settings of the kernel's policy: when a drive that is predicted slow is probed; 0 disables a
#: reason to probe.
SETTINGS = {
    "no probes": {"probe_after_us": 0, "probe_after_revokes": 0},
    "after 100 revokes": {"probe_after_us": 0, "probe_after_revokes": 100},
    "after 10 ms": {"probe_after_us": 10_000, "probe_after_revokes": 0},
}

#: Positions within a burst, first of each bin; the last bin is open.
BINS = (1, 2, 3, 4, 5, 6, 11, 21, 51, 101, 201)

#: Each has a seed of its own.
WORKLOADS = ("az-e", "az-c")

#: Replayed seconds: some six thousand reads of a drive.
REPLAYED_S = {"az-c": 20.0, "az-e": 1.0}

PARAMETERS: dict[str, Any] = {
    "workloads": WORKLOADS,
    "replayed_s": REPLAYED_S,
    **grid.PARTS,
    "patterns": PATTERNS,
    "added_us": ADDED_US,
    "slot_ms": SLOT_MS,
    "policies": INJECTED,
    "settings": SETTINGS,
}


def bin_name(i: int) -> str:
    """Return the name of a bin of positions."""
    if i + 1 == len(BINS):
        return f"{BINS[i]}-"
    last = BINS[i + 1] - 1
    return str(BINS[i]) if last == BINS[i] else f"{BINS[i]}-{last}"


def only_part(workload: str) -> tuple[str, ...]:
    """Return the replayer's options that end a replay after these seconds."""
    return ("--duration", f"{REPLAYED_S[workload]:g}")
