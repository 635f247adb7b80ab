# SPDX-License-Identifier: MIT
"""Grow the trees of a latency model, with compiled code (linnapp/native/boost.c)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.engine import leaves_of
from linnapp.model import CAP, FRACTION_BITS, LEAF_LIMIT, N_LEAVES, N_SPLITS, NO_SPLIT, LatencyModel
from linnapp.native import native

#: Maximum factor by which a tree divides a prediction. Without it, one read of 30 s that increases
#: the mean of thousands of reads would make the first tree predict far less than 1 us for the other
#: reads, because a Newton step has no limit. Without such a read, trees divide by less than five.
LARGEST_STEP = 16.0

#: Minimum number of reads in a leaf.
MIN_LEAF_READS = 50

#: Maximum number of bins of a feature, and the number of rows from which they are computed.
N_BINS = 255
#: Factor of the feature in the number of a split, in linnapp/native/boost.c.
_STRIDE = 256
SAMPLE_ROWS = 200_000

#: A function that returns all rows of the features, block by block.
Blocks = Callable[[], Iterable[npt.NDArray[np.uint32]]]


def grow(
    blocks: Blocks,
    targets: npt.NDArray[Any],
    template: LatencyModel,
    *,
    n_trees: int,
    learning_rate: float,
    weights: npt.NDArray[np.float64] | None = None,
) -> tuple[LatencyModel, float]:
    """Grow trees that estimate the mean of the targets of rows with similar features.

    Parameters
    ----------
    blocks : callable
        Returns the features of all rows in blocks, which are uint32 arrays of shape (rows,
        n_features), so that they need not be in memory at once. It is called several times.
    targets : array, shape (n,)
        Positive values, such as latencies or their ratios to a prediction.
    template : LatencyModel
        Provides all fields other than trees: thresholds, and the number of features to use.
    n_trees : int
    learning_rate : float
        Share of the remaining error that each tree corrects.
    weights : float array, shape (n,), optional

    Returns
    -------
    LatencyModel
    float
        Largest rounding error of the base-2 logarithm of a prediction, in a sample of the rows.
    """
    targets = np.ascontiguousarray(targets, np.float64)
    mean = float(np.average(targets, weights=weights))
    bins, cuts = _binned(blocks, len(targets), template.n_features, weights)
    scores = np.full(len(targets), math.log(mean))
    splits = np.empty((n_trees, N_SPLITS), np.int32)
    leaves = np.empty((n_trees, N_LEAVES), np.int16)
    library = native()
    options = library.new(
        "lb_options",
        n_rows=len(bins),
        n_features=bins.shape[1],
        n_trees=n_trees,
        min_leaf=MIN_LEAF_READS,
        learning_rate=learning_rate,
        max_step=math.log(LARGEST_STEP),
    )
    arrays = [bins, targets, weights, scores, splits, leaves]
    addresses = [library.address(array) for array in arrays]
    if not library.lib.lb_boost(options, *addresses):
        raise MemoryError
    place, at = np.divmod(splits, _STRIDE)
    integers = (place.astype(np.uint32) << 24) | cuts[place, at]
    model = dataclasses.replace(
        template,
        splits=np.where(splits < 0, np.uint32(NO_SPLIT), integers),
        leaves=leaves,
        base=min(round(math.log2(mean) * (1 << FRACTION_BITS)), LEAF_LIMIT - 1),
    )
    step = max(1, len(targets) // 10_000)
    total = model.base + leaves_of(model, _sample(blocks, step)).sum(axis=1, dtype=np.int64)
    drift = np.abs(total / (1 << FRACTION_BITS) - scores[::step] / math.log(2)).max()
    return model, float(drift)


def _sample(blocks: Blocks, step: int) -> npt.NDArray[np.uint32]:
    """Return every `step`-th row."""
    found, n_rows = [], 0
    for block in blocks():
        found.append(block[-n_rows % step :: step].copy())
        n_rows += len(block)
    return np.concatenate(found)


def _binned(
    blocks: Blocks, n_rows: int, n_features: int, weights: npt.NDArray[np.float64] | None
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint32]]:
    """Divide the values of each feature into bins.

    If a feature has more than `N_BINS` values, its bins have about equal weights. Otherwise each
    value has its own bin, and the limit between two bins is halfway between their values.

    Returns
    -------
    bins : uint8 array, shape (n_rows, n_features)
    cuts : uint32 array, shape (n_features, 256)
        Highest value of each bin.
    """
    bins = np.empty((n_rows, n_features), np.uint8)
    cuts = np.full((n_features, _STRIDE), CAP, np.uint32)
    step = -(-n_rows // SAMPLE_ROWS)
    for k, column in enumerate(np.ascontiguousarray(_sample(blocks, step).T[:n_features])):
        values, counts = np.unique(column, return_counts=True)
        if len(values) > N_BINS:
            if weights is not None:
                counts = np.bincount(np.searchsorted(values, column), weights[::step])
            up_to = np.cumsum(counts)
            wanted = up_to[-1] * np.arange(1, N_BINS) / N_BINS
            limits = values[np.unique(np.searchsorted(up_to, wanted))]
        else:
            limits = values[:-1] + (values[1:] - values[:-1]) // 2
        cuts[k, : len(limits)] = limits
    library, start = native(), 0
    for block in blocks():
        rows = np.ascontiguousarray(block)
        library.lib.lb_bin(
            library.address(rows),
            *(len(rows), rows.shape[1], n_features),
            library.address(cuts),
            library.address(bins[start : start + len(rows)]),
        )
        start += len(rows)
    return bins, cuts
