# SPDX-License-Identifier: MIT
"""What was in flight and what had completed at any moment, from arrivals and completions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

PAGE_BYTES = 4096

#: orders of size of a read: the pages of the largest one of each but the last (docs/formats.md,
#: "Features"; the kernel's are LINNOS_SMALL_PAGES and LINNOS_MEDIUM_PAGES of linnos_model.h)
SIZE_PAGES = (16, 256)

#: how long a drive must have had nothing to do for the next I/O to count as slack
SLACK_MS = 2

#: what a queue is said to hold when nobody says: SATA's native command queueing, the shallowest
#: that a drive of flash has
QUEUE_DEPTH = 32


def submitted_before(arrival: npt.NDArray[np.int64], ties_in_order: bool) -> npt.NDArray[np.int64]:
    """How many I/Os were submitted before each one; the times rise.

    Those of one instant do not see each other, unless they are known to stand in their order.
    """
    rows = np.arange(len(arrival))
    if ties_in_order or not len(rows):
        return rows
    later = np.concatenate(([False], arrival[1:] > arrival[:-1]))
    first: npt.NDArray[np.int64] = np.maximum.accumulate(np.where(later, rows, 0))
    return first


def pending_pages(
    arrival: npt.NDArray[np.int64],
    completion: npt.NDArray[np.int64],
    pages: npt.NDArray[np.int64],
    present: npt.NDArray[np.bool_],
    ties_in_order: bool,
) -> npt.NDArray[np.int64]:
    """Pages in flight when each I/O arrives, its own included.

    What ends at the moment when another arrives is over; who sees whom of those that arrive at
    one moment is as :func:`submitted_before` says.
    """
    counted = np.where(present, pages, 0)
    upto = np.concatenate([[0], np.cumsum(counted)])
    before = upto[submitted_before(arrival, ties_in_order)]
    order = np.argsort(completion, kind="stable")
    gone = np.concatenate([[0], np.cumsum(counted[order])])
    in_flight: npt.NDArray[np.int64] = (
        before - gone[np.searchsorted(completion[order], arrival, side="right")] + pages
    )
    return in_flight


def size_of(pages: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """The order of size of reads of so many pages: 0, 1, ..., up to ``len(SIZE_PAGES)``."""
    return np.searchsorted(SIZE_PAGES, pages, side="left")


def last_completed(
    at: npt.NDArray[np.int64],
    at_pages: npt.NDArray[np.int64],
    completion: npt.NDArray[np.int64],
    pages: npt.NDArray[np.int64],
    counted: npt.NDArray[np.bool_],
    history: int,
) -> npt.NDArray[np.int64]:
    """The last completed reads that a read sees: those no larger in order of size than itself.

    Parameters
    ----------
    at, at_pages : arrays, shape (n,)
        Moments when reads arrive, and their pages.
    completion, pages : arrays, shape (m,)
        Of I/Os.
    counted : bool array, shape (m,)
        Which of these are reads that were answered.
    history : int
        How many to find.

    Returns
    -------
    int64 array, shape (n, history)
        Indices among the `m`, oldest first; -1 for none.
    """
    reads = np.flatnonzero(counted)
    order = reads[np.argsort(completion[reads], kind="stable")]
    sizes, sizes_at = size_of(pages[order]), size_of(at_pages)
    found = np.empty((len(at), history), np.int64)
    for size in range(len(SIZE_PAGES) + 1):
        asking = np.flatnonzero(sizes_at == size)
        if len(asking):
            seen = order[sizes <= size]
            n_done = np.searchsorted(completion[seen], at[asking], side="right")
            padded = np.concatenate([np.full(history, -1), seen])
            found[asking] = padded[n_done[:, None] + np.arange(history)]
    return found


def still_seen(
    completion: npt.NDArray[np.int64],
    pages: npt.NDArray[np.int64],
    counted: npt.NDArray[np.bool_],
    history: int,
) -> npt.NDArray[np.intp]:
    """Which completed reads one that is yet to arrive could see, whatever its size."""
    reads = np.flatnonzero(counted)
    order = reads[np.argsort(completion[reads], kind="stable")]
    sizes = size_of(pages[order])
    return np.concatenate([order[sizes <= k][-history:] for k in range(len(SIZE_PAGES) + 1)])


class QueueSummary:
    """How many I/Os find a drive idle for long, and how many find its queue full.

    Parameters
    ----------
    queue_depth : int
        I/Os that the drive takes at once.

    Attributes
    ----------
    ios : int
        Those that were added.
    """

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
        ones = np.ones(len(arrival), np.int64)
        # Those of one instant do keep each other waiting, in whatever order.
        others = pending_pages(arrival, completion, ones, ones.astype(bool), True)[n_kept:] - 1
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

    Parameters
    ----------
    io_us : float
        What each I/O takes.
    mb_s : float
        What its bytes take besides, in 10^6 bytes a second.
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
        end = np.maximum((start + busy).astype(np.int64), arrival + 1)
        self._last_ns, self._free_ns = int(arrival[-1]), float(start[-1] + busy[-1])
        return arrival, end
