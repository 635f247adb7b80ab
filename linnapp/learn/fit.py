# SPDX-License-Identifier: MIT
"""Train the models of an array from its traces, or one model from one recording.

The drives of an array are replicas of each other. Their inflection points are found together. Each
drive then gets its own model, ``<trace>.linnos``, and a training record, ``<trace>.json``. Either
all of these files appear at once or none. Files of other drives in the directory are kept.

Labelling needs only the latency distribution of each drive, and training needs only its own trace,
so drives are processed in parallel (:mod:`linnapp.learn.parallel`, :mod:`linnapp.learn.fleet`). A
trace is parsed once: the process that labels a drive keeps its trace in memory and then trains it,
unless its traces are too long (:data:`linnapp.trace.reads.HELD_BYTES`).

:func:`train_drive` trains one drive's model, given its trace and its inflection point, and records
how the model was made.

:func:`fit_network` and :func:`fit_latency` belong to the Python library (docs/library.md). They fit
a model to one recording, which represents all replicas.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.arguments import check_names
from linnapp.errors import NoGainError, TraceError
from linnapp.figures import axes_for
from linnapp.files import (
    AnyPath,
    check_replaced_directory,
    replaced_directory,
)
from linnapp.learn.evaluate import Evaluation, evaluate, predictions
from linnapp.learn.examples import BurstReads, ReadSet, load_reads, sample_bursts
from linnapp.learn.judge import REMEDY, Confusion, ScoredReads, choose_margin
from linnapp.learn.labels import (
    InflectionPoint,
    LatencyDistribution,
    SlowLimits,
    find_inflection_points,
)
from linnapp.learn.network import (
    BiasChoice,
    Examples,
    TrainedNetwork,
    choose_bias,
    import_tensorflow,
    outputs_of,
    quantise,
)
from linnapp.learn.network import train as train_network
from linnapp.learn.options import (
    Observer,
    Recipe,
    recipe_of,
)
from linnapp.learn.parallel import Pool, Task
from linnapp.learn.report import (
    TrainedDrive,
    record_of_point,
    record_of_trace,
    record_of_versions,
)
from linnapp.model import SUFFIX, LatencyModel, Model, engine
from linnapp.trace.reads import Recorded, check_losses, drive_name, release
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


@contextlib.contextmanager
def releasing() -> Iterator[None]:
    """Free the recordings in memory at the end."""
    try:
        yield
    finally:
        release()


def read_latencies(
    trace: Recorded, recipe: Recipe, observer: Observer | None = None, *, whole: bool = False
) -> LatencyDistribution:
    """Return the latency distribution of a trace's training slice or, if `whole`, of all reads.

    An inflection point for training must come from the training slice alone. Otherwise reads of the
    other slices would contribute to the definition of a slow read, on which their results depend.

    Raises
    ------
    TraceError
        If there are too few reads.
    """
    observer = observer or Observer()
    name = drive_name(trace)

    def show(done_bytes: int, total_bytes: int) -> None:
        observer.reading(name, done_bytes, total_bytes)

    recording, recipe = recipe.opened(trace, show)
    reads = load_reads(recording, on_progress=show, **recipe.reader)
    if recipe.check_losses:
        check_losses(trace, reads.stats)
    if not whole:
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
) -> list[str]:
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

    Returns
    -------
    list of str
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
        return train_labelled(traces, points, out_dir, recipe, observer=observer, pool=pool)


def train_labelled(
    traces: Sequence[AnyPath],
    points: Sequence[InflectionPoint],
    out_dir: AnyPath,
    recipe: Recipe,
    *,
    observer: Observer | None = None,
    pool: Pool | None = None,
    keep_interrupted: bool = True,
) -> list[str]:
    """Train the models of drives with known inflection points, like :func:`train_array`.

    `pool` runs the tasks; by default it has a process per CPU. If `keep_interrupted` is false,
    ctrl-C leaves `out_dir` unchanged and raises KeyboardInterrupt.
    """
    out_dir = Path(out_dir)
    observer = observer or Observer()
    names = drive_names(traces)
    replaced = [f"{name}{suffix}" for name in names for suffix in SUFFIXES]
    with replaced_directory(out_dir, SUFFIXES, replaced) as directory:
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
            save_drive(directory, name, result)
        _keep_old(out_dir, directory, set(names) - trained.keys())
    return list(trained)


def _train_or_why_not(
    trace: Recorded, point: InflectionPoint, recipe: Recipe, observer: Observer
) -> TrainedDrive | NoGainError:
    """Return a drive's model, or the error that explains why it has none.

    The error is returned, not raised, so that the other drives still get their models.
    """
    try:
        return train_drive(trace, point, recipe, observer)
    except NoGainError as error:
        return error


def save_drive(directory: AnyPath, name: str, result: TrainedDrive) -> None:
    """Write all files of a drive. The record is last: if it exists, the others are complete."""
    result.save(Path(directory) / f"{name}{SUFFIX}")


def _keep_old(old: Path, new: Path, names: set[str]) -> None:
    for name in names:
        for suffix in SUFFIXES:
            if (old / f"{name}{suffix}").exists():
                shutil.copy2(old / f"{name}{suffix}", new)


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
        from linnapp.learn.trees import train_latency

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
        network = train_network(
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
        "options": dataclasses.asdict(options),
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
    """Return the fields about the margin, with metrics as ``linnapp evaluate`` defines them."""
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


#: Options that determine how an inflection point is found.
_LABELLING = ("failover_us", "replicas", "search", "threshold_us")

#: Number of groups into which a figure divides the reads, in order of their scores.
_PARTS = 20


class FittedModel(abc.ABC):
    """A drive's model and the record of how it was made.

    Two instances are equal if their models are equal, whatever they were made from.

    Attributes
    ----------
    model_ : Model or LatencyModel
        The model that the kernel runs.
    point_ : InflectionPoint or None
        The inflection point of the part of the reads that the model was trained on. None for a
        model from a file, whose ``model_.threshold_us`` is its inflection point.
    record_ : dict
        How the model was made and how good it is (linnapp/topics/records.txt), JSON serialisable.
        Empty for a model file without a record.
    """

    def __init__(self, trained: TrainedDrive, point: InflectionPoint | None = None) -> None:
        self.model_ = trained.model
        self.point_ = point
        self.record_ = trained.record
        self._trained = trained

    @property
    def model_id(self) -> str:
        """CRC-32 of the model's file as 8 hexadecimal digits, as the kernel prints it."""
        return self.model_.model_id

    @abc.abstractmethod
    def predict(self, reads: Recorded) -> npt.NDArray[Any]:
        """Predict each served read, that is, the rows of ``reads.is_served_read``, in order."""

    def score(self, reads: Recorded) -> float:
        """Return the probability that a slow read scores higher than a fast one; 0.5 is chance.

        This is the area under the ROC curve. It is NaN if all reads are slow or all are fast.
        :func:`linnapp.evaluate` returns all metrics.
        """
        area = self.evaluate(reads).auc
        return float("nan") if area is None else area

    def evaluate(self, reads: Recorded) -> Evaluation:
        """Return all metrics on these reads."""
        return evaluate(self.model_, reads)

    def save(self, path: AnyPath) -> None:
        """Write the model to `path`, and its record to the same name with the suffix ``.json``."""
        self._trained.save(path)

    def plot(self, reads: Recorded, axes: Any = None) -> Any:
        """Plot the latency of reads against their predicted slowness, in groups of 5 %.

        Reads that the model was not fitted to are more informative.

        Parameters
        ----------
        reads : IoTable or path
        axes : matplotlib axes, optional

        Returns
        -------
        matplotlib axes

        Raises
        ------
        TraceError
            If there is no completed read.
        """
        axes = axes_for(axes)
        found = list(predictions(self.model_, reads))
        if not found:
            raise TraceError(f"{reads}: no completed read to draw")
        score = np.concatenate([part.score for part in found])
        latency_us = np.concatenate([part.served.latency_ns for part in found]) / 1000
        order = np.argsort(score, kind="stable")
        parts = [part for part in np.array_split(latency_us[order], _PARTS) if len(part)]
        share = 100 * (np.arange(len(parts)) + 0.5) / len(parts)
        axes.plot(share, [part.mean() for part in parts], "o-", label="mean")
        axes.plot(share, [np.percentile(part, 95) for part in parts], "^-", label="p95")
        axes.axhline(self.model_.threshold_us, color="tab:red", label="inflection point")
        axes.set_yscale("log")
        axes.set_xlabel("reads by how slow they are predicted, %")
        axes.set_ylabel("read latency, us")
        axes.set_title(f"{self.model_id} on {reads}")
        axes.legend()
        return axes

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.model_!r}>"

    def __eq__(self, other: object) -> bool:
        return self.model_ == other.model_ if isinstance(other, FittedModel) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.model_)


class FittedNetwork(FittedModel):
    """The network of the paper, which classifies reads as fast or slow."""

    model_: Model

    def predict(self, reads: Recorded) -> npt.NDArray[np.bool_]:
        """Predict whether each served read is slow, shape (n,). See :meth:`FittedModel.predict`."""
        refused = [part.refused for part in predictions(self.model_, reads)]
        return np.concatenate([np.empty(0, np.bool_), *refused])


class FittedLatency(FittedModel):
    """Boosted trees, which predict the latency of a read."""

    model_: LatencyModel

    def predict(self, reads: Recorded) -> npt.NDArray[np.uint32]:
        """Predict the latency of each served read in us, shape (n,).

        See :meth:`FittedModel.predict`.
        """
        score = [part.score for part in predictions(self.model_, reads)]
        return np.concatenate([np.empty(0, np.uint32), *score])


def load_model(path: AnyPath) -> FittedNetwork | FittedLatency:
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
    trained = TrainedDrive.load(path)
    kind = FittedLatency if isinstance(trained.model, LatencyModel) else FittedNetwork
    return kind(trained)


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
    trained, point = _fit(reads, recipe_of("network", options), options.get("observer"))
    return FittedNetwork(trained, point)


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
    trained, point = _fit(reads, recipe_of("latency", options), options.get("observer"))
    return FittedLatency(trained, point)


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


def _fit(
    reads: Recorded, recipe: Recipe, observer: Observer | None
) -> tuple[TrainedDrive, InflectionPoint]:
    observer = observer or Observer()
    with releasing():
        distribution = read_latencies(reads, recipe, observer)
        [point] = find_inflection_points([distribution], recipe.labelling)
        observer.labelled(drive_name(reads), point, len(distribution))
        return train_drive(reads, point, recipe, observer), point
