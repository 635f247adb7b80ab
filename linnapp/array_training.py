# SPDX-License-Identifier: MIT
"""From the traces of an array to its models: label, train, quantise, record.

The drives of an array are each other's replicas: their inflection points are found together, and
each drive then gets a model of its own, ``<trace>.linnos``, with a training record beside it,
``<trace>.json``. The directory appears whole or not at all.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from linnapp import __version__, engine, training
from linnapp.blktrace import trace_files
from linnapp.dataset import ReadSet, digest, load_reads
from linnapp.errors import TraceError
from linnapp.features import FeatureLayout
from linnapp.files import replaced_directory
from linnapp.inflection import (
    FAILOVER_US,
    REPLICAS,
    InflectionPoint,
    LatencyDistribution,
    Method,
    find_inflection_points,
)
from linnapp.model import SUFFIX, Model
from linnapp.quantisation import quantise
from linnapp.training import Confusion, Epoch, TrainedNetwork, TrainingOptions


class Observer(Protocol):
    """What a caller may want to show while an array is trained."""

    def reading(self, drive: str, done_bytes: int, total_bytes: int) -> None:
        """A trace is being read."""

    def labelled(self, drive: str, point: InflectionPoint, n_reads: int) -> None:
        """A drive's inflection point is known."""

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

    def epoch(self, drive: str, epoch: Epoch) -> None:
        """Nothing to show."""

    def trained(self, drive: str, model: Model, record: dict[str, Any]) -> None:
        """Nothing to show."""


@dataclasses.dataclass(frozen=True)
class LabellingOptions:
    """How to find inflection points; see :func:`~linnapp.inflection.find_inflection_points`."""

    method: Method = "exact"
    replicas: int = REPLICAS
    failover_us: float = FAILOVER_US


def drive_name(trace: Path) -> str:
    """A trace's drive: the file name without ``.blk`` or ``.blktrace.N``."""
    name = trace_files(trace)[0].name
    return name.split(".blktrace.")[0].removesuffix(".blk")


def drive_names(traces: Sequence[Path]) -> list[str]:
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


def label_array(
    traces: Sequence[Path],
    options: LabellingOptions,
    seed: int,
    layout: FeatureLayout | None = None,
    observer: Observer | None = None,
    **reader_options: Any,
) -> tuple[list[ReadSet], list[InflectionPoint]]:
    """Read an array's traces and find its drives' inflection points.

    Raises
    ------
    TraceError
        If a trace cannot be read or holds no served read.
    """
    observer = observer or SilentObserver()
    names = drive_names(traces)
    read_sets = []
    for name, trace in zip(names, traces, strict=True):
        read_sets.append(
            load_reads(
                trace,
                layout,
                on_progress=lambda done, total, name=name: observer.reading(name, done, total),  # type: ignore[misc]
                **reader_options,
            )
        )
    points = find_inflection_points(
        [LatencyDistribution(reads.latency_us) for reads in read_sets],
        method=options.method,
        replicas=options.replicas,
        failover_us=options.failover_us,
        seed=seed,
    )
    for name, point, reads in zip(names, points, read_sets, strict=True):
        observer.labelled(name, point, len(reads))
    return read_sets, points


def train_array(
    traces: Sequence[Path],
    out_dir: Path,
    *,
    labelling: LabellingOptions | None = None,
    options: TrainingOptions | None = None,
    layout: FeatureLayout | None = None,
    observer: Observer | None = None,
    **reader_options: Any,
) -> list[Model]:
    """Train the models of an array.

    Parameters
    ----------
    traces : sequence of Path
        One per drive; a single one stands for its replicas.
    out_dir : Path
        Replaced by a directory with a model and a record per trace.
    labelling : LabellingOptions, optional
    options : TrainingOptions, optional
    layout : FeatureLayout, optional
    observer : Observer, optional
    **reader_options
        Those of :class:`~linnapp.blktrace.BlktraceReader`.

    Returns
    -------
    list of Model
        In the order of the traces.

    Raises
    ------
    TraceError
        If a trace cannot be read, or has nothing to learn from.
    """
    labelling = labelling or LabellingOptions()
    options = options or TrainingOptions()
    layout = layout or FeatureLayout()
    observer = observer or SilentObserver()
    read_sets, points = label_array(
        traces, labelling, options.seed, layout, observer, **reader_options
    )
    models = []
    with replaced_directory(out_dir) as directory:
        for trace, reads, point in zip(traces, read_sets, points, strict=True):
            name = drive_name(trace)
            model, record = train_drive(
                trace,
                reads,
                point,
                labelling,
                options,
                lambda e, name=name: observer.epoch(name, e),  # type: ignore[misc]
            )
            model.save(directory / f"{name}{SUFFIX}")
            (directory / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
            observer.trained(name, model, record)
            models.append(model)
            if record["interrupted"]:
                # ctrl-C: what is ready is kept, the drives that had not begun have no model.
                break
    return models


def train_drive(
    trace: Path,
    reads: ReadSet,
    point: InflectionPoint,
    labelling: LabellingOptions,
    options: TrainingOptions,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> tuple[Model, dict[str, Any]]:
    """Train one drive's model on its labelled reads; returns it with its training record."""
    begin = time.monotonic()
    digits = reads.digits()
    slow = reads.latency_us > point.threshold_us
    try:
        network = training.train(digits, slow, options, on_epoch)
    except TraceError as error:
        raise TraceError(f"{trace}: {error}") from error
    model = quantise(dict(network.weights), point.threshold_us, reads.layout)
    record = _record(trace, reads, point, labelling, options, network, model, digits, slow)
    record["training_seconds"] = round(time.monotonic() - begin, 3)
    return model, record


def _record(
    trace: Path,
    reads: ReadSet,
    point: InflectionPoint,
    labelling: LabellingOptions,
    options: TrainingOptions,
    network: TrainedNetwork,
    model: Model,
    digits: npt.NDArray[np.uint8],
    slow: npt.NDArray[np.bool_],
) -> dict[str, Any]:
    import tensorflow as tf

    integer = engine.predict(model, digits)
    outputs = training.outputs_of(network.weights, digits)
    disagree = int(np.count_nonzero(integer != (outputs[:, 1] > outputs[:, 0])))
    first = training.split_point(len(slow), options.validation_share)
    validation = Confusion.of(slow[first:], integer[first:])
    paths = trace_files(trace)
    return {
        "model_id": model.model_id,
        "threshold_us": point.threshold_us,
        "threshold_percentile": round(point.percentile, 2),
        "slow_ratio": point.slow_ratio,
        "start_percentile": round(point.start_percentile, 2),
        "boost_area_us": point.boost_area_us,
        "labelling": dataclasses.asdict(labelling),
        # Of the integer model on the validation slice, which training never saw.
        "accuracy": validation.accuracy,
        "false_submit_ratio": validation.false_submit_ratio,
        "false_revoke_ratio": validation.false_revoke_ratio,
        "slow_recall": validation.slow_recall,
        "validation": validation.to_json(),
        "training": Confusion.of(slow[:first], integer[:first]).to_json(),
        "quantisation": {"reads": len(slow), "integer_differs_from_float": disagree},
        "reads": len(reads),
        "training_reads": first,
        "validation_reads": len(slow) - first,
        "layout": dataclasses.asdict(reads.layout),
        "options": dataclasses.asdict(options),
        "batch_reads": training.batch_size(first),
        "interrupted": network.interrupted,
        "best_epoch": network.best.number,
        "epochs": [
            {
                "epoch": epoch.number,
                "loss": epoch.loss,
                "validation_loss": epoch.validation_loss,
                **{k: v for k, v in dataclasses.asdict(epoch.confusion).items() if "false" in k},
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
