# SPDX-License-Identifier: MIT
"""From the traces of an array to its models: label, train, quantise, record.

The drives of an array are each other's replicas: their inflection points are found together, and
each drive then gets a model of its own, ``<trace>.linnos``, with a training record beside it,
``<trace>.json``. The directory appears whole or not at all.

Labelling needs only each drive's latency distribution, training only its own trace, so no process
ever holds more than one trace (:mod:`linnapp.learn.parallel` and :mod:`linnapp.learn.fleet` spread
the work).
"""

from __future__ import annotations

import dataclasses
import json
import platform
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from linnapp import __version__
from linnapp.errors import TraceError
from linnapp.files import AnyPath, replaced_directory
from linnapp.learn import training
from linnapp.learn.augmentation import BurstReads
from linnapp.learn.bias import BiasChoice, choose_bias
from linnapp.learn.burst_sampling import sample_bursts
from linnapp.learn.dataset import ReadSet, digest, load_reads
from linnapp.learn.features import FeatureLayout
from linnapp.learn.inflection import (
    FAILOVER_US,
    REPLICAS,
    InflectionPoint,
    LatencyDistribution,
    Method,
    find_inflection_points,
)
from linnapp.learn.labels import Labels, SlowLimits
from linnapp.learn.network import outputs_of
from linnapp.learn.parallel import Task, run_tasks
from linnapp.learn.quantisation import quantise
from linnapp.learn.training import (
    Confusion,
    Epoch,
    Examples,
    Split,
    TrainedNetwork,
    TrainingOptions,
)
from linnapp.model import SUFFIX, Model, engine
from linnapp.trace.blktrace import trace_files
from linnapp.trace.recorded import drive_of

#: Of a longer trace every second, third, ... read is trained on: it bounds memory to some 500 MB,
#: and a network of this size learns nothing more from more.
MAX_READS = 8_000_000


#: What each slice of a trace decides. Figures on a slice flatter a model as far as it decided.
DECIDED_BY = {
    "training": ["threshold_us", "labels", "weights"],
    "validation": ["bias", "epoch"],
    "test": [],
}


class Observer(Protocol):
    """What a caller may want to show while an array is trained."""

    def reading(self, drive: str, done_bytes: int, total_bytes: int) -> None:
        """A trace is being read."""

    def labelled(self, drive: str, point: InflectionPoint, n_reads: int) -> None:
        """A drive's inflection point is known, from so many reads."""

    def candidate(self, drive: str, bias: float, mean_us: float) -> None:
        """A bias was tried; the array's mean read latency would be `mean_us`."""

    def epoch(self, drive: str, epoch: Epoch) -> None:
        """An epoch is over."""

    def trained(self, drive: str, model: Model, record: dict[str, Any]) -> None:
        """A drive's model is ready."""


class SilentObserver:
    """Shows nothing."""

    def reading(self, drive: str, done_bytes: int, total_bytes: int) -> None:
        """Nothing to show."""

    def labelled(self, drive: str, point: InflectionPoint, n_reads: int) -> None:
        """Nothing to show."""

    def candidate(self, drive: str, bias: float, mean_us: float) -> None:
        """Nothing to show."""

    def epoch(self, drive: str, epoch: Epoch) -> None:
        """Nothing to show."""

    def trained(self, drive: str, model: Model, record: dict[str, Any]) -> None:
        """Nothing to show."""


@dataclasses.dataclass(frozen=True)
class LabellingOptions:
    """How to find inflection points; see :func:`~linnapp.learn.inflection.find_inflection_points`.

    Attributes
    ----------
    method : {"exact", "simulate"}
    replicas : int
        Drives that hold each block; at most as many as there are traces, unless there is one only.
    failover_us : float
        Cost of a failover.
    by_size : bool
        Compare replicas within read sizes, as a failover does.
    threshold_us : int, optional
        Take this as every drive's point instead of searching.
    """

    method: Method = "exact"
    replicas: int = REPLICAS
    failover_us: float = FAILOVER_US
    by_size: bool = False
    threshold_us: int | None = None


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Everything that decides what a trace is trained to, besides the trace.

    Attributes
    ----------
    labelling : LabellingOptions
    training : TrainingOptions
    layout : FeatureLayout
    labels : {"avoidable", "paper"}
        What is taught as slow; see :mod:`linnapp.learn.labels`.
    auto_bias : bool
        Choose the bias by :func:`~linnapp.learn.bias.choose_bias`.
    reader : dict
        Options of :func:`~linnapp.trace.recorded.open_recording`.
    """

    labelling: LabellingOptions = dataclasses.field(default_factory=LabellingOptions)
    training: TrainingOptions = dataclasses.field(default_factory=TrainingOptions)
    layout: FeatureLayout = dataclasses.field(default_factory=FeatureLayout)
    labels: Labels = "avoidable"
    auto_bias: bool = True
    reader: dict[str, Any] = dataclasses.field(default_factory=dict)


def drive_name(trace: AnyPath) -> str:
    """A trace's drive: the file name without ``.blk``, ``.blktrace.N`` or the like."""
    return drive_of(trace_files(trace)[0].name)


def drive_names(traces: Sequence[AnyPath]) -> list[str]:
    """The drives of several traces.

    Raises
    ------
    TraceError
        If two have the same name, since models are named after them.
    """
    names = [drive_name(trace) for trace in traces]
    for name in names:
        if names.count(name) > 1:
            raise TraceError(f"two traces are named {name!r}, which would be one model; rename one")
    return names


def read_latencies(
    trace: AnyPath, recipe: Recipe, observer: Observer | None = None, *, whole: bool = False
) -> LatencyDistribution:
    """Read a trace for what labelling needs of it: its training slice, or all of it.

    A point that is trained for must come from the training slice alone, or figures on the others
    would be of reads that had a say in what counts as slow.

    Raises
    ------
    TraceError
        If it cannot be read or holds no served read.
    """
    observer = observer or SilentObserver()
    name = drive_name(trace)
    reads = load_reads(
        trace,
        recipe.layout,
        on_progress=lambda done, total: observer.reading(name, done, total),
        **recipe.reader,
    )
    rows = slice(None) if whole else training.split(len(reads), recipe.training).training
    if not len(reads.latency_us[rows]):
        raise TraceError(
            f"{trace}: {len(reads)} completed reads are too few to train on and to judge by; "
            "record more"
        )
    return LatencyDistribution(
        reads.latency_us[rows], reads.pages[rows] if recipe.labelling.by_size else None
    )


def label_array(
    distributions: Sequence[LatencyDistribution], options: LabellingOptions, seed: int
) -> list[InflectionPoint]:
    """Find the inflection points of an array's drives."""
    return find_inflection_points(
        distributions,
        method=options.method,
        replicas=options.replicas,
        failover_us=options.failover_us,
        threshold_us=options.threshold_us,
        seed=seed,
    )


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
        One per drive; a single one stands for its replicas.
    out_dir : path
        Replaced by a directory with a model and a record per trace.
    recipe : Recipe, optional
    observer : Observer, optional
    processes : int, optional
        At most so many at once; as many as there are CPUs unless given.

    Returns
    -------
    list of str
        The drives that have a new model. After ctrl-C those that had begun, with their best
        epoch; for the others `out_dir` keeps what it held.

    Raises
    ------
    TraceError
        If a trace cannot be read, or has nothing to learn from.
    KeyboardInterrupt
        If ctrl-C came before any drive had a model; nothing is then written.
    """
    recipe = recipe or Recipe()
    observer = observer or SilentObserver()
    names = drive_names(traces)
    done, _ = run_tasks(
        [Task(name, read_latencies, (t, recipe)) for name, t in zip(names, traces, strict=True)],
        observer,
        processes,
    )
    if len(done) < len(names):
        raise KeyboardInterrupt
    distributions: list[LatencyDistribution] = [done[name] for name in names]
    points = label_array(distributions, recipe.labelling, recipe.training.seed)
    for name, point, distribution in zip(names, points, distributions, strict=True):
        observer.labelled(name, point, len(distribution))
    return train_labelled(traces, points, out_dir, recipe, observer=observer, processes=processes)


def train_labelled(
    traces: Sequence[AnyPath],
    points: Sequence[InflectionPoint],
    out_dir: AnyPath,
    recipe: Recipe,
    *,
    observer: Observer | None = None,
    processes: int | None = None,
    keep_interrupted: bool = True,
) -> list[str]:
    """Train the models of drives whose inflection points are known; as :func:`train_array`.

    With `keep_interrupted` false, ctrl-C leaves `out_dir` as it was and raises KeyboardInterrupt.
    """
    out_dir = Path(out_dir)
    observer = observer or SilentObserver()
    names = drive_names(traces)
    with replaced_directory(out_dir, (SUFFIX, ".json")) as directory:
        trained, interrupted = run_tasks(
            [
                Task(name, train_drive, (trace, point, recipe))
                for name, trace, point in zip(names, traces, points, strict=True)
            ],
            observer,
            processes,
        )
        if not trained or (interrupted and not keep_interrupted):
            raise KeyboardInterrupt
        for name, (data, record) in trained.items():
            save_drive(directory, name, data, record)
        if interrupted:
            _keep_old(out_dir, directory, set(names) - trained.keys())
    return list(trained)


def save_drive(directory: AnyPath, name: str, data: bytes, record: dict[str, Any]) -> None:
    """Write a drive's model and record."""
    directory = Path(directory)
    (directory / f"{name}{SUFFIX}").write_bytes(data)
    (directory / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


def _keep_old(old: Path, new: Path, names: set[str]) -> None:
    for name in names:
        for suffix in (SUFFIX, ".json"):
            if (old / f"{name}{suffix}").exists():
                shutil.copy2(old / f"{name}{suffix}", new)


def train_drive(
    trace: AnyPath, point: InflectionPoint, recipe: Recipe, observer: Observer | None = None
) -> tuple[bytes, dict[str, Any]]:
    """Train one drive's model.

    Returns
    -------
    bytes
        The model file.
    dict
        The training record.
    """
    trace = Path(trace)
    observer = observer or SilentObserver()
    name = drive_name(trace)
    begin = time.monotonic()
    reads = load_reads(trace, recipe.layout, **recipe.reader)
    parts = training.split(len(reads), recipe.training)
    limits = _limits(reads, parts.training, point, recipe)
    added, added_validation, added_test = _bursts(trace, parts, point, limits, recipe)
    if len(reads) > MAX_READS:
        reads = reads.every(-(-len(reads) // MAX_READS))
    digits = reads.digits()
    slow = limits.slow(reads.latency_us, reads.pages)
    choice: BiasChoice | None = None
    options = recipe.training
    try:
        if recipe.auto_bias:
            choice = choose_bias(
                digits,
                slow,
                reads.latency_us,
                options,
                failover_us=recipe.labelling.failover_us,
                replicas=point.replicas,
                pages=reads.pages,
                added=_examples(added),
                bursts=added_validation,
                on_candidate=lambda bias, mean: observer.candidate(name, bias, mean),
            )
            options = dataclasses.replace(options, bias=choice.bias)
        network = training.train(
            digits,
            slow,
            options,
            lambda epoch: observer.epoch(name, epoch),
            added=_examples(added),
            added_validation=_examples(added_validation),
        )
    except TraceError as error:
        raise TraceError(f"{trace}: {error}") from error
    model = quantise(dict(network.weights), point.threshold_us, reads.layout)
    recipe = dataclasses.replace(recipe, training=options)
    record = _record(trace, reads, point, recipe, network, model, digits, slow)
    if choice is not None:
        record["bias_search"] = {str(b): mean for b, mean in choice.expected_mean_us.items()}
    if added is not None and added_validation is not None and added_test is not None:
        record["bursts"] = {
            "training_rows": len(added),
            "training_slow": int(np.count_nonzero(added.slow)),
            "validation_rows": len(added_validation),
            "rows": len(added_test),
            "slow": int(np.count_nonzero(added_test.slow)),
            **Confusion.of(added_test.slow, engine.predict(model, added_test.digits)).to_json(),
        }
    record["training_seconds"] = round(time.monotonic() - begin, 3)
    observer.trained(name, model, record)
    return model.to_bytes(), record


def _bursts(
    trace: Path, parts: Split, point: InflectionPoint, limits: SlowLimits, recipe: Recipe
) -> tuple[BurstReads | None, BurstReads | None, BurstReads | None]:
    """Examples of added bursts for training, validation and test, when there are to be any."""
    if not recipe.training.burst_share:
        return None, None, None
    return sample_bursts(
        trace,
        parts,
        recipe.training.burst_share,
        point.threshold_us,
        recipe.layout,
        recipe.training.seed,
        limits,
        **recipe.reader,
    )


def _examples(bursts: BurstReads | None) -> Examples | None:
    return None if bursts is None else Examples(bursts.digits, bursts.slow)


def _limits(reads: ReadSet, rows: slice, point: InflectionPoint, recipe: Recipe) -> SlowLimits:
    """What to teach as slow; medians come from the training part alone."""
    if recipe.labels == "paper":
        return SlowLimits.of_paper(point.threshold_us)
    return SlowLimits.of_avoidable(
        point.threshold_us,
        reads.latency_us[rows],
        reads.pages[rows],
        recipe.labelling.failover_us,
    )


def _record(
    trace: Path,
    reads: ReadSet,
    point: InflectionPoint,
    recipe: Recipe,
    network: TrainedNetwork,
    model: Model,
    digits: npt.NDArray[np.uint8],
    slow: npt.NDArray[np.bool_],
) -> dict[str, Any]:
    import tensorflow as tf

    options = recipe.training
    integer = engine.predict(model, digits)
    outputs = outputs_of(network.weights, digits)
    disagree = int(np.count_nonzero(integer != (outputs[:, 1] > outputs[:, 0])))
    parts = training.split(len(slow), options)
    by_slice = {name: Confusion.of(slow[rows], integer[rows]) for name, rows in vars(parts).items()}
    test = by_slice["test"]
    paths = trace_files(trace)
    return {
        "model_id": model.model_id,
        "threshold_us": point.threshold_us,
        "threshold_percentile": round(point.percentile, 2),
        "slow_ratio": point.slow_ratio,
        "start_percentile": round(point.start_percentile, 2),
        "boost_area_us": point.boost_area_us,
        "searched_percentiles": [round(float(end), 2) for end in point.searched_percentiles],
        "search_ended_at_edge": point.at_edge,
        "labelling": {**dataclasses.asdict(recipe.labelling), "replicas": point.replicas},
        # What is taught as slow; every confusion below is about these labels.
        "labels": recipe.labels,
        "labelled_slow_ratio": float(np.mean(slow)),
        # Of the integer model on the test slice, which decided nothing.
        "accuracy": test.accuracy,
        "false_submit_ratio": test.false_submit_ratio,
        "false_revoke_ratio": test.false_revoke_ratio,
        "slow_recall": test.slow_recall,
        **{name: confusion.to_json() for name, confusion in by_slice.items()},
        "decided_by": DECIDED_BY,
        "quantisation": {"reads": len(slow), "integer_differs_from_float": disagree},
        "reads": len(reads),
        **{f"{name}_reads": confusion.total for name, confusion in by_slice.items()},
        "layout": dataclasses.asdict(reads.layout),
        "options": dataclasses.asdict(options),
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
        "trace": {
            "files": [path.name for path in paths],
            "sha256": digest(paths),
            **reads.stats.counts,
        },
        "versions": {
            "linnapp": __version__,
            "tensorflow": tf.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
