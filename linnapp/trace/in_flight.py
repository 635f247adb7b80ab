# SPDX-License-Identifier: MIT
"""Load of a drive, real or assumed, as seen by arriving I/Os, from arrivals and completions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: Idle time of a drive after which the next I/O counts as slack.
SLACK_MS = 2

#: Default queue depth: SATA's native command queueing, the shallowest queue of a flash drive.
QUEUE_DEPTH = 32


class QueueSummary:
    """Number of I/Os that arrive at a drive that has been idle for long, and at a full queue."""

    def __init__(self, queue_depth: int = QUEUE_DEPTH) -> None:
        self.queue_depth = queue_depth
        self.ios = 0
        self._slack = 0
        self._waiting = 0
        self._arrival = self._completion = np.empty(0, np.int64)
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

        n_kept = len(self._arrival)
        arrival = np.concatenate((self._arrival, arrival_ns))
        completion = np.concatenate((self._completion, completion_ns))
        # I/Os that arrive at the same time do keep each other waiting, in any order.
        over = np.searchsorted(np.sort(completion), arrival_ns, side="right")
        others = np.arange(n_kept, len(arrival)) - over
        self._waiting += int(np.count_nonzero(others >= self.queue_depth))
        self.ios += len(arrival_ns)
        still = completion > arrival[-1]
        self._arrival, self._completion = arrival[still], completion[still]

    @property
    def slack(self) -> float | None:
        """Share of I/Os that find nothing in flight for `SLACK_MS`, or None without I/Os."""
        return self._slack / self.ios if self.ios else None

    @property
    def burstiness(self) -> float | None:
        """Share of I/Os that wait for `queue_depth` others in flight, or None without I/Os."""
        return self._waiting / self.ios if self.ios else None


class AssumedService:
    """Completions of a workload on an assumed drive, which serves one I/O after another.

    Each I/O takes `io_us`, plus the time for its bytes at `mb_s` (10^6 bytes per second).
    """

    def __init__(self, io_us: float, mb_s: float) -> None:
        self.io_us = io_us
        self.mb_s = mb_s
        self._last_ns = 0
        self._free_ns = 0.0

    def serve(
        self, time_us: npt.NDArray[np.int64], size_bytes: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return sorted arrivals and completions in ns. Calls must be in order of time."""
        # I/Os that are due at the same time are served smallest first, whatever the order of the
        # lines.
        order = np.lexsort((size_bytes, time_us))
        # A log in order of completion may go back slightly from chunk to chunk.
        arrival = np.maximum(time_us[order] * 1000, self._last_ns)
        busy = np.cumsum(self.io_us * 1e3 + size_bytes[order] * (1e3 / self.mb_s))
        before = np.append(0.0, busy[:-1])
        # Lindley's recursion, end = max(arrival, previous end) + service, solved for all I/Os at
        # once.
        start = np.maximum(np.maximum.accumulate(arrival - before), self._free_ns)
        # Limits the times of a drive that falls behind without bound.
        end = np.minimum(start + busy, 2.0**62).astype(np.int64)
        end = np.maximum(end, arrival + 1)
        self._last_ns, self._free_ns = int(arrival[-1]), float(start[-1] + busy[-1])
        return arrival, end
