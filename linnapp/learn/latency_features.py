# SPDX-License-Identifier: MIT
"""What a latency model sees of a read: integers that a kernel has when it arrives.

docs/formats.md has the list. An I/O is taken to be in flight from its arrival for as long as its
latency says. How long ago writes were, and how much was written lately, is not among them: on a
real drive's log, trees that also had these ranked later reads worse.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from linnapp.model.latency_model import CAP, N_FEATURES
from linnapp.native import HISTORY
from linnapp.trace.blktrace import COMPLETED, ERROR, REVOKED, IoChunk
from linnapp.trace.in_flight import (
    PAGE_BYTES,
    last_completed,
    pending_pages,
    still_seen,
    submitted_before,
)

FeatureArray = npt.NDArray[np.uint32]
_Int64 = npt.NDArray[np.int64]


@dataclasses.dataclass
class _Ios:
    """I/Os in order of arrival, as far as later ones need to know."""

    arrival_ns: _Int64
    end_ns: _Int64
    pages: _Int64
    pending: _Int64
    is_read: npt.NDArray[np.bool_]
    answered: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.arrival_ns)

    def take(self, rows: npt.NDArray[np.bool_] | slice) -> _Ios:
        return _Ios(*(getattr(self, field.name)[rows] for field in dataclasses.fields(self)))

    def followed_by(self, others: _Ios) -> _Ios:
        return _Ios(
            *(
                np.concatenate((getattr(self, field.name), getattr(others, field.name)))
                for field in dataclasses.fields(self)
            )
        )


class Observer:
    """Computes features chunk by chunk; what earlier chunks still mean is remembered.

    Parameters
    ----------
    overdue_us : int
        A read in flight for longer is overdue.
    """

    def __init__(self, overdue_us: int) -> None:
        self.overdue_us = overdue_us
        none = np.empty(0, np.int64)
        self._kept = _Ios(none, none, none, none, none.astype(bool), none.astype(bool))

    def observe(self, chunk: IoChunk) -> FeatureArray:
        """Features of the served reads of the next chunk.

        Parameters
        ----------
        chunk : IoChunk
            Follows the one before in order of arrival.

        Returns
        -------
        uint32 array, shape (n, N_FEATURES)
            A row for each of ``chunk.is_served_read``.
        """
        # What was revoked never reached the drive; what never ended cannot be placed in time.
        counted = chunk.take((chunk.flags & (COMPLETED | REVOKED)) == COMPLETED)
        new = _Ios(
            counted.arrival_ns.astype(np.int64),
            (counted.arrival_ns + counted.latency_ns).astype(np.int64),
            -(-counted.size_bytes.astype(np.int64) // PAGE_BYTES),
            counted.pending.astype(np.int64),
            counted.is_read,
            counted.is_read & ((counted.flags & ERROR) == 0),
        )
        if not len(new):
            return np.empty((0, N_FEATURES), np.uint32)
        every = self._kept.followed_by(new)
        wanted = np.flatnonzero(every.answered)
        wanted = wanted[wanted >= len(self._kept)]
        features = _features(every, wanted, self.overdue_us, chunk.ties_in_order)
        self._kept = every.take(_still_needed(every))
        return features


def _features(
    every: _Ios, rows: npt.NDArray[np.intp], overdue_us: int, ties_in_order: bool
) -> FeatureArray:
    now_ns = every.arrival_ns[rows]
    reads = every.take(every.is_read)
    before = submitted_before(every.arrival_ns, ties_in_order)[rows]
    n_before = np.concatenate(([0], np.cumsum(every.is_read)))[before]
    n_ended = np.searchsorted(np.sort(reads.end_ns), now_ns, side="right")
    # The first read still in flight is the first that ends later than any before it has ended.
    oldest = np.searchsorted(np.maximum.accumulate(reads.end_ns), now_ns, side="right")
    oldest = np.minimum(oldest, n_before)
    # A read is overdue from when its time is over until it ends.
    late = reads.end_ns - reads.arrival_ns > overdue_us * 1000
    due_ns = np.sort(reads.arrival_ns[late]) + overdue_us * 1000
    overdue = np.searchsorted(due_ns, now_ns, side="left") - np.searchsorted(
        np.sort(reads.end_ns[late]), now_ns, side="right"
    )
    both = [
        pending_pages(every.arrival_ns, every.end_ns, every.pages, kind, ties_in_order)[rows]
        - every.pages[rows]
        for kind in (every.is_read, ~every.is_read)
    ]
    columns: list[_Int64] = [
        every.pages[rows],
        *both,
        n_before - n_ended,
        (now_ns - reads.arrival_ns[oldest]) // 1000,
        overdue,
    ]
    past = last_completed(
        now_ns, every.pages[rows], every.end_ns, every.pages, every.answered, HISTORY
    )
    for row in past.T[::-1]:
        known = row >= 0
        columns += [
            np.where(known, (every.end_ns - every.arrival_ns)[row] // 1000, 0),
            np.where(known, every.pending[row], 0),
            np.where(known, every.pages[row], 0),
            np.where(known, (now_ns - every.end_ns[row]) // 1000, CAP),
        ]
    out = np.empty((len(rows), N_FEATURES), np.uint32)
    for place, column in enumerate(columns):
        out[:, place] = np.clip(column, 0, CAP)
    return out


def _still_needed(every: _Ios) -> npt.NDArray[np.bool_]:
    """Those that an I/O after the last could find in flight or in the history."""
    now_ns = every.arrival_ns[-1]
    needed: npt.NDArray[np.bool_] = every.end_ns > now_ns
    needed[still_seen(every.end_ns, every.pages, every.answered & ~needed, HISTORY)] = True
    return needed
