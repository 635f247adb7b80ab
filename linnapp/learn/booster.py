# SPDX-License-Identifier: MIT
"""Grow the trees of a latency model, with compiled code (linnapp/native/boost.c)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.model.engine import leaves_of
from linnapp.model.file import (
    CAP,
    FRACTION_BITS,
    LEAF_LIMIT,
    N_LEAVES,
    N_SPLITS,
    NO_SPLIT,
    LatencyModel,
)
from linnapp.native import native

#: Maximum factor by which a tree divides a prediction. Newton steps are unlimited: if one read of
#: 30 s has increased the mean of thousands of reads, the first tree would predict far less than
#: 1 us for the others. Trees of drives without such a read divide by less than five.
LARGEST_STEP = 16.0

#: Minimum number of reads in a leaf.
MIN_LEAF_READS = 50

#: Maximum number of bins of a feature, and the number of rows from which they are computed.
N_BINS = 255
#: Factor of the feature in the number of a split, in linnapp/native/boost.c.
_STRIDE = 256
SAMPLE_ROWS = 200_000


def grow(
    features: npt.NDArray[np.uint32],
    targets: npt.NDArray[Any],
    like: LatencyModel,
    *,
    n_trees: int,
    learning_rate: float,
    weights: npt.NDArray[np.float64] | None = None,
) -> tuple[LatencyModel, float]:
    """Grow trees that estimate the mean of the targets of rows with similar features.

    Parameters
    ----------
    features : uint32 array, shape (n, N_FEATURES)
    targets : array, shape (n,)
        Positive, such as latencies, or their factors relative to a prediction.
    like : LatencyModel
        Provides all fields other than trees: thresholds, and the number of features that are used.
    n_trees : int
    learning_rate : float
    weights : float array, shape (n,), optional

    Returns
    -------
    model : LatencyModel
    drift : float
        Largest difference of the base-2 logarithms of the predictions to those before leaves were
        rounded, in a sample of the rows.
    """
    targets = np.ascontiguousarray(targets, np.float64)
    mean = float(np.average(targets, weights=weights))
    bins, cuts = _binned(features[:, : like.n_features], weights)
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
        like,
        splits=np.where(splits < 0, np.uint32(NO_SPLIT), integers),
        leaves=leaves,
        base=min(round(math.log2(mean) * (1 << FRACTION_BITS)), LEAF_LIMIT - 1),
    )
    sample = slice(0, None, max(1, len(targets) // 10_000))
    total = model.base + leaves_of(model, features[sample]).sum(axis=1, dtype=np.int64)
    drift = np.abs(total / (1 << FRACTION_BITS) - scores[sample] / math.log(2)).max()
    return model, float(drift)


def _binned(
    features: npt.NDArray[np.uint32], weights: npt.NDArray[np.float64] | None
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint32]]:
    """Return the bins of all features, and the highest value of each bin, shape (features, 256).

    If a feature has more than `N_BINS` values, its bins have about equal weights. Otherwise each
    value has its own bin, and the limit between two bins is halfway between their values.
    """
    bins = np.empty(features.shape, np.uint8)
    cuts = np.full((features.shape[1], _STRIDE), CAP, np.uint32)
    step = -(-len(features) // SAMPLE_ROWS)
    for k, column in enumerate(features.T):
        values, which = np.unique(column[::step], return_inverse=True)
        if len(values) > N_BINS:
            up_to = np.cumsum(np.bincount(which, None if weights is None else weights[::step]))
            wanted = up_to[-1] * np.arange(1, N_BINS) / N_BINS
            limits = values[np.unique(np.searchsorted(up_to, wanted))]
        else:
            limits = values[:-1] + (values[1:] - values[:-1]) // 2
        cuts[k, : len(limits)] = limits
        bins[:, k] = np.searchsorted(limits, column)
    return bins, cuts
