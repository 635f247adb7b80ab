# SPDX-License-Identifier: MIT
"""Test whether refusing reads has a statistically significant benefit.

A model without any knowledge shows a benefit on every second recording, and the best of many
refusal policies shows one on almost all of them. Two tests distinguish it from a useful model:

- A permutation test: would the best of as many policies have the same gain if the scores were
  unrelated to the reads? Blocks of scores are repeatedly assigned to other blocks of reads.
- A block bootstrap: would this policy have a gain in other recordings of the drive? Blocks of
  reads are resampled together with their scores.

Both use blocks of consecutive reads, because slow reads come in bursts and whatever predicts one of
them predicts the next. See :mod:`linnapp.stats` for the error rate of each.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import stats
from linnapp.learn.labelling.inflection import size_classes

#: The resolution of p-values with this number of shuffles is 0.1 %.
N_SHUFFLES = 999

#: Significance level: the share of uninformative scores that pass the permutation test.
CHANCE = 0.005

N_BLOCKS = stats.MAX_BLOCKS

#: Means whose ratio is at most this are considered equal.
FLAT = 1.001

Floats = npt.NDArray[np.float64]


def array_means_us(sums: Floats, failover_us: float, replicas: int) -> Floats:
    """Return the mean latency of an array whose drives all behave like this one, for each policy.

    Parameters
    ----------
    sums : array, shape (..., classes, 1 + policies, 2)
        For each size class, the number of reads and the sum of their latencies: first of all reads,
        then of the reads that each policy refuses.
    failover_us : float
        Cost of a failover.
    replicas : int
        Number of drives that hold each block.

    Returns
    -------
    array, shape (..., 1 + policies)
        Mean latencies in us. The first one is that of refusing no read.
    """
    refused = sums.copy()
    refused[..., 0, :] = 0.0
    reads, total_us = sums[..., :1, 0], sums[..., :1, 1]
    # A resample may contain no read of a class, which then has no weight.
    each = np.maximum(reads, 1)
    share = refused[..., 0] / each
    admitted_us = (total_us - refused[..., 1]) / each
    mean_us = np.broadcast_to(total_us / each, share.shape)
    for _ in range(replicas - 1):
        mean_us = admitted_us + share * (failover_us + mean_us)
    return np.asarray((mean_us * reads).sum(axis=-2) / reads.sum(axis=-2))


@dataclasses.dataclass(frozen=True)
class Refusals:
    """Reads in order of time, and the refusal policies (`ways`) that refuse each of them.

    The policies are nested: each policy refuses a subset of the reads that the previous one
    refuses.
    """

    #: `latency_us`, `pages`: array, shape (n,).
    latency_us: npt.NDArray[Any]
    pages: npt.NDArray[Any]
    #: integer array, shape (n,). Number of policies that refuse each read.
    level: npt.NDArray[Any]
    ways: int
    #: Cost of a failover in us.
    failover_us: float
    #: Number of drives that hold each block.
    replicas: int

    def means_us(self) -> Floats:
        """Return the array's mean latency in us if no read is refused, then for each policy."""
        kinds, n_kinds = self._kinds()
        sums = self._sums(kinds, self.level, self.latency_us, n_kinds)
        return array_means_us(sums, self.failover_us, self.replicas)

    def sums_of(self, blocks: npt.NDArray[np.int64]) -> Floats:
        """Return the sums of each block, shape (blocks, classes, 1 + ways, 2).

        `blocks` holds the block number of each read.
        """
        kinds, n_kinds = self._kinds()
        n_blocks = int(blocks.max()) + 1
        cells = blocks * n_kinds + kinds
        sums = self._sums(cells, self.level, self.latency_us, n_blocks * n_kinds)
        return sums.reshape(n_blocks, n_kinds, 1 + self.ways, 2)

    def is_significant(self, way: int) -> bool:
        """Return true if both tests find a significant gain, given how many policies were tried."""
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
        """Return the last `n` reads."""
        newest = {name: getattr(self, name)[-n:] for name in ("latency_us", "pages", "level")}
        return dataclasses.replace(self, **newest)

    @functools.cached_property
    def _best_shuffled_us(self) -> Floats:
        """Gains of the best policy if blocks of scores are assigned to other blocks of reads."""
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
        """Return the size classes, numbered without gaps, and their number."""
        found, kinds = np.unique(size_classes(self.pages), return_inverse=True)
        return np.asarray(kinds, np.int64), len(found)

    def _sums(
        self, kinds: npt.NDArray[Any], level: npt.NDArray[Any], us: npt.NDArray[Any], n_kinds: int
    ) -> Floats:
        """Return the number of reads and the sum of their latencies by size class and policy."""
        shape = (n_kinds, 1 + self.ways)
        cells = kinds * shape[1] + level
        size = n_kinds * shape[1]
        found = np.stack([np.bincount(cells, minlength=size), np.bincount(cells, us, size)], axis=1)
        # Policy j refuses the reads whose level is at least j + 1.
        return np.asarray(found.reshape(*shape, 2)[:, ::-1].cumsum(axis=1)[:, ::-1])


def expected_mean_us(
    latency_us: npt.NDArray[np.uint32],
    revoked: npt.NDArray[np.bool_],
    *,
    failover_us: float,
    replicas: int,
    pages: npt.NDArray[np.uint16] | None = None,
) -> float:
    """Return the mean latency of an array whose drives all behave like this one.

    Parameters
    ----------
    latency_us : uint32 array, shape (n,)
    revoked : bool array, shape (n,)
        Reads that are refused.
    failover_us : float
        Cost of a failover.
    replicas : int
        Number of drives that hold each block.
    pages : uint16 array, shape (n,), optional
        Sizes in pages of 4 KiB. If given, another replica serves a refused read like reads of the
        same size class.

    Returns
    -------
    float
        Mean latency in us.
    """
    if pages is None:
        pages = np.ones(len(latency_us), np.uint16)
    refusals = Refusals(latency_us, pages, revoked.astype(np.int64), 1, failover_us, replicas)
    return float(refusals.means_us()[1])
