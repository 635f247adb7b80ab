# SPDX-License-Identifier: MIT
"""What was in flight and what had completed at any moment, from arrivals and completions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def pending_pages(
    arrival: npt.NDArray[np.int64],
    completion: npt.NDArray[np.int64],
    pages: npt.NDArray[np.int64],
    present: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int64]:
    """Pages in flight when each I/O arrives, its own included."""
    counted = np.where(present, pages, 0)
    before = np.cumsum(counted) - counted
    order = np.argsort(completion, kind="stable")
    gone = np.concatenate([[0], np.cumsum(counted[order])])
    in_flight: npt.NDArray[np.int64] = (
        before - gone[np.searchsorted(completion[order], arrival, side="right")] + pages
    )
    return in_flight


def last_completed(
    arrival: npt.NDArray[np.int64],
    completion: npt.NDArray[np.int64],
    counted: npt.NDArray[np.bool_],
    history: int,
) -> npt.NDArray[np.int64]:
    """Indices of the last completed reads when each I/O arrives, oldest first; -1 for none."""
    reads = np.flatnonzero(counted)
    order = reads[np.argsort(completion[reads], kind="stable")]
    n_done = np.searchsorted(completion[order], arrival, side="right")
    index = n_done[:, None] + np.arange(-history, 0)
    padded = np.concatenate([np.full(history, -1), order])
    indices: npt.NDArray[np.int64] = padded[index + history]
    return indices
