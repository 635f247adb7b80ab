# SPDX-License-Identifier: MIT
"""The I/Os of a drive as seen by the host, and features of them at some moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnapp.trace.blktrace import COMPLETED, REVOKED, WRITE
from linnapp.trace.reads import PAGE_BYTES, LoggedDrive, pages_of
from linnapp.trace.text import SECTOR_BYTES

#: A read that does not have to wait takes less time than this.
OVERDUE_US = 1000

#: The drive's I/Os are counted over these stretches of time before a read's arrival.
STRETCHES_MS = (1, 10, 100, 1000)

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class DriveLog:
    """The I/Os that a drive served, in the order of their submission; times in ns."""

    start: Int64
    end: Int64
    size: Int64
    offset: Int64
    is_read: NDArray[np.bool_]


def observed(log: DriveLog, at: Int64, size: Int64, offset: Int64) -> NDArray[np.float32]:
    """Return the features of a drive that are visible outside of it, at some moments.

    Only I/Os that were submitted before a moment count, and only those that had completed by then
    have a latency.

    Parameters
    ----------
    at : array, shape (n,)
        Moments, in ns.
    size, offset : array, shape (n,)
        Sizes and offsets of the reads that might be sent.

    Returns
    -------
    float32 array, shape (n, features)
        The features of a latency model, followed by others. A feature that does not exist is NaN.
        Times are in us.
    """
    found, pending_then = _features_of_reads(log, at, size, offset)
    begun = np.searchsorted(log.start, at, side="left")
    pages = pages_of(log.size)
    written, read = _prefix_sums(pages * ~log.is_read), _prefix_sums(pages * log.is_read)
    columns: list[Any] = [*found.T, *features_of_all_ios(at, begun, log.start, log.end)]
    for stretch_ms in STRETCHES_MS:
        since = np.searchsorted(log.start, at - stretch_ms * 1_000_000, side="left")
        columns += [written[begun] - written[since], read[begun] - read[since]]
    # The last write, however large it was.
    writes = np.flatnonzero(~log.is_read)
    writes = writes[np.argsort(log.end[writes], kind="stable")]
    row = np.searchsorted(log.end[writes], at, side="right") - 1
    last = np.append(writes, -1)[row]
    for values in ((log.end - log.start) / 1e3, log.size, pending_then):
        columns.append(np.where(last >= 0, np.append(values, 0)[last], np.nan))
    columns.append(age_us(at, log.end, last))
    columns += _block_ages(log, at, offset, begun, written)
    return np.stack([np.asarray(column, np.float32) for column in columns], axis=1)


def features_of_all_ios(
    now_ns: Int64, before: Int64, start_ns: Int64, end_ns: Int64
) -> list[NDArray[Any]]:
    """Return features of all I/Os of a drive at some moments, from the I/Os before each moment.

    The features are the number of I/Os in flight, the age of the oldest of them, and the times
    since the last completion and since the last arrival. Each is an array of shape (n,). Times are
    in us, and NaN where there was no such I/O.

    Parameters
    ----------
    now_ns, before : arrays, shape (n,)
        Moments, and the number of I/Os that were submitted before each.
    start_ns, end_ns : arrays, shape (m,)
        Starts and ends of the I/Os in order of arrival.
    """
    # The first I/O still in flight is the first that ends later than any before it has ended.
    oldest = np.searchsorted(np.maximum.accumulate(end_ns), now_ns, side="right")
    ends_ns = np.sort(end_ns)
    n_done = np.searchsorted(ends_ns, now_ns, side="right")
    return [
        before - n_done,
        age_us(now_ns, start_ns, np.where(oldest < before, oldest, -1)),
        age_us(now_ns, ends_ns, n_done - 1),
        age_us(now_ns, start_ns, before - 1),
    ]


def age_us(now_ns: Int64, times_ns: Int64, rows: Int64) -> NDArray[Any]:
    """Return the time in us from each row's time to now; NaN for row -1."""
    return np.where(rows >= 0, (now_ns - np.append(times_ns, 0)[rows]) / 1e3, np.nan)


def _features_of_reads(
    log: DriveLog, at: Int64, size: Int64, offset: Int64
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the features of a latency model, and the pages pending with each I/O of the log."""
    n = len(log.start)
    flags = np.where(log.is_read, 0, WRITE) | COMPLETED
    # A refused read has features but no effect on later ones.
    columns = [
        np.concatenate(both)
        for both in (
            (log.start, at),
            (log.end - log.start, np.zeros_like(at)),
            (log.offset // SECTOR_BYTES, offset // SECTOR_BYTES),
            (log.size, size),
            (flags, np.full(len(at), REVOKED)),
        )
    ]
    order = np.argsort(columns[0], kind="stable")
    in_order = (column[order] for column in columns)
    seen = LoggedDrive(OVERDUE_US).feed(("features", "pending"), *in_order)
    features, pending = (column[np.argsort(order)] for column in seen)
    return features[n:], pending[:n]


def _prefix_sums(values: Int64) -> Int64:
    """Return the sums of the first 0, 1, 2, ... values."""
    return np.concatenate(([0], np.cumsum(values, dtype=np.int64)))


def _block_ages(
    log: DriveLog, at: Int64, offset: Int64, begun: Int64, written: Int64
) -> list[NDArray[Any]]:
    """Return the age of the last write to a read's first block, and the bytes written since."""
    writes = np.flatnonzero(~log.is_read)
    pages = pages_of(log.size[writes])
    owner = np.repeat(writes, pages)
    first = np.repeat(log.offset[writes] // PAGE_BYTES, pages)
    within = np.arange(len(owner)) - np.repeat(_prefix_sums(pages)[:-1], pages)
    # One number for block and moment: the last write of a block before a moment is next to it.
    n = len(log.start) + 1
    keys = np.sort((first + within) * n + owner)
    wanted = offset // PAGE_BYTES
    found = np.searchsorted(keys, wanted * n + begun, side="left") - 1
    if not len(keys):
        return [np.full(len(at), np.nan)] * 2
    key = keys[np.maximum(found, 0)]
    write = np.where((found >= 0) & (key // n == wanted), key % n, -1)
    since = np.where(write >= 0, written[begun] - written[write], np.nan)
    return [age_us(at, log.start, write), since]
