# SPDX-License-Identifier: MIT
"""State of a drive at each I/O of a log: pending pages, last reads, and features of a model.

All values are computed by the kernel's own code (core/, docs/formats.md), to which
linnapp/native/drive_log.c reports the I/Os in order of time. An I/O is in flight from its arrival
for the duration of its latency. The time since recent writes and the amount written recently are
not among the features: on a real drive's log, trees with these features ranked later reads worse.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError
from linnapp.native import HISTORY, N_FEATURES, native
from linnapp.trace.blktrace import IoChunk

PAGE_BYTES = 4096

UInt32 = npt.NDArray[np.uint32]

#: Results: fields of struct ld_seen, and the number of values per I/O.
SEEN = {
    "pending": 1,
    "hist_pending": HISTORY,
    "hist_latency_us": HISTORY,
    "hist_nr": HISTORY,
    "features": N_FEATURES,
}


class LoggedDrive:
    """A drive to which I/Os are reported, chunk by chunk. It is initially idle.

    For ``features``, a read in flight for longer than `overdue_us` is overdue.
    """

    def __init__(self, overdue_us: int = 0) -> None:
        library = native().lib
        self._drive = library.ld_open(overdue_us)
        if not self._drive:
            raise MemoryError
        weakref.finalize(self, library.ld_close, self._drive)

    def feed(
        self,
        wanted: tuple[str, ...],
        arrival_ns: npt.NDArray[Any],
        latency_ns: npt.NDArray[Any],
        sector: npt.NDArray[Any],
        size_bytes: npt.NDArray[Any],
        flags: npt.NDArray[Any],
        *,
        ties_in_order: bool = False,
        pending: npt.NDArray[Any] | None = None,
    ) -> list[UInt32]:
        """Return the state of the drive at each of the next I/Os, and add them to the drive.

        Parameters
        ----------
        wanted : tuple of str
            Names of the results, from `SEEN`.
        arrival_ns, latency_ns, sector, size_bytes, flags : array, shape (n,)
            Columns of an :class:`~linnapp.trace.blktrace.IoChunk`, in order of arrival. I/Os that
            are not ``COMPLETED``, or are ``REVOKED``, get the state of the drive, but are never in
            flight. I/Os with ``ERROR`` are in flight, but not in the history.
        ties_in_order : bool
            See :class:`~linnapp.trace.blktrace.IoChunk`.
        pending : array, shape (n,), optional
            Numbers of pending pages for the history, if they are known more precisely than from
            these I/Os.

        Returns
        -------
        list of uint32 array
            Shape (n,) or (n, `SEEN` of the name). Values for writes are zero, except ``pending``.
            Past reads are oldest first. ``hist_nr`` are their sequence numbers among the drive's
            answered reads, starting at 1, or 0 if there is none.

        Raises
        ------
        TraceError
            If more I/O is in flight than a drive can have.
        """
        n = len(arrival_ns)
        given: dict[str, npt.NDArray[Any]] = {
            "arrival_ns": np.ascontiguousarray(arrival_ns, np.uint64),
            "latency_ns": np.ascontiguousarray(latency_ns, np.uint64),
            "sector": np.ascontiguousarray(sector, np.uint64),
            "bytes": np.ascontiguousarray(size_bytes, np.uint32),
            "flags": np.ascontiguousarray(flags, np.uint8),
        }
        if pending is not None:
            given["pending"] = np.ascontiguousarray(pending, np.uint32)
        lengths = [len(column) for column in given.values()]
        if set(lengths) != {n}:
            raise ValueError(f"the columns have different lengths: {lengths}")
        found = {
            name: np.zeros((n, SEEN[name]) if SEEN[name] > 1 else n, np.uint32) for name in wanted
        }
        library = native()
        ios = library.columns("ld_ios", given, n=n, ties_in_order=ties_in_order)
        if not library.lib.ld_feed(self._drive, ios, library.columns("ld_seen", found)):
            raise TraceError(
                "the log has more I/O in flight at once than any drive can have: more than 131,071 "
                "I/Os or 32 GiB. Check that its latencies are in the unit of the log's format"
            )
        return list(found.values())

    def features_of(self, chunk: IoChunk) -> UInt32:
        """Return the features of each served read of the next chunk, in order of arrival.

        If the chunk has features, they are returned, because a blktrace recording contains the
        actual requests.
        """
        if chunk.features is not None:
            return chunk.features[chunk.is_served_read]
        (features,) = self.feed(
            ("features",),
            *(chunk.arrival_ns, chunk.latency_ns, chunk.sector, chunk.size_bytes, chunk.flags),
            ties_in_order=chunk.ties_in_order,
            pending=chunk.pending,
        )
        return features[chunk.is_served_read]
