# SPDX-License-Identifier: MIT
"""Synthetic bursts of continuous slowness that are added to a recorded trace for training.

A network that has only seen the latencies of the recording gives arbitrary answers when a drive
becomes slower than it ever was there. For a perceptron on decimal digits, four reads of 2013 us are
a point far from all its examples, not "much slower than 200 us". Bai et al. ("uScope", JSA 2025)
report the effect: single slow I/Os are predicted, continuous ones are not. Such a network has also
never seen the effect of revocation: an avoided drive has few pending pages, and only old, slow
reads in its history.

This module therefore makes examples of both from the recording. It chooses windows of time at
random. Every read that arrives in a window takes longer by an amount that is chosen for the window,
from all magnitudes that the digits can represent. In some windows most reads do not count as sent
to the drive, as if they had been revoked. Pending pages and histories are then recomputed. Reads
that cannot be distinguished from others are not used: reads of a window before its first slow read
has completed, and reads after a window while the read that completed last was a slow one.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError
from linnapp.learn.features.digits import DigitArray, digits
from linnapp.learn.labelling.labels import SlowLimits
from linnapp.model.latency_model import FEATURES
from linnapp.model.model_file import LATENCY_DIGITS, N_INPUTS
from linnapp.native import HISTORY, N_FEATURES
from linnapp.trace.blktrace import COMPLETED, ERROR, REVOKED, IoChunk
from linnapp.trace.logged_drive import LoggedDrive
from linnapp.trace.recorded import Recorded
from linnapp.trace.rows import Rows

#: Share of a chunk's time that windows cover, and the lengths of windows. A flush takes
#: milliseconds, a garbage collection under load up to a few hundred milliseconds.
COVERED = 0.3
SHORTEST_NS = 2_000_000
LONGEST_NS = 200_000_000

#: Maximum span of a chunk. In a longer chunk the drive has almost no load, or a time is wrong, and
#: windows for the whole span would exhaust the memory.
MOST_DAYS = 30
_DAY_NS = 86_400_000_000_000

#: Shares of a window's reads that are sent to the drive. The others count as revoked.
SENT = (1.0, 1.0, 0.3, 0.1, 0.03)

#: Reads during this time after a window show how the drive becomes trusted again.
AFTER_NS = 5_000_000


@dataclasses.dataclass(frozen=True)
class BurstReads(Rows):
    """Reads of synthetic bursts and reads shortly after them."""

    #: uint8 array, shape (n, N_INPUTS). Feature vectors.
    digits: DigitArray
    #: bool array, shape (n,). Labels.
    slow: npt.NDArray[np.bool_]
    #: int64 array, shape (n,). Latency on the drive, including the added latency.
    latency_us: npt.NDArray[np.int64]
    #: int64 array, shape (n,). Latency in the recording, which a replica without the burst might
    #: have.
    recorded_us: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class _Slowed:
    """I/Os that reached the drive, with synthetic bursts added."""

    #: The I/Os as recorded.
    done: IoChunk
    #: Latencies, including the added latency.
    latency_ns: npt.NDArray[np.int64]
    #: The requested columns for each I/O, from :data:`linnapp.trace.logged_drive.SEEN`.
    found: list[npt.NDArray[np.uint32]]
    #: Served reads that arrived after another read had completed.
    known: npt.NDArray[np.bool_]
    #: Reads in a burst.
    burst: npt.NDArray[np.bool_]
    #: Reads whose history contains a read of a burst.
    any_is_slow: npt.NDArray[np.bool_]
    #: Reads shortly after a burst, if the read that completed last was not in a burst.
    after: npt.NDArray[np.bool_]


def _slow_down(
    chunk: IoChunk,
    threshold_us: int,
    rng: np.random.Generator,
    wanted: tuple[str, ...],
    overdue_us: int = 0,
) -> _Slowed | None:
    """Add bursts. Return None if there are too few I/Os."""
    # A revoked read never reached the drive. A failed I/O did, but it is not part of the history.
    done = chunk.take((chunk.flags & (COMPLETED | REVOKED)) == COMPLETED)
    if len(done) <= HISTORY:
        return None
    arrival = done.arrival_ns.astype(np.int64)
    served = done.is_served_read

    starts, ends, added_us, sent = _windows(arrival[0], arrival[-1], threshold_us, rng)
    window = np.searchsorted(starts, arrival, side="right") - 1
    inside = (window >= 0) & (arrival < ends[window])
    burst = inside & served
    latency = done.latency_ns.astype(np.int64) + np.where(burst, added_us[window] * 1000, 0)
    present = ~burst | (rng.random(len(arrival)) < sent[window])

    flags = np.where(present, done.flags, done.flags | REVOKED)
    *found, nr = LoggedDrive(overdue_us).feed(
        (*wanted, "hist_nr"),
        *(arrival, latency, done.sector, done.size_bytes, flags),
        ties_in_order=chunk.ties_in_order,
    )
    # Reads in order of completion. Index 0 is a placeholder for a read that has no predecessor.
    answered = np.flatnonzero(present & done.is_read & ((done.flags & ERROR) == 0))
    by_end = answered[np.argsort((arrival + latency)[answered], kind="stable")]
    history = np.concatenate(([0], by_end))[nr]
    known = served & (nr[:, 0] > 0)
    since_end = arrival - ends[window]
    soon = (window >= 0) & (since_end >= 0) & (since_end < AFTER_NS)
    return _Slowed(
        done, latency, found, known, burst,
        any_is_slow=np.asarray(burst[history].any(axis=1)),
        after=soon & ~burst[history[:, -1]],
    )  # fmt: skip


def add_bursts(
    chunk: IoChunk,
    threshold_us: int,
    rng: np.random.Generator,
    limits: SlowLimits | None = None,
) -> BurstReads:
    """Make examples of continuous slowness from recorded I/Os.

    Parameters
    ----------
    chunk : IoChunk
        I/Os in order of arrival.
    threshold_us : int
        Minimum of the added latencies.
    rng : Generator
    limits : SlowLimits, optional
        Limits for the labels. By default a read is slow if it takes longer than `threshold_us`.

    Returns
    -------
    BurstReads
        The examples. There are none if the chunk has too few I/Os.
    """
    limits = limits or SlowLimits.of_paper(threshold_us)
    slowed = _slow_down(chunk, threshold_us, rng, ("pending", "hist_pending", "hist_latency_us"))
    if slowed is None:
        return no_reads()
    pending, hist_pending, hist_latency_us = slowed.found
    used = slowed.known & ((slowed.burst & slowed.any_is_slow) | slowed.after)
    latency_us = slowed.latency_ns // 1000
    pages = (slowed.done.size_bytes.astype(np.int64) + 4095) // 4096
    return BurstReads(
        digits(pending[used], hist_pending[used], hist_latency_us[used]),
        limits.slow(latency_us[used], pages[used]),
        latency_us[used],
        slowed.done.latency_ns[used].astype(np.int64) // 1000,
    )


@dataclasses.dataclass(frozen=True)
class SlowedReads(Rows):
    """Reads of synthetic bursts and shortly after them, with the features of a latency model."""

    #: uint32 array, shape (n, linnapp.native.N_FEATURES).
    features: npt.NDArray[np.uint32]
    #: int64 array, shape (n,). Latency, including the added latency.
    latency_us: npt.NDArray[np.int64]
    #: int64 array, shape (n,). Latency without the added latency.
    recorded_us: npt.NDArray[np.int64]
    #: int64 array, shape (n,). Index of each read among the served reads of the chunk.
    place: npt.NDArray[np.int64]

    def before(self, place: int) -> SlowedReads:
        """Return the reads that were made from the first `place` served reads."""
        return self.take(self.place < place)


def add_slow_reads(
    chunk: IoChunk, threshold_us: int, overdue_us: int, rng: np.random.Generator
) -> SlowedReads:
    """Make examples of continuous slowness for a latency model, like :func:`add_bursts`.

    A latency model also sees that a read has been in flight for longer than `overdue_us`. If there
    is such a read, reads of a burst are used even before any read of the burst has completed.
    """
    slowed = _slow_down(chunk, threshold_us, rng, ("features",), overdue_us)
    if slowed is None:
        none = np.empty(0, np.int64)
        return SlowedReads(np.empty((0, N_FEATURES), np.uint32), none, none, none)
    [features] = slowed.found
    waits = features[:, FEATURES.index("overdue")] > 0
    used = slowed.known & ((slowed.burst & (slowed.any_is_slow | waits)) | (slowed.after & ~waits))
    return SlowedReads(
        features[used],
        slowed.latency_ns[used] // 1000,
        slowed.done.latency_ns[used].astype(np.int64) // 1000,
        np.cumsum(slowed.done.is_served_read)[used] - 1,
    )


def burst_count(chunk: IoChunk) -> int:
    """Return the number of bursts that :func:`add_bursts` adds to a chunk."""
    return _n_windows(int(chunk.arrival_ns[-1] - chunk.arrival_ns[0])) if len(chunk) else 0


def _n_windows(span_ns: int) -> int:
    mean_ns = (LONGEST_NS - SHORTEST_NS) / np.log(LONGEST_NS / SHORTEST_NS)
    return max(1, int(span_ns * COVERED / mean_ns))


def check_span(trace: Recorded, chunk: IoChunk) -> None:
    """Check the time span of a chunk, because the number of windows grows with it.

    Raises
    ------
    TraceError
        If the I/Os span more than `MOST_DAYS` days.
    """
    days = int(chunk.arrival_ns[-1] - chunk.arrival_ns[0]) / _DAY_NS if len(chunk) else 0
    if days > MOST_DAYS:
        raise TraceError(
            f"{trace}: {len(chunk)} I/Os in a row lie {days:.0f} days apart, at most {MOST_DAYS} "
            "are accepted: a time in it is wrong, or the drive had next to nothing to do"
        )


def no_reads() -> BurstReads:
    """Return an empty set of reads."""
    none = np.empty(0, np.int64)
    return BurstReads(np.empty((0, N_INPUTS), np.uint8), none.astype(bool), none, none)


def _windows(
    first_ns: int,
    last_ns: int,
    threshold_us: int,
    rng: np.random.Generator,
) -> tuple[npt.NDArray[np.int64], ...]:
    """Choose windows at random: starts and ends in ns, added latency in us, share of reads sent."""
    span = max(1, last_ns - first_ns)
    n = _n_windows(span)
    length = _log_uniform(SHORTEST_NS, LONGEST_NS, n, rng)
    # Windows are separated by gaps of random length, so they never overlap.
    gap = rng.dirichlet(np.ones(n + 1))[:n] * max(0, span - int(length.sum()))
    starts = first_ns + np.cumsum(gap).astype(np.int64) + np.cumsum(length) - length
    longest_us = 10**LATENCY_DIGITS - 1
    added_us = _log_uniform(max(1, threshold_us), max(threshold_us + 1, longest_us), n, rng)
    return starts, starts + length, added_us, rng.choice(SENT, n)


def _log_uniform(low: int, high: int, n: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    return np.exp(rng.uniform(np.log(low), np.log(high), n)).astype(np.int64)
