# SPDX-License-Identifier: MIT
"""Train the models of an array from its traces, or one model from one recording.

:func:`train_array` trains the models of an array in three steps:

1. :func:`read_latencies` returns the latency distribution of each drive.
2. :func:`~linnapp.learn.labels.find_inflection_points` finds the inflection points of all drives
   together, because the drives are each other's replicas.
3. :func:`train_drive` trains each drive's model and records how it was made. The kinds of models
   differ only in the function that trains them, :func:`~linnapp.learn.network.train_network` or
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
import json
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import __version__
from linnapp.arguments import check_names, options_in
from linnapp.errors import ModelError, NoGainError, TraceError, errors_about
from linnapp.files import AnyPath, check_replaced_directory, replace_text, replaced_directory
from linnapp.learn.examples import check_enough, load_reads, split
from linnapp.learn.judge import Evaluation, evaluate, predictions
from linnapp.learn.labels import InflectionPoint, LatencyDistribution, find_inflection_points
from linnapp.learn.network import import_tensorflow, train_network
from linnapp.learn.options import LabellingOptions, Observer, Recipe, recipe_of
from linnapp.learn.parallel import Pool, Task
from linnapp.learn.trees import train_latency
from linnapp.model import LATENCY_SUFFIX, SUFFIX, LatencyModel, Model, find_model
from linnapp.model import load_model as read_model
from linnapp.trace.blktrace import TraceStats
from linnapp.trace.reads import IoTable, Recorded, check_losses, contents_of, drive_name, releasing


class FittedModel:
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

    def __init__(
        self,
        model: Model | LatencyModel,
        record: dict[str, Any],
        point: InflectionPoint | None = None,
    ) -> None:
        self.model_ = model
        self.point_ = point
        self.record_ = record

    @property
    def model_id(self) -> str:
        """CRC-32 of the model's file as 8 hexadecimal digits, as the kernel prints it."""
        return self.model_.model_id

    @property
    def interrupted(self) -> bool:
        """True if ctrl-C ended training early."""
        return bool(self.record_["interrupted"])

    def predict(self, reads: Recorded) -> npt.NDArray[Any]:
        """Predict each served read, that is, the rows of ``reads.is_served_read``, in order.

        A network predicts whether the read is slow, a latency model its latency in us (uint32).
        """
        is_latency = isinstance(self.model_, LatencyModel)
        none: npt.NDArray[Any] = np.empty(0, np.uint32 if is_latency else np.bool_)
        found = predictions(self.model_, reads)
        return np.concatenate([none, *(p.score if is_latency else p.refused for p in found)])

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
        """Write the model to `path`, and its record to the same name with the suffix ``.json``.

        The record is written last, so that the model is complete if the record exists.
        """
        path = Path(path)
        self.model_.save(path)
        replace_text(path.with_suffix(".json"), json.dumps(self.record_, indent=1) + "\n")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.model_!r}>"

    def __eq__(self, other: object) -> bool:
        return self.model_ == other.model_ if isinstance(other, FittedModel) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.model_)


def record_of_point(point: InflectionPoint, recipe: Recipe) -> dict[str, Any]:
    """Return the part of the record that describes how the inflection point was found."""
    return {
        "threshold_us": point.threshold_us,
        "threshold_percentile": round(point.percentile, 2),
        "slow_ratio": point.slow_ratio,
        "start_percentile": round(point.start_percentile, 2),
        "boost_area_us": point.boost_area_us,
        "searched_percentiles": [round(float(end), 2) for end in point.searched_percentiles],
        "search_ended_at_edge": point.at_edge,
        "labelling": {**dataclasses.asdict(recipe.labelling), "replicas": point.replicas},
    }


def record_of_trace(trace: Recorded, stats: TraceStats) -> dict[str, Any]:
    """Return the part of the record that describes the training data."""
    files, sha256 = contents_of(trace)
    part: dict[str, Any] = {}
    if isinstance(trace, IoTable) and not trace.whole:
        part["rows"] = [trace.first, trace.first + len(trace)]
    if isinstance(trace, IoTable) and trace.selected:
        part["selected_reads"] = int(np.count_nonzero(trace.is_served_read))
    return {"files": files, "sha256": sha256, **part, **stats.counts}


def record_of_versions(trainer: dict[str, str]) -> dict[str, str]:
    """Return the versions of this program, the libraries in `trainer`, numpy and Python."""
    return {
        "linnapp": __version__,
        **trainer,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


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
    """Return the latency distribution of a trace's training slice, or of all reads if `whole`.

    An inflection point for training must come from the training slice alone. Otherwise reads of the
    other slices would contribute to the definition of a slow read, on which their results depend.
    With `may_be_few`, fewer reads are accepted than are needed to train a model.

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
        with errors_about(trace):
            check_enough(len(reads))
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
    points: Sequence[InflectionPoint] | None = None,
    observer: Observer | None = None,
    on_no_gain: Callable[[str, str], None] | None = None,
    processes: int | None = None,
    keep_interrupted: bool = True,
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
    points : sequence of InflectionPoint, optional
        The drives' inflection points, if they are known.
    observer : Observer, optional
        Receives progress reports.
    on_no_gain : callable, optional
        Called instead of `observer.no_gain`, with the same arguments.
    processes : int, optional
        Maximum number of processes; see :class:`~linnapp.learn.parallel.Pool`.
    keep_interrupted : bool
        After ctrl-C, keep the drives whose training had begun, with their best epoch.
    suffix : str
        End of the names of the model files.
    replaced : sequence of str
        Ends of the names of earlier model files that are removed if a drive has a new model. By
        default a drive's model of the other kind is removed, because it would be older.

    Returns
    -------
    dict of str to FittedModel
        The drives that have a new model. Drives for which no model would be better than admitting
        every read are reported to the observer instead. For these, `out_dir` keeps its previous
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
    removed: list[str] = []  # read when the directory is replaced
    with Pool(processes) as pool, releasing():
        if points is None:
            reading = [
                Task(name, read_latencies, (trace, recipe))
                for name, trace in zip(names, traces, strict=True)
            ]
            distributions = list(pool.run(reading, observer).values())
            points = find_inflection_points(distributions, recipe.labelling)
            for name, point, distribution in zip(names, points, distributions, strict=True):
                observer.labelled(name, point, len(distribution))
        with replaced_directory(out_dir, SUFFIXES, removed) as directory:
            tasks = [
                Task(name, _train_or_why_not, (trace, point, recipe))
                for name, trace, point in zip(names, traces, points, strict=True)
            ]
            trained = pool.run(tasks, observer, keep_interrupted=keep_interrupted)
            without = [name for name, result in trained.items() if isinstance(result, NoGainError)]
            for name in without:
                (on_no_gain or observer.no_gain)(name, str(trained.pop(name)))
            if not trained:
                raise NoGainError(
                    f"no model for {', '.join(without)}: none would be better than admitting every "
                    "read"
                )
            for name, result in trained.items():
                result.save(directory / f"{name}{suffix}")
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
    train = train_latency if recipe.kind == "latency" else train_network
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
    return FittedModel(model, record, point)


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
    return FittedModel(read_model(path), record)


def fit_network(reads: Recorded, **options: Any) -> FittedModel:
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
        Other options of :class:`~linnapp.learn.options.TrainingOptions` and, for the
        inflection point, of :class:`~linnapp.learn.options.LabellingOptions`.

    Returns
    -------
    FittedModel

    Raises
    ------
    TraceError
        If the reads are not sufficient for training.
    NoGainError
        If no model would be better than admitting every read.
    TypeError, ValueError
        If an option is unknown or its value is invalid.
    """
    return _fit(reads, recipe_of("network", options), options.get("observer"))


def fit_latency(reads: Recorded, **options: Any) -> FittedModel:
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
        See :func:`linnapp.learn.examples.split`.
    observer : Observer, optional
        Receives progress reports.
    **options
        Options for the inflection point, see
        :class:`~linnapp.learn.options.LabellingOptions`.

    Returns
    -------
    FittedModel

    Raises
    ------
    TraceError
        If the reads are not sufficient for training.
    TypeError, ValueError
        If an option is unknown or its value is invalid.
    """
    return _fit(reads, recipe_of("latency", options), options.get("observer"))


def inflection_point(reads: Recorded, **options: Any) -> InflectionPoint:
    """Find a drive's inflection point, beyond which a read is slow, as ``linnapp label`` does.

    Parameters
    ----------
    reads : IoTable or path
        Recording of the drive, which also represents its replicas.
    **options
        Those of :class:`~linnapp.learn.options.LabellingOptions`.

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
    check_names("inflection_point", options, sorted(options_in(LabellingOptions)))
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
