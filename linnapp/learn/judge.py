# SPDX-License-Identifier: MIT
"""Judge models of either kind: how good their predictions are, and which reads to refuse.

A model assigns a score to each read. The score of a network is its margin (output for slow minus
output for fast). The score of a latency model is the predicted latency in us. :func:`evaluate`
measures on a trace how well the scores distinguish slow reads from fast ones, and
:class:`Confusion` counts correct and incorrect predictions.

**Refusals.** Reads with a score above a threshold are refused. The threshold must admit most fast
reads. Among the thresholds that do, the one with the lowest expected mean latency of the array is
chosen (:func:`expected_mean_us`), on reads that are later than the training data. In this mean, a
refused fast read costs a failover, and a refused slow read can save milliseconds. The benefit must
also be statistically significant. A model that has learnt nothing has a benefit on every second
recording by chance, and the best of many thresholds has one on almost all recordings. Two tests
distinguish such a model from a useful one:

- A permutation test repeatedly assigns blocks of scores to other blocks of reads, so that the
  scores are unrelated to the reads. It counts how often the best of equally many thresholds has
  the same gain.
- A block bootstrap resamples blocks of reads together with their scores. It estimates the gain of
  this threshold in other recordings of the drive.

Both use blocks of consecutive reads, because slow reads come in bursts: a score that predicts one
slow read also predicts the next. See :mod:`linnapp.stats` for the error rates of both tests.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import stats
from linnapp.engine import digits, infer, predict_hinted_us, predict_us
from linnapp.errors import NoGainError, TraceError
from linnapp.learn.labels import size_classes
from linnapp.model import LatencyModel, Model
from linnapp.stats import Floats
from linnapp.trace.blktrace import IoChunk, Rows
from linnapp.trace.reads import LoggedDrive, Recorded, open_recording

#: Number of scores that are tried as the threshold.
_CANDIDATES = 64

#: A network that refuses at most this share of the reads is harmless, whatever its quality.
HARMLESS_SHARE = 0.001

#: Advice for a model that refuses no reads.
REMEDY = "record longer, under the load that makes the drive slow"


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

    def refused(self, threshold: int | None) -> npt.NDArray[np.bool_]:
        """Return true for reads with a score above `threshold`; None refuses no read."""
        if threshold is None:
            return np.zeros(len(self.score), np.bool_)
        return np.asarray(self.score > threshold)

    def mean_us(self, threshold: int | None) -> float:
        """Return the array's expected mean latency in us with this threshold."""
        return expected_mean_us(
            self.latency_us,
            self.refused(threshold),
            failover_us=self.failover_us,
            replicas=self.replicas,
            pages=self.pages,
        )

    def refuses_almost_nothing(self, threshold: int) -> bool:
        """Return true if at most `HARMLESS_SHARE` of the reads are refused."""
        return bool(self.refused(threshold).mean() <= HARMLESS_SHARE)

    def refused_fast_share(self, threshold: int | None) -> float:
        """Return the share of the fast reads that is refused, or 0 if there are no fast reads."""
        fast = self.fast
        return float(self.refused(threshold)[fast].mean()) if fast.any() else 0.0

    def min_threshold(self, max_refused: float) -> int:
        """Return the lowest score with which at most this share of the fast reads is refused.

        If the share is not a multiple of one read, the result can be one score too high.
        """
        fast = self.score[self.fast]
        if not len(fast):
            return int(self.score.min())
        return int(np.percentile(fast, 100 * (1 - max_refused), method="higher"))

    def best_threshold(self, at_least: int, *, prefer_min_threshold: bool = False) -> int | None:
        """Return the threshold with the lowest expected mean, or None if its gain can be chance.

        It is `at_least` or higher. With `prefer_min_threshold`, `at_least` itself is returned if
        its gain is significant.
        """
        percentiles = np.linspace(0, 100, _CANDIDATES)
        tried = np.maximum(np.percentile(self.score, percentiles, method="lower"), at_least)
        thresholds = np.unique(np.append(tried, at_least).astype(np.int64))
        refusals = Refusals(
            self.latency_us,
            self.pages,
            np.searchsorted(thresholds, self.score),
            len(thresholds),
            self.failover_us,
            self.replicas,
        )
        best = int(np.argmin(refusals.means_us()[1:]))
        for candidate in (0, best) if prefer_min_threshold else (best,):
            if refusals.is_significant(candidate):
                return int(thresholds[candidate])
        return None

    def quality(self, threshold: int | None) -> dict[str, float]:
        """Return the metrics of a threshold and of admitting every read.

        A read is slow if it takes longer than the inflection point.
        """
        fast, refused = self.fast, self.refused(threshold)
        return {
            "mean_us": self.mean_us(threshold),
            "always_fast_mean_us": self.mean_us(None),
            "accuracy": float(np.mean(fast != refused)),
            "always_fast_accuracy": float(np.mean(fast)),
            "false_revoke_share": self.refused_fast_share(threshold),
        }


def choose_margin(
    training: ScoredReads,
    validation: ScoredReads,
    max_refused: float,
    *,
    even_if_worse: bool = False,
) -> int:
    """Choose the margin (output for slow minus output for fast) above which a read is refused.

    The first of these margins is chosen that is better than admitting every read:

    1. The smallest margin with which both slices obey `max_refused`, if it lowers the array's
       expected mean latency on the validation slice significantly. This is 0 if the network as
       trained obeys the limit.
    2. The larger margin with the lowest mean latency, if that is significant.
    3. 0, if the network as trained obeys the limit, refuses almost no reads of the validation slice
       and does not increase the mean latency there. On the training slice, it must have a
       significant benefit or refuse almost no reads either. A network that was trained with
       synthetic bursts may refuse almost nothing in a recording without bursts.

    Parameters
    ----------
    training, validation : ScoredReads
        The slices, scored by the network as trained, which refuses reads with a score above 0.
    max_refused : float
        Maximum share of the fast reads of each slice that may be refused; 1 means no limit.
    even_if_worse : bool
        Return the smallest margin that obeys the limit, even without a benefit.

    Raises
    ------
    NoGainError
        If no margin is better than admitting every read.
    """
    both = (training, validation)
    least = 0
    if max(reads.refused_fast_share(0) for reads in both) > max_refused:
        least = max(0, *(reads.min_threshold(max_refused) for reads in both))
    if even_if_worse:
        return least
    margin = validation.best_threshold(least, prefer_min_threshold=True)
    if margin is not None:
        return margin
    quality = validation.quality(least)
    harmless = not least and quality["mean_us"] <= EQUAL_RATIO * quality["always_fast_mean_us"]
    if (
        harmless
        and validation.refuses_almost_nothing(0)
        and (
            training.refuses_almost_nothing(0)
            or training.best_threshold(0, prefer_min_threshold=True) == 0
        )
    ):
        return 0
    raise NoGainError(
        "no model is better than admitting every read (no gain is significant): on the "
        "validation slice, the "
        f"array's mean latency would be {quality['mean_us']:.1f} us with this network, and "
        f"{quality['always_fast_mean_us']:.1f} us if no read were refused; its accuracy is "
        f"{quality['accuracy']:.2%}, that of predicting all reads fast "
        f"{quality['always_fast_accuracy']:.2%}, and it would refuse "
        f"{quality['false_revoke_share']:.1%} of the fast reads. Record longer, under the load "
        "that makes the drive slow; train a latency model, which may learn more from this "
        "recording; or keep this network with `even_if_worse=True`"
    )


#: The resolution of p-values with this number of shuffles is 0.1 %.
N_SHUFFLES = 999

#: Significance level: the share of uninformative scores that pass the permutation test.
ALPHA = 0.005

N_BLOCKS = stats.MAX_BLOCKS

#: Means whose ratio is at most this are considered equal.
EQUAL_RATIO = 1.001


def array_means_us(sums: Floats, failover_us: float, replicas: int) -> Floats:
    """Return the mean latency in us of an array whose drives all behave like this one.

    `sums` has, for each size class, the number of reads and the sum of their latencies in us: first
    of all reads, then of the reads that each policy refuses. Its shape is (..., classes, 1 +
    policies, 2), and that of the result is (..., 1 + policies).
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
class Refusals(Rows):
    """Reads in order of time, and the number of refusal policies that refuse each of them.

    Each policy refuses a subset of the reads that the previous policy refuses, so this number
    determines which policies refuse a read.
    """

    #: `latency_us`, `pages`: array, shape (n,).
    latency_us: npt.NDArray[Any]
    pages: npt.NDArray[Any]
    #: integer array, shape (n,). Number of policies that refuse each read.
    level: npt.NDArray[Any]
    n_policies: int
    #: Cost of a failover in us.
    failover_us: float
    #: Number of drives that hold each block.
    replicas: int

    def means_us(self) -> Floats:
        """Return the array's mean latency in us if no read is refused, then for each policy."""
        classes, n_classes = self._size_classes()
        sums = self._sums(classes, self.level, self.latency_us, n_classes)
        return array_means_us(sums, self.failover_us, self.replicas)

    def sum_blocks(self, blocks: npt.NDArray[np.int64]) -> Floats:
        """Return the sums of :func:`array_means_us` for each block, given that of each read."""
        classes, n_classes = self._size_classes()
        n_blocks = int(blocks.max()) + 1
        cells = blocks * n_classes + classes
        sums = self._sums(cells, self.level, self.latency_us, n_blocks * n_classes)
        return sums.reshape(n_blocks, n_classes, 1 + self.n_policies, 2)

    def is_significant(self, policy: int) -> bool:
        """Return true if a policy passes both tests, given how many policies were tried."""
        length = len(self.level) // N_BLOCKS
        if not length:
            return False
        n = N_BLOCKS * length
        sums = self.take(slice(-n, None)).sum_blocks(np.arange(n) // length)
        resampled = stats.resamples(N_BLOCKS) @ sums.reshape(N_BLOCKS, -1)
        resampled_us = self._gains(resampled.reshape(-1, *sums.shape[1:]))[:, policy]
        gain_us = self._gains(sums.sum(axis=0))[policy]
        if not stats.block_interval(float(gain_us), resampled_us, N_BLOCKS).is_above:
            return False
        return stats.p_value(float(gain_us), self._best_shuffled_us) <= ALPHA

    @functools.cached_property
    def _best_shuffled_us(self) -> Floats:
        """Gain of the best policy in each random assignment of blocks of scores to other reads."""
        classes, n_classes = self._size_classes()
        shape = (N_BLOCKS, len(classes) // N_BLOCKS)
        classes, levels, latencies = (
            column[-shape[0] * shape[1] :].reshape(shape)
            for column in (classes, self.level, self.latency_us)
        )
        sums = np.zeros((N_SHUFFLES, n_classes, 1 + self.n_policies, 2))
        orders = stats.shuffles(N_BLOCKS, N_SHUFFLES)
        for block, us, order in zip(classes, latencies, orders.T, strict=True):
            sums += np.array([self._sums(block, level, us, n_classes) for level in levels])[order]
        return np.asarray(self._gains(sums).max(axis=-1))

    def _gains(self, sums: Floats) -> Floats:
        means_us = array_means_us(sums, self.failover_us, self.replicas)
        return np.asarray(means_us[..., :1] - means_us[..., 1:])

    def _size_classes(self) -> tuple[npt.NDArray[np.int64], int]:
        """Return the size class of each read, numbered without gaps, and the number of classes."""
        found, classes = np.unique(size_classes(self.pages), return_inverse=True)
        return np.asarray(classes, np.int64), len(found)

    def _sums(
        self, classes: npt.NDArray[Any], level: npt.NDArray[Any], us: npt.NDArray[Any], n: int
    ) -> Floats:
        """Return the number of reads and the sum of their latencies, for each class and policy.

        `n` is the number of classes, and the shape of the result is (n, 1 + n_policies, 2).
        """
        shape = (n, 1 + self.n_policies)
        cells = classes * shape[1] + level
        size = n * shape[1]
        found = np.stack([np.bincount(cells, minlength=size), np.bincount(cells, us, size)], axis=1)
        # Policy j refuses the reads whose level is at least j + 1.
        return np.asarray(found.reshape(*shape, 2)[:, ::-1].cumsum(axis=1)[:, ::-1])


def expected_mean_us(
    latency_us: npt.NDArray[np.uint32],
    refused: npt.NDArray[np.bool_],
    *,
    failover_us: float,
    replicas: int,
    pages: npt.NDArray[Any],
) -> float:
    """Return the mean latency in us of an array whose drives all behave like this one.

    A refused read is assumed to take as long on another replica as reads of the same size class,
    which follows from `pages`. `failover_us` is the cost of a failover, and `replicas` the number
    of drives that hold each block.
    """
    refusals = Refusals(latency_us, pages, refused.astype(np.int64), 1, failover_us, replicas)
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


#: Ranking needs all scores at once. In a longer trace only every second, fourth, ... read is
#: ranked, which limits memory to 200 MB and changes the area under the ROC curve by less than
#: 0.001.
MAX_RANKED_READS = 4_000_000


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Metrics of a model on a trace.

    Attributes
    ----------
    model_id : str
    threshold_us : int
        The inflection point of the model: a read that takes longer is slow.
    confusion : Confusion
        Counts of all served reads.
    mean_us, mean_admitted_us : float
        Mean latency of all served reads, and of those that the model would have admitted.
    auc : float or None
        Area under the ROC curve of the model's score. The score of a network is its margin (output
        for slow minus output for fast). None if all reads are slow or all are fast.
    auc_last_latencies, auc_pending : float or None
        The same for the mean latency of the last reads alone, and for the number of pending pages
        alone. A useful model must have a larger area than these.
    refuse_us : int or None
        Limit of a latency model: it refuses reads with a longer predicted latency. This attribute
        and the following ones are None for a network.
    mean_predicted_us : float or None
    mean_abs_log2_error, mean_abs_log2_error_last_latencies : float or None
        Mean absolute error of the base-2 logarithm of the latency: of the prediction, and of the
        mean latency of the last reads.
    """

    model_id: str
    threshold_us: int
    confusion: Confusion
    mean_us: float
    mean_admitted_us: float
    auc: float | None
    auc_last_latencies: float | None
    auc_pending: float | None
    refuse_us: int | None = None
    mean_predicted_us: float | None = None
    mean_abs_log2_error: float | None = None
    mean_abs_log2_error_last_latencies: float | None = None

    @property
    def always_fast_accuracy(self) -> float:
        """Accuracy of predicting every read as fast, that is, the share of fast reads."""
        return self.confusion.fast / self.confusion.total

    def to_json(self) -> dict[str, Any]:
        """Return all metrics by name."""
        is_network = self.refuse_us is None
        metrics = {} if is_network else {"kind": "latency"}
        for field in dataclasses.fields(self):
            if field.name != "confusion" and not (is_network and field.default is None):
                metrics[field.name] = getattr(self, field.name)
        return {
            **metrics,
            "reads": self.confusion.total,
            **self.confusion.to_json(),
            "always_fast_accuracy": self.always_fast_accuracy,
            "false_revoke_share": self.confusion.false_revoke_share,
        }


class Judge:
    """Accumulates the results of a model of either kind, in parts of any number of reads."""

    def __init__(self, model: Model | LatencyModel) -> None:
        self._model = model
        self._confusion = np.zeros(4, np.int64)
        # Sums of the latencies of all reads and of admitted reads. For a latency model also sums of
        # the predictions, of their errors, and of the errors of the mean of the last latencies.
        self._sums = np.zeros(5)
        # Scores and labels for the ranking. Beyond `MAX_RANKED_READS`, only every n-th is kept.
        self._ranked: list[tuple[npt.NDArray[Any], ...]] = []
        self._step, self._n_seen = 1, 0

    def add(
        self,
        latency_us: npt.NDArray[Any],
        score: npt.NDArray[Any],
        refused: npt.NDArray[np.bool_],
        last_us: npt.NDArray[Any],
        pending: npt.NDArray[Any],
    ) -> None:
        """Add the next reads. All arrays have shape (n,).

        `last_us` is the mean latency of the last reads that had completed, and `pending` the number
        of pending pages: two simple predictors that the model must beat.
        """
        slow = latency_us > np.uint64(self._model.threshold_us)
        self._confusion += np.array(dataclasses.astuple(Confusion.of(slow, refused)))
        self._sums[:2] += float(latency_us.sum()), float(latency_us[~refused].sum())
        if isinstance(self._model, LatencyModel):
            actual_us = np.maximum(latency_us, 1)
            self._sums[2:] += (
                score.sum(dtype=np.float64),
                np.abs(np.log2(actual_us / score)).sum(),
                np.abs(np.log2(actual_us / np.maximum(last_us, 1))).sum(),
            )
        self._rank(score, last_us, pending, slow)

    def _rank(self, *columns: npt.NDArray[Any]) -> None:
        first = -self._n_seen % self._step
        self._n_seen += len(columns[0])
        self._ranked.append(tuple(column[first :: self._step].copy() for column in columns))
        if self._n_seen > MAX_RANKED_READS * self._step:
            self._ranked = [tuple(column[::2].copy() for column in self.ranked())]
            self._step *= 2

    def ranked(self) -> list[npt.NDArray[Any]]:
        """Return the scores, the two simple predictions and the labels of the ranked reads."""
        return [np.concatenate(column) for column in zip(*self._ranked, strict=True)]

    @property
    def n_reads(self) -> int:
        """Number of reads so far."""
        return int(self._confusion.sum())

    def result(self) -> Evaluation:
        """Return the metrics of all reads; at least one must have been added."""
        model, confusion = self._model, Confusion(*self._confusion.tolist())
        *ranked, slow = self.ranked()
        auc, auc_last_latencies, auc_pending = (area_under_roc(score, slow) for score in ranked)
        n_admitted = confusion.true_fast + confusion.false_submit
        found = Evaluation(
            model.model_id,
            model.threshold_us,
            confusion,
            float(self._sums[0]) / confusion.total,
            float(self._sums[1]) / n_admitted if n_admitted else 0.0,
            auc,
            auc_last_latencies,
            auc_pending,
        )
        if not isinstance(model, LatencyModel):
            return found
        predicted_us, error, error_last = (self._sums[2:] / confusion.total).tolist()
        return dataclasses.replace(
            found,
            refuse_us=model.refuse_us,
            mean_predicted_us=predicted_us,
            mean_abs_log2_error=error,
            mean_abs_log2_error_last_latencies=error_last,
        )


def score_reads(
    model: Model | LatencyModel, inputs: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return the predicted slowness of reads, and which of them the model refuses, shape (n,).

    `inputs` are digits for a network, and features for a latency model.
    """
    if isinstance(model, LatencyModel):
        refused = predict_hinted_us(model, inputs) > model.refuse_us
        return predict_us(model, inputs), np.asarray(refused)
    outputs = infer(model, inputs)
    margin = np.asarray(outputs[:, 1] - outputs[:, 0])
    return margin, margin > 0


@dataclasses.dataclass(frozen=True)
class Predictions:
    """Predictions of a model for the served reads of a chunk."""

    #: The served reads.
    served: IoChunk
    #: `score`, `refused`: results of :func:`score_reads`.
    score: npt.NDArray[Any]
    refused: npt.NDArray[np.bool_]


def predictions(
    model: Model | LatencyModel, trace: Recorded, **reader_options: Any
) -> Iterator[Predictions]:
    """Run a model on the served reads of a trace, in chunks. Errors are as for :func:`evaluate`."""
    if not isinstance(model, Model | LatencyModel):
        raise TypeError(
            f"model={model!r}: expected a Model or a LatencyModel, such as the attribute model_ of "
            "the result of linnapp.load_model()"
        )
    drive = None
    if isinstance(model, LatencyModel):
        drive = LoggedDrive(model.overdue_us)
        reader_options["overdue_us"] = model.overdue_us
    for chunk in open_recording(trace, **reader_options):
        features = drive.features_of(chunk) if drive is not None else None
        served = chunk.take(chunk.is_served_read)
        if not len(served):
            continue
        inputs = (
            digits(served.pending, served.hist_pending, served.hist_latency_us)
            if features is None
            else features
        )
        yield Predictions(served, *score_reads(model, inputs))


def evaluate(model: Model | LatencyModel, trace: Recorded, **reader_options: Any) -> Evaluation:
    """Run a model on the served reads of a trace, in chunks.

    Parameters
    ----------
    model : Model or LatencyModel
        Or a fitted model, see :mod:`linnapp.learn.fit`.
    trace : path or IoTable
    **reader_options
        Those of :func:`~linnapp.trace.reads.open_recording`.

    Raises
    ------
    TypeError
        If `model` is not a model.
    TraceError
        If the trace cannot be read or contains no completed read.
    """
    model = getattr(model, "model_", model)
    judge = Judge(model)
    for found in predictions(model, trace, **reader_options):
        served = found.served
        judge.add(
            served.latency_ns // np.uint64(1000),
            found.score,
            found.refused,
            served.hist_latency_us.mean(axis=1),
            served.pending,
        )
    if not judge.n_reads:
        raise TraceError(f"{trace}: no completed read to evaluate on")
    return judge.result()
