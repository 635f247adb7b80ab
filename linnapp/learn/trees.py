# SPDX-License-Identifier: MIT
"""Train a latency model from one drive's trace.

The method is gradient boosting (Friedman, Annals of Statistics 29, 2001) with gamma deviance: it
estimates, as a logarithm, the mean latency of reads that cannot be distinguished, so that slow
reads have weight and fast reads are still distinguished. :mod:`linnapp.learn.booster` grows
the trees.

Models are validated on later reads than those that they were trained on. Trees of the training
slice show on the validation slice whether they predict reads better than a constant would, and
above which prediction a read should be refused. Trees of both slices show on the test slice which
accuracy to expect. The final trees are then grown from all reads, because the most recent reads are
most similar to future ones.

A few more trees are trained on synthetic bursts that are added to the recording
(:mod:`linnapp.learn.examples`). They predict by which factor a read takes longer than the other
trees predict. For recorded reads this factor is one, so these trees have no effect without a burst.

If a recording is too short to distinguish its reads, or its trees have no benefit, the model is the
prior (:mod:`linnapp.learn.prior`) times a few trees that correct its errors. If the prior has
no benefit either, or must not be used, there is no model.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import stats
from linnapp.errors import NoGainError, TraceError
from linnapp.learn import prior
from linnapp.learn.booster import BLOCK_ROWS, MIN_LEAF_READS, grow
from linnapp.learn.examples import (
    BURST_WEIGHT,
    BurstReads,
    Reads,
    load_reads,
    sample_slow_reads,
    whole_us,
)
from linnapp.learn.judge import REMEDY, Confusion, ScoredReads, area_under_roc
from linnapp.learn.labels import InflectionPoint
from linnapp.learn.options import Observer, Recipe
from linnapp.model.engine import predict_hinted_us, predict_us, recent_mean_us
from linnapp.model.file import (
    CAP,
    FEATURES,
    NEVER,
    PLACE,
    LatencyModel,
)
from linnapp.native import HISTORY
from linnapp.trace.blktrace import TraceStats
from linnapp.trace.reads import Recorded, open_recording
from linnapp.trace.rows import Split, split

#: 128 steps per prediction. More trees, deeper trees, or several times as much of both did not rank
#: later reads better (docs/latency-model.md). Selecting the number of trees on the validation slice
#: did not help either, because the slice is small and differs from later reads.
N_TREES = 32

#: Number of trees that correct the prior for a drive, and the number of reads to which the prior's
#: weight corresponds. With the prior's trees, the total equals that of a drive's own model.
N_SHRUNK_TREES = 8
SHRUNK_LEARNING_RATE = 0.2
PRIOR_IS_WORTH = 100

#: Learning rate: the share of the remaining error that each tree corrects.
LEARNING_RATE = 0.15

#: Number of trees that are trained on synthetic bursts. It is smaller, because there is less to
#: distinguish, but the trees must predict factors of up to a hundred.
N_BURST_TREES = 8
BURST_LEARNING_RATE = 0.35

#: With fewer reads in the training slice, no trees are trained to distinguish them.
MIN_READS = 1000

#: Blocks of time in which trees are judged if the validation slice of a short recording speaks
#: against them; see :func:`_worse_in_blocks`.
N_BLOCKS = 5

#: Longer traces are thinned to every second, third, ... read, because trees of this size do not
#: learn more from more reads.
MAX_READS = 2_000_000

#: In every n-th training row the location of the read is unknown, because a query may not contain
#: it.
UNPLACED_EVERY = 10

#: Every n-th training row is changed as if its drive had been read more often, up to REPACED_MOST
#: times as often. Choosing among replicas has this effect on a drive, and in a closed loop a drive
#: is slow when reads to the other drives are rare.
REPACED_EVERY = 10
REPACED_MOST = 256

#: A read is overdue if it takes longer than this percentage of all reads.
OVERDUE_PERCENTILE = 90

#: The decisions that each slice of a trace makes, as in
#: :data:`linnapp.learn.fit.DECIDED_BY`. Results on the test slice are those of trees
#: that were trained without it.
DECIDED_BY = {
    "training": ["prediction", "threshold_us", "overdue_us", "trees"],
    "validation": ["prediction", "refuse_us", "trees"],
    "test": ["trees"],
}


@dataclasses.dataclass(frozen=True)
class Lesson:
    """Training data for trees."""

    #: Every `step`-th read of a recording.
    reads: Reads
    step: int
    #: Reads in synthetic bursts that were added to the recording.
    bursts: BurstReads
    #: Model that provides all fields other than trees, such as thresholds.
    like: LatencyModel
    seed: int
    #: True if the reads only correct the prior, see :meth:`_shrunk`.
    of_prior: bool = False

    def grown(self, n_reads: int | None = None) -> tuple[LatencyModel, float]:
        """Grow trees from the first `n_reads` reads, or all, like :func:`grow_from_reads`."""
        n_reads = len(self.reads) if n_reads is None else n_reads
        recorded = self.reads.take(slice(0, n_reads))
        if self.of_prior:
            return self._shrunk(recorded)
        added = self.bursts.before(n_reads * self.step)
        slowed_us = np.maximum(added.latency_us, 1).astype(np.float64)
        calm, drift = grow_from_reads(
            (recorded.features,), np.maximum(recorded.latency_us, 1), self.like, self.seed,
            n_trees=N_TREES, learning_rate=LEARNING_RATE,
        )  # fmt: skip
        ratios = slowed_us / predict_us(calm, added.inputs)
        if len(recorded) + len(added) < 2 * MIN_LEAF_READS or not len(added):
            return calm, drift
        bursts, burst_drift = grow_from_reads(
            (recorded.features, added.inputs),
            np.concatenate((np.ones(len(recorded)), ratios)),
            self.like,
            self.seed,
            n_trees=N_BURST_TREES,
            learning_rate=BURST_LEARNING_RATE,
            weights=np.repeat(
                (1.0, BURST_WEIGHT * len(recorded) / len(added)),
                (len(recorded), len(added)),
            ),
        )
        return calm.times(bursts), drift + burst_drift

    def known(self, recorded: Reads) -> LatencyModel:
        """Return the prior in the unit of these reads, which is all that it uses of them."""
        unit_us = prior.median_us(recorded.latency_us, recorded.pages)
        return self.like.without_trees().times(prior.of_drive(prior.shipped(), unit_us))

    def _shrunk(self, recorded: Reads) -> tuple[LatencyModel, float]:
        """Return the prior times trees that correct it: fewer reads give a smaller correction."""
        known, n = self.known(recorded), len(recorded)
        ratios = np.maximum(recorded.latency_us, 1) / predict_us(known, recorded.features)
        own, drift = grow_from_reads(
            (recorded.features, recorded.features),
            np.concatenate((ratios, np.ones(n))),
            self.like,
            self.seed,
            n_trees=N_SHRUNK_TREES,
            learning_rate=SHRUNK_LEARNING_RATE,
            weights=np.repeat((1.0, PRIOR_IS_WORTH / n), (n, n)),
        )
        return known.times(own), drift


def train_latency(
    trace: Recorded, point: InflectionPoint, recipe: Recipe, observer: Observer
) -> tuple[LatencyModel, dict[str, Any], TraceStats]:
    """Train one drive's latency model.

    Return it with its part of the training record and the counts of the trace. Trees are trained
    within seconds, so the observer receives no progress.
    """
    overdue_us, step, per_s = _overdue_us(trace, recipe)
    reads = load_reads(trace, overdue_us=overdue_us, step=step, **recipe.reader)
    parts = split(len(reads), recipe.training)
    judged = reads.take(parts.validation)
    simple = LatencyModel.mean_of_last(point.threshold_us, NEVER, overdue_us)
    lesson = _lesson(trace, reads, step, simple, recipe)
    n_training = len(reads.latency_us[parts.training])
    remedy = _how_long(per_s, recipe) if n_training < MIN_READS else REMEDY
    lesson, chosen, tried, why = _tried(lesson, parts, remedy, with_prior=recipe.prior)
    if n_training >= MIN_READS:
        refuse_us = _refuse_us(chosen, reads.take(parts.training), judged, recipe, point)
        chosen = dataclasses.replace(chosen, refuse_us=refuse_us)
        lesson = dataclasses.replace(lesson, like=chosen)
    # Predictions of later reads only: each slice is predicted by trees that were trained without
    # it.
    expected, _ = lesson.grown(parts.validation.stop)
    model, drift = lesson.grown()
    results = {
        "kind": "latency",
        "prediction": "the prior" if lesson.of_prior else "trees",
        "why_no_trees": why or None,
        "n_trees": model.n_trees,
        "remedy": remedy if lesson.of_prior else None,
        "prior": prior.shipped().model_id if lesson.of_prior else None,
        "overdue_us": overdue_us,
        "refuse_us": None if model.refuse_us == NEVER else model.refuse_us,
        **_of_test(expected, simple, reads, parts),
        "validation_quality": {
            **{name: quality.to_json() if quality else None for name, quality in tried.items()},
            "one number": _one_number(reads, parts).to_json(),
            "mean of the last latencies": Quality.of(simple, judged).to_json(),
        },
        "decided_by": DECIDED_BY,
        "quantisation": {"largest_difference_log2": drift},
        "reads": len(reads),
        **{f"{name}_reads": len(reads.latency_us[rows]) for name, rows in vars(parts).items()},
        "options": {
            "seed": recipe.training.seed,
            "validation_share": recipe.training.validation_share,
            "test_share": recipe.training.test_share,
            "max_refused": recipe.refused_limit,
        },
        "interrupted": False,
    }
    return model, results, reads.stats


def _lesson(trace: Recorded, reads: Reads, step: int, like: LatencyModel, recipe: Recipe) -> Lesson:
    seed = recipe.training.seed
    n_reads = len(reads) * step
    bursts = sample_slow_reads(trace, n_reads, like.overdue_us, seed, **recipe.reader)
    return Lesson(reads, step, bursts, like, seed)


def _tried(
    lesson: Lesson, parts: Split, remedy: str, *, with_prior: bool
) -> tuple[Lesson, LatencyModel, dict[str, Quality | None], str]:
    """Choose the training data, and train on the training slice.

    Trees are grown from the recorded reads if there are enough of them and if this improves
    predictions of the validation slice compared with a constant. If that slice is short, trees that
    improve predictions of blocks of time of the whole recording are sufficient. The mean of the
    last latencies may also distinguish reads, but this is no reason against trees. The prior, if
    permitted, is evaluated on the validation slice. The recorded reads were not used to train it,
    so for a short recording the training slice is also used to evaluate it. In this case the prior
    is used unless it is significantly worse than a constant, because it contains knowledge that so
    few reads cannot show.

    Return the training data, the model that was trained on the training slice, the quality of each
    kind of model or None if it was not tried, and why there are no trees of the drive's own reads,
    or an empty string. If neither is better than a constant, NoGainError ends with the remedy.
    """
    n_training, few = parts.training.stop, parts.training.stop < MIN_READS
    judged = lesson.reads.take(slice(0, parts.validation.stop) if few else parts.validation)
    one_number = _one_number(lesson.reads, parts)
    tried: dict[str, Quality | None] = {"trees": None, "the prior": None}
    if few:
        why = (
            f"{n_training} reads to train on are too few to tell them apart: {MIN_READS} are needed"
        )
    else:
        trees, _ = lesson.grown(n_training)
        own = tried["trees"] = Quality.of(trees, judged)
        why = own.worse_than(one_number)
        if why and len(judged) < MIN_READS and not _worse_in_blocks(lesson, parts.validation.stop):
            why = ""
        if not why:
            return lesson, trees, tried, why
    if with_prior:
        of_prior = dataclasses.replace(lesson, of_prior=True)
        shrunk, _ = of_prior.grown(n_training)
        known = of_prior.known(lesson.reads.take(parts.training)) if few else shrunk
        tried["the prior"] = quality = Quality.of(known, judged)
        worse = _worse_by_more_than_chance(known, judged) if few else quality.worse_than(one_number)
        if not worse:
            return of_prior, shrunk, tried, why
    raise NoGainError(f"{why}; {remedy}")


def _worse_in_blocks(lesson: Lesson, n_reads: int) -> str:
    """Return why trees predict the first `n_reads` reads no better than a constant, or "".

    Each block of time is predicted by trees, and by a mean, of the other blocks. The validation
    slice of a short recording can be a single burst, which says little about other reads.
    """
    reads = lesson.reads.take(slice(0, n_reads))
    block = np.arange(n_reads) * N_BLOCKS // n_reads
    by_trees_us, by_mean_us = np.empty((2, n_reads), np.uint32)
    for k in range(N_BLOCKS):
        here, others = block == k, reads.take(block != k)
        latency_us = np.maximum(others.latency_us, 1)
        trees, _ = grow_from_reads(
            (others.features,), latency_us, lesson.like, lesson.seed,
            n_trees=N_TREES, learning_rate=LEARNING_RATE,
        )  # fmt: skip
        by_trees_us[here] = predict_us(trees, reads.features[here])
        by_mean_us[here] = round(float(latency_us.mean()))
    trees_quality, mean_quality = (
        Quality.of_predicted(us, reads, lesson.like.threshold_us)
        for us in (by_trees_us, by_mean_us)
    )
    return trees_quality.worse_than(mean_quality)


def _worse_by_more_than_chance(model: LatencyModel, reads: Reads) -> bool:
    """Return true if the mean of the reads predicts them significantly better than the model.

    If there are too few blocks of time for a test, the result is false.
    """
    blocks = stats.block_numbers(reads.arrival_ns)
    if blocks is None:
        return False
    mean_us = max(1.0, float(reads.latency_us.mean()))
    predicted_us = predict_us(model, reads.features)
    worse = deviances(predicted_us, reads.latency_us) - deviances(mean_us, reads.latency_us)
    return stats.paired_p_value(stats.block_sums(blocks, worse)[:, 0]) <= (1 - stats.LEVEL) / 2


def _one_number(reads: Reads, parts: Split) -> Quality:
    """Return the quality of the training reads' mean as a prediction of the validation reads."""
    mean_us = max(1, round(float(reads.latency_us[parts.training].mean())))
    judged = reads.take(parts.validation)
    return Quality.of_predicted(np.full(len(judged), mean_us, np.uint32), judged, mean_us)


def predict_newest(
    model: LatencyModel, trace: Recorded, recipe: Recipe, *, own: bool
) -> tuple[Reads, npt.NDArray[np.uint32]]:
    """Predict the test slice of a recording, in us, with trees that were trained without it.

    If :func:`train_latency` made the model from this recording (`own`), its trees were trained on
    all reads. In this case the trees are grown again from the reads before the test slice. Return
    the reads of the slice and the predictions.
    """
    trace, recipe = recipe.opened(trace)
    _, step, _ = _overdue_us(trace, recipe)
    reads = load_reads(trace, overdue_us=model.overdue_us, step=step, **recipe.reader)
    parts = split(len(reads), recipe.training)
    if own:
        simple = LatencyModel.mean_of_last(model.threshold_us, NEVER, model.overdue_us)
        lesson = _lesson(trace, reads, step, simple, recipe)
        lesson = dataclasses.replace(lesson, like=model, of_prior=prior.is_of_prior(model))
        model, _ = lesson.grown(parts.validation.stop)
    newest = reads.take(parts.test)
    return newest, predict_us(model, newest.features)


def _overdue_us(trace: Recorded, recipe: Recipe) -> tuple[int, int, float]:
    """Return the overdue time in us, the step between reads that are used, and reads per second."""
    found, ends_ns = [np.empty(0, np.uint32)], [np.empty(0, np.uint64)]
    for chunk in open_recording(trace, **recipe.reader):
        served = chunk.is_served_read
        found.append(whole_us(chunk.latency_ns[served]))
        ends_ns.append(chunk.arrival_ns[served][[0, -1]] if served.any() else ends_ns[0])
    latency_us, arrivals_ns = np.concatenate(found), np.concatenate(ends_ns)
    step = max(1, -(-len(latency_us) // MAX_READS))
    kept = latency_us[::step]
    taught = kept[split(len(kept), recipe.training).training]
    if not len(taught):
        raise TraceError(
            f"{trace}: {len(latency_us)} completed reads are too few to train on and to judge by; "
            "record more"
        )
    overdue_us = int(np.percentile(taught, OVERDUE_PERCENTILE))
    span_s = float(arrivals_ns.max() - arrivals_ns.min()) / 1e9
    return min(max(overdue_us, 1), CAP), step, len(latency_us) / span_s if span_s else 0.0


def _how_long(per_s: float, recipe: Recipe) -> str:
    """Return advice on how long to record so that there are enough reads for trees."""
    share = 1 - recipe.training.validation_share - recipe.training.test_share
    reads = math.ceil(MIN_READS / share) + 1
    if not per_s:
        return f"record {reads} reads"
    seconds = math.ceil(1.05 * reads / per_s)  # 5 % more than necessary.
    long = f"{seconds} s" if seconds <= 120 else f"{math.ceil(seconds / 60)} minutes"
    rate = f"{per_s:.0f}" if per_s >= 10 else f"{per_s:.2g}"
    return f"record for {long}, which at this recording's {rate} reads a second are enough"


@dataclasses.dataclass(frozen=True)
class Quality:
    """Quality of predictions."""

    #: Half of the mean gamma deviance of the latencies, which training minimises.
    deviance: float
    #: Mean absolute difference of the base-2 logarithms of prediction and latency.
    mean_abs_log2_error: float
    #: Area under the ROC curve of the prediction, for slow reads. None if all are slow or all are
    #: fast.
    auc: float | None

    @classmethod
    def of(cls, model: LatencyModel, reads: Reads) -> Quality:
        """Evaluate a model."""
        return cls.of_predicted(predict_us(model, reads.features), reads, model.threshold_us)

    @classmethod
    def of_predicted(
        cls, predicted_us: npt.NDArray[np.uint32], reads: Reads, threshold_us: int
    ) -> Quality:
        """Evaluate predictions. A read is slow if it takes longer than `threshold_us`."""
        return cls(
            float(np.mean(deviances(predicted_us, reads.latency_us))),
            mean_abs_log2_error(predicted_us, reads.latency_us),
            area_under_roc(predicted_us, reads.latency_us > threshold_us),
        )

    def worse_than(self, one_number: Quality) -> str:
        """Return why trees are no better than a constant, or an empty string if they are."""
        if self.deviance >= one_number.deviance:
            return (
                "trees predict the validation slice no better than one number for all reads: "
                f"deviance {self.deviance:.3f}, not below {one_number.deviance:.3f}"
            )
        if self.auc is not None and self.auc <= 0.5:
            return (
                "trees rank the validation slice no better than chance: "
                f"area under ROC {self.auc:.3f}"
            )
        return ""

    def to_json(self) -> dict[str, float | None]:
        """Return all metrics by name."""
        return dataclasses.asdict(self)


def deviances(
    predicted_us: npt.NDArray[Any] | float, latency_us: npt.NDArray[Any]
) -> npt.NDArray[np.float64]:
    """Return half of the gamma deviance of each read. Latencies are at least 1 us."""
    ratio = np.maximum(latency_us, 1) / predicted_us
    return np.asarray(ratio - np.log(ratio) - 1)


def mean_abs_log2_error(predicted_us: npt.NDArray[Any], latency_us: npt.NDArray[Any]) -> float:
    """Return the mean absolute error of the base-2 logarithm. Latencies are at least 1 us."""
    return float(np.mean(np.abs(np.log2(np.maximum(latency_us, 1) / predicted_us))))


def grow_from_reads(
    parts: Sequence[npt.NDArray[np.uint32]],
    targets: npt.NDArray[Any],
    like: LatencyModel,
    seed: int,
    *,
    n_trees: int,
    learning_rate: float,
    weights: npt.NDArray[np.float64] | None = None,
) -> tuple[LatencyModel, float]:
    """Grow trees by :func:`~linnapp.learn.booster.grow` from reads of which some are changed.

    The features of the reads are in one or more arrays. The location of some reads is made unknown,
    and some histories are made as if the drive had been read more often.
    """

    def changed() -> Iterator[npt.NDArray[np.uint32]]:
        rng = np.random.default_rng(seed)
        for block in _blocks(parts):
            block[::UNPLACED_EVERY, PLACE] = CAP
            _repace(block[REPACED_EVERY // 2 :: REPACED_EVERY], rng)
            yield block

    return grow(
        changed, targets, like, n_trees=n_trees, learning_rate=learning_rate, weights=weights
    )


def _blocks(parts: Sequence[npt.NDArray[np.uint32]]) -> Iterator[npt.NDArray[np.uint32]]:
    """Return copies of the rows of all parts, in blocks of `BLOCK_ROWS` rows."""
    rest = parts[0][:0]
    for part in parts:
        for start in range(0, len(part), BLOCK_ROWS):
            rest = np.concatenate((rest, part[start : start + BLOCK_ROWS]))
            if len(rest) >= BLOCK_ROWS:
                yield rest[:BLOCK_ROWS]
                rest = rest[BLOCK_ROWS:]
    if len(rest):
        yield rest


def _repace(features: npt.NDArray[np.uint32], rng: np.random.Generator) -> None:
    """Divide the ages of past reads by a random factor, as if reads had arrived more often."""
    times_as_often = REPACED_MOST ** rng.random(len(features))
    for past in range(1, HISTORY + 1):
        age_us = features[:, FEATURES.index(f"age_us_{past}")]
        age_us[:] = np.where(age_us < CAP, age_us.astype(np.float32) // times_as_often, CAP)


def _refuse_us(
    model: LatencyModel,
    taught: Reads,
    judged: Reads,
    recipe: Recipe,
    point: InflectionPoint,
) -> int:
    """Return the prediction above which refusing reads gives the array the lowest mean latency."""
    scored, later = (
        ScoredReads(
            predict_hinted_us(model, reads.features),
            reads.latency_us,
            reads.pages,
            model.threshold_us,
            recipe.labelling.failover_us,
            point.replicas,
        )
        for reads in (taught, judged)
    )
    best = later.best_threshold(
        max(reads.min_threshold(recipe.refused_limit) for reads in (scored, later))
    )
    return NEVER if best is None else best


def _of_test(
    model: LatencyModel, simple: LatencyModel, reads: Reads, parts: Split
) -> dict[str, Any]:
    """Return metrics on the test slice, which contributed to no decision."""
    test = reads.take(parts.test)
    slow = test.latency_us > model.threshold_us
    refused = predict_hinted_us(model, test.features) > model.refuse_us
    confusion = Confusion.of(slow, refused)
    quality, simple_quality = Quality.of(model, test), Quality.of(simple, test)
    fast = confusion.true_fast + confusion.false_revoke
    return {
        "accuracy": confusion.accuracy,
        # A failover would not have avoided all of these, so they are not called false submits.
        "slow_admitted_ratio": confusion.false_submit_ratio,
        "false_revoke_ratio": confusion.false_revoke_ratio,
        "false_revoke_share": confusion.false_revoke / fast if fast else None,
        "slow_recall": confusion.slow_recall,
        "test": confusion.to_json(),
        "auc": quality.auc,
        "auc_last_latencies": area_under_roc(recent_mean_us(test.features), slow),
        "auc_pending": area_under_roc(test.pending, slow),
        "mean_abs_log2_error": quality.mean_abs_log2_error,
        "mean_abs_log2_error_last_latencies": simple_quality.mean_abs_log2_error,
    }
