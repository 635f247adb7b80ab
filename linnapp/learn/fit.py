# SPDX-License-Identifier: MIT
"""Train the models of an array from its traces, or one model from one recording.

:func:`train_array` trains the models of an array in three steps:

1. :func:`read_latencies` returns the latency distribution of each drive.
2. :func:`~linnapp.learn.labels.find_inflection_points` finds the inflection points of all drives
   together, because the drives are each other's replicas.
3. :func:`train_drive` trains each drive's model and records how it was made. The kinds of models
   differ only in the function that trains them, ``_train_network`` or
   :func:`~linnapp.learn.trees.train_latency`.

The first and the last step run in parallel for the drives (:mod:`linnapp.learn.parallel`, and
:mod:`linnapp.learn.fleet` on several machines). A trace is parsed once: the process that reads a
drive's latencies keeps the trace in memory and then trains the drive, unless the traces are too
long (:data:`linnapp.trace.reads.HELD_BYTES`).

Each drive gets a model, ``<trace>.linnos``, and a training record, ``<trace>.json``. Either all of
these files appear or none. Files of other drives in the directory are kept. If a directory has both
kinds of models of a drive, the latency model is in ``<trace>.latency.linnos``.

:func:`fit_network` and :func:`fit_latency` belong to the Python library (docs/library.md). They fit
a model to one recording, which represents all replicas.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import engine
from linnapp.arguments import check_names
from linnapp.errors import ModelError, NoGainError, TraceError
from linnapp.files import AnyPath, check_replaced_directory, replaced_directory
from linnapp.learn.examples import BurstReads, Reads, load_reads, sample_bursts
from linnapp.learn.judge import REMEDY, Confusion, ScoredReads, area_under_roc, choose_margin
from linnapp.learn.labels import (
    InflectionPoint,
    LatencyDistribution,
    SlowLimits,
    find_inflection_points,
)
from linnapp.learn.network import (
    Examples,
    TrainedNetwork,
    choose_bias,
    import_tensorflow,
    outputs_of,
    quantise,
)
from linnapp.learn.network import train as train_network
from linnapp.learn.options import Observer, Recipe, recipe_of
from linnapp.learn.parallel import Pool, Task
from linnapp.learn.report import (
    FittedLatency,
    FittedModel,
    FittedNetwork,
    fitted,
    record_of_point,
    record_of_trace,
    record_of_versions,
)
from linnapp.learn.trees import train_latency
from linnapp.model import LATENCY_SUFFIX, SUFFIX, Model, find_model
from linnapp.model import load_model as read_model
from linnapp.trace.blktrace import TraceStats
from linnapp.trace.reads import Recorded, check_losses, drive_name, releasing
from linnapp.trace.rows import Split, check_enough, split

#: Suffixes of all files that training writes for a drive.
SUFFIXES = (SUFFIX, ".json")


def drive_names(traces: Sequence[AnyPath]) -> list[str]:
    """Return the drives of several traces. Raise TraceError if two have the same name."""
    names = [drive_name(trace) for trace in traces]
    for name in names:
        if names.count(name) > 1:
            raise TraceError(f"two traces are named {name!r}, which would be one model; rename one")
    return names


def read_latencies(
    trace: Recorded,
    recipe: Recipe,
    observer: Observer | None = None,
    *,
    whole: bool = False,
    may_be_few: bool = False,
) -> LatencyDistribution:
    """Return the latency distribution of a trace's training slice.

    An inflection point for training must come from the training slice alone. Otherwise reads of the
    other slices would contribute to the definition of a slow read, on which their results depend.

    Parameters
    ----------
    trace : path or IoTable
    recipe : Recipe
    observer : Observer, optional
    whole : bool
        Return the distribution of all reads instead.
    may_be_few : bool
        Accept fewer reads than are needed to train a model.

    Raises
    ------
    TraceError
        If there are too few reads, or too many events were lost (`Recipe.check_losses`).
    """
    observer = observer or Observer()
    name = drive_name(trace)

    def show(done_bytes: int, total_bytes: int) -> None:
        observer.reading(name, done_bytes, total_bytes)

    recording, recipe = recipe.opened(trace, show)
    reads = load_reads(recording, on_progress=show, **recipe.reader)
    if recipe.check_losses:
        check_losses(trace, reads.stats)
    if not whole and not may_be_few:
        try:
            check_enough(len(reads))
        except TraceError as error:
            raise TraceError(f"{trace}: {error}") from error
    rows = slice(None) if whole else split(len(reads), recipe.training).training
    if not len(reads.latency_us[rows]):
        raise TraceError(
            f"{trace}: {len(reads)} completed reads are too few to train on and to judge by; "
            "record more"
        )
    return LatencyDistribution(reads.latency_us[rows])


def train_array(
    traces: Sequence[AnyPath],
    out_dir: AnyPath,
    recipe: Recipe | None = None,
    *,
    observer: Observer | None = None,
    processes: int | None = None,
    suffix: str = SUFFIX,
    replaced: Sequence[str] = (SUFFIX, LATENCY_SUFFIX),
) -> dict[str, FittedModel]:
    """Train the models of an array.

    Parameters
    ----------
    traces : sequence of path
        One per drive. A single trace represents all replicas.
    out_dir : path
        Receives a model and a record per trace. The directory is replaced in one step, but models
        of other drives in it are kept.
    recipe : Recipe, optional
    observer : Observer, optional
        Receives progress reports.
    processes : int, optional
        Maximum number of processes; see :class:`~linnapp.learn.parallel.Pool`.
    suffix : str
        End of the names of the model files.
    replaced : sequence of str
        Ends of the names of earlier model files that are removed if a drive has a new model. By
        default a drive's model of the other kind is removed, because it would be older.

    Returns
    -------
    dict of str to FittedModel
        The drives that have a new model. Drives for which no model would be better than admitting
        every read are reported to the observer instead. After ctrl-C, the drives whose training had
        begun are included with their best epoch. For all other drives, `out_dir` keeps its previous
        files.

    Raises
    ------
    TraceError
        If a trace cannot be read or is not sufficient for training.
    NoGainError
        If a model would not be better for any drive.
    KeyboardInterrupt
        If ctrl-C is received before any drive has a model. No files are written.
    """
    recipe = recipe or Recipe()
    observer = observer or Observer()
    names = drive_names(traces)
    check_replaced_directory(out_dir, SUFFIXES)
    with Pool(processes) as pool, releasing():
        tasks = zip(names, traces, strict=True)
        done = pool.run([Task(name, read_latencies, (t, recipe)) for name, t in tasks], observer)
        distributions: list[LatencyDistribution] = list(done.values())
        points = find_inflection_points(distributions, recipe.labelling)
        for name, point, distribution in zip(names, points, distributions, strict=True):
            observer.labelled(name, point, len(distribution))
        return train_labelled(
            *(traces, points, out_dir, recipe),
            observer=observer,
            pool=pool,
            suffix=suffix,
            replaced=replaced,
        )


def train_labelled(
    traces: Sequence[AnyPath],
    points: Sequence[InflectionPoint],
    out_dir: AnyPath,
    recipe: Recipe,
    *,
    observer: Observer | None = None,
    pool: Pool | None = None,
    keep_interrupted: bool = True,
    suffix: str = SUFFIX,
    replaced: Sequence[str] = (SUFFIX, LATENCY_SUFFIX),
) -> dict[str, FittedModel]:
    """Train the models of drives with known inflection points, like :func:`train_array`.

    `pool` runs the tasks; by default it has a process per CPU. If `keep_interrupted` is false,
    ctrl-C leaves `out_dir` unchanged and raises KeyboardInterrupt.
    """
    out_dir = Path(out_dir)
    observer = observer or Observer()
    names = drive_names(traces)
    removed: list[str] = []  # read when the directory is replaced
    with replaced_directory(out_dir, SUFFIXES, removed) as directory:
        tasks = [
            Task(name, _train_or_why_not, (trace, point, recipe))
            for name, trace, point in zip(names, traces, points, strict=True)
        ]
        with pool or Pool() as running:
            trained = running.run(tasks, observer, keep_interrupted=keep_interrupted)
        without = [name for name, result in trained.items() if isinstance(result, NoGainError)]
        for name in without:
            observer.no_gain(name, str(trained.pop(name)))
        if not trained:
            raise NoGainError(
                f"no model for {', '.join(without)}: none would be better than admitting every read"
            )
        for name, result in trained.items():
            save_drive(directory, name, result, suffix)
            for end in replaced:
                removed += f"{name}{end}", f"{name}{end.removesuffix(SUFFIX)}.json"
    return trained


def _train_or_why_not(
    trace: Recorded, point: InflectionPoint, recipe: Recipe, observer: Observer
) -> FittedModel | NoGainError:
    """Return a drive's model, or the error that explains why it has none.

    The error is returned, not raised, so that the other drives still get their models.
    """
    try:
        return train_drive(trace, point, recipe, observer)
    except NoGainError as error:
        return error


def save_drive(directory: AnyPath, name: str, result: FittedModel, suffix: str = SUFFIX) -> None:
    """Write all files of a drive. The record is last: if it exists, the others are complete."""
    result.save(Path(directory) / f"{name}{suffix}")


#: Maximum number of reads. Longer traces are thinned to every second, third, ... read, which limits
#: memory use to about 500 MB. A network of this size does not learn more from more reads.
MAX_READS = 8_000_000


#: The decisions to which each slice of a trace contributes. The more decisions a slice contributes
#: to, the more optimistic are the results on it.
DECIDED_BY = {
    "training": ["threshold_us", "labels", "weights"],
    "validation": ["bias", "epoch", "margin"],
    "test": [],
}


def train_drive(
    trace: Recorded, point: InflectionPoint, recipe: Recipe, observer: Observer | None = None
) -> FittedModel:
    """Train the model of one drive, of the kind that `recipe` selects.

    Raises
    ------
    TraceError
        If the trace cannot be trained on.
    NoGainError
        If the model would not be better than admitting every read.
    """
    observer = observer or Observer()
    begin = time.monotonic()
    recording, recipe = recipe.opened(trace)
    train = train_latency if recipe.kind == "latency" else _train_network
    model, results, stats = train(recording, point, recipe, observer)
    trainer = {} if recipe.kind == "latency" else {"tensorflow": import_tensorflow().__version__}
    record = {
        "model_id": model.model_id,
        **record_of_point(point, recipe),
        **results,
        "trace": record_of_trace(recording, stats),
        "versions": record_of_versions(trainer),
        "training_seconds": round(time.monotonic() - begin, 3),
    }
    observer.trained(drive_name(recording), model, record)
    return fitted(model, record, point)


def _train_network(
    trace: Recorded, point: InflectionPoint, recipe: Recipe, observer: Observer
) -> tuple[Model, dict[str, Any], TraceStats]:
    """Train one drive's network; return it with its part of the record and the trace's counts."""
    name = drive_name(trace)
    options = recipe.training
    reads = load_reads(trace, **recipe.reader)
    parts = split(len(reads), options)
    limits = find_slow_limits(reads.take(parts.training), point, recipe)
    #: Synthetic bursts for training, for validation and for testing; none if they have no share.
    bursts: tuple[BurstReads, ...] = ()
    if options.burst_share:
        bursts = sample_bursts(
            *(trace, parts, options.burst_share, point.threshold_us, options.seed, limits),
            **recipe.reader,
        )
    if len(reads) > MAX_READS:
        step = -(-len(reads) // MAX_READS)
        reads = reads.take(slice(None, None, step)).each(np.copy)  # Frees the other reads.
    digits, slow = reads.digits(), limits.slow(reads.latency_us, reads.pages)
    examples = [Examples(each.inputs, each.slow) for each in bursts]
    added, added_validation = examples[:2] or (None, None)
    choice = None
    try:
        if recipe.auto_bias:
            choice = choose_bias(
                *(digits, slow, reads.latency_us, options),
                failover_us=recipe.labelling.failover_us,
                replicas=point.replicas,
                pages=reads.pages,
                added=added,
                bursts=bursts[1] if bursts else None,
                on_candidate=functools.partial(observer.candidate, name),
            )
            options = dataclasses.replace(options, bias=choice.bias)
        network = train_network(
            *(digits, slow, options, functools.partial(observer.epoch, name)),
            added=added,
            added_validation=added_validation,
        )
    except TraceError as error:
        raise TraceError(f"{trace}: {error}") from error
    model = quantise(dict(network.weights), point.threshold_us)
    outputs = engine.infer(model, digits)
    scored = ScoredReads(
        outputs[:, 1] - outputs[:, 0],
        *(reads.latency_us, reads.pages, point.threshold_us, recipe.labelling.failover_us),
        point.replicas,
    )
    parts = split(len(slow), options)
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
    floats = outputs_of(network.weights, digits)
    disagree = int(np.count_nonzero(scored.refused(0) != (floats[:, 1] > floats[:, 0])))
    results = {
        # The definition of a slow read, which also applies to every confusion matrix below.
        "labels": recipe.labels,
        "labelled_slow_ratio": float(np.mean(slow)),
        "scale": model.scale,
        **_record_of_margin(scored, slow, margin, parts),
        "decided_by": DECIDED_BY,
        "quantisation": {"reads": len(slow), "integer_differs_from_float": disagree},
        "max_refused": recipe.refused_limit,
        "options": dataclasses.asdict(options),
        **_record_of_epochs(network),
    }
    if choice is not None:
        results["bias_search"] = {str(b): mean for b, mean in choice.expected_mean_us.items()}
    if bursts:
        training, validation, test = bursts
        results["bursts"] = {
            "training_rows": len(training),
            "training_slow": int(np.count_nonzero(training.slow)),
            "validation_rows": len(validation),
            "rows": len(test),
            "slow": int(np.count_nonzero(test.slow)),
            **Confusion.of(test.slow, engine.predict(model, test.inputs)).to_json(),
        }
    return model, results, reads.stats


def find_slow_limits(training: Reads, point: InflectionPoint, recipe: Recipe) -> SlowLimits:
    """Return the limits for labelling reads slow. Medians are those of the training slice."""
    if recipe.labels == "paper":
        return SlowLimits.of_paper(point.threshold_us)
    failover_us = recipe.labelling.failover_us
    return SlowLimits.of_avoidable(
        point.threshold_us, training.latency_us, training.pages, failover_us
    )


def _record_of_margin(
    scored: ScoredReads, slow: npt.NDArray[np.bool_], margin: int, parts: Split
) -> dict[str, Any]:
    """Return the results of the integer model by slice.

    In the confusion matrices, slow reads are those with this label. In `quality` and `auc`, they
    are those above the inflection point, as in ``linnapp evaluate`` and in the record of a latency
    model.
    """
    refused = scored.refused(margin)
    by_slice = {name: Confusion.of(slow[rows], refused[rows]) for name, rows in vars(parts).items()}
    ratios = ("accuracy", "false_submit_ratio", "false_revoke_ratio", "slow_recall")
    validation, test = scored.take(parts.validation), scored.take(parts.test)
    return {
        # The test slice contributed to no decision.
        **{name: getattr(by_slice["test"], name) for name in ratios},
        "auc": area_under_roc(test.score, ~test.fast),
        **{name: confusion.to_json() for name, confusion in by_slice.items()},
        "reads": len(slow),
        **{f"{name}_reads": confusion.total for name, confusion in by_slice.items()},
        "margin": margin,
        "remedy": REMEDY if validation.refuses_almost_nothing(margin) else None,
        "quality": {
            "as_trained": validation.quality(0),
            "validation": validation.quality(margin),
            "test": test.quality(margin),
        },
    }


def _record_of_epochs(network: TrainedNetwork) -> dict[str, Any]:
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


#: Options that determine how an inflection point is found.
_LABELLING = ("failover_us", "replicas", "search", "threshold_us")


def load_model(path: AnyPath) -> FittedModel:
    """Read a model that was saved or that ``linnapp train`` wrote, with its record.

    Parameters
    ----------
    path : path
        A ``.linnos`` file, or the directory that training wrote.

    Raises
    ------
    ModelError
        If there is no such model, or if it or its record is damaged.
    """
    path = find_model(path)
    record_path = path.with_suffix(".json")
    try:
        record = json.loads(record_path.read_bytes()) if record_path.is_file() else {}
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{record_path}: not a training record ({error}); remove it to load the model alone"
        ) from error
    if not isinstance(record, dict):
        raise ModelError(f"{record_path}: not a training record; remove it to load the model alone")
    return fitted(read_model(path), record)


def fit_network(reads: Recorded, **options: Any) -> FittedNetwork:
    """Train a network that classifies reads, as ``linnapp train`` does for a single trace.

    Parameters
    ----------
    reads : IoTable or path
        A table from :func:`~linnapp.trace.reads.load`, or a part of it.
    bias : float or "auto"
        Weight of a false submit relative to a false revoke. "auto" selects the value that gives the
        array the lowest mean latency.
    labels : {"avoidable", "paper"}
        Definition of a slow read in training; see :mod:`linnapp.learn.labels`.
    max_refused : float, optional
        Maximum share of the fast reads that the model may refuse. 1 means no limit.
    even_if_worse : bool
        Return a model even if it is not better than admitting every read of the validation slice.
    seed : int
        Equal seeds give equal models, bit for bit.
    observer : Observer, optional
        Receives progress reports.
    **options
        Other options of :class:`~linnapp.learn.network.TrainingOptions` and, for the
        inflection point, of :class:`~linnapp.learn.labels.LabellingOptions`.

    Returns
    -------
    FittedNetwork

    Raises
    ------
    TraceError
        If the reads are not sufficient for training.
    NoGainError
        If no model would be better than admitting every read.
    TypeError, ValueError
        If an option is unknown or its value is invalid.
    """
    found = _fit(reads, recipe_of("network", options), options.get("observer"))
    assert isinstance(found, FittedNetwork)
    return found


def fit_latency(reads: Recorded, **options: Any) -> FittedLatency:
    """Train a model that predicts the latency of reads, as ``linnapp train --kind latency``.

    Parameters
    ----------
    reads : IoTable or path
        A table from :func:`~linnapp.trace.reads.load`, or a part of it.
    max_refused : float, optional
        Maximum share of the fast reads that the model may refuse. 1 means no limit.
    prior : bool
        If there are few reads, start from trees of other drives; see
        :class:`~linnapp.learn.options.Recipe`.
    seed : int
        Equal seeds give equal models, bit for bit.
    validation_share, test_share : float
        See :func:`linnapp.trace.rows.split`.
    observer : Observer, optional
        Receives progress reports.
    **options
        Options for the inflection point, see
        :class:`~linnapp.learn.labels.LabellingOptions`.

    Returns
    -------
    FittedLatency

    Raises
    ------
    TraceError
        If the reads are not sufficient for training.
    TypeError, ValueError
        If an option is unknown or its value is invalid.
    """
    found = _fit(reads, recipe_of("latency", options), options.get("observer"))
    assert isinstance(found, FittedLatency)
    return found


def inflection_point(reads: Recorded, **options: Any) -> InflectionPoint:
    """Find a drive's inflection point, beyond which a read is slow, as ``linnapp label`` does.

    Parameters
    ----------
    reads : IoTable or path
        Recording of the drive, which also represents its replicas.
    **options
        Those of :class:`~linnapp.learn.labels.LabellingOptions`.

    Returns
    -------
    InflectionPoint
        The inflection point of all these reads. Functions that fit a model use the training part
        only.

    Raises
    ------
    TraceError
        If there is no served read.
    TypeError, ValueError
        If an option is unknown or its value is invalid.
    """
    check_names("inflection_point", options, _LABELLING)
    recipe = recipe_of("network", options)
    distribution = read_latencies(reads, recipe, whole=True)
    return find_inflection_points([distribution], recipe.labelling)[0]


def _fit(reads: Recorded, recipe: Recipe, observer: Observer | None) -> FittedModel:
    observer = observer or Observer()
    with releasing():
        distribution = read_latencies(reads, recipe, observer)
        [point] = find_inflection_points([distribution], recipe.labelling)
        observer.labelled(drive_name(reads), point, len(distribution))
        return train_drive(reads, point, recipe, observer)
