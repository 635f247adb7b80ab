# SPDX-License-Identifier: MIT
"""The bound `learnt`: what a black box could know.

Boosted trees predict a read's latency at each replica from all that can be seen of a drive from
outside, and the lowest prediction is chosen. No policy can do that at such a cost in the kernel;
what these trees cannot tell apart, no predictor without a look inside will.

The replay under `random` shows the benefit of the choice afterwards: it chose the replica of each
read at random, so the reads for which it happened to choose as the trees would are a fair sample of
all reads, a third of them, and their measured latencies are those of following the trees at the
load of that replay. No emulator is asked. The trees learn from the recording and from the
parts of that replay that they do not judge (consecutive parts, in turn).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval import workers
from eval.cache import Cache, code_version
from eval.cells import N_DRIVES, Replayed, due_order, given, read_profile
from linnapp.lab.work import write_json
from linnapp.trace import replay_log
from linnapp.trace.blktrace import COMPLETED, REVOKED, WRITE
from linnapp.trace.logged_drive import PAGE_BYTES, LoggedDrive
from linnapp.trace.text import SECTOR_BYTES

#: Longer than a read takes that nothing holds up.
OVERDUE_US = 1000

#: Consecutive parts of a replay; each is judged by trees that have not seen it.
PARTS = 3

#: Back from a read's arrival, stretches of time over which the drive's I/Os are counted.
STRETCHES_MS = (1, 10, 100, 1000)

TREES: dict[str, Any] = {
    # The mean of what cannot be told apart, whatever the scale: slow reads must weigh.
    "loss": "gamma",
    "max_iter": 120,
    "learning_rate": 0.1,
    "max_leaf_nodes": 31,
    "min_samples_leaf": 50,
    "random_state": 0,
}

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class DriveLog:
    """The I/Os that a drive served, in the order of their submission; times in ns."""

    start: Int64
    end: Int64
    size: Int64
    offset: Int64
    is_read: NDArray[np.bool_]

    @classmethod
    def of(cls, records: NDArray[Any], drive: int, *, replicate_writes: bool = False) -> DriveLog:
        """Select the I/Os of a drive from a log; see :func:`eval.cells.given`."""
        here = given(records, drive, replicate_writes=replicate_writes)
        start = (here["due_ns"] + here["lag_ns"]).astype(np.int64)
        # Sort I/Os of one moment by size and offset: the log has the order of completion.
        order = np.lexsort((here["op"], here["offset_bytes"], here["size_bytes"], start))
        return cls(
            start[order],
            (start + here["latency_ns"].astype(np.int64))[order],
            here["size_bytes"].astype(np.int64)[order],
            here["offset_bytes"].astype(np.int64)[order],
            (here["op"] == replay_log.READ)[order],
        )


def observed(log: DriveLog, at: Int64, size: Int64, offset: Int64) -> NDArray[np.float32]:
    """Return the features of a drive that are visible outside of it, at some moments.

    Only what was submitted before a moment counts, and only what had completed by then has a
    latency.

    Parameters
    ----------
    at : array, shape (n,)
        Moments, in ns.
    size, offset : array, shape (n,)
        Of the reads that might be sent.

    Returns
    -------
    float32 array, shape (n, features)
        The features of a latency model, then others; NaN if one does not exist. Times are in us.
    """
    found, pending_then = _found(log, at, size, offset)
    begun = np.searchsorted(log.start, at, side="left")
    pages = -(-log.size // PAGE_BYTES)
    written, read = _upto(pages * ~log.is_read), _upto(pages * log.is_read)
    columns: list[Any] = [*found.T, *of_all(at, begun, log.start, log.end)]
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


def of_all(now_ns: Int64, before: Int64, start_ns: Int64, end_ns: Int64) -> list[NDArray[Any]]:
    """Return the features of all of a drive's I/Os at a moment, from the I/Os before it.

    I/Os in flight, for how long the oldest has been, time since the last completion and since the
    last arrival: arrays of shape (n,), in us, NaN where there was none.

    Parameters
    ----------
    now_ns, before : arrays, shape (n,)
        Moments, and how many I/Os count as submitted before.
    start_ns, end_ns : arrays, shape (m,)
        Of I/Os in order of arrival.
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


def age_us(now_ns: Int64, of_ns: Int64, rows: Int64) -> NDArray[Any]:
    """Return the age of each of the rows; NaN for row -1."""
    return np.where(rows >= 0, (now_ns - np.append(of_ns, 0)[rows]) / 1e3, np.nan)


def _found(
    log: DriveLog, at: Int64, size: Int64, offset: Int64
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the features of a latency model, and the pages pending with each I/O of the log."""
    n = len(log.start)
    flags = np.where(log.is_read, 0, WRITE) | COMPLETED
    # A read that is refused looks, and is never there.
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


def _upto(values: Int64) -> Int64:
    """Sums of the first 0, 1, 2, ... values."""
    return np.concatenate(([0], np.cumsum(values, dtype=np.int64)))


def _block_ages(
    log: DriveLog, at: Int64, offset: Int64, begun: Int64, written: Int64
) -> list[NDArray[Any]]:
    """Return the age of the last write to a read's first block, and the bytes written since."""
    writes = np.flatnonzero(~log.is_read)
    pages = -(-log.size[writes] // PAGE_BYTES)
    owner = np.repeat(writes, pages)
    first = np.repeat(log.offset[writes] // PAGE_BYTES, pages)
    within = np.arange(len(owner)) - np.repeat(_upto(pages)[:-1], pages)
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


def predict(
    recording: NDArray[Any],
    replay: NDArray[Any],
    n_drives: int = N_DRIVES,
    *,
    replicate_writes: bool = False,
) -> NDArray[np.float32]:
    """Predicted latency of each read of a replay at each drive.

    Parameters
    ----------
    recording, replay : array of replay_log.RECORD
        The baseline run of the first part, and the `random` run of the second; the reads of the
        latter in the order wanted.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    reads = replay[replay["op"] == replay_log.READ]
    at = (reads["due_ns"] + reads["lag_ns"]).astype(np.int64)
    size, offset = reads["size_bytes"].astype(np.int64), reads["offset_bytes"].astype(np.int64)
    by_time = np.argsort(at, kind="stable")
    part = np.empty(len(at), np.int64)
    part[by_time] = np.arange(len(at)) * PARTS // max(len(at), 1)
    latency_us = reads["latency_ns"] / 1e3
    predicted = np.empty((len(at), n_drives), np.float32)
    for drive in range(n_drives):
        before = DriveLog.of(recording, drive, replicate_writes=replicate_writes)
        known_x = observed(before, *(v[before.is_read] for v in
                                     (before.start, before.size, before.offset)))  # fmt: skip
        known_y = ((before.end - before.start) / 1e3)[before.is_read]
        now = DriveLog.of(replay, drive, replicate_writes=replicate_writes)
        features = observed(now, at, size, offset)
        served = reads["served_by"] == drive
        for k in range(PARTS):
            learn = served & (part != k)
            train_x = np.concatenate((known_x, features[learn]))
            # A feature that is always missing, such as the age of writes, has no bins.
            useful = np.isfinite(train_x).any(axis=0)
            trees = HistGradientBoostingRegressor(**TREES)
            # Its threads wait for each other by spinning: on a busy machine that takes minutes.
            with threadpool_limits(1):
                trees.fit(
                    train_x[:, useful],
                    np.maximum(np.concatenate((known_y, latency_us[learn])), 1.0),
                )
                predicted[part == k, drive] = trees.predict(features[part == k][:, useful])
    return predicted


def choices(predicted: NDArray[np.float32], home: NDArray[Any]) -> NDArray[np.int64]:
    """Return the drive with the lowest prediction; a tie goes to the default replica."""
    n_drives = predicted.shape[1]
    ring = (home[:, None].astype(np.int64) + np.arange(n_drives)) % n_drives
    best = np.argmin(np.take_along_axis(predicted, ring, axis=1), axis=1)
    return np.asarray(np.take_along_axis(ring, best[:, None], axis=1)[:, 0])


def _make(recording: Path, log: Path, target: Path, replicate_writes: bool) -> None:
    records = np.array(replay_log.read(log))
    reads = records[records["op"] == replay_log.READ]
    order = due_order(reads)
    before = np.array(replay_log.read(recording))
    predicted = predict(before, records, replicate_writes=replicate_writes)[order]
    reads = reads[order]
    home, served = reads["home"], reads["served_by"]
    chosen = choices(predicted, home)
    latency_us = reads["latency_ns"] / 1e3
    was = np.take_along_axis(predicted, served[:, None].astype(np.int64), axis=1)[:, 0]
    np.savez(target, chosen=chosen.astype(np.uint8))
    write_json(
        target.with_suffix(".json"),
        {
            "followed": float((served == chosen).mean()),
            "home_chosen": float((chosen == home).mean()),
            "rank_correlation": _rank_correlation(was, latency_us),
        },
    )


def _rank_correlation(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Spearman's, ties in order of appearance."""
    rank_a, rank_b = (np.argsort(np.argsort(v, kind="stable"), kind="stable") for v in (a, b))
    return float(np.corrcoef(rank_a, rank_b)[0, 1])


def chosen(cache: Cache, random: Replayed) -> tuple[NDArray[np.uint8], dict[str, Any]]:
    """The drive that the trees choose for each read of a cell, and how well they know it.

    Reads are those of the cell under `random`, in the order of ``eval.cells.reads_of``.
    """
    recording = read_profile(cache, random.replay.cell)

    def make(folder: Path) -> None:
        replicated = random.replay.cell.replicate_writes
        workers.call(_make, recording, random.log, folder / "chosen.npz", replicated)

    parameters = {
        "replay": asdict(random.replay), "trees": TREES, "parts": PARTS,
        "recipe": code_version("eval/learnt.py"),
    }  # fmt: skip
    folder = cache.get("learnt", parameters, make)
    with np.load(folder / "chosen.npz") as kept:
        drives = kept["chosen"]
    quality: dict[str, Any] = json.loads((folder / "chosen.json").read_text())
    return drives, quality
