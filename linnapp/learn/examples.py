# SPDX-License-Identifier: MIT
"""Training examples: the reads of a trace with the inputs of a model, and synthetic bursts.

The inputs of a network are decimal digits (docs/formats.md), those of a latency model features.

A recording does not contain all states in which a drive can be later:

- The drive may become slower than it was in the recording. A network gives arbitrary answers then,
  because in decimal digits four reads of 2013 us are far from all of its examples, and not merely
  much slower than 200 us. Bai et al. ("uScope", JSA 2025) report the effect: single slow I/Os are
  predicted, continuous ones are not. Trees cannot predict latencies that exceed those of their
  training data, and a recording of a lightly loaded drive has no bursts of garbage collection.
- The drive may be avoided. It then has few pending pages, and only old, slow reads in its history.

This module therefore adds synthetic bursts to a recording. It chooses windows of time at random and
an additional latency for each of them, from all magnitudes that the digits can represent. Every
read that arrives in the window takes longer by this latency. In some windows, most reads are not
sent to the drive, as if they had been revoked. Pending pages and histories are then recomputed.
Some reads cannot be distinguished from other reads, and are left out: those in a window before its
first slow read has completed, and those after a window while the read that completed last was slow.

The bursts for training, validation and testing come from the same parts of the trace as the
recorded reads. A short trace is processed several times, with other random windows, until there
are enough examples.
"""

from __future__ import annotations

import dataclasses
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.engine import digits
from linnapp.errors import TraceError
from linnapp.learn.labels import SlowLimits
from linnapp.learn.options import TrainingOptions
from linnapp.model import FEATURES, LATENCY_DIGITS, N_INPUTS, PENDING_DIGITS
from linnapp.native import HISTORY, N_FEATURES
from linnapp.trace.blktrace import COMPLETED, ERROR, REVOKED, IoChunk, Rows, TraceStats
from linnapp.trace.reads import (
    IoTable,
    LoggedDrive,
    Recorded,
    joined,
    name_of,
    open_recording,
    pages_of,
)

DigitArray = npt.NDArray[np.uint8]

#: Minimum number of reads from which a model of either kind can be trained.
LEAST_READS = 128


@dataclasses.dataclass(frozen=True)
class Split:
    """Three consecutive slices of a trace's reads, in order of time."""

    training: slice
    validation: slice
    test: slice


def split(n: int, options: TrainingOptions) -> Split:
    """Split `n` reads into slices for training, for validation and for testing."""
    first_test = n - max(1, round(n * options.test_share))
    first_validation = first_test - max(1, round(n * options.validation_share))
    return Split(
        slice(0, max(0, first_validation)),
        slice(max(0, first_validation), first_test),
        slice(first_test, n),
    )


def check_enough(n_reads: int) -> None:
    """Raise TraceError if there are too few reads to train on."""
    if n_reads < LEAST_READS:
        raise TraceError(
            f"{n_reads} reads are too few to learn from: at least {LEAST_READS} are needed, and "
            "some ten thousand for a useful model; record longer"
        )


#: Share of a chunk's time that windows cover.
COVERED = 0.3

#: Lengths of windows. A flush takes milliseconds, a garbage collection under load up to a few
#: hundred milliseconds.
SHORTEST_NS = 2_000_000
LONGEST_NS = 200_000_000

#: Maximum span of a chunk. In a longer chunk, a time is wrong or the drive has almost no load, and
#: the windows of the whole span would not fit into memory.
MAX_DAYS = 30
_DAY_NS = 86_400_000_000_000

#: Shares of a window's reads that are sent to the drive, one of which is chosen for each window.
#: The other reads are regarded as revoked.
SENT = (1.0, 1.0, 0.3, 0.1, 0.03)

#: Time after a window whose reads are used as well. They show that the drive is fast again.
AFTER_NS = 5_000_000


@dataclasses.dataclass(frozen=True)
class BurstReads(Rows):
    """Reads of synthetic bursts and reads shortly after them."""

    #: Inputs of a model for each read: digits, uint8, shape (n, N_INPUTS), for a network, and
    #: features, uint32, shape (n, N_FEATURES), for a latency model.
    inputs: npt.NDArray[Any]
    #: bool array, shape (n,). Labels.
    slow: npt.NDArray[np.bool_]
    #: int64 array, shape (n,). Latency on the drive, including the added latency.
    latency_us: npt.NDArray[np.int64]
    #: int64 array, shape (n,). Latency in the recording, which a replica without the burst might
    #: have.
    recorded_us: npt.NDArray[np.int64]
    #: int64 array, shape (n,). Index of each read among the served reads of the chunk.
    place: npt.NDArray[np.int64]

    def before(self, place: int) -> BurstReads:
        """Return the reads that were made from the first `place` served reads."""
        return self.take(self.place < place)

    @classmethod
    def none(cls, overdue_us: int | None = None) -> BurstReads:
        """Return an empty set of reads."""
        width, dtype = (N_INPUTS, np.uint8) if overdue_us is None else (N_FEATURES, np.uint32)
        none = np.empty(0, np.int64)
        return cls(np.empty((0, width), dtype), none.astype(bool), none, none, none)


def add_bursts(
    chunk: IoChunk,
    threshold_us: int,
    rng: np.random.Generator,
    limits: SlowLimits | None = None,
    *,
    overdue_us: int | None = None,
) -> BurstReads:
    """Add synthetic bursts to recorded I/Os, and return the reads in them and shortly after them.

    Parameters
    ----------
    chunk : IoChunk
        I/Os in order of arrival.
    threshold_us : int
        Minimum of the added latencies.
    rng : Generator
    limits : SlowLimits, optional
        Limits for the labels. By default a read is slow if it takes longer than `threshold_us`.
    overdue_us : int, optional
        If it is given, the inputs are those of a latency model instead of a network. Such a model
        knows whether a read has been in flight for longer than `overdue_us`. With such a read in
        flight, reads of a burst are used even before any read of the burst has completed.

    Returns
    -------
    BurstReads
        Empty if the chunk has at most `HISTORY` completed I/Os.
    """
    limits = limits or SlowLimits.of_paper(threshold_us)
    # A revoked read never reached the drive. A failed I/O did, but it is not part of the history.
    # The features are computed below, so they are not copied.
    done = dataclasses.replace(chunk, features=None).take(
        (chunk.flags & (COMPLETED | REVOKED)) == COMPLETED
    )
    if len(done) <= HISTORY:
        return BurstReads.none(overdue_us)
    arrival = done.arrival_ns.astype(np.int64)
    served = done.is_served_read

    starts, ends, added_us, sent = _windows(arrival[0], arrival[-1], threshold_us, rng)
    window = np.searchsorted(starts, arrival, side="right") - 1
    inside = (window >= 0) & (arrival < ends[window])
    burst = inside & served
    latency = done.latency_ns.astype(np.int64) + np.where(burst, added_us[window] * 1000, 0)
    present = ~burst | (rng.random(len(arrival)) < sent[window])

    flags = np.where(present, done.flags, done.flags | REVOKED)
    seen = ("pending", "hist_pending", "hist_latency_us") if overdue_us is None else ("features",)
    *found, nr = LoggedDrive(overdue_us or 0).feed(
        (*seen, "hist_nr"),
        *(arrival, latency, done.sector, done.size_bytes, flags),
        ties_in_order=chunk.ties_in_order,
    )
    # Reads in order of completion. Index 0 is a placeholder for a read that has no predecessor.
    answered = np.flatnonzero(present & done.is_read & ((done.flags & ERROR) == 0))
    by_end = answered[np.argsort((arrival + latency)[answered], kind="stable")]
    history = np.concatenate(([0], by_end))[nr]
    since_end = arrival - ends[window]
    soon = (window >= 0) & (since_end >= 0) & (since_end < AFTER_NS)
    # Reads whose inputs show the burst, and reads whose inputs show its end.
    shows_burst = np.asarray(burst[history].any(axis=1))
    after = soon & ~burst[history[:, -1]]
    if overdue_us is not None:
        has_overdue = found[0][:, FEATURES.index("overdue")] > 0
        shows_burst, after = shows_burst | has_overdue, after & ~has_overdue
    used = served & (nr[:, 0] > 0) & ((burst & shows_burst) | after)
    columns = [column[used] for column in found]
    latency_us = latency[used] // 1000
    pages = pages_of(done.size_bytes[used])
    return BurstReads(
        digits(*columns) if overdue_us is None else columns[0],
        limits.slow(latency_us, pages),
        latency_us,
        done.latency_ns[used].astype(np.int64) // 1000,
        np.cumsum(served)[used] - 1,
    )


def burst_count(span_ns: int) -> int:
    """Return the number of bursts that :func:`add_bursts` adds to a chunk of this span."""
    mean_ns = (LONGEST_NS - SHORTEST_NS) / np.log(LONGEST_NS / SHORTEST_NS)
    return max(1, int(span_ns * COVERED / mean_ns))


def checked_span_ns(trace: Recorded, chunk: IoChunk) -> int:
    """Return the time span of a chunk, with which the number of bursts grows.

    Raises
    ------
    TraceError
        If the I/Os span more than `MAX_DAYS` days.
    """
    span_ns = int(chunk.arrival_ns[-1] - chunk.arrival_ns[0])
    days = span_ns / _DAY_NS
    if days > MAX_DAYS:
        raise TraceError(
            f"{trace}: {len(chunk)} consecutive I/Os span {days:.0f} days; at most {MAX_DAYS} are "
            "accepted, because with more a time is wrong, or the drive was almost idle"
        )
    return span_ns


def _windows(
    first_ns: int, last_ns: int, threshold_us: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.int64], ...]:
    """Choose windows at random: starts and ends in ns, added latency in us, share of reads sent."""
    span = max(1, last_ns - first_ns)
    n = burst_count(span)
    length = _log_uniform(SHORTEST_NS, LONGEST_NS, n, rng)
    # Windows are separated by gaps of random length, so they never overlap.
    gap = rng.dirichlet(np.ones(n + 1))[:n] * max(0, span - int(length.sum()))
    starts = first_ns + np.cumsum(gap).astype(np.int64) + np.cumsum(length) - length
    longest_us = 10**LATENCY_DIGITS - 1
    added_us = _log_uniform(max(1, threshold_us), max(threshold_us + 1, longest_us), n, rng)
    return starts, starts + length, added_us, rng.choice(SENT, n)


def _log_uniform(low: int, high: int, n: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    return np.exp(rng.uniform(np.log(low), np.log(high), n)).astype(np.int64)


#: Maximum number of synthetic examples for training, and for validation or testing.
MAX_ROWS = 500_000
MAX_HELD_OUT_ROWS = 100_000

#: Minimum number of bursts. The latency that a burst adds is one value from three decades, and a
#: network needs many such values. A short trace is processed again until there are enough bursts.
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

    `parts` are those of the trace's served reads. `share` is the share of synthetic examples among
    all training examples; very short traces have fewer. For the others see :func:`add_bursts` and
    :func:`~linnapp.trace.reads.open_recording`.
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
        found = [BurstReads.none()]
        n_found = 0
        # The examples of one pass over a long trace are thinned evenly, not truncated.
        expected = max(1.0, COVERED * n_train)
        keep = min(1.0, 2 * limit / expected)
        n_bursts = 0
        for _ in range(MAX_PASSES):
            for chunk in _part_of(trace, part, reader_options):
                n_bursts += burst_count(checked_span_ns(trace, chunk))
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


#: Number of synthetic reads that suffices to train a latency model. A short recording is processed
#: several times, with other random bursts.
ENOUGH_SLOW_ROWS = 20_000

#: Minimum latency that a burst adds, as a multiple of `overdue_us`. A smaller increase cannot be
#: distinguished from the effect of load.
MIN_OVERDUE_FACTOR = 2

#: Maximum number of synthetic reads from a long recording.
MAX_SLOW_ROWS = 500_000

#: Total weight of the synthetic reads relative to the recorded ones. Drives are rarely in such a
#: burst. If both kinds of reads have the same features, the recorded ones must decide.
BURST_WEIGHT = 0.03


def sample_slow_reads(
    trace: Recorded, n_reads: int, overdue_us: int, seed: int, **reader: Any
) -> BurstReads:
    """Add bursts to a recording for a latency model, and return the reads in and after them.

    The recording has `n_reads` served reads, and `place` of the result is an index among them.
    Bursts add at least `MIN_OVERDUE_FACTOR` times `overdue_us`. The other options are those of
    :func:`~linnapp.trace.reads.open_recording`.
    """
    rng = np.random.default_rng(seed)
    kept = min(1.0, MAX_SLOW_ROWS / max(1.0, 2 * COVERED * n_reads))
    parts: list[BurstReads] = []
    n_rows = 0
    for _ in range(MAX_PASSES):
        n_before = 0
        for chunk in open_recording(trace, **reader):
            checked_span_ns(trace, chunk)
            made = add_bursts(chunk, MIN_OVERDUE_FACTOR * overdue_us, rng, overdue_us=overdue_us)
            if kept < 1:
                made = made.take(rng.random(len(made)) < kept)
            parts.append(dataclasses.replace(made, place=made.place + n_before))
            n_before += int(np.count_nonzero(chunk.is_served_read))
            n_rows += len(made)
        if n_rows >= ENOUGH_SLOW_ROWS or not n_rows:
            break
    return BurstReads.joined(parts)


#: Number of reads whose digits are computed at a time.
_DIGIT_ROWS = 1 << 18


@dataclasses.dataclass(frozen=True)
class Reads(Rows):
    """Reads that the drive answered, in order of arrival, with the inputs of a model.

    A network uses the pending pages and the history, a latency model uses the features.
    """

    #: uint64 array, shape (n,).
    arrival_ns: npt.NDArray[np.uint64]
    #: uint32 array, shape (n,).
    latency_us: npt.NDArray[np.uint32]
    #: unsigned array, shape (n,). Size in pages of 4 KiB, rounded up.
    pages: npt.NDArray[Any]
    #: unsigned array, shape (n,). Number of pending pages at arrival.
    pending: npt.NDArray[Any]
    #: Statistics of the whole trace.
    stats: TraceStats = None  # type: ignore[assignment]
    #: `hist_pending`, `hist_latency_us`: unsigned arrays, shape (n, HISTORY). Values of the last
    #: completed reads, oldest first. These columns and `pending` are capped at the maximum that
    #: their digits can represent.
    hist_pending: npt.NDArray[Any] = None  # type: ignore[assignment]
    hist_latency_us: npt.NDArray[Any] = None  # type: ignore[assignment]
    #: uint32 array, shape (n, N_FEATURES).
    features: npt.NDArray[np.uint32] = None  # type: ignore[assignment]

    def digits(self, rows: slice | npt.NDArray[np.intp] = slice(None)) -> DigitArray:
        """Return the inputs of a network for the selected reads, shape (n, N_INPUTS)."""
        columns = [each[rows] for each in (self.pending, self.hist_pending, self.hist_latency_us)]
        out = np.empty((len(columns[0]), N_INPUTS), np.uint8)
        for start in range(0, len(out), _DIGIT_ROWS):
            part = slice(start, start + _DIGIT_ROWS)
            out[part] = digits(*(column[part].astype(np.uint32) for column in columns))
        return out


def _capped(array: npt.NDArray[np.uint32], n_digits: int) -> npt.NDArray[Any]:
    """Cap at the largest number with `n_digits` digits, at most four."""
    return np.minimum(array, np.uint32(10**n_digits - 1)).astype(np.uint16)


def load_reads(
    trace: Recorded,
    *,
    overdue_us: int | None = None,
    step: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Reads:
    """Read the served reads of a trace.

    Parameters
    ----------
    trace : path or IoTable
    overdue_us : int, optional
        If it is given, the reads have the features of a latency model, for which a read is overdue
        after this time. Otherwise they have the inputs of a network.
    step : int
        Read every `step`-th read only.
    on_progress, **options
        See :func:`~linnapp.trace.reads.held`.

    Raises
    ------
    TraceError
        If the trace contains no completed read.
    """
    reader = open_recording(trace, overdue_us=overdue_us, **options)
    drive = None if overdue_us is None else LoggedDrive(overdue_us)
    chunks: Iterable[IoChunk] = reader
    of_reads = None
    if isinstance(trace, IoTable) and overdue_us is not None:
        of_reads = trace.features_of_reads(overdue_us)
        chunks = reader if of_reads is None else [trace]  # One chunk, so features are not copied.
    parts: dict[str, list[npt.NDArray[Any]]] = {}
    n_reads, total_bytes = 0, reader.size_bytes
    for chunk in chunks:
        if on_progress is not None:
            on_progress(reader.stats["bytes"], total_bytes)
        features = of_reads
        if drive is not None and of_reads is None:
            features = drive.features_of(chunk)
        columns = _compact(chunk, features)
        rows = slice(-n_reads % step, None, step)
        n_reads += len(columns["latency_us"])
        for name, column in columns.items():
            kept = column if step == 1 else column[rows].copy()
            parts.setdefault(name, []).append(kept)
    if not n_reads:
        stats = reader.stats
        raise TraceError(
            f"{trace}: contains no completions (C); record with `blktrace -a complete` as well"
            if stats["reads"] and not stats["completed"]
            else f"{trace}: no completed read to learn from ({stats['reads']} reads and "
            f"{stats['writes']} writes were submitted, {stats['revoked']} revoked); "
            "trace longer, or while the drive is in use"
        )
    return Reads(**{name: joined(parts.pop(name)) for name in list(parts)}, stats=reader.stats)


def whole_us(latency_ns: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
    """Return latencies in whole us."""
    capped = np.minimum(latency_ns // np.uint64(1000), np.uint64(2**32 - 1))
    return np.asarray(capped, np.uint32)


def _compact(
    chunk: IoChunk, features: npt.NDArray[np.uint32] | None
) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of :class:`Reads` for the served reads of a chunk."""
    served = chunk.is_served_read
    pending = chunk.pending[served]
    columns: dict[str, npt.NDArray[Any]] = {
        "arrival_ns": chunk.arrival_ns[served],
        "latency_us": whole_us(chunk.latency_ns[served]),
    }
    if features is not None:
        return columns | {"pages": features[:, 0], "pending": pending, "features": features}
    pages = pages_of(chunk.size_bytes[served])
    return columns | {
        "pages": np.minimum(pages, 65535).astype(np.uint16),
        "pending": _capped(pending, PENDING_DIGITS),
        "hist_pending": _capped(chunk.hist_pending[served], PENDING_DIGITS),
        "hist_latency_us": _capped(chunk.hist_latency_us[served], LATENCY_DIGITS),
    }
