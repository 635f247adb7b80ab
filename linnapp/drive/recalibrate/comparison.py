# SPDX-License-Identifier: MIT
"""A new model against the active one, on the newest reads of a recording, which taught neither.

By what the array's mean latency would be, as each of them refuses. Two latency models are compared
by how well they predict: peers, md and liblinnos choose by that, also where nothing is refused.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.files import AnyPath
from linnapp.learn.features.dataset import load_reads
from linnapp.learn.features.split import split
from linnapp.learn.judging.chance import Refusals, lowest_gain_us, resampled_means_us
from linnapp.learn.options import Recipe
from linnapp.learn.trees.training import deviances, predict_newest
from linnapp.model import LatencyModel, Model, engine
from linnapp.trace.difference import MAX_BLOCKS, MIN_BLOCKS, resampled_means

_RESAMPLES = 2000


@dataclasses.dataclass(frozen=True)
class MeanComparison:
    """By the array's expected mean latency."""

    reads: int
    #: `new_mean_us`, `active_mean_us`: see :func:`~linnapp.learn.network.bias.expected_mean_us`.
    #: Without an active model, that of admitting every read.
    new_mean_us: float
    active_mean_us: float
    #: Where the 95 % interval begins of what the new one gains; None with too few reads for blocks.
    gain_low_us: float | None

    @property
    def new_is_better(self) -> bool:
        """Lower by more than chance: whether the new model shall replace the active one."""
        return self.gain_low_us is not None and self.gain_low_us > 0

    def __str__(self) -> str:
        return (
            f"with the newest {self.reads} reads, which it was not trained on, the array's mean "
            f"latency would be {self.new_mean_us:.1f} us, with what is active "
            f"{self.active_mean_us:.1f} us, {'beyond' if self.new_is_better else 'within'} chance"
        )


@dataclasses.dataclass(frozen=True)
class PredictionComparison:
    """By how far predictions are off: half the mean gamma deviance, which training makes small."""

    reads: int
    new_deviance: float
    active_deviance: float
    #: The upper end of the 95 % interval of their difference, by blocks of consecutive reads; None
    #: with too few reads for blocks.
    change_high: float | None

    @property
    def new_is_better(self) -> bool:
        """Lower by more than chance; else models that are as good would replace each other."""
        return self.change_high is not None and self.change_high < 0

    def __str__(self) -> str:
        return (
            f"for the newest {self.reads} reads, which it was not trained on, its predictions' "
            f"deviance is {self.new_deviance:.3f}, the active model's {self.active_deviance:.3f}, "
            f"{'beyond' if self.new_is_better else 'within'} chance"
        )


Comparison = MeanComparison | PredictionComparison


def compare(
    trace: AnyPath,
    new: Model | LatencyModel,
    active: Model | LatencyModel | None,
    recipe: Recipe,
    replicas: int,
) -> Comparison:
    """Judge two models by the test slice of a recording, which the new one was trained on."""
    if isinstance(new, LatencyModel) and isinstance(active, LatencyModel):
        return _by_prediction(trace, new, active, recipe)

    by_new = _refusals(trace, new, recipe, replicas, own=True)
    if active is None:
        by_active = dataclasses.replace(by_new, level=np.zeros_like(by_new.level))
    else:
        by_active = _refusals(trace, active, recipe, replicas, own=False)
    resampled_us = [
        resampled_means_us(blocks, recipe.labelling.failover_us, replicas)[:, 1]
        for blocks in (by_new.blocks(), by_active.blocks())
        if len(blocks)
    ]
    return MeanComparison(
        len(by_new.latency_us),
        float(by_new.means_us()[1]),
        float(by_active.means_us()[1]),
        lowest_gain_us(resampled_us[1] - resampled_us[0]) if len(resampled_us) == 2 else None,
    )


def _refusals(
    trace: AnyPath, model: Model | LatencyModel, recipe: Recipe, replicas: int, *, own: bool
) -> Refusals:
    """What a model refuses of the newest reads."""
    latency_us, revoked, pages = _verdicts(trace, model, recipe, own=own)
    failover_us = recipe.labelling.failover_us
    return Refusals(latency_us, pages, revoked.astype(np.int64), 1, failover_us, replicas)


def _verdicts(
    trace: AnyPath, model: Model | LatencyModel, recipe: Recipe, *, own: bool
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_], npt.NDArray[Any]]:
    """Of the newest reads latency, whether the model refuses them, and size."""
    if isinstance(model, LatencyModel):
        newest, predicted_us = predict_newest(model, trace, recipe, own=own)
        return newest.latency_us, predicted_us > model.refuse_us, newest.pages
    reads = load_reads(trace, **recipe.reader)
    rows = split(len(reads), recipe.training).test
    return reads.latency_us[rows], engine.predict(model, reads.digits(rows)), reads.pages[rows]


def _by_prediction(
    trace: AnyPath, new: LatencyModel, active: LatencyModel, recipe: Recipe
) -> PredictionComparison:
    newest, predicted_us = predict_newest(new, trace, recipe, own=True)
    _, active_us = predict_newest(active, trace, recipe, own=False)
    of_new, of_active = (deviances(us, newest.latency_us) for us in (predicted_us, active_us))
    n = len(newest)
    high: float | None = None
    if n >= MIN_BLOCKS:
        block = np.arange(n) * MAX_BLOCKS // n
        columns = [np.bincount(block, weights) for weights in (np.ones(n), of_new, of_active)]
        blocks = np.stack(columns, axis=1).astype(np.float64)
        means = resampled_means(blocks[blocks[:, 0] > 0], recipe.training.seed, _RESAMPLES)
        high = float(np.percentile(means[:, 0] - means[:, 1], 97.5))
    return PredictionComparison(n, float(of_new.mean()), float(of_active.mean()), high)
