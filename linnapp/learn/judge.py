# SPDX-License-Identifier: MIT
"""Choose the score above which reads are refused, and test that this has a benefit.

A model of either kind assigns a score to each read. The score of a network is its margin (output
for slow minus output for fast). The score of a latency model is the predicted latency in us. Reads
with a score above a threshold (`cut`) are refused. The threshold is chosen such that most fast
reads are admitted. It is evaluated on reads that are later than the training data, by the array's
expected mean latency (:func:`expected_mean_us`), in which a refused fast read costs a failover and
a refused slow read can save milliseconds.

The benefit must also be statistically significant. A model that has learnt nothing shows a benefit
on every second recording by chance, and the best of many refusal policies shows one on almost all
recordings. Two tests distinguish such a model from a useful one:

- A permutation test estimates how often the best of equally many policies would have the same gain
  if the scores were unrelated to the reads. Blocks of scores are repeatedly assigned to other
  blocks of reads.
- A block bootstrap estimates the gain of this policy in other recordings of the drive. Blocks of
  reads are resampled together with their scores.

Both use blocks of consecutive reads, because slow reads come in bursts: a score that predicts one
slow read also predicts the next. See :mod:`linnapp.stats` for the error rates of both tests.

:class:`Confusion` counts correct and incorrect predictions. :func:`area_under_roc` measures how
well a score distinguishes slow reads from fast ones, independently of a threshold.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import stats
from linnapp.errors import NoGainError
from linnapp.learn.labels import size_classes
from linnapp.trace.rows import Rows

#: Maximum share of the fast reads of the training slice and of the validation slice that is
#: refused, by kind of model. The share of later reads can be larger.
MAX_REFUSED_FAST = {"network": 0.15, "latency": 0.10}

#: Number of scores that are tried as the threshold.
_CANDIDATES = 64

#: A network that refuses at most this share of the reads is harmless, whatever its quality.
SELDOM = 0.001

#: Advice for a model that refuses no reads.
REMEDY = "record longer, under the load that the drive is slow under"


@dataclasses.dataclass(frozen=True)
class ScoredReads(Rows):
    """Reads and their predicted slowness."""

    #: integer array, shape (n,).
    score: npt.NDArray[np.integer[Any]]
    #: uint32 array, shape (n,).
    latency_us: npt.NDArray[np.uint32]
    #: array, shape (n,). Sizes in pages of 4 KiB.
    pages: npt.NDArray[Any]
    #: The inflection point: reads that take longer are slow.
    threshold_us: int
    #: Cost of a failover in us.
    failover_us: float
    #: Number of drives that hold each block.
    replicas: int

    @property
    def fast(self) -> npt.NDArray[np.bool_]:
        """True for reads that took no longer than the inflection point."""
        return np.asarray(self.latency_us <= self.threshold_us)

    def refused(self, cut: int | None) -> npt.NDArray[np.bool_]:
        """Return which reads have a score above `cut`. None means that no read is refused."""
        if cut is None:
            return np.zeros(len(self.score), np.bool_)
        return np.asarray(self.score > cut)

    def mean_us(self, cut: int | None) -> float:
        """Return the array's expected mean latency in us with this threshold."""
        return expected_mean_us(
            self.latency_us,
            self.refused(cut),
            failover_us=self.failover_us,
            replicas=self.replicas,
            pages=np.minimum(self.pages, 65535).astype(np.uint16),
        )

    def refuses_almost_nothing(self, cut: int) -> bool:
        """Return true if a threshold refuses almost no reads."""
        return bool(self.refused(cut).mean() <= SELDOM)

    def refused_fast_share(self, cut: int | None) -> float:
        """Return the share of the fast reads that is refused, or 0 if there are no fast reads."""
        fast = self.fast
        return float(self.refused(cut)[fast].mean()) if fast.any() else 0.0

    def min_threshold(self, max_refused: float) -> int:
        """Return the lowest threshold that refuses at most this share of the fast reads."""
        fast = self.score[self.fast]
        if not len(fast):
            return int(self.score.min())
        return int(np.percentile(fast, 100 * (1 - max_refused), method="higher"))

    def best_threshold(self, at_least: int, *, prefer_min_threshold: bool = False) -> int | None:
        """Return the threshold with the lowest expected mean, or None if its gain can be chance.

        Parameters
        ----------
        at_least : int
            Minimum of the threshold.
        prefer_min_threshold : bool
            Return `at_least` itself if its gain is significant.
        """
        shares = np.linspace(0, 100, _CANDIDATES)
        tried = np.maximum(np.percentile(self.score, shares, method="lower"), at_least)
        cuts = np.unique(np.append(tried, at_least).astype(np.int64))
        refusals = Refusals(
            self.latency_us,
            self.pages,
            np.searchsorted(cuts, self.score),
            len(cuts),
            self.failover_us,
            self.replicas,
        )
        best = int(np.argmin(refusals.means_us()[1:]))
        for way in (0, best) if prefer_min_threshold else (best,):
            if refusals.is_significant(way):
                return int(cuts[way])
        return None

    def quality(self, cut: int | None) -> dict[str, float]:
        """Return the metrics of a threshold and of admitting every read.

        A read is slow if it takes longer than the inflection point.
        """
        fast, refused = self.fast, self.refused(cut)
        return {
            "mean_us": self.mean_us(cut),
            "always_fast_mean_us": self.mean_us(None),
            "accuracy": float(np.mean(fast != refused)),
            "always_fast_accuracy": float(np.mean(fast)),
            "false_revoke_share": self.refused_fast_share(cut),
        }


def choose_margin(
    taught: ScoredReads, judged: ScoredReads, max_refused: float, *, even_if_worse: bool = False
) -> int:
    """Choose the margin (output for slow minus output for fast) above which a read is refused.

    `taught` and `judged` are the training and the validation slice, scored by the network as
    trained, which refuses reads with a score above 0. `max_refused` limits the share of the fast
    reads of either slice that may be refused; 1 means no limit. If `even_if_worse`, only this limit
    matters.

    The result is the smallest margin that obeys the limit, if it lowers the array's expected mean
    on the validation slice significantly. It is 0 if the network as trained obeys the limit.
    Otherwise the margin with the lowest mean among larger ones, if that is significant. Otherwise
    0, if the network as trained obeys the limit, refuses almost no reads of the validation slice
    and does not increase the mean there. It must also have a significant gain on the training
    slice, or refuse almost no reads there either. If no margin is better than admitting every read,
    NoGainError is raised.
    """
    both = (taught, judged)
    least = 0
    if max(reads.refused_fast_share(0) for reads in both) > max_refused:
        least = max(0, *(reads.min_threshold(max_refused) for reads in both))
    if even_if_worse:
        return least
    cut = judged.best_threshold(least, prefer_min_threshold=True)
    if cut is not None:
        return cut
    figures = judged.quality(least)
    harmless = not least and figures["mean_us"] <= FLAT * figures["always_fast_mean_us"]
    # A network that was trained with synthetic bursts may refuse almost nothing in a recording
    # without bursts. It is accepted if it has a benefit on the training slice.
    if (
        harmless
        and judged.refuses_almost_nothing(0)
        and (
            taught.refuses_almost_nothing(0)
            or taught.best_threshold(0, prefer_min_threshold=True) == 0
        )
    ):
        return 0
    raise NoGainError(
        "no model is better than admitting every read, beyond chance: on the validation slice the "
        f"array's mean read would take {figures['mean_us']:.1f} us with what was learnt, "
        f"{figures['always_fast_mean_us']:.1f} us if no read were refused; accuracy "
        f"{figures['accuracy']:.2%}, of predicting all fast {figures['always_fast_accuracy']:.2%}, "
        f"and {figures['false_revoke_share']:.1%} of the fast reads refused. Record longer, under "
        "the load that the drive is slow under; a latency model may learn more from it; or insist "
        "with `even_if_worse=True`"
    )


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

    `sums` has the shape (..., classes, 1 + policies, 2): for each size class, the number of reads
    and the sum of their latencies. The first row is about all reads, and each of the other rows
    about the reads that a policy refuses. The result, in us, has the shape (..., 1 + policies), and
    its first element is the mean latency of refusing no read.
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
    """Reads in order of time, and the number of refusal policies that refuse each of them.

    There are `ways` policies. Each policy refuses a subset of the reads that the previous one
    refuses, so the number determines which policies refuse a read.
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
        """Gain of the best policy in each random assignment of blocks of scores to other reads."""
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

    If `pages`, the sizes of the reads, are given, a refused read is assumed to take as long on
    another replica as reads of the same size class. `failover_us` is the cost of a failover, and
    `replicas` the number of drives that hold each block.
    """
    if pages is None:
        pages = np.ones(len(latency_us), np.uint16)
    refusals = Refusals(latency_us, pages, revoked.astype(np.int64), 1, failover_us, replicas)
    return float(refusals.means_us()[1])


@dataclasses.dataclass(frozen=True)
class Confusion:
    """Number of reads by actual and predicted class.

    Attributes
    ----------
    true_fast, true_slow : int
        Correctly predicted reads.
    false_submit : int
        Slow reads that were predicted fast, and therefore submitted to a busy drive.
    false_revoke : int
        Fast reads that were predicted slow, and therefore revoked needlessly.
    """

    true_fast: int
    true_slow: int
    false_submit: int
    false_revoke: int

    @classmethod
    def of(cls, slow: npt.NDArray[np.bool_], predicted: npt.NDArray[np.bool_]) -> Confusion:
        """Count the reads. Both arrays have shape (n,)."""
        return cls(
            true_fast=int(np.count_nonzero(~slow & ~predicted)),
            true_slow=int(np.count_nonzero(slow & predicted)),
            false_submit=int(np.count_nonzero(slow & ~predicted)),
            false_revoke=int(np.count_nonzero(~slow & predicted)),
        )

    @property
    def total(self) -> int:
        """Number of all reads."""
        return self.true_fast + self.true_slow + self.false_submit + self.false_revoke

    @property
    def accuracy(self) -> float | None:
        """Share of correctly predicted reads, or None without reads."""
        return (self.true_fast + self.true_slow) / self.total if self.total else None

    @property
    def false_submit_ratio(self) -> float | None:
        """False submits per read (the rate that the paper uses), or None without reads."""
        return self.false_submit / self.total if self.total else None

    @property
    def false_revoke_ratio(self) -> float | None:
        """False revokes per read, or None without reads."""
        return self.false_revoke / self.total if self.total else None

    @property
    def fast(self) -> int:
        """Number of fast reads."""
        return self.true_fast + self.false_revoke

    @property
    def false_revoke_share(self) -> float | None:
        """Share of the fast reads that were predicted slow, or None without fast reads."""
        return self.false_revoke / self.fast if self.fast else None

    @property
    def slow_recall(self) -> float | None:
        """Share of slow reads that were predicted slow, or None without slow reads."""
        slow = self.true_slow + self.false_submit
        return self.true_slow / slow if slow else None

    def to_json(self) -> dict[str, float | None]:
        """Return the counts and ratios by name."""
        ratios = ("accuracy", "false_submit_ratio", "false_revoke_ratio", "slow_recall")
        return dataclasses.asdict(self) | {name: getattr(self, name) for name in ratios}


def area_under_roc(score: npt.NDArray[Any], slow: npt.NDArray[np.bool_]) -> float | None:
    """Return the probability that a slow read has a higher score than a fast one. Ties count half.

    This is the area under the ROC curve and the Mann-Whitney statistic (Hanley and McNeil,
    Radiology 143, 1982). It is None if all reads are slow or all are fast.
    """
    n_slow = int(np.count_nonzero(slow))
    n_fast = len(slow) - n_slow
    if not n_slow or not n_fast:
        return None
    _, value, count = np.unique(score, return_inverse=True, return_counts=True)
    # Equal scores share the mean of their ranks, which start at 1.
    mean_rank = np.cumsum(count) - (count - 1) / 2
    rank_sum = float(mean_rank[value[slow]].sum())
    return (rank_sum - n_slow * (n_slow + 1) / 2) / (n_slow * n_fast)
