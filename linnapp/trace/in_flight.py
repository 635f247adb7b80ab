# SPDX-License-Identifier: MIT
"""How busy I/Os find a drive, or one that is assumed: from arrivals and completions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: how long a drive must have had nothing to do for the next I/O to count as slack
SLACK_MS = 2

#: what a queue is said to hold when nobody says: SATA's native command queueing, the shallowest
#: that a drive of flash has
QUEUE_DEPTH = 32


class QueueSummary:
    """How many I/Os find a drive idle for long, and how many find its queue full."""

    def __init__(self, queue_depth: int = QUEUE_DEPTH) -> None:
        self.queue_depth = queue_depth
        self.ios = 0
        self._slack = 0
        self._waiting = 0
        self._arrival = self._completion = np.empty(0, np.int64)
        self._idle_since: int | None = None

    def add(self, arrival_ns: npt.NDArray[np.int64], completion_ns: npt.NDArray[np.int64]) -> None:
        """Count I/Os; calls follow each other in order of arrival."""
        if not len(arrival_ns):
            return
        # What was before the first is not known: it is not slack.
        idle_since = int(arrival_ns[0]) if self._idle_since is None else self._idle_since
        latest = np.maximum.accumulate(np.append(idle_since, completion_ns))
        self._slack += int(np.count_nonzero(arrival_ns - latest[:-1] >= SLACK_MS * 1_000_000))
        self._idle_since = int(latest[-1])

        n_kept = len(self._arrival)
        arrival = np.concatenate((self._arrival, arrival_ns))
        completion = np.concatenate((self._completion, completion_ns))
        # Those of one instant do keep each other waiting, in whatever order.
        over = np.searchsorted(np.sort(completion), arrival_ns, side="right")
        others = np.arange(n_kept, len(arrival)) - over
        self._waiting += int(np.count_nonzero(others >= self.queue_depth))
        self.ios += len(arrival_ns)
        still = completion > arrival[-1]
        self._arrival, self._completion = arrival[still], completion[still]

    @property
    def slack(self) -> float | None:
        """Share of I/Os before which nothing was in flight for `SLACK_MS`; None without I/Os."""
        return self._slack / self.ios if self.ios else None

    @property
    def burstiness(self) -> float | None:
        """Share of I/Os that `queue_depth` others in flight keep waiting; None without I/Os."""
        return self._waiting / self.ios if self.ios else None


class AssumedService:
    """Completions of a workload on a drive that is assumed: one I/O after another.

    Each takes `io_us`, and its bytes besides, at so many 10^6 bytes a second.
    """

    def __init__(self, io_us: float, mb_s: float) -> None:
        self.io_us = io_us
        self.mb_s = mb_s
        self._last_ns = 0
        self._free_ns = 0.0

    def serve(
        self, time_us: npt.NDArray[np.int64], size_bytes: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Arrivals, put in order, and completions in ns; calls follow each other in time."""
        # Of those due at one moment the smallest first, whatever the order of the lines.
        order = np.lexsort((size_bytes, time_us))
        # A log in order of completion may go back a bit from chunk to chunk.
        arrival = np.maximum(time_us[order] * 1000, self._last_ns)
        busy = np.cumsum(self.io_us * 1e3 + size_bytes[order] * (1e3 / self.mb_s))
        before = np.append(0.0, busy[:-1])
        # Lindley's recursion, end = max(arrival, end before) + service, solved for all at once.
        start = np.maximum(np.maximum.accumulate(arrival - before), self._free_ns)
        end = np.minimum(start + busy, 2.0**62).astype(np.int64)  # of a drive that never gets done
        end = np.maximum(end, arrival + 1)
        self._last_ns, self._free_ns = int(arrival[-1]), float(start[-1] + busy[-1])
        return arrival, end
