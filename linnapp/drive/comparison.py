# SPDX-License-Identifier: MIT
"""Compare a new model with the active one on the newest reads of a recording.

Neither model was trained on these reads. Networks are compared by the mean latency that the array
would have, two latency models by the error of their predictions: md and liblinnos choose by these,
also if no reads are refused. A permutation test that exchanges the results of the two models in
blocks of time decides whether a difference is significant (:mod:`linnapp.stats`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import stats
from linnapp.files import AnyPath
from linnapp.learn.features.dataset import load_reads
from linnapp.learn.features.split import split
from linnapp.learn.judging.chance import Refusals, array_means_us
from linnapp.learn.options import Recipe
from linnapp.learn.trees.training import deviances, predict_newest
from linnapp.model import LatencyModel, Model, engine

#: Maximum p-value for "better". It is less than the 2.5 % with which a model that is only as
#: good as the active one may replace it, because neighbouring blocks can share a burst.
CHANCE = 0.01

#: Minimum number of reads in a block of time: predictions are similar during a burst, and one burst
#: of many consecutive reads can make one of two equal models look better in several short blocks.
MIN_BLOCK_READS = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Comparison:
    reads: int
    #: Time from the first read to the last.
    seconds: float
    #: Probability that a model of equal quality would look better by as much; None if there are
    #: too few blocks of time.
    p_value: float | None

    @property
    def new_is_better(self) -> bool:
        """True if the new model should replace the active one; equal models must not alternate."""
        return self.p_value is not None and self.p_value <= CHANCE

    @property
    def verdict(self) -> str:
        """The conclusion in a few words."""
        if self.p_value is None:
            return "cannot tell which is better"
        return "better" if self.new_is_better else "no better"

    def _certainty(self) -> str:
        if self.p_value is not None:
            significant = "significant" if self.new_is_better else "not significant"
            return f"{significant} (p = {self.p_value:.2g})"
        return (
            f"these reads span {self.seconds:.1f} s, and at least "
            f"{stats.MIN_BLOCKS * MIN_BLOCK_READS} reads over {stats.MIN_BLOCKS * stats.BLOCK_S:g} "
            "s are needed: record for longer (--duration)"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanComparison(_Comparison):
    """Comparison by the array's expected mean latency."""

    #: `new_mean_us`, `active_mean_us`: see :func:`~linnapp.learn.network.bias.expected_mean_us`.
    #: Without an active model, the latter is the mean if every read is admitted.
    new_mean_us: float
    active_mean_us: float

    def __str__(self) -> str:
        return (
            f"with the newest {self.reads} reads, which it was not trained on, the array's mean "
            f"latency would be {self.new_mean_us:.1f} us, with what is active "
            f"{self.active_mean_us:.1f} us; {self._certainty()}"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictionComparison(_Comparison):
    """Comparison by prediction error: half the mean gamma deviance, which training minimises."""

    new_deviance: float
    active_deviance: float

    def __str__(self) -> str:
        return (
            f"for the newest {self.reads} reads, which it was not trained on, its predictions' "
            f"deviance is {self.new_deviance:.3f}, the active model's {self.active_deviance:.3f}; "
            f"{self._certainty()}"
        )


Comparison = MeanComparison | PredictionComparison


def compare(
    trace: AnyPath,
    new: Model | LatencyModel,
    active: Model | LatencyModel | None,
    recipe: Recipe,
    replicas: int,
) -> Comparison:
    """Compare two models on the test slice of a recording, on which the new one was trained."""
    if isinstance(new, LatencyModel) and isinstance(active, LatencyModel):
        newest, predicted_us = predict_newest(new, trace, recipe, own=True)
        _, active_us = predict_newest(active, trace, recipe, own=False)
        return compare_predictions(newest.arrival_ns, newest.latency_us, predicted_us, active_us)
    by_new = _verdicts(trace, new, recipe, own=True)
    if active is None:
        by_active = dataclasses.replace(by_new, revoked=np.zeros_like(by_new.revoked))
    else:
        by_active = _verdicts(trace, active, recipe, own=False)
    return compare_means(by_new, by_active, recipe.labelling.failover_us, replicas)


def compare_predictions(
    arrival_ns: npt.NDArray[Any],
    latency_us: npt.NDArray[Any],
    new_us: npt.NDArray[Any],
    active_us: npt.NDArray[Any],
) -> PredictionComparison:
    """Compare two models' predictions of the same reads."""
    by_new, by_active = (deviances(us, latency_us) for us in (new_us, active_us))
    blocks = stats.block_numbers(arrival_ns, MIN_BLOCK_READS)
    p_value = None
    if blocks is not None:
        p_value = stats.paired_p_value(stats.block_sums(blocks, by_active - by_new)[:, 0])
    return PredictionComparison(
        reads=len(latency_us),
        seconds=_seconds(arrival_ns),
        p_value=p_value,
        new_deviance=float(by_new.mean()),
        active_deviance=float(by_active.mean()),
    )


def compare_means(
    new: Verdicts, active: Verdicts, failover_us: float, replicas: int
) -> MeanComparison:
    """Compare the array's mean latencies that result from the refusals of two models."""
    by_active, by_new = (
        Refusals(of.latency_us, of.pages, of.revoked.astype(np.int64), 1, failover_us, replicas)
        for of in (active, new)
    )
    blocks = stats.block_numbers(new.arrival_ns, MIN_BLOCK_READS)
    p_value = None
    if blocks is not None:
        # Within a block all drives are equally slow, so the bursts of a block cancel out.
        active_us, new_us = (
            array_means_us(of.sums_of(blocks), failover_us, replicas)[:, 1]
            for of in (by_active, by_new)
        )
        p_value = stats.paired_p_value((active_us - new_us) * np.bincount(blocks))
    return MeanComparison(
        reads=len(new.latency_us),
        seconds=_seconds(new.arrival_ns),
        p_value=p_value,
        new_mean_us=float(by_new.means_us()[1]),
        active_mean_us=float(by_active.means_us()[1]),
    )


def _seconds(arrival_ns: npt.NDArray[Any]) -> float:
    return float(np.ptp(arrival_ns.astype(np.int64))) / 1e9 if len(arrival_ns) else 0.0


@dataclasses.dataclass(frozen=True)
class Verdicts:
    """Reads in order of time, and which of them a model refuses; arrays, shape (n,)."""

    arrival_ns: npt.NDArray[np.uint64]
    latency_us: npt.NDArray[np.uint32]
    revoked: npt.NDArray[np.bool_]
    pages: npt.NDArray[Any]


def _verdicts(
    trace: AnyPath, model: Model | LatencyModel, recipe: Recipe, *, own: bool
) -> Verdicts:
    """Return the decisions of a model for the newest reads."""
    if isinstance(model, LatencyModel):
        newest, predicted_us = predict_newest(model, trace, recipe, own=own)
        revoked = predicted_us > model.refuse_us
        return Verdicts(newest.arrival_ns, newest.latency_us, revoked, newest.pages)
    recording, recipe = recipe.opened(trace)
    reads = load_reads(recording, **recipe.reader)
    rows = split(len(reads), recipe.training).test
    revoked = engine.predict(model, reads.digits(rows))
    return Verdicts(reads.arrival_ns[rows], reads.latency_us[rows], revoked, reads.pages[rows])
