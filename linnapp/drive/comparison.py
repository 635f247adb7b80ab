# SPDX-License-Identifier: MIT
"""Compare a new model with the active one on the newest reads of a recording.

Neither model was trained on these reads. Two latency models are compared by the error of their
predictions, because md and liblinnos choose replicas by these, even if no reads are refused. Other
models are compared by the mean latency that the array would have, because of the reads that they
refuse. A permutation test that exchanges the results of the two models in blocks of time decides
whether a difference is significant (:mod:`linnapp.stats`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import stats
from linnapp.engine import predict_us
from linnapp.files import AnyPath
from linnapp.learn.examples import Reads, load_reads, split
from linnapp.learn.judge import Refusals, array_means_us, score_reads
from linnapp.learn.options import Recipe
from linnapp.learn.trees import deviances, hold_out_newest
from linnapp.model import LatencyModel, Model

#: Maximum p-value for "better". It is less than the 2.5 % with which a model that is only as
#: good as the active one may replace it, because neighbouring blocks can share a burst.
ALPHA = 0.01

#: Minimum number of reads in a block of time: predictions are similar during a burst, and one burst
#: of many consecutive reads can make one of two equal models look better in several short blocks.
MIN_BLOCK_READS = 100


#: Compared quantities, by unit; lower is better.
MEASURES = {
    #: Half the mean gamma deviance, which training minimises.
    "deviance": "the deviance of its predictions",
    #: See :func:`~linnapp.learn.judge.expected_mean_us`. Without an active model, it is the
    #: mean if every read is admitted.
    "us": "the array's mean latency in us",
}


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A new model compared with the active one."""

    #: {"deviance", "us"}: a key of `MEASURES`
    unit: str
    new: float
    active: float
    reads: int
    #: Time from the first read to the last.
    seconds: float
    #: Probability that a model of equal quality would look better by as much; None if there are
    #: too few blocks of time.
    p_value: float | None

    @property
    def new_is_better(self) -> bool:
        """True if the new model should replace the active one; equal models must not alternate."""
        return self.p_value is not None and self.p_value <= ALPHA

    @property
    def verdict(self) -> str:
        """The conclusion in a few words."""
        if self.p_value is None:
            return "cannot tell which is better"
        return "better" if self.new_is_better else "no better"

    def __str__(self) -> str:
        if self.p_value is None:
            certainty = (
                f"these reads span {self.seconds:.1f} s, and at least "
                f"{stats.MIN_BLOCKS * MIN_BLOCK_READS} reads over "
                f"{stats.MIN_BLOCKS * stats.BLOCK_S:g} s are needed: record for longer (--duration)"
            )
        else:
            significant = "significant" if self.new_is_better else "not significant"
            certainty = f"{significant} (p = {self.p_value:.2g})"
        return (
            f"for the newest {self.reads} reads, which it was not trained on, "
            f"{MEASURES[self.unit]} is {self.new:.4g}, with the active model {self.active:.4g}; "
            f"{certainty}"
        )


def _compare(
    unit: str,
    arrival_ns: npt.NDArray[Any],
    new: float,
    active: float,
    gains: Callable[[npt.NDArray[Any]], npt.NDArray[Any]],
) -> Comparison:
    """Compare two values; `gains` returns the new model's gain in each block of time."""
    blocks = stats.block_numbers(arrival_ns, MIN_BLOCK_READS)
    seconds = float(np.ptp(arrival_ns.astype(np.int64))) / 1e9 if len(arrival_ns) else 0.0
    p_value = None if blocks is None else stats.paired_p_value(gains(blocks))
    return Comparison(unit, float(new), float(active), len(arrival_ns), seconds, p_value)


def compare(
    trace: AnyPath,
    new: Model | LatencyModel,
    active: Model | LatencyModel | None,
    recipe: Recipe,
    replicas: int,
) -> Comparison:
    """Compare two models on the test slice of the recording from which the new one was trained.

    Parameters
    ----------
    trace : path
    new, active : Model or LatencyModel
        Without an active model, the new one is compared with admitting every read.
    recipe : Recipe
        Configuration with which the new model was trained.
    replicas : int
        Number of drives that hold each block.
    """
    if isinstance(new, LatencyModel) and isinstance(active, LatencyModel):
        newest, held_out = hold_out_newest(new, trace, recipe, own=True)
        newest_for_active, _ = hold_out_newest(active, trace, recipe, own=False)
        return compare_predictions(
            newest.arrival_ns,
            newest.latency_us,
            predict_us(held_out, newest.features),
            predict_us(active, newest_for_active.features),
        )
    by_new = _decide(trace, new, recipe, own=True)
    if active is None:
        by_active = by_new[0], np.zeros_like(by_new[1])
    else:
        by_active = _decide(trace, active, recipe, own=False)
    return compare_means(by_new, by_active, recipe.labelling.failover_us, replicas)


def compare_predictions(
    arrival_ns: npt.NDArray[Any],
    latency_us: npt.NDArray[Any],
    new_us: npt.NDArray[Any],
    active_us: npt.NDArray[Any],
) -> Comparison:
    """Compare two models' predictions of the same reads."""
    by_new, by_active = (deviances(us, latency_us) for us in (new_us, active_us))
    return _compare(
        "deviance",
        arrival_ns,
        by_new.mean(),
        by_active.mean(),
        lambda blocks: stats.block_sums(blocks, by_active - by_new)[:, 0],
    )


#: Reads in order of time, and which of them a model refuses.
Decisions = tuple[Reads, npt.NDArray[np.bool_]]


def compare_means(
    new: Decisions, active: Decisions, failover_us: float, replicas: int
) -> Comparison:
    """Compare the array's mean latencies that result from the refusals of two models."""
    by_active, by_new = (
        Refusals(reads.latency_us, reads.pages, refused.astype(np.int64), 1, failover_us, replicas)
        for reads, refused in (active, new)
    )

    def gains(blocks: npt.NDArray[Any]) -> npt.NDArray[Any]:
        # Within a block all drives are equally slow, so the bursts of a block cancel out.
        active_us, new_us = (
            array_means_us(refusals.sum_blocks(blocks), failover_us, replicas)[:, 1]
            for refusals in (by_active, by_new)
        )
        return np.asarray((active_us - new_us) * np.bincount(blocks))

    arrival_ns = new[0].arrival_ns
    return _compare("us", arrival_ns, by_new.means_us()[1], by_active.means_us()[1], gains)


def _decide(trace: AnyPath, model: Model | LatencyModel, recipe: Recipe, *, own: bool) -> Decisions:
    """Return the newest reads, and which of them a model refuses."""
    if isinstance(model, LatencyModel):
        newest, model = hold_out_newest(model, trace, recipe, own=own)
        return newest, score_reads(model, newest.features)[1]
    recording, recipe = recipe.opened(trace, complete=True)
    reads = load_reads(recording, **recipe.reader)
    newest = reads.take(split(len(reads), recipe.training).test)
    return newest, score_reads(model, newest.digits())[1]
