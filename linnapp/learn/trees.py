# SPDX-License-Identifier: MIT
"""Train a latency model from one drive's trace.

The method is gradient boosting (Friedman, Annals of Statistics 29, 2001) with gamma deviance. The
trees estimate the logarithm of the mean latency of reads with similar features. A mean gives weight
to the few slow reads, and a logarithm still distinguishes fast reads from each other.
Compiled code grows the trees (linnapp/native/boost.c).

Trees are grown three times, each time from more reads:

1. Trees of the training slice predict the validation slice. The result decides whether trees are
   better than a constant, and which predictions are so high that a read should be refused.
2. Trees of both slices predict the test slice. The result is the accuracy to expect.
3. The trees of the model are grown from all reads, because future reads are most similar to the
   most recent ones.

A few more trees are trained on synthetic bursts that are added to the recording
(:mod:`linnapp.learn.examples`). They predict the factor by which a read takes longer than the other
trees predict. This factor is one for recorded reads, so these trees have no effect without a burst.

If a recording has too few reads for trees, or its trees have no benefit, the model is the prior
times a few trees that correct its errors. If the prior has no benefit either, or is not permitted,
there is no model. The prior describes a drive before its own reads are sufficient for training. It
consists of trees that were trained on many emulated drives (``eval/prior.py``), whose times were
scaled so that the median read of each took :data:`PRIOR_UNIT_US`. A few tens of reads suffice to
estimate the median of another drive. The time thresholds and predictions of the prior are
multiplied by this median, which gives a model of that drive.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import stats
from linnapp.engine import leaves_of, predict_hinted_us, predict_us, recent_mean_us
from linnapp.errors import NoGainError, TraceError
from linnapp.files import shipped_folder
from linnapp.learn.examples import (
    BURST_WEIGHT,
    BurstReads,
    Reads,
    Split,
    load_reads,
    sample_slow_reads,
    split,
    whole_us,
)
from linnapp.learn.judge import REMEDY, Judge, ScoredReads, area_under_roc, score_reads
from linnapp.learn.labels import InflectionPoint
from linnapp.learn.options import Observer, Recipe
from linnapp.model import (
    CAP,
    FEATURES,
    FRACTION_BITS,
    LEAF_LIMIT,
    N_FEATURES,
    N_LEAVES,
    N_SPLITS,
    NEVER,
    NO_SPLIT,
    PLACE,
    LatencyModel,
)
from linnapp.native import HISTORY, native
from linnapp.trace.blktrace import TraceStats
from linnapp.trace.reads import Recorded, open_recording

#: Number of trees of recorded reads. With four splits in each tree, a prediction takes 128 steps.
#: More or deeper trees did not rank later reads better (docs/latency-model.md). It did not help
#: either to select the number on the validation slice, which is small and differs from later reads.
N_TREES = 32

#: Learning rate: the share of the remaining error that each tree corrects.
LEARNING_RATE = 0.15

#: Number of trees that correct the prior for a drive. The prior and these trees together have as
#: many trees as a drive's own model.
N_CORRECTION_TREES = 8
CORRECTION_LEARNING_RATE = 0.2

#: Weight of the prior, as a number of reads that it predicts correctly.
PRIOR_WEIGHT_READS = 100

#: Number of trees that are trained on synthetic bursts. Few trees suffice to recognise a burst, but
#: they need a high learning rate, because they predict factors of up to a hundred.
N_BURST_TREES = 8
BURST_LEARNING_RATE = 0.35

#: Minimum number of reads in the training slice from which trees are grown.
MIN_READS = 1000

#: Number of blocks of time for cross-validation, see :func:`_cross_validate`.
N_BLOCKS = 5

#: Longer traces are thinned to every second, third, ... read, because trees of this size do not
#: learn more from more reads.
MAX_READS = 2_000_000

#: In every n-th training row, the location of the read is set to unknown, because md and programs
#: can ask for a prediction without a location.
UNPLACED_EVERY = 10

#: Every n-th training row is changed as if its drive had been read more often, by a factor of up to
#: `REPACED_MOST`. A drive is read more often when the other replicas are avoided. In a closed loop,
#: a drive is slow when reads to the other drives are rare.
REPACED_EVERY = 10
REPACED_MOST = 256

#: Number of rows that are changed and binned at a time, so that they stay in the cache. It is a
#: multiple of `UNPLACED_EVERY` and of `REPACED_EVERY`.
BLOCK_ROWS = 10_000

#: A read is overdue if it takes longer than this percentage of all reads.
OVERDUE_PERCENTILE = 90

#: The decisions to which each slice of a trace contributes, as in
#: :data:`linnapp.learn.fit.DECIDED_BY`. The final trees are grown from all slices, but the results
#: on the test slice are those of trees that were trained without it.
DECIDED_BY = {
    "training": ["prediction", "threshold_us", "overdue_us", "trees"],
    "validation": ["prediction", "refuse_us", "trees"],
    "test": ["trees"],
}


#: Maximum factor by which a tree divides a prediction. Without it, one read of 30 s that increases
#: the mean of thousands of reads would make the first tree predict far less than 1 us for the other
#: reads, because a Newton step has no limit. Without such a read, trees divide by less than five.
LARGEST_STEP = 16.0

#: Minimum number of reads in a leaf.
MIN_LEAF_READS = 50

#: Maximum number of bins of a feature, and the number of rows from which they are computed.
N_BINS = 255
#: Factor of the feature in the number of a split, in linnapp/native/boost.c.
_STRIDE = 256
SAMPLE_ROWS = 200_000

#: A function that returns all rows of the features, block by block.
Blocks = Callable[[], Iterable[npt.NDArray[np.uint32]]]


def grow(
    blocks: Blocks,
    targets: npt.NDArray[Any],
    template: LatencyModel,
    *,
    n_trees: int,
    learning_rate: float,
    weights: npt.NDArray[np.float64] | None = None,
) -> tuple[LatencyModel, float]:
    """Grow trees that estimate the mean of the targets of rows with similar features.

    Parameters
    ----------
    blocks : callable
        Returns the features of all rows in blocks, which are uint32 arrays of shape (rows,
        N_FEATURES), so that they need not be in memory at once. It is called several times.
    targets : array, shape (n,)
        Positive values, such as latencies or their ratios to a prediction.
    template : LatencyModel
        Provides all fields other than trees: thresholds, and the number of features to use.
    n_trees : int
    learning_rate : float
        Share of the remaining error that each tree corrects.
    weights : float array, shape (n,), optional

    Returns
    -------
    LatencyModel
    float
        Largest rounding error of the base-2 logarithm of a prediction, in a sample of the rows.
    """
    targets = np.ascontiguousarray(targets, np.float64)
    mean = float(np.average(targets, weights=weights))
    bins, cuts = _binned(blocks, len(targets), template.n_features, weights)
    scores = np.full(len(targets), math.log(mean))
    splits = np.empty((n_trees, N_SPLITS), np.int32)
    leaves = np.empty((n_trees, N_LEAVES), np.int16)
    library = native()
    options = library.new(
        "lb_options",
        n_rows=len(bins),
        n_features=template.n_features,
        n_trees=n_trees,
        min_leaf=MIN_LEAF_READS,
        learning_rate=learning_rate,
        max_step=math.log(LARGEST_STEP),
    )
    arrays = [bins, targets, weights, scores, splits, leaves]
    addresses = [library.address(array) for array in arrays]
    if not library.lib.lb_boost(options, *addresses):
        raise MemoryError
    place, at = np.divmod(splits, _STRIDE)
    # One model takes features, the other one takes the numbers of their bins.
    model, of_bins = (
        dataclasses.replace(
            template,
            splits=np.where(
                splits < 0, np.uint32(NO_SPLIT), place.astype(np.uint32) << 24 | limits
            ),
            leaves=leaves,
            base=min(round(math.log2(mean) * (1 << FRACTION_BITS)), LEAF_LIMIT - 1),
        )
        for limits in (cuts[place, at], at)
    )
    step = max(1, len(targets) // 10_000)
    total = model.base + leaves_of(of_bins, bins[::step]).sum(axis=1, dtype=np.int64)
    drift = np.abs(total / (1 << FRACTION_BITS) - scores[::step] / math.log(2)).max()
    return model, float(drift)


def _binned(
    blocks: Blocks, n_rows: int, n_features: int, weights: npt.NDArray[np.float64] | None
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint32]]:
    """Return the bin of each value, shape (n_rows, N_FEATURES), and the highest value of each bin.

    If a feature has more than `N_BINS` values, its bins have about equal weights. Otherwise each
    value has its own bin, and the limit between two bins is halfway between their values. Features
    after the first `n_features` have only one bin.
    """
    bins = np.empty((n_rows, N_FEATURES), np.uint8)
    cuts = np.full((N_FEATURES, _STRIDE), CAP, np.uint32)
    step = -(-n_rows // SAMPLE_ROWS)
    sample, n = [], 0
    for block in blocks():
        sample.append(block[-n % step :: step, :n_features].copy())
        n += len(block)
    for k, column in enumerate(np.ascontiguousarray(np.concatenate(sample).T)):
        values, counts = np.unique(column, return_counts=True)
        if len(values) > N_BINS:
            if weights is not None:
                counts = np.bincount(np.searchsorted(values, column), weights[::step])
            up_to = np.cumsum(counts)
            wanted = up_to[-1] * np.arange(1, N_BINS) / N_BINS
            limits = values[np.unique(np.searchsorted(up_to, wanted))]
        else:
            limits = values[:-1] + (values[1:] - values[:-1]) // 2
        cuts[k, : len(limits)] = limits
    library, start = native(), 0
    for block in blocks():
        rows = np.ascontiguousarray(block)
        binned = bins[start : start + len(rows)]
        addresses = (library.address(array) for array in (cuts, binned))
        library.lib.lb_bin(library.address(rows), len(rows), *addresses)
        start += len(rows)
    return bins, cuts


#: Folder of the prior that is part of the project.
PRIOR_FOLDER = shipped_folder("prior", "models/prior")
PRIOR_NAME = "prior"

#: Latency of the prior's median read in us. Times in the prior therefore have eight fractional
#: bits, and the longest time is 65,536 times the median.
PRIOR_UNIT_US = 256

#: Maximum size in pages of the reads whose median is used. They form one size class, like those of
#: a history (docs/formats.md).
SMALL_PAGES = 16
#: If there are fewer small reads, the median of all reads is used.
LEAST_SMALL = 20

#: Columns of features that are times.
TIME_FEATURES = tuple(at for at, name in enumerate(FEATURES) if "_us" in name)


def unit_of_drive_us(latency_us: npt.NDArray[Any], pages: npt.NDArray[Any]) -> float:
    """Return a drive's unit of time: the median latency of its small, or of all, reads in us."""
    small = latency_us[pages <= SMALL_PAGES]
    return max(1.0, float(np.median(small if len(small) >= LEAST_SMALL else latency_us)))


def to_prior_units(features: npt.NDArray[np.uint32], unit_us: float) -> npt.NDArray[np.uint32]:
    """Scale features to a median read of `PRIOR_UNIT_US`. "Never" stays unchanged."""
    scaled = features.copy()
    for at in TIME_FEATURES:
        times = np.minimum(features[:, at] * (PRIOR_UNIT_US / unit_us), CAP - 1)
        scaled[:, at] = np.where(features[:, at] < CAP, times, CAP)
    return scaled


def scale_prior(prior: LatencyModel, unit_us: float) -> LatencyModel:
    """Return the prior as a model of a drive whose median read takes `unit_us`."""
    place, limit = prior.splits >> 24, prior.splits & np.uint32(CAP)
    # An integer exceeds a limit if and only if it exceeds the integer part of the limit.
    times = np.minimum(np.floor(limit * (unit_us / PRIOR_UNIT_US)), CAP - 1).astype(np.uint32)
    is_time = np.isin(place, TIME_FEATURES) & (limit < CAP - 1)
    shift = round(math.log2(unit_us / PRIOR_UNIT_US) * (1 << FRACTION_BITS))
    return dataclasses.replace(
        prior,
        splits=(place << 24 | np.where(is_time, times, limit)).astype(np.uint32),
        base=max(-LEAF_LIMIT, min(prior.base + shift, LEAF_LIMIT - 1)),
    )


@functools.cache
def shipped_prior() -> LatencyModel:
    """Load the prior that is part of the project."""
    return LatencyModel.load(PRIOR_FOLDER / f"{PRIOR_NAME}.linnos")


def begins_with_prior(model: LatencyModel) -> bool:
    """Return true if a drive's model begins with the prior in units of that drive."""
    prior = shipped_prior().leaves
    return np.array_equal(model.leaves[: len(prior)], prior)


@dataclasses.dataclass(frozen=True)
class TreeTrainingData:
    """Training data for trees."""

    #: Every `step`-th read of a recording.
    reads: Reads
    step: int
    #: Reads in synthetic bursts that were added to the recording.
    bursts: BurstReads
    #: Model that provides all fields other than trees, such as thresholds.
    template: LatencyModel
    seed: int
    #: True if the model is the prior, and trees of the reads only correct it.
    corrects_prior: bool = False

    def grow_trees(self, n_reads: int | None = None) -> tuple[LatencyModel, float]:
        """Grow trees from the first `n_reads` reads, by default from all; see :func:`grow`."""
        n_reads = len(self.reads) if n_reads is None else n_reads
        recorded = self.reads.take(slice(0, n_reads))
        if self.corrects_prior:
            return self._correct_prior(recorded)
        added = self.bursts.before(n_reads * self.step)
        slowed_us = np.maximum(added.latency_us, 1).astype(np.float64)
        trees, drift = grow_from_reads(
            (recorded.features,), np.maximum(recorded.latency_us, 1), self.template, self.seed,
            n_trees=N_TREES, learning_rate=LEARNING_RATE,
        )  # fmt: skip
        ratios = slowed_us / predict_us(trees, added.inputs)
        if len(recorded) + len(added) < 2 * MIN_LEAF_READS or not len(added):
            return trees, drift
        bursts, burst_drift = grow_from_reads(
            (recorded.features, added.inputs),
            np.concatenate((np.ones(len(recorded)), ratios)),
            self.template,
            self.seed,
            n_trees=N_BURST_TREES,
            learning_rate=BURST_LEARNING_RATE,
            weights=np.repeat(
                (1.0, BURST_WEIGHT * len(recorded) / len(added)), (len(recorded), len(added))
            ),
        )
        return trees.times(bursts), drift + burst_drift

    def scaled_prior(self, recorded: Reads) -> LatencyModel:
        """Return the prior for this drive. Only the median of the recorded reads is used."""
        unit_us = unit_of_drive_us(recorded.latency_us, recorded.pages)
        return self.template.without_trees().times(scale_prior(shipped_prior(), unit_us))

    def _correct_prior(self, recorded: Reads) -> tuple[LatencyModel, float]:
        """Return the prior times trees that correct it. With fewer reads, they correct less."""
        scaled, n = self.scaled_prior(recorded), len(recorded)
        ratios = np.maximum(recorded.latency_us, 1) / predict_us(scaled, recorded.features)
        correction, drift = grow_from_reads(
            (recorded.features, recorded.features),
            np.concatenate((ratios, np.ones(n))),
            self.template,
            self.seed,
            n_trees=N_CORRECTION_TREES,
            learning_rate=CORRECTION_LEARNING_RATE,
            # The second copy of the reads says that the prior is right.
            weights=np.repeat((1.0, PRIOR_WEIGHT_READS / n), (n, n)),
        )
        return scaled.times(correction), drift


def train_latency(
    trace: Recorded, point: InflectionPoint, recipe: Recipe, observer: Observer
) -> tuple[LatencyModel, dict[str, Any], TraceStats]:
    """Train one drive's latency model.

    Return it with its part of the training record and the counts of the trace. Trees are trained
    within seconds, so the observer receives no progress.
    """
    overdue_us, step, per_s = _measure_reads(trace, recipe)
    reads = load_reads(trace, overdue_us=overdue_us, step=step, **recipe.reader)
    parts = split(len(reads), recipe.training)
    validation = reads.take(parts.validation)
    baseline = LatencyModel.mean_of_last(point.threshold_us, NEVER, overdue_us)
    data = _training_data(trace, reads, step, baseline, recipe)
    n_training = len(reads.latency_us[parts.training])
    remedy = _recording_advice(per_s, recipe) if n_training < MIN_READS else REMEDY
    data, candidate, tried, why = _choose_training_data(
        data, parts, remedy, with_prior=recipe.prior
    )
    if n_training >= MIN_READS:
        training = reads.take(parts.training)
        refuse_us = _choose_refuse_us(candidate, training, validation, recipe, point)
        candidate = dataclasses.replace(candidate, refuse_us=refuse_us)
        data = dataclasses.replace(data, template=candidate)
    tested, _ = data.grow_trees(parts.validation.stop)
    model, drift = data.grow_trees()
    results = {
        "kind": "latency",
        "prediction": "the prior" if data.corrects_prior else "trees",
        "why_no_trees": why or None,
        "n_trees": model.n_trees,
        "remedy": remedy if data.corrects_prior else None,
        "prior": shipped_prior().model_id if data.corrects_prior else None,
        "overdue_us": overdue_us,
        "refuse_us": None if model.refuse_us == NEVER else model.refuse_us,
        **_test_results(tested, baseline, reads.take(parts.test)),
        "validation_quality": {
            **{name: quality.to_json() if quality else None for name, quality in tried.items()},
            "one number": _constant_quality(reads, parts).to_json(),
            "mean of the last latencies": Quality.of(baseline, validation).to_json(),
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


def _training_data(
    trace: Recorded, reads: Reads, step: int, template: LatencyModel, recipe: Recipe
) -> TreeTrainingData:
    """Return the training data of a recording, of which every `step`-th read is in `reads`."""
    seed = recipe.training.seed
    n_reads = len(reads) * step
    bursts = sample_slow_reads(trace, n_reads, template.overdue_us, seed, **recipe.reader)
    return TreeTrainingData(reads, step, bursts, template, seed)


def _choose_training_data(
    data: TreeTrainingData, parts: Split, remedy: str, *, with_prior: bool
) -> tuple[TreeTrainingData, LatencyModel, dict[str, Quality | None], str]:
    """Choose between trees of the drive's own reads and the corrected prior.

    The drive's own trees are chosen if there are enough reads, and if the trees predict the
    validation slice better than a constant. If that slice is short, it is sufficient that trees
    pass a cross-validation over blocks of time. The trees need not predict better than the mean of
    the last latencies.

    Otherwise the prior is evaluated, if it is permitted. It was not trained on these reads, so for
    a short recording the training slice is used to evaluate it, too. In this case it is chosen
    unless it is significantly worse than a constant, because it contains knowledge that so few
    reads cannot show.

    Return the data, the chosen model of the training slice, the quality of each kind of model (None
    if it was not tried), and why the model has no trees of the drive's own reads. If no model is
    better than a constant, NoGainError is raised, whose message ends with `remedy`.
    """
    n_training, few = parts.training.stop, parts.training.stop < MIN_READS
    evaluated = data.reads.take(slice(0, parts.validation.stop) if few else parts.validation)
    constant = _constant_quality(data.reads, parts)
    tried: dict[str, Quality | None] = {"trees": None, "the prior": None}
    if few:
        why = (
            f"{n_training} reads to train on are too few for trees, which need at least {MIN_READS}"
        )
    else:
        trees, _ = data.grow_trees(n_training)
        own = tried["trees"] = Quality.of(trees, evaluated)
        why = own.explain_no_gain(constant)
        if why and len(evaluated) < MIN_READS and _cross_validate(data, parts.validation.stop):
            why = ""
        if not why:
            return data, trees, tried, why
    if with_prior:
        data = dataclasses.replace(data, corrects_prior=True)
        corrected, _ = data.grow_trees(n_training)
        # Reads of a short recording that corrected the prior must not evaluate it.
        tested = data.scaled_prior(data.reads.take(parts.training)) if few else corrected
        tried["the prior"] = quality = Quality.of(tested, evaluated)
        if few:
            is_worse = _is_significantly_worse_than_mean(tested, evaluated)
        else:
            is_worse = bool(quality.explain_no_gain(constant))
        if not is_worse:
            return data, corrected, tried, why
    raise NoGainError(f"{why}; {remedy}")


def _cross_validate(data: TreeTrainingData, n_reads: int) -> bool:
    """Return true if trees predict the first `n_reads` reads better than their mean does.

    Each block of time is predicted by trees, and by the mean, of the other blocks. The validation
    slice of a short recording can be a single burst that says little about other reads.
    """
    reads = data.reads.take(slice(0, n_reads))
    block = np.arange(n_reads) * N_BLOCKS // n_reads
    by_trees_us, by_mean_us = np.empty((2, n_reads), np.uint32)
    for k in range(N_BLOCKS):
        here, others = block == k, reads.take(block != k)
        latency_us = np.maximum(others.latency_us, 1)
        trees, _ = grow_from_reads(
            (others.features,), latency_us, data.template, data.seed,
            n_trees=N_TREES, learning_rate=LEARNING_RATE,
        )  # fmt: skip
        by_trees_us[here] = predict_us(trees, reads.features[here])
        by_mean_us[here] = round(float(latency_us.mean()))
    trees_quality, mean_quality = (
        Quality.of_predicted(us, reads, data.template.threshold_us)
        for us in (by_trees_us, by_mean_us)
    )
    return not trees_quality.explain_no_gain(mean_quality)


def _is_significantly_worse_than_mean(model: LatencyModel, reads: Reads) -> bool:
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


def _constant_quality(reads: Reads, parts: Split) -> Quality:
    """Return the quality of the training reads' mean as a prediction of the validation reads."""
    mean_us = max(1, round(float(reads.latency_us[parts.training].mean())))
    validation = reads.take(parts.validation)
    return Quality.of_predicted(np.full(len(validation), mean_us, np.uint32), validation, mean_us)


def hold_out_newest(
    model: LatencyModel, trace: Recorded, recipe: Recipe, *, own: bool
) -> tuple[Reads, LatencyModel]:
    """Return the test slice of a recording, and a model that was trained without it.

    Parameters
    ----------
    model : LatencyModel
    trace : path or IoTable
    recipe : Recipe
        Configuration with which the recording is read and divided into slices.
    own : bool
        True if the model was trained on this recording. Its trees were then grown from all reads,
        so they are grown again from the reads before the test slice.

    Returns
    -------
    Reads
    LatencyModel
    """
    trace, recipe = recipe.opened(trace)
    _, step, _ = _measure_reads(trace, recipe)
    reads = load_reads(trace, overdue_us=model.overdue_us, step=step, **recipe.reader)
    parts = split(len(reads), recipe.training)
    if own:
        data = _training_data(trace, reads, step, model, recipe)
        data = dataclasses.replace(data, corrects_prior=begins_with_prior(model))
        model, _ = data.grow_trees(parts.validation.stop)
    newest = reads.take(parts.test)
    # The table in memory changes its features for each model: see IoTable.features_of_reads().
    return dataclasses.replace(newest, features=newest.features.copy()), model


def _measure_reads(trace: Recorded, recipe: Recipe) -> tuple[int, int, float]:
    """Return the overdue time in us, the step between reads that are used, and reads per second.

    A read is overdue if it is in flight for longer than `OVERDUE_PERCENTILE` of the reads of the
    training slice take.
    """
    found, ends_ns = [np.empty(0, np.uint32)], [np.empty(0, np.uint64)]
    for chunk in open_recording(trace, **recipe.reader):
        served = chunk.is_served_read
        found.append(whole_us(chunk.latency_ns[served]))
        ends_ns.append(chunk.arrival_ns[served][[0, -1]] if served.any() else ends_ns[0])
    latency_us, arrivals_ns = np.concatenate(found), np.concatenate(ends_ns)
    step = max(1, -(-len(latency_us) // MAX_READS))
    kept = latency_us[::step]
    training = kept[split(len(kept), recipe.training).training]
    if not len(training):
        raise TraceError(
            f"{trace}: {len(latency_us)} completed reads are too few to train on and to judge by; "
            "record more"
        )
    overdue_us = int(np.percentile(training, OVERDUE_PERCENTILE))
    span_s = float(arrivals_ns.max() - arrivals_ns.min()) / 1e9
    return min(max(overdue_us, 1), CAP), step, len(latency_us) / span_s if span_s else 0.0


def reads_needed(recipe: Recipe) -> int:
    """Return the minimum number of reads in a recording from which trees are grown."""
    share = 1 - recipe.training.validation_share - recipe.training.test_share
    return math.ceil(MIN_READS / share) + 1


def _recording_advice(per_s: float, recipe: Recipe) -> str:
    """Return advice on how long to record so that there are enough reads for trees."""
    reads = reads_needed(recipe)
    if not per_s:
        return f"record {reads} reads"
    seconds = math.ceil(1.05 * reads / per_s)  # 5 % more than necessary.
    long = f"{seconds} s" if seconds <= 120 else f"{math.ceil(seconds / 60)} minutes"
    rate = f"{per_s:.0f}" if per_s >= 10 else f"{per_s:.2g}"
    return f"record for {long}, which is enough at {rate} reads per second, as in this recording"


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
        log2_errors = np.log2(np.maximum(reads.latency_us, 1) / predicted_us)
        return cls(
            float(np.mean(deviances(predicted_us, reads.latency_us))),
            float(np.mean(np.abs(log2_errors))),
            area_under_roc(predicted_us, reads.latency_us > threshold_us),
        )

    def explain_no_gain(self, constant: Quality) -> str:
        """Return why trees are no better than a constant, or an empty string if they are."""
        if self.deviance >= constant.deviance:
            return (
                "trees predict the validation slice no better than one number for all reads: their "
                f"deviance is {self.deviance:.3f}, that of the number {constant.deviance:.3f}"
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
    """Return half of the gamma deviance of each read, shape (n,).

    Latencies of less than 1 us count as 1 us.
    """
    ratio = np.maximum(latency_us, 1) / predicted_us
    return np.asarray(ratio - np.log(ratio) - 1)


def grow_from_reads(
    parts: Sequence[npt.NDArray[np.uint32]],
    targets: npt.NDArray[Any],
    template: LatencyModel,
    seed: int,
    *,
    n_trees: int,
    learning_rate: float,
    weights: npt.NDArray[np.float64] | None = None,
) -> tuple[LatencyModel, float]:
    """Grow trees with :func:`grow` from reads, some of which are changed.

    Every `UNPLACED_EVERY`-th read has an unknown location, and every `REPACED_EVERY`-th read has a
    history as if its drive had been read more often. `parts` are arrays of features, shape (n,
    N_FEATURES), and `seed` is that of the changes.
    """

    def changed() -> Iterator[npt.NDArray[np.uint32]]:
        rng = np.random.default_rng(seed)
        for block in _blocks(parts):
            block[::UNPLACED_EVERY, PLACE] = CAP
            _repace(block[REPACED_EVERY // 2 :: REPACED_EVERY], rng)
            yield block

    return grow(
        changed, targets, template, n_trees=n_trees, learning_rate=learning_rate, weights=weights
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
    """Divide the ages of past reads by a random factor for each row, in place."""
    times_as_often = REPACED_MOST ** rng.random(len(features))
    for past in range(1, HISTORY + 1):
        age_us = features[:, FEATURES.index(f"age_us_{past}")]
        age_us[:] = np.where(age_us < CAP, age_us.astype(np.float32) // times_as_often, CAP)


def _choose_refuse_us(
    model: LatencyModel, training: Reads, validation: Reads, recipe: Recipe, point: InflectionPoint
) -> int:
    """Choose the prediction above which the model refuses a read, in us.

    It is the one with the lowest mean latency of the array on the validation slice, or `NEVER` if
    no refusal has a significant benefit. Its lower bound is the limit of refused fast reads.
    """
    by_slice = [
        ScoredReads(
            predict_hinted_us(model, reads.features),
            reads.latency_us,
            reads.pages,
            model.threshold_us,
            recipe.labelling.failover_us,
            point.replicas,
        )
        for reads in (training, validation)
    ]
    least = max(scored.min_threshold(recipe.refused_limit) for scored in by_slice)
    best = by_slice[1].best_threshold(least)
    return NEVER if best is None else best


def _test_results(model: LatencyModel, baseline: LatencyModel, test: Reads) -> dict[str, Any]:
    """Return metrics of a model and of the mean of the last latencies on the test slice."""
    judge = Judge(model)
    scored = score_reads(model, test.features)
    judge.add(test.latency_us, *scored, recent_mean_us(test.features), test.pending)
    found = judge.result()
    confusion = found.confusion
    return {
        "accuracy": confusion.accuracy,
        # A failover would not have avoided all of these, so they are not called false submits.
        "slow_admitted_ratio": confusion.false_submit_ratio,
        "false_revoke_ratio": confusion.false_revoke_ratio,
        "false_revoke_share": confusion.false_revoke_share,
        "slow_recall": confusion.slow_recall,
        "test": confusion.to_json(),
        "auc": found.auc,
        "auc_last_latencies": found.auc_last_latencies,
        "auc_pending": found.auc_pending,
        "mean_abs_log2_error": found.mean_abs_log2_error,
        "mean_abs_log2_error_last_latencies": Quality.of(baseline, test).mean_abs_log2_error,
    }
