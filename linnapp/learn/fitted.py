# SPDX-License-Identifier: MIT
"""Models of the Python library (docs/library.md), which are fitted to one table of reads.

They do for one recording what :mod:`linnapp.learn.recipe` does for the traces of an array.
"""

from __future__ import annotations

import abc
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from linnapp.arguments import check_names
from linnapp.errors import TraceError
from linnapp.figures import axes_for
from linnapp.files import AnyPath
from linnapp.learn.drive_training import train_drive
from linnapp.learn.judging.evaluation import Evaluation, evaluate, predictions
from linnapp.learn.labelling.inflection import InflectionPoint, find_inflection_points
from linnapp.learn.options import (
    LatencyOptions,
    NetworkOptions,
    Observer,
    Recipe,
    recipe_of,
)
from linnapp.learn.recipe import read_latencies, releasing
from linnapp.learn.record import TrainedDrive
from linnapp.learn.trees.hedge_table import HedgeTable
from linnapp.model import LatencyModel, Model
from linnapp.trace.recorded import Recorded, drive_name

#: Options that determine how an inflection point is found.
_LABELLING = ("by_size", "failover_us", "method", "replicas", "search", "seed", "threshold_us")

#: Number of groups, by score, into which a figure divides the reads.
_PARTS = 20


class FittedModel(abc.ABC):
    """A drive's model and the record of how it was made.

    Two instances are equal if their models are equal, whatever they were made from.

    Attributes
    ----------
    model_ : Model or LatencyModel
        The model that the kernel runs.
    point_ : InflectionPoint
        The inflection point of the part of the reads that the model was trained on.
    record_ : dict
        How the model was made and how good it is (linnapp/topics/records.txt), JSON serialisable.
    """

    def __init__(self, trained: TrainedDrive, point: InflectionPoint) -> None:
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
        """Write the model to `path`, and its record to the same name with the suffix ``.json``.

        For a latency model, also write its hedging table with the suffix ``.hedge``.
        """
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
    """Boosted trees, which predict the latency of a read.

    Attributes
    ----------
    hedge_table_ : HedgeTable
        Times after which reads are hedged, depending on their predicted latency.
    """

    model_: LatencyModel

    @property
    def hedge_table_(self) -> HedgeTable:
        """Times after which reads are hedged, depending on their predicted latency."""
        assert self._trained.hedge_table is not None
        return self._trained.hedge_table

    def predict(self, reads: Recorded) -> npt.NDArray[np.uint32]:
        """Predict the latency of each served read in us, shape (n,).

        See :meth:`FittedModel.predict`.
        """
        score = [part.score for part in predictions(self.model_, reads)]
        return np.concatenate([np.empty(0, np.uint32), *score])


def fit_network(reads: Recorded, **options: Unpack[NetworkOptions]) -> FittedNetwork:
    """Train a network that classifies reads, as ``linnapp train`` does for a single trace.

    Parameters
    ----------
    reads : IoTable or path
        A table from :func:`~linnapp.trace.recorded.load`, or a part of it.
    bias : float or "auto"
        Weight of a false submit relative to a false revoke. "auto" selects the value that gives the
        array the lowest mean latency.
    labels : {"avoidable", "paper"}
        Definition of a slow read in training; see :mod:`linnapp.learn.labelling.labels`.
    max_refused : float, optional
        Maximum share of the fast reads that the model may refuse. 1 means no limit.
    even_if_worse : bool
        Return a model even if it is not better than admitting every read of the validation slice.
    seed : int
        Equal seeds give equal models, bit for bit.
    observer : Observer, optional
        Receives progress reports.
    **options
        Other options of :class:`~linnapp.learn.network.training.TrainingOptions` and, for the
        inflection point, of :class:`~linnapp.learn.labelling.inflection.LabellingOptions`.

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


def fit_latency(reads: Recorded, **options: Unpack[LatencyOptions]) -> FittedLatency:
    """Train a model that predicts the latency of reads, as ``linnapp train --kind latency``.

    Parameters
    ----------
    reads : IoTable or path
        A table from :func:`~linnapp.trace.recorded.load`, or a part of it.
    hedge_percentile : float
        A read is late if it takes longer than this percentage of the reads with a similar predicted
        latency, in each eighth of the recording.
    max_refused : float, optional
        Maximum share of the fast reads that the model may refuse. 1 means no limit.
    prior : bool
        If there are few reads, start from trees of other drives; see
        :class:`~linnapp.learn.options.Recipe`.
    seed : int
        Equal seeds give equal models, bit for bit.
    validation_share, test_share : float
        See :func:`linnapp.learn.features.split.split`.
    observer : Observer, optional
        Receives progress reports.
    **options
        Options for the inflection point, see
        :class:`~linnapp.learn.labelling.inflection.LabellingOptions`.

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
        Those of :class:`~linnapp.learn.labelling.inflection.LabellingOptions`, and `seed`.

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
    return find_inflection_points([distribution], recipe.labelling, recipe.training.seed)[0]


def _fit(
    reads: Recorded, recipe: Recipe, observer: Observer | None
) -> tuple[TrainedDrive, InflectionPoint]:
    observer = observer or Observer()
    with releasing():
        distribution = read_latencies(reads, recipe, observer)
        [point] = find_inflection_points([distribution], recipe.labelling, recipe.training.seed)
        observer.labelled(drive_name(reads), point, len(distribution))
        return train_drive(reads, point, recipe, observer), point
