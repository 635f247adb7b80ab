# SPDX-License-Identifier: MIT
"""Latency models with random trees, or with one hand-made tree whose predictions are known.

Other trees predict nothing, to reach the number that a model must have to choose
(docs/formats.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from linnapp.model import (
    CAP,
    DEPTH,
    FEATURES,
    FRACTION_BITS,
    MIN_TREES,
    N_FEATURES,
    N_LEAVES,
    N_SPLITS,
    NO_SPLIT,
    LatencyModel,
)
from linnapp.native import HISTORY

#: Predictions of `last_read` in us: each is the upper end of its range of latencies.
STEPS_US = (10, 20, 30, 40, 50, 60, 80, 100, 120, 150, 200, 300, 500, 1000, 2000, 5000)


def one_tree(
    limits: Sequence[tuple[str, int]], leaves_us: Sequence[float], **header: int
) -> LatencyModel:
    """Return a tree that goes right if a feature exceeds its limit, listed level by level."""
    splits = np.full((MIN_TREES, N_SPLITS), NO_SPLIT, np.uint32)
    leaves = np.zeros((MIN_TREES, N_LEAVES), np.int16)
    splits[0] = [FEATURES.index(feature) << 24 | limit for feature, limit in limits]
    leaves[0] = [round(math.log2(us) * (1 << FRACTION_BITS)) for us in leaves_us]
    return LatencyModel(splits, leaves, base=0, **header)


def last_read(**header: int) -> LatencyModel:
    """Return a model that predicts the latency of the last read, rounded up to `STEPS_US`."""
    order = [
        ((2 * place + 1) << (DEPTH - 1 - level)) - 1
        for level in range(DEPTH)
        for place in range(1 << level)
    ]
    return one_tree([("latency_us_1", STEPS_US[i]) for i in order], STEPS_US, **header)


def last_four(fast_us: int, slow_us: int, limit_us: int, **header: int) -> LatencyModel:
    """Return a model of the mean of the last four reads, each taken as slow or as fast."""
    limits = [
        (f"latency_us_{level + 1}", limit_us) for level in range(DEPTH) for _ in range(1 << level)
    ]
    slow = [leaf.bit_count() for leaf in range(N_SPLITS + 1)]
    means = [(n * slow_us + (HISTORY - n) * fast_us) / HISTORY for n in slow]
    return one_tree(limits, means, **header)


def random_trees(seed: int = 1, n_trees: int = 32, **changes: int) -> LatencyModel:
    rng = np.random.default_rng(seed)
    place = rng.integers(0, N_FEATURES, (n_trees, 15)).astype(np.uint32)
    threshold = rng.choice([0, 1, 3, 100, 900, CAP - 1, CAP], place.shape).astype(np.uint32)
    fields = {"base": 7 << FRACTION_BITS, "threshold_us": 421, "refuse_us": 500, "overdue_us": 900}
    return LatencyModel(
        splits=place << np.uint32(24) | threshold,
        leaves=rng.integers(-900, 900, (n_trees, 16)).astype(np.int16),
        **(fields | changes),
    )


def random_features(n: int = 100_000, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    top = rng.choice([2, 200, 2000, CAP], (n, N_FEATURES))
    return (rng.random((n, N_FEATURES)) * (top + 1)).astype(np.uint32)
