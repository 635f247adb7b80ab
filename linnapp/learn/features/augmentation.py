# SPDX-License-Identifier: MIT
"""Bursts of continuous slowness, added to a recorded trace for training.

A network that has only seen the latencies of the recording answers arbitrarily when a drive
becomes slower than it ever was there: to a perceptron on decimal digits, four reads of 2013 us are
a point far from all its examples, not "much slower than 200 us". Bai et al. ("uScope", JSA
2025) report the effect: single slow I/Os are predicted, continuous ones are not. It also never saw
what revocation itself does: a drive that is avoided has little pending, and only old, slow reads
in its history.

So examples of both are made from the recording. Windows of time are drawn; every read that arrives
in one takes longer by an amount drawn for the window, over all magnitudes that the digits can hold;
in some windows most reads are left out of the drive's account, as if they had been
revoked. Pending pages and histories are then computed anew. Reads that nothing
can tell apart from others are not used: those of a window before its first slow read has
completed, and those after a window as long as the latest completed read was a slow one.
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

#: Share of a chunk's time that windows cover, and their lengths: a flush takes milliseconds, a
#: garbage collection under load up to some hundred.
COVERED = 0.3
SHORTEST_NS = 2_000_000
LONGEST_NS = 200_000_000

#: Over more a drive has next to nothing to do for a chunk, or a time is wrong; windows all over it
#: would take the memory.
MOST_DAYS = 30
_DAY_NS = 86_400_000_000_000

#: Share of a window's reads that the drive is sent; the others count as revoked.
SENT = (1.0, 1.0, 0.3, 0.1, 0.03)

#: After a window, reads for so long show how trust returns.
AFTER_NS = 5_000_000


@dataclasses.dataclass(frozen=True)
class BurstReads(Rows):
    """Reads of the added bursts and of the moments after them."""

    #: uint8 array, shape (n, N_INPUTS); feature vectors.
    digits: DigitArray
    #: bool array, shape (n,); labels.
    slow: npt.NDArray[np.bool_]
    #: int64 array, shape (n,); what each read takes on the drive, added latency included.
    latency_us: npt.NDArray[np.int64]
    #: int64 array, shape (n,); what it took in the recording: what a replica without the burst
    #: might take.
    recorded_us: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class _Slowed:
    """I/Os that reached the drive, with bursts added."""

    #: As recorded.
    done: IoChunk
    #: Added latency included.
    latency_ns: npt.NDArray[np.int64]
    #: What was asked for of each I/O, of :data:`linnapp.trace.logged_drive.SEEN`.
    found: list[npt.NDArray[np.uint32]]
    #: Served reads before which another had completed.
    known: npt.NDArray[np.bool_]
    #: Those in a burst.
    burst: npt.NDArray[np.bool_]
    #: Those whose history has a read of a burst.
    any_is_slow: npt.NDArray[np.bool_]
    #: Those soon after a burst, when the latest read that completed was in none.
    after: npt.NDArray[np.bool_]


def _slow_down(
    chunk: IoChunk,
    threshold_us: int,
    rng: np.random.Generator,
    wanted: tuple[str, ...],
    overdue_us: int = 0,
) -> _Slowed | None:
    """Add bursts; None to too few I/Os."""
    # A revoked read was never on the drive; a failed I/O was, but left no trace in the history.
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
    # The drive's first, second, ... answered read; the first of all where there was none.
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
    """Make examples, or none, of continuous slowness from recorded I/Os, in order of arrival.

    Added latencies start at `threshold_us`.
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
    """Reads of added bursts and of the moments after them, as a latency model sees them."""

    #: uint32 array, shape (n, linnapp.native.N_FEATURES)
    features: npt.NDArray[np.uint32]
    #: int64 array, shape (n,); added latency included.
    latency_us: npt.NDArray[np.int64]
    #: int64 array, shape (n,); without it.
    recorded_us: npt.NDArray[np.int64]
    #: int64 array, shape (n,); which of the chunk's served reads each is.
    place: npt.NDArray[np.int64]

    def before(self, place: int) -> SlowedReads:
        """Those made from the first served reads, `place` of them."""
        return self.take(self.place < place)


def add_slow_reads(
    chunk: IoChunk, threshold_us: int, overdue_us: int, rng: np.random.Generator
) -> SlowedReads:
    """As :func:`add_bursts`, for a model of latencies.

    That sees a read in flight for longer than `overdue_us`, too: one of a burst is used before any
    of it has completed when there is such a one.
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
    """How many bursts :func:`add_bursts` adds to a chunk."""
    return _n_windows(int(chunk.arrival_ns[-1] - chunk.arrival_ns[0])) if len(chunk) else 0


def _n_windows(span_ns: int) -> int:
    mean_ns = (LONGEST_NS - SHORTEST_NS) / np.log(LONGEST_NS / SHORTEST_NS)
    return max(1, int(span_ns * COVERED / mean_ns))


def check_span(trace: Recorded, chunk: IoChunk) -> None:
    """Refuse I/Os that lie so far apart that windows between them are beyond counting."""
    days = int(chunk.arrival_ns[-1] - chunk.arrival_ns[0]) / _DAY_NS if len(chunk) else 0
    if days > MOST_DAYS:
        raise TraceError(
            f"{trace}: {len(chunk)} I/Os in a row lie {days:.0f} days apart, at most {MOST_DAYS} "
            "are accepted: a time in it is wrong, or the drive had next to nothing to do"
        )


def no_reads() -> BurstReads:
    """Reads of no burst."""
    none = np.empty(0, np.int64)
    return BurstReads(np.empty((0, N_INPUTS), np.uint8), none.astype(bool), none, none)


def _windows(
    first_ns: int,
    last_ns: int,
    threshold_us: int,
    rng: np.random.Generator,
) -> tuple[npt.NDArray[np.int64], ...]:
    """Draw windows: starts and ends in ns, added latency in us, share of reads sent."""
    span = max(1, last_ns - first_ns)
    n = _n_windows(span)
    length = _log_uniform(SHORTEST_NS, LONGEST_NS, n, rng)
    # Gaps of random length between windows, so that they never overlap.
    gap = rng.dirichlet(np.ones(n + 1))[:n] * max(0, span - int(length.sum()))
    starts = first_ns + np.cumsum(gap).astype(np.int64) + np.cumsum(length) - length
    longest_us = 10**LATENCY_DIGITS - 1
    added_us = _log_uniform(max(1, threshold_us), max(threshold_us + 1, longest_us), n, rng)
    return starts, starts + length, added_us, rng.choice(SENT, n)


def _log_uniform(low: int, high: int, n: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    return np.exp(rng.uniform(np.log(low), np.log(high), n)).astype(np.int64)
