# SPDX-License-Identifier: MIT
"""Whether refusing reads gains an array something, or only seems to.

A model that knows nothing has gained something on every second recording, and the best of many ways
to refuse has on nearly all. Two tests tell it from a model that knows something:

- A permutation test: would the best of as many ways gain as much if the scores had nothing to do
  with the reads? Blocks of the scores are laid on other blocks of the reads, again and again.
- A block bootstrap: would this way gain something in other recordings of the drive? Blocks of the
  reads, with their scores, are drawn anew.

Both use blocks of consecutive reads, because slow reads come in bursts, and what predicts one of
them predicts the next. See :mod:`linnapp.stats` for how often each is wrong.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import stats
from linnapp.learn.labelling.inflection import size_classes

#: With this many the share of shuffles is known to a tenth of a percent.
N_SHUFFLES = 999

#: Scores without any knowledge pass so often.
CHANCE = 0.005

N_BLOCKS = stats.MAX_BLOCKS

#: Means that differ by so little are taken for equal.
FLAT = 1.001

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

    def sums_of(self, blocks: npt.NDArray[np.int64]) -> Floats:
        """Sums of each block; shape (blocks, kinds, 1 + ways, 2). `blocks` numbers the reads'."""
        kinds, n_kinds = self._kinds()
        n_blocks = int(blocks.max()) + 1
        cells = blocks * n_kinds + kinds
        sums = self._sums(cells, self.level, self.latency_us, n_blocks * n_kinds)
        return sums.reshape(n_blocks, n_kinds, 1 + self.ways, 2)

    def is_significant(self, way: int) -> bool:
        """Whether both tests say that a way's gain is none by chance, as many as were tried."""
        length = len(self.level) // N_BLOCKS
        if not length:
            return False
        newest = self._newest(N_BLOCKS * length)
        sums = newest.sums_of(np.arange(N_BLOCKS * length) // length)
        drawn = stats.resamples(N_BLOCKS) @ sums.reshape(N_BLOCKS, -1)
        resampled_us = self._gains(drawn.reshape(-1, *sums.shape[1:]))[:, way]
        gain_us = self._gains(sums.sum(axis=0))[way]
        if not stats.block_interval(float(gain_us), resampled_us, N_BLOCKS).is_above:
            return False
        return stats.p_value(float(gain_us), self._best_shuffled_us) <= CHANCE

    def _newest(self, n: int) -> Refusals:
        """The last `n` reads."""
        newest = {name: getattr(self, name)[-n:] for name in ("latency_us", "pages", "level")}
        return dataclasses.replace(self, **newest)

    @functools.cached_property
    def _best_shuffled_us(self) -> Floats:
        """What the best way gains with blocks of the scores on other blocks of the reads."""
        kinds, n_kinds = self._kinds()
        shape = (N_BLOCKS, len(kinds) // N_BLOCKS)
        kind_of, level_of, latency_of = (
            part[-shape[0] * shape[1] :].reshape(shape)
            for part in (kinds, self.level, self.latency_us)
        )
        sums = np.zeros((N_SHUFFLES, n_kinds, 1 + self.ways, 2))
        orders = stats.shuffles(N_BLOCKS, N_SHUFFLES)
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
