# SPDX-License-Identifier: MIT
"""Whether what refusing reads gains an array is more than chance.

A model that knows nothing has gained something on every second recording, and of many ways to
refuse the best one on nearly all. Two questions tell it from one that knows something:

- Would as many ways gain as much if the scores had nothing to do with the reads? Blocks of time of
  the scores are laid on other blocks of the reads, again and again, and each time the best way
  counts. That is what having tried many is worth, however the latencies are distributed.
- Would this way gain in other recordings of the drive? Blocks of time of the reads, with their
  scores, are drawn anew (the block bootstrap: Kuensch, Annals of Statistics 1989).

Blocks, not reads, since slow reads come in bursts, and what predicts one of them predicts the next.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.learn.labelling.inflection import size_classes
from linnapp.trace.difference import MAX_BLOCKS as N_BLOCKS

#: With this many the share of shuffles is known to a tenth of a percent.
N_SHUFFLES = 999

#: Scores without any knowledge pass so often.
CHANCE = 0.005

N_RESAMPLES = 2000

#: Below this share of the resamples a 95 % interval begins: not 2.5 %, for 20 blocks give one that
#: is too narrow, by Student's t with 19 degrees of freedom against the normal distribution
#: (Hesterberg, The American Statistician 69:4, 2015, section 5.3).
TAIL = 0.016

#: Means that differ by so little are taken for equal.
FLAT = 1.001

#: Shuffles and resamples are the same in each run.
_SEED = 1

Floats = npt.NDArray[np.float64]


def array_means_us(sums: Floats, failover_us: float, replicas: int) -> Floats:
    """The mean latency of an array whose drives all behave like this one, for each way to refuse.

    Of shape (..., 1 + ways), the first that of refusing none. `sums` are of shape (..., kinds,
    1 + ways, 2), by size class: the number of reads and their latencies added up, of all reads
    first, then of those that each way refuses.
    """
    refused = sums.copy()
    refused[..., 0, :] = 0.0
    reads, total_us = sums[..., :1, 0], sums[..., :1, 1]
    each = np.maximum(reads, 1)  # a resample may have no read of a class, which then weighs nothing
    share = refused[..., 0] / each
    admitted_us = (total_us - refused[..., 1]) / each
    mean_us = np.broadcast_to(total_us / each, share.shape)
    for _ in range(replicas - 1):
        mean_us = admitted_us + share * (failover_us + mean_us)
    return np.asarray((mean_us * reads).sum(axis=-2) / reads.sum(axis=-2))


def resampled_means_us(blocks: Floats, failover_us: float, replicas: int) -> Floats:
    """The same of blocks of time, the first axis, that are drawn anew, always the same ones."""
    n = len(blocks)
    times = np.random.default_rng(_SEED).multinomial(n, np.full(n, 1 / n), N_RESAMPLES)
    sums = (times @ blocks.reshape(n, -1)).reshape(N_RESAMPLES, *blocks.shape[1:])
    return array_means_us(sums, failover_us, replicas)


def lowest_gain_us(gains_us: Floats) -> float:
    """Where the 95 % interval of a gain begins that resamples have."""
    return float(np.quantile(gains_us, TAIL))


@dataclasses.dataclass(frozen=True)
class Refusals:
    """Reads in order of time, and which of several ways to refuse refuses each.

    The ways refuse ever fewer reads: what one refuses, all before it refuse.
    """

    #: `latency_us`, `pages`: array, shape (n,)
    latency_us: npt.NDArray[Any]
    pages: npt.NDArray[Any]
    #: integer array, shape (n,); by how many ways a read is refused.
    level: npt.NDArray[Any]
    ways: int
    #: Cost of a failover.
    failover_us: float
    #: Drives that hold each block.
    replicas: int

    def means_us(self) -> Floats:
        """The array's mean latency if no read were refused, then that by each way."""
        kinds, n_kinds = self._kinds()
        sums = self._sums(kinds, self.level, self.latency_us, n_kinds)
        return array_means_us(sums, self.failover_us, self.replicas)

    def blocks(self) -> Floats:
        """Sums of each block of time; shape (blocks, kinds, 1 + ways, 2), none of few reads."""
        kinds, n_kinds = self._kinds()
        parts = zip(*self._cut(kinds), strict=True)
        rows = [self._sums(kind, level, us, n_kinds) for kind, level, us in parts]
        return np.array(rows).reshape(len(rows), n_kinds, 1 + self.ways, 2)

    def is_beyond_chance(self, way: int) -> bool:
        """Whether what a way gains can be no accident, as many as were tried."""
        blocks = self.blocks()
        if not len(blocks):
            return False
        resampled = resampled_means_us(blocks[:, :, [0, 1 + way]], self.failover_us, self.replicas)
        if lowest_gain_us(resampled[:, 0] - resampled[:, 1]) <= 0:
            return False
        gain_us = self._gains(blocks.sum(axis=0))[way]
        by_chance = np.count_nonzero(self._best_shuffled_us >= gain_us)
        return bool(by_chance + 1 <= CHANCE * (N_SHUFFLES + 1))

    @functools.cached_property
    def _best_shuffled_us(self) -> Floats:
        """What the best way gains with blocks of the scores on other blocks of the reads."""
        kinds, n_kinds = self._kinds()
        kind_of, level_of, latency_of = self._cut(kinds)
        orders = np.random.default_rng(_SEED).permuted(
            np.tile(np.arange(N_BLOCKS), (N_SHUFFLES, 1)), axis=1
        )
        sums = np.zeros((N_SHUFFLES, n_kinds, 1 + self.ways, 2))
        for kind, us, order in zip(kind_of, latency_of, orders.T, strict=True):
            sums += np.array([self._sums(kind, level, us, n_kinds) for level in level_of])[order]
        return np.asarray(self._gains(sums).max(axis=-1))

    def _gains(self, sums: Floats) -> Floats:
        means_us = array_means_us(sums, self.failover_us, self.replicas)
        return np.asarray(means_us[..., :1] - means_us[..., 1:])

    def _kinds(self) -> tuple[npt.NDArray[np.int64], int]:
        """Size classes, numbered without gaps, and how many there are."""
        found, kinds = np.unique(size_classes(self.pages), return_inverse=True)
        return np.asarray(kinds, np.int64), len(found)

    def _cut(self, kinds: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], ...]:
        """Size classes, levels and latencies of the newest reads, each of shape (blocks, reads)."""
        length = len(kinds) // N_BLOCKS
        shape = (N_BLOCKS if length else 0, length)
        first = len(kinds) - N_BLOCKS * length if length else len(kinds)
        return tuple(part[first:].reshape(shape) for part in (kinds, self.level, self.latency_us))

    def _sums(
        self, kinds: npt.NDArray[Any], level: npt.NDArray[Any], us: npt.NDArray[Any], n_kinds: int
    ) -> Floats:
        """Reads and their latencies by size class, and by the ways that refuse them."""
        shape = (n_kinds, 1 + self.ways)
        cells = kinds * shape[1] + level
        size = n_kinds * shape[1]
        found = np.stack([np.bincount(cells, minlength=size), np.bincount(cells, us, size)], axis=1)
        # Refused by way j is what has a level of at least j + 1.
        return np.asarray(found.reshape(*shape, 2)[:, ::-1].cumsum(axis=1)[:, ::-1])


def expected_mean_us(
    latency_us: npt.NDArray[np.uint32],
    revoked: npt.NDArray[np.bool_],
    *,
    failover_us: float,
    replicas: int,
    pages: npt.NDArray[np.uint16] | None = None,
) -> float:
    """Mean latency of an array whose drives all behave like this one.

    With `pages` replicas serve reads of the same size class.
    """
    if pages is None:
        pages = np.ones(len(latency_us), np.uint16)
    refusals = Refusals(latency_us, pages, revoked.astype(np.int64), 1, failover_us, replicas)
    return float(refusals.means_us()[1])
