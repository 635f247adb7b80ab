# SPDX-License-Identifier: MIT
"""The library's models (docs/library.md): fitted to a table of reads, they predict those of others.

What :mod:`linnapp.learn.recipe` does with the traces of an array, this does with one recording.
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
from linnapp.learn.recipe import read_latencies
from linnapp.learn.record import TrainedDrive
from linnapp.learn.trees.hedge_table import HedgeTable
from linnapp.model import LatencyModel, Model
from linnapp.trace.recorded import Recorded, drive_name

#: What says how an inflection point is found.
_LABELLING = ("by_size", "failover_us", "method", "replicas", "search", "seed", "threshold_us")

#: Parts of the reads, by their scores, that a figure shows.
_PARTS = 20


class FittedModel(abc.ABC):
    """A drive's model, and how it was made.

    Two are equal if their models are, whatever they were made from.

    Attributes
    ----------
    model_ : Model or LatencyModel
        What the kernel runs.
    point_ : InflectionPoint
        Found in the part of the reads that it was trained on.
    record_ : dict
        How it was made and how good it is (linnapp/topics/records.txt), as JSON takes it.
    """

    def __init__(self, trained: TrainedDrive, point: InflectionPoint) -> None:
        self.model_ = trained.model
        self.point_ = point
        self.record_ = trained.record
        self._trained = trained

    @property
    def model_id(self) -> str:
        """CRC-32 of the model's file as 8 hex digits, as the kernel prints it."""
        return self.model_.model_id

    @abc.abstractmethod
    def predict(self, reads: Recorded) -> npt.NDArray[Any]:
        """What it says of each read that was served: of ``reads.is_served_read``, in order."""

    def score(self, reads: Recorded) -> float:
        """The chance that it takes a slow read for slower than a fast one: 0.5 is guessing.

        That is the area under the ROC curve; not a number where all reads are slow, or all fast.
        :func:`linnapp.evaluate` has all figures.
        """
        area = self.evaluate(reads).auc
        return float("nan") if area is None else area

    def evaluate(self, reads: Recorded) -> Evaluation:
        """All figures on these reads."""
        return evaluate(self.model_, reads)

    def save(self, path: AnyPath) -> None:
        """Write the model to `path`, and beside it ``.json``, its record.

        Of a latency model also ``.hedge``, when to hedge by it.
        """
        self._trained.save(path)

    def plot(self, reads: Recorded, axes: Any = None) -> Any:
        """Draw how long reads took by how slow they were taken to be, in twentieths.

        Reads that it was not fitted to tell more.
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
    """The paper's network, which says of a read that it would be slow, or fast."""

    model_: Model

    def predict(self, reads: Recorded) -> npt.NDArray[np.bool_]:
        """Whether each served read would be slow, shape (n,); see :meth:`FittedModel.predict`."""
        refused = [part.refused for part in predictions(self.model_, reads)]
        return np.concatenate([np.empty(0, np.bool_), *refused])


class FittedLatency(FittedModel):
    """Trees, which say how long a read would take.

    Attributes
    ----------
    hedge_table_ : HedgeTable
        When to hedge a read, by what is predicted of it.
    """

    model_: LatencyModel

    @property
    def hedge_table_(self) -> HedgeTable:
        """When to hedge a read, by what is predicted of it."""
        assert self._trained.hedge_table is not None
        return self._trained.hedge_table

    def predict(self, reads: Recorded) -> npt.NDArray[np.uint32]:
        """How long each served read would take, in us, shape (n,).

        See :meth:`FittedModel.predict`.
        """
        score = [part.score for part in predictions(self.model_, reads)]
        return np.concatenate([np.empty(0, np.uint32), *score])


def fit_network(reads: Recorded, **options: Unpack[NetworkOptions]) -> FittedNetwork:
    """Train a network: slow or fast. As ``linnapp train`` does for a single trace.

    Parameters
    ----------
    reads : IoTable or path
        What :func:`~linnapp.trace.recorded.load` has read, or a part of it.
    bias : float or "auto"
        How much worse a false submit is than a false revoke; "auto": what gives the array the
        lowest mean latency.
    labels : {"avoidable", "paper"}
        What is taught as slow; see :mod:`linnapp.learn.labelling.labels`.
    max_refused : float, optional
        Share of the fast reads that it may refuse; 1 is no limit.
    even_if_worse : bool
        Make one even if, by the validation slice, it is not better than admitting every read.
    seed : int
        Equal seeds give equal models, bit for bit.
    observer : Observer, optional
        Told of what goes on.
    **options
        Others of :class:`~linnapp.learn.network.training.TrainingOptions` and, about the
        inflection point, of :class:`~linnapp.learn.labelling.inflection.LabellingOptions`.

    Raises
    ------
    TraceError
        If there is nothing to learn from.
    NoGainError
        If no model would be better than admitting every read.
    TypeError, ValueError
        If an option is not known, or its value is none.
    """
    trained, point = _fit(reads, recipe_of("network", options), options.get("observer"))
    return FittedNetwork(trained, point)


def fit_latency(reads: Recorded, **options: Unpack[LatencyOptions]) -> FittedLatency:
    """Train a latency model: how long a read will take. As ``linnapp train --kind latency``.

    Parameters
    ----------
    reads : IoTable or path
        What :func:`~linnapp.trace.recorded.load` has read, or a part of it.
    hedge_percentile : float
        A read is late when it takes longer than so many percent do of those that are predicted to
        take as long, in each eighth of the recording.
    max_refused : float, optional
        Share of the fast reads that it may refuse; 1 is no limit.
    prior : bool
        Of few reads make what other drives taught, see :class:`~linnapp.learn.options.Recipe`.
    seed : int
        Equal seeds give equal models, bit for bit.
    validation_share, test_share : float
        See :func:`linnapp.learn.features.split.split`.
    observer : Observer, optional
        Told of what goes on.
    **options
        About the inflection point, those of
        :class:`~linnapp.learn.labelling.inflection.LabellingOptions`.

    Raises
    ------
    TraceError
        If there is nothing to learn from.
    TypeError, ValueError
        If an option is not known, or its value is none.
    """
    trained, point = _fit(reads, recipe_of("latency", options), options.get("observer"))
    return FittedLatency(trained, point)


def inflection_point(reads: Recorded, **options: Any) -> InflectionPoint:
    """Find a drive's inflection point: beyond it, a read is slow. As ``linnapp label`` does.

    Parameters
    ----------
    reads : IoTable or path
        The drive stands for its replicas.
    **options
        Those of :class:`~linnapp.learn.labelling.inflection.LabellingOptions`, and `seed`.

    Returns
    -------
    InflectionPoint
        From all these reads; what fits a model finds one in the part that it trains on.

    Raises
    ------
    TraceError
        If there is no served read.
    TypeError, ValueError
        If an option is not known, or its value is none.
    """
    check_names("inflection_point", options, _LABELLING)
    recipe = recipe_of("network", options)
    distribution = read_latencies(reads, recipe, whole=True)
    return find_inflection_points([distribution], recipe.labelling, recipe.training.seed)[0]


def _fit(
    reads: Recorded, recipe: Recipe, observer: Observer | None
) -> tuple[TrainedDrive, InflectionPoint]:
    observer = observer or Observer()
    distribution = read_latencies(reads, recipe, observer)
    [point] = find_inflection_points([distribution], recipe.labelling, recipe.training.seed)
    observer.labelled(drive_name(reads), point, len(distribution))
    return train_drive(reads, point, recipe, observer), point
