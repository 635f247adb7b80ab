# SPDX-License-Identifier: MIT
"""Train one drive's model from its trace and inflection point, and record how it was made."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import NoGainError, TraceError
from linnapp.learn.features.augmentation import BurstReads
from linnapp.learn.features.burst_sampling import sample_bursts
from linnapp.learn.features.dataset import ReadSet, load_reads
from linnapp.learn.features.split import Split, split
from linnapp.learn.judging.confusion import Confusion
from linnapp.learn.judging.refusing import REMEDY, ScoredReads, choose_margin
from linnapp.learn.labelling.inflection import InflectionPoint
from linnapp.learn.labelling.labels import SlowLimits
from linnapp.learn.network import training
from linnapp.learn.network.bias import BiasChoice, choose_bias
from linnapp.learn.network.floats import import_tensorflow, outputs_of
from linnapp.learn.network.quantisation import quantise
from linnapp.learn.network.training import Examples, TrainedNetwork, TrainingOptions
from linnapp.learn.options import Observer, Recipe
from linnapp.learn.record import (
    TrainedDrive,
    record_of_point,
    record_of_trace,
    record_of_versions,
)
from linnapp.model import Model, engine
from linnapp.trace.recorded import Recorded, drive_name

#: A longer trace is thinned to every second, third, ... read. The limit bounds memory use to about
#: 500 MB, and a network of this size does not learn more from more reads.
MAX_READS = 8_000_000


#: The decisions that each slice of a trace makes. Results on a slice are optimistic to the extent
#: that the slice has contributed to decisions.
DECIDED_BY = {
    "training": ["threshold_us", "labels", "weights"],
    "validation": ["bias", "epoch", "margin"],
    "test": [],
}

#: Records of models that were trained without these options do not contain them.
ONLY_IN_USE = ("standardise", "weight_decay")


def train_drive(
    trace: Recorded, point: InflectionPoint, recipe: Recipe, observer: Observer | None = None
) -> TrainedDrive:
    """Train the model of one drive, of the kind that `recipe` selects.

    Raises
    ------
    TraceError
        If the trace cannot be trained on.
    NoGainError
        If the model would not be better than admitting every read.
    """
    if recipe.kind == "latency":
        from linnapp.learn.trees.training import train_latency

        return train_latency(trace, point, recipe, observer)
    shown = observer or Observer()
    name = drive_name(trace)
    begin = time.monotonic()
    trace, recipe = recipe.opened(trace)
    lesson = _prepare(trace, point, recipe)
    try:
        choice = _choose_bias(lesson, point, recipe, shown, name) if recipe.auto_bias else None
        options = recipe.training
        if choice is not None:
            options = dataclasses.replace(options, bias=choice.bias)
        network = training.train(
            lesson.digits,
            lesson.slow,
            options,
            lambda epoch: shown.epoch(name, epoch),
            added=_examples(lesson.bursts.training),
            added_validation=_examples(lesson.bursts.validation),
        )
    except TraceError as error:
        raise TraceError(f"{trace}: {error}") from error
    model = quantise(dict(network.weights), point.threshold_us)
    scored = _score(model, lesson, point, recipe)
    parts = split(len(lesson.slow), options)
    try:
        margin = choose_margin(
            scored.take(parts.training),
            scored.take(parts.validation),
            recipe.refused_limit,
            even_if_worse=recipe.even_if_worse,
        )
    except NoGainError as error:
        raise NoGainError(f"{trace}: {error}") from error
    # A read is refused if its output for slow exceeds that for fast by more than the margin. Adding
    # the margin to the output for fast has the same effect.
    model = dataclasses.replace(model, output_bias=model.output_bias + np.array([margin, 0]))
    record = {
        "model_id": model.model_id,
        **record_of_point(point, recipe),
        **_of_labels(lesson, recipe),
        "scale": model.scale,
        **_of_decisions(lesson, network, scored, margin, parts),
        **_of_margin(scored, margin, parts, recipe),
        "options": record_of_training(options),
        **_of_epochs(network),
        "trace": record_of_trace(trace, lesson.reads.stats),
        "versions": record_of_versions({"tensorflow": import_tensorflow().__version__}),
        **_of_bias(choice),
        **_of_bursts(lesson.bursts, model),
        "training_seconds": round(time.monotonic() - begin, 3),
    }
    shown.trained(name, model, record)
    return TrainedDrive(model, record)


@dataclasses.dataclass(frozen=True)
class _Bursts:
    """Examples of synthetic bursts for each part of the trace, or None without them."""

    training: BurstReads | None = None
    validation: BurstReads | None = None
    test: BurstReads | None = None


@dataclasses.dataclass(frozen=True)
class _Lesson:
    """Training data from one trace: its reads, their digits and labels, and synthetic bursts."""

    reads: ReadSet
    digits: npt.NDArray[np.uint8]
    slow: npt.NDArray[np.bool_]
    bursts: _Bursts


def _prepare(trace: Recorded, point: InflectionPoint, recipe: Recipe) -> _Lesson:
    reads = load_reads(trace, **recipe.reader)
    parts = split(len(reads), recipe.training)
    limits = _limits(reads, parts.training, point, recipe)
    bursts = _sample(trace, parts, point, limits, recipe)
    if len(reads) > MAX_READS:
        reads = reads.every(-(-len(reads) // MAX_READS))  # Frees the other reads.
    return _Lesson(reads, reads.digits(), limits.slow(reads.latency_us, reads.pages), bursts)


def _sample(
    trace: Recorded, parts: Split, point: InflectionPoint, limits: SlowLimits, recipe: Recipe
) -> _Bursts:
    if not recipe.training.burst_share:
        return _Bursts()
    return _Bursts(
        *sample_bursts(
            trace,
            parts,
            recipe.training.burst_share,
            point.threshold_us,
            recipe.training.seed,
            limits,
            **recipe.reader,
        )
    )


def _examples(bursts: BurstReads | None) -> Examples | None:
    return None if bursts is None else Examples(bursts.digits, bursts.slow)


def _limits(reads: ReadSet, rows: slice, point: InflectionPoint, recipe: Recipe) -> SlowLimits:
    """Return the limits for labelling reads slow. Medians come from the training part alone."""
    if recipe.labels == "paper":
        return SlowLimits.of_paper(point.threshold_us)
    return SlowLimits.of_avoidable(
        point.threshold_us,
        reads.latency_us[rows],
        reads.pages[rows],
        recipe.labelling.failover_us,
    )


def _choose_bias(
    lesson: _Lesson, point: InflectionPoint, recipe: Recipe, observer: Observer, name: str
) -> BiasChoice:
    return choose_bias(
        lesson.digits,
        lesson.slow,
        lesson.reads.latency_us,
        recipe.training,
        failover_us=recipe.labelling.failover_us,
        replicas=point.replicas,
        pages=lesson.reads.pages,
        added=_examples(lesson.bursts.training),
        bursts=lesson.bursts.validation,
        on_candidate=lambda bias, mean_us: observer.candidate(name, bias, mean_us),
    )


def _of_labels(lesson: _Lesson, recipe: Recipe) -> dict[str, Any]:
    return {
        # The definition of a slow read, which also applies to every confusion matrix below.
        "labels": recipe.labels,
        "labelled_slow_ratio": float(np.mean(lesson.slow)),
    }


def _score(model: Model, lesson: _Lesson, point: InflectionPoint, recipe: Recipe) -> ScoredReads:
    outputs = engine.infer(model, lesson.digits)
    return ScoredReads(
        outputs[:, 1] - outputs[:, 0],
        lesson.reads.latency_us,
        lesson.reads.pages,
        point.threshold_us,
        recipe.labelling.failover_us,
        point.replicas,
    )


def _of_decisions(
    lesson: _Lesson, network: TrainedNetwork, scored: ScoredReads, margin: int, parts: Split
) -> dict[str, Any]:
    slow = lesson.slow
    outputs = outputs_of(network.weights, lesson.digits)
    disagree = int(np.count_nonzero(scored.refused(0) != (outputs[:, 1] > outputs[:, 0])))
    refused = scored.refused(margin)
    by_slice = {name: Confusion.of(slow[rows], refused[rows]) for name, rows in vars(parts).items()}
    test = by_slice["test"]
    return {
        # Results of the integer model on the test slice, which contributed to no decision.
        "accuracy": test.accuracy,
        "false_submit_ratio": test.false_submit_ratio,
        "false_revoke_ratio": test.false_revoke_ratio,
        "slow_recall": test.slow_recall,
        **{name: confusion.to_json() for name, confusion in by_slice.items()},
        "decided_by": DECIDED_BY,
        "quantisation": {"reads": len(slow), "integer_differs_from_float": disagree},
        "reads": len(slow),
        **{f"{name}_reads": confusion.total for name, confusion in by_slice.items()},
    }


def _of_margin(scored: ScoredReads, margin: int, parts: Split, recipe: Recipe) -> dict[str, Any]:
    """Return the effect of the limits on slow reads, counted as by ``linnapp evaluate``."""
    validation = scored.take(parts.validation)
    return {
        "max_refused": recipe.refused_limit,
        "margin": margin,
        "remedy": REMEDY if validation.refuses_almost_nothing(margin) else None,
        "quality": {
            "as_trained": validation.quality(0),
            "validation": validation.quality(margin),
            "test": scored.take(parts.test).quality(margin),
        },
    }


def record_of_training(options: TrainingOptions) -> dict[str, Any]:
    """Return the training options, those of :data:`ONLY_IN_USE` only if they are used."""
    unused = TrainingOptions()
    return {
        name: value
        for name, value in dataclasses.asdict(options).items()
        if name not in ONLY_IN_USE or value != getattr(unused, name)
    }


def _of_epochs(network: TrainedNetwork) -> dict[str, Any]:
    return {
        "interrupted": network.interrupted,
        "best_epoch": network.best.number,
        "epochs": [
            {
                "epoch": epoch.number,
                "loss": epoch.loss,
                "validation_loss": epoch.validation_loss,
                "false_submit": epoch.confusion.false_submit,
                "false_revoke": epoch.confusion.false_revoke,
                "burst_false_submit": epoch.bursts.false_submit,
                "burst_false_revoke": epoch.bursts.false_revoke,
            }
            for epoch in network.epochs
        ],
    }


def _of_bias(choice: BiasChoice | None) -> dict[str, Any]:
    if choice is None:
        return {}
    return {"bias_search": {str(b): mean for b, mean in choice.expected_mean_us.items()}}


def _of_bursts(bursts: _Bursts, model: Model) -> dict[str, Any]:
    added, validation, test = bursts.training, bursts.validation, bursts.test
    if added is None or validation is None or test is None:
        return {}
    return {
        "bursts": {
            "training_rows": len(added),
            "training_slow": int(np.count_nonzero(added.slow)),
            "validation_rows": len(validation),
            "rows": len(test),
            "slow": int(np.count_nonzero(test.slow)),
            **Confusion.of(test.slow, engine.predict(model, test.digits)).to_json(),
        }
    }
