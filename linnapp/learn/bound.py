# SPDX-License-Identifier: MIT
"""What a black box could know: boosted trees on all that can be observed of a drive from outside.

They are no policy (trained on the trace that they judge, hundreds of times larger than a kernel
would bear) but a yardstick: what they cannot tell apart, no predictor without a look inside will.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError, needs
from linnapp.files import AnyPath
from linnapp.learn.ranking import area_under_roc
from linnapp.trace.blktrace import COMPLETED, ERROR, REVOKED
from linnapp.trace.in_flight import PAGE_BYTES, last_completed, submitted_before
from linnapp.trace.recorded import open_recording

HISTORY = 4

#: Trees learn nothing more from more; also bounds memory, some 200 bytes an I/O.
MAX_IOS = 2_000_000

#: Consecutive parts of the trace; each is judged by trees trained on the others.
FOLDS = 5


def observable(
    arrival_ns: npt.NDArray[np.int64],
    latency_ns: npt.NDArray[np.int64],
    size_bytes: npt.NDArray[np.int64],
    is_read: npt.NDArray[np.bool_],
    pending: npt.NDArray[np.int64],
    *,
    ties_in_order: bool,
) -> npt.NDArray[np.float32]:
    """What can be seen from outside when each I/O arrives.

    Parameters
    ----------
    arrival_ns, latency_ns, size_bytes, is_read, pending : arrays, shape (n,)
        Completed I/Os in arrival order; pending in 4 KiB pages, the I/O's own included.
    ties_in_order : bool
        As of an :class:`~linnapp.trace.blktrace.IoChunk`.

    Returns
    -------
    float32 array, shape (n, 7 + 4 * HISTORY)
        Its size; pending pages; I/Os in flight; age of the oldest in flight; time since the last
        completion, the last arrival, the last write; of the last reads latency, pending pages, size
        and how long ago they completed. NaN for what there is none of; times in us.
    """
    n = len(arrival_ns)
    nothing = np.nan
    completion_ns = arrival_ns + latency_ns
    # The first I/O still in flight is the first that ends later than any before it has ended.
    latest_end_ns = np.maximum.accumulate(completion_ns)
    oldest = np.searchsorted(latest_end_ns, arrival_ns, side="right")
    before = submitted_before(arrival_ns, ties_in_order)
    sorted_ends_ns = np.sort(completion_ns)
    n_done = np.searchsorted(sorted_ends_ns, arrival_ns, side="right")
    last_write = np.maximum.accumulate(np.where(is_read, -1, np.arange(n)))
    last_write = np.concatenate(([-1], last_write))[before]

    def age_us(since_ns: npt.NDArray[np.int64], known: npt.NDArray[np.bool_]) -> Any:
        return np.where(known, (arrival_ns - since_ns) / 1e3, nothing)

    pages = -(-size_bytes // PAGE_BYTES)
    rows = last_completed(arrival_ns, pages, completion_ns, pages, is_read, HISTORY)
    columns = [
        size_bytes,
        pending,
        before - n_done,
        age_us(arrival_ns[np.minimum(oldest, n - 1)], oldest < before),
        age_us(sorted_ends_ns[n_done - 1], n_done > 0),
        age_us(arrival_ns[before - 1], before > 0),
        age_us(arrival_ns[last_write], last_write >= 0),
    ]
    for row in rows.T:
        known = row >= 0
        columns += [
            np.where(known, latency_ns[row] / 1e3, nothing),
            np.where(known, pending[row], nothing),
            np.where(known, size_bytes[row], nothing),
            age_us(completion_ns[row], known),
        ]
    return np.stack([np.asarray(column, np.float32) for column in columns], axis=1)


def black_box_auc(trace: AnyPath, threshold_us: int, **reader_options: Any) -> float | None:
    """Area under the ROC curve of boosted trees, cross-fitted over consecutive parts of a trace.

    Parameters
    ----------
    trace : path
    threshold_us : int
        Reads that take longer are slow.
    **reader_options
        Those of :func:`~linnapp.trace.recorded.open_recording`.

    Returns
    -------
    float or None
        None where all reads are slow, or all fast.

    Raises
    ------
    LinnappError
        If scikit-learn is not installed.
    TraceError
        If the trace cannot be read or is too short.
    """
    with needs("--bound needs scikit-learn", "scikit-learn"):
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits
    features, slow = _observed_reads(trace, threshold_us, reader_options)
    if slow.all() or not slow.any():
        return None
    edges = np.linspace(0, len(slow), FOLDS + 1).astype(int)
    score = np.empty(len(slow))
    for start, end in itertools.pairwise(edges):
        part = np.zeros(len(slow), bool)
        part[start:end] = True
        known = slow[~part]
        if known.all() or not known.any():
            score[part] = known.mean()
            continue
        trees = HistGradientBoostingClassifier(
            max_iter=100, learning_rate=0.1, max_leaf_nodes=31, min_samples_leaf=50, random_state=0
        )
        # Its threads wait for each other by spinning: on a busy machine that takes minutes.
        with threadpool_limits(1):
            trees.fit(features[~part], known)
        score[part] = trees.predict_proba(features[part])[:, 1]
    return area_under_roc(score, slow)


def _observed_reads(
    trace: AnyPath, threshold_us: int, reader_options: dict[str, Any]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Features and labels of the first reads of a trace."""
    parts: list[tuple[npt.NDArray[Any], ...]] = []
    n_ios = 0
    for chunk in open_recording(trace, **reader_options):
        chunk = chunk.take((chunk.flags & (COMPLETED | ERROR | REVOKED)) == COMPLETED)
        parts.append(
            (
                chunk.arrival_ns.astype(np.int64),
                chunk.latency_ns.astype(np.int64),
                chunk.size_bytes.astype(np.int64),
                chunk.is_read,
                chunk.pending.astype(np.int64),
            )
        )
        n_ios += len(chunk)
        if n_ios >= MAX_IOS:
            break
    if not parts:
        raise TraceError(f"{trace}: no completed read to evaluate on")
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    is_read = columns[3]
    if np.count_nonzero(is_read) < 100 * FOLDS:
        raise TraceError(
            f"{trace}: {np.count_nonzero(is_read)} reads are too few for --bound: "
            f"at least {100 * FOLDS} are needed"
        )
    return observable(*columns, ties_in_order=chunk.ties_in_order)[is_read], columns[1][
        is_read
    ] // 1000 > threshold_us
