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
from linnapp.learn.judging.ranking import area_under_roc
from linnapp.trace.blktrace import COLUMNS, COMPLETED, ERROR, REVOKED, IoChunk
from linnapp.trace.logged_drive import LoggedDrive
from linnapp.trace.recorded import open_recording

#: Trees learn nothing more from more; also bounds memory, some 200 bytes an I/O.
MAX_IOS = 2_000_000

#: Consecutive parts of the trace; each is judged by trees trained on the others.
FOLDS = 5


def observable(ios: IoChunk, overdue_us: int) -> npt.NDArray[np.float32]:
    """What can be seen from outside when each answered read arrives; shape (n, N_FEATURES + 5).

    That is what a latency model sees, then what :func:`of_all` says, and the time since the last
    write arrived.
    """
    start_ns = ios.arrival_ns.astype(np.int64)
    end_ns = start_ns + ios.latency_ns.astype(np.int64)
    rows = np.arange(len(ios))
    # Events have an order; I/Os of a log that arrive together do not see each other.
    before = rows if ios.ties_in_order else np.searchsorted(start_ns, start_ns)
    before = before[ios.is_read]
    now_ns = start_ns[ios.is_read]
    last_write = np.maximum.accumulate(np.where(ios.is_read, -1, rows))
    columns = [
        LoggedDrive(overdue_us).features_of(ios),
        *of_all(now_ns, before, start_ns, end_ns),
        age_us(now_ns, start_ns, np.append(last_write, -1)[before - 1]),
    ]
    return np.column_stack(columns).astype(np.float32)


def of_all(
    now_ns: npt.NDArray[np.int64],
    before: npt.NDArray[np.int64],
    start_ns: npt.NDArray[np.int64],
    end_ns: npt.NDArray[np.int64],
) -> list[npt.NDArray[Any]]:
    """What can be seen of all of a drive's I/Os at a moment, by those that were submitted before.

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


def age_us(
    now_ns: npt.NDArray[np.int64], of_ns: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
) -> npt.NDArray[Any]:
    """How long ago each of the rows was; NaN for row -1."""
    return np.where(rows >= 0, (now_ns - np.append(of_ns, 0)[rows]) / 1e3, np.nan)


def black_box_auc(trace: AnyPath, threshold_us: int, **reader_options: Any) -> float | None:
    """Area under the ROC curve of boosted trees, cross-fitted over consecutive parts of a trace.

    None where all reads are slow, or all fast.
    """
    with needs("`bound=True` needs scikit-learn", "scikit-learn"):
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
    parts: list[IoChunk] = []
    n_ios = 0
    for chunk in open_recording(trace, **reader_options):
        parts.append(chunk.take((chunk.flags & (COMPLETED | ERROR | REVOKED)) == COMPLETED))
        n_ios += len(parts[-1])
        if n_ios >= MAX_IOS:
            break
    if not parts:
        raise TraceError(f"{trace}: no completed read to evaluate on")
    columns = (np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS)
    ios = IoChunk(*columns, ties_in_order=parts[0].ties_in_order)
    n_reads = np.count_nonzero(ios.is_read)
    if n_reads < 100 * FOLDS:
        raise TraceError(
            f"{trace}: {n_reads} reads are too few for `bound=True`: {100 * FOLDS} are needed"
        )
    slow = ios.latency_ns[ios.is_read] // np.uint64(1000) > threshold_us
    return observable(ios, threshold_us), slow
