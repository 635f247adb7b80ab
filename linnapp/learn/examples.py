# SPDX-License-Identifier: MIT
"""Feature vectors: the network's view of a read, as decimal digits (docs/formats.md).

Synthetic bursts of continuous slowness that are added to a recorded trace for training.

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

Make examples of synthetic bursts for the three parts of a trace, in chunks.

Training, validation and test examples come each from their own part of the trace. A short trace is
processed several times with new random windows until there are enough bursts and examples.

Synthetic bursts for training a latency model, in addition to the recorded reads.

Trees cannot predict higher latencies than they have seen. A recording of a lightly loaded drive
contains no information about bursts of garbage collection, so bursts are added to it
(:mod:`linnapp.learn.examples`).

The served reads of a trace, in columns compact enough to hold a day of reads in memory.
"""

from __future__ import annotations

import dataclasses
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError
from linnapp.learn.labels import SlowLimits
from linnapp.model.engine import library
from linnapp.model.file import FEATURES, LATENCY_DIGITS, N_INPUTS, PENDING_DIGITS
from linnapp.native import HISTORY, N_FEATURES
from linnapp.trace.blktrace import COMPLETED, ERROR, REVOKED, IoChunk, TraceStats
from linnapp.trace.logged_drive import LoggedDrive
from linnapp.trace.reads import Reader, Recorded, name_of, open_recording
from linnapp.trace.rows import Rows, Split

UInt32Array = npt.NDArray[np.uint32]
DigitArray = npt.NDArray[np.uint8]


def digits(
    pending: UInt32Array,
    hist_pending: UInt32Array,
    hist_latency_us: UInt32Array,
) -> DigitArray:
    """Encode features as digits from 0 to 9, most significant first.

    Parameters
    ----------
    pending : uint32 array, shape (n,)
        Pending pages at arrival, including those of the read itself.
    hist_pending, hist_latency_us : uint32 array, shape (n, HISTORY)
        Pending pages and latencies (us) of the last completed reads, oldest first.

    Returns
    -------
    uint8 array, shape (n, N_INPUTS)
        The digits of `hist_pending`, then of `pending`, then of `hist_latency_us`.

    Raises
    ------
    ValueError
        If an array has the wrong shape.
    """
    n = len(pending)
    for name, array in (("hist_pending", hist_pending), ("hist_latency_us", hist_latency_us)):
        if array.shape != (n, HISTORY):
            raise ValueError(f"{name} has shape {array.shape}, expected {(n, HISTORY)}")
    columns = [
        np.ascontiguousarray(array, np.uint32) for array in (pending, hist_pending, hist_latency_us)
    ]
    out = np.empty((n, N_INPUTS), np.uint8)
    engine = library()
    addresses = [engine.address(column, "uint32_t *") for column in columns]
    engine.lib.linnos_features_batch(*addresses, engine.address(out, "uint8_t *"), n)
    return out


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


#: Enough to learn from, whatever the length of the trace.
MAX_ROWS = 500_000
MAX_HELD_OUT_ROWS = 100_000

#: The added latency of a burst is one point on a scale of three decades, and a network learns the
#: scale only from many points. A short trace is repeated until there are this many bursts.
MIN_BURSTS = 2000
MAX_PASSES = 100


def sample_bursts(
    trace: Recorded,
    parts: Split,
    share: float,
    threshold_us: int,
    seed: int,
    limits: SlowLimits | None = None,
    **reader_options: Any,
) -> tuple[BurstReads, BurstReads, BurstReads]:
    """Make the examples that are added to a trace's reads for training, validation and testing.

    Parameters
    ----------
    trace : path or table
    parts : Split
    share : float
        Share of added examples among all training examples. Very short traces have fewer.
    threshold_us : int
        Minimum of the added latencies.
    seed : int
    limits : SlowLimits, optional
        See :func:`~linnapp.learn.examples.add_bursts`.
    **reader_options
        Those of :func:`~linnapp.trace.reads.open_recording`.

    Returns
    -------
    tuple of BurstReads
        Examples for training, validation and testing.
    """
    # The drive's name is part of the seed, so that the drives of an array get different bursts.
    drive = zlib.crc32(os.fsencode(name_of(trace)))
    n_train = parts.training.stop
    wanted = min(MAX_ROWS, round(n_train * share / (1 - share)))
    made = []
    for number, (part, limit) in enumerate(
        (
            (parts.training, wanted),
            (parts.validation, MAX_HELD_OUT_ROWS),
            (parts.test, MAX_HELD_OUT_ROWS),
        )
    ):
        rng = np.random.default_rng([seed, drive, number])
        found = [no_reads()]
        n_found = 0
        # The examples of one pass over a long trace are thinned evenly, not truncated.
        expected = max(1.0, COVERED * n_train)
        keep = min(1.0, 2 * limit / expected)
        n_bursts = 0
        for _ in range(MAX_PASSES):
            for chunk in _part_of(trace, part, reader_options):
                check_span(trace, chunk)
                n_bursts += burst_count(chunk)
                reads = add_bursts(chunk, threshold_us, rng, limits)
                if keep < 1:
                    reads = reads.take(rng.random(len(reads)) < keep)
                found.append(reads)
                n_found += len(reads)
            if n_bursts >= MIN_BURSTS and (number > 0 or n_found >= limit):
                break
        every = BurstReads.joined(found)
        if n_found > limit:
            every = every.take(np.sort(rng.choice(n_found, limit, replace=False)))
        made.append(every)
    return made[0], made[1], made[2]


def _part_of(trace: Recorded, part: slice, options: dict[str, Any]) -> Iterator[IoChunk]:
    """Yield the I/Os of a part in chunks.

    The part begins at its first served read, or at the beginning of the trace.
    """
    seen = 0
    for chunk in open_recording(trace, **options):
        served = np.cumsum(chunk.is_served_read)
        # The served read number `index`, and all I/Os after it, begin at this row of the chunk.
        begin, end = (
            int(np.searchsorted(served, index - seen, side="right")) if index else 0
            for index in (part.start, part.stop)
        )
        n_served = int(served[-1]) if len(served) else 0
        seen += n_served
        inside = chunk.take(slice(begin, end))
        if len(inside):
            yield inside
        if seen > part.stop:
            return


#: Sufficient for training. A short recording is processed again with new random bursts.
ENOUGH_SLOW_ROWS = 20_000

#: Minimum latency that a burst adds, as a multiple of `overdue_us`. A smaller increase cannot be
#: distinguished from load.
LEAST_OVERDUES = 2

#: Maximum number of rows that are kept of a long recording.
MAX_SLOW_ROWS = 500_000

#: Total weight of the added reads relative to the recorded ones. Drives are seldom in such a burst,
#: and if both kinds of reads look alike, the recorded ones must decide.
BURST_WEIGHT = 0.03


def sample_slow_reads(
    trace: Recorded, n_reads: int, overdue_us: int, seed: int, **reader: Any
) -> SlowedReads:
    """Add bursts to a recording and return the reads in and shortly after them.

    Parameters
    ----------
    trace : path or IoTable
    n_reads : int
        Number of served reads of the recording. `place` of the result is an index among them.
    overdue_us : int
        A read in flight for longer is overdue. Bursts add at least `LEAST_OVERDUES` times as much.
    seed : int
    **reader
        Options of :func:`~linnapp.trace.reads.open_recording`.

    Returns
    -------
    SlowedReads
    """
    rng = np.random.default_rng(seed)
    kept = min(1.0, MAX_SLOW_ROWS / max(1.0, 2 * COVERED * n_reads))
    parts: list[SlowedReads] = []
    n_rows = 0
    for _ in range(MAX_PASSES):
        n_before = 0
        for chunk in open_recording(trace, **reader):
            check_span(trace, chunk)
            made = add_slow_reads(chunk, LEAST_OVERDUES * overdue_us, overdue_us, rng)
            if kept < 1:
                made = made.take(rng.random(len(made)) < kept)
            parts.append(dataclasses.replace(made, place=made.place + n_before))
            n_before += int(np.count_nonzero(chunk.is_served_read))
            n_rows += len(made)
        if n_rows >= ENOUGH_SLOW_ROWS or not n_rows:
            break
    return SlowedReads.joined(parts)


#: Number of reads whose digits are computed at a time.
_DIGIT_ROWS = 1 << 18


@dataclasses.dataclass(frozen=True)
class ReadSet(Rows):
    """Reads that the drive answered, in arrival order, and what the kernel knew at each read."""

    #: uint32 array, shape (n,). Not capped.
    latency_us: npt.NDArray[np.uint32]
    #: uint16 array, shape (n,). Number of 4 KiB pages of the read, rounded up.
    pages: npt.NDArray[np.uint16]
    #: unsigned array, shape (n,). Number of pending 4 KiB pages at arrival. This column and the
    #: following ones are capped at the maximum that their digits can represent.
    pending: npt.NDArray[Any]
    #: `hist_pending`, `hist_latency_us`: unsigned arrays, shape (n, HISTORY). Values of the last
    #: completed reads, oldest first.
    hist_pending: npt.NDArray[Any]
    hist_latency_us: npt.NDArray[Any]
    #: uint64 array, shape (n,).
    arrival_ns: npt.NDArray[np.uint64]
    #: Statistics of the whole trace.
    stats: TraceStats

    def every(self, step: int) -> ReadSet:
        """Return a copy of every `step`-th read."""
        return self.take(slice(None, None, step)).each(np.copy)

    def digits(self, rows: slice | npt.NDArray[np.intp] = slice(None)) -> DigitArray:
        """Return the feature vectors of the selected reads, shape (n, N_INPUTS)."""
        pending = self.pending[rows]
        n = len(pending)
        hist_pending, hist_latency_us = self.hist_pending[rows], self.hist_latency_us[rows]
        out = np.empty((n, N_INPUTS), np.uint8)
        for start in range(0, n, _DIGIT_ROWS):
            part = slice(start, start + _DIGIT_ROWS)
            out[part] = digits(
                pending[part].astype(np.uint32),
                hist_pending[part].astype(np.uint32),
                hist_latency_us[part].astype(np.uint32),
            )
        return out


def _capped(array: npt.NDArray[np.uint32], n_digits: int) -> npt.NDArray[Any]:
    """Cap at the largest number with `n_digits` digits. Use 16 bits if they are sufficient."""
    cap = 10**n_digits - 1
    capped = np.minimum(array, np.uint32(min(cap, 2**32 - 1)))
    return capped.astype(np.uint16) if cap < 1 << 16 else capped


def load_reads(
    trace: Recorded,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> ReadSet:
    """Read the served reads of a trace.

    Parameters
    ----------
    trace : path or IoTable
    on_progress : callable, optional
        Called with the number of bytes read so far and their total.
    **options
        Those of :func:`~linnapp.trace.reads.open_recording`.

    Raises
    ------
    TraceError
        If the trace contains no completed read.
    """
    reader = open_recording(trace, **options)
    parts: list[list[npt.NDArray[Any]]] = [[] for _ in range(6)]
    for chunk in _reported(reader, on_progress):
        for column, part in zip(parts, _compact(chunk), strict=True):
            column.append(part)
    n_reads = sum(len(part) for part in parts[0])
    if not n_reads:
        stats = reader.stats
        raise TraceError(
            f"{trace}: holds no completions (C); record with `blktrace -a complete`, too"
            if stats["reads"] and not stats["completed"]
            else f"{trace}: no completed read to learn from ({stats['reads']} reads and "
            f"{stats['writes']} writes were submitted, {stats['revoked']} revoked); "
            "trace longer, or while the drive is in use"
        )
    columns = []
    for column in parts:
        columns.append(np.concatenate(column))
        column.clear()  # Avoids holding all columns twice.
    latency_us, pages, pending, hist_pending, hist_latency_us, arrival_ns = columns
    return ReadSet(
        latency_us, pages, pending, hist_pending, hist_latency_us, arrival_ns, reader.stats
    )


def _reported(reader: Reader, on_progress: Callable[[int, int], None] | None) -> Iterator[IoChunk]:
    total = reader.size_bytes
    for chunk in reader:
        if on_progress is not None:
            on_progress(reader.stats["bytes"], total)
        yield chunk


def _compact(chunk: IoChunk) -> tuple[npt.NDArray[Any], ...]:
    served = chunk.take(chunk.is_served_read)
    latency_us = np.minimum(served.latency_ns // np.uint64(1000), np.uint64(2**32 - 1))
    return (
        latency_us.astype(np.uint32),
        np.minimum(-(-served.size_bytes.astype(np.int64) // 4096), 65535).astype(np.uint16),
        _capped(served.pending, PENDING_DIGITS),
        _capped(served.hist_pending, PENDING_DIGITS),
        _capped(served.hist_latency_us, LATENCY_DIGITS),
        served.arrival_ns,
    )
