# SPDX-License-Identifier: MIT
"""The result of training a drive: a model of any kind, and the record of how it was made."""

from __future__ import annotations

import abc
import dataclasses
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import __version__
from linnapp.errors import TraceError
from linnapp.figures import axes_for
from linnapp.files import AnyPath, replace_text
from linnapp.learn.evaluate import Evaluation, evaluate, predictions
from linnapp.learn.labels import InflectionPoint
from linnapp.learn.options import Recipe
from linnapp.model import LatencyModel, Model
from linnapp.trace.blktrace import TraceStats
from linnapp.trace.reads import IoTable, Recorded, contents_of

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

        The record is written last, so that the model is complete if the record exists.
        """
        path = Path(path)
        self.model_.save(path)
        replace_text(path.with_suffix(".json"), json.dumps(self.record_, indent=1) + "\n")

    def plot(self, reads: Recorded, axes: Any = None) -> Any:
        """Plot the latency of reads against their predicted slowness, in groups of 5 %.

        The plot shows more if the model was not fitted to these reads.

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
            raise TraceError(f"{reads}: contains no completed read to plot")
        score = np.concatenate([part.score for part in found])
        latency_us = np.concatenate([part.served.latency_ns for part in found]) / 1000
        order = np.argsort(score, kind="stable")
        parts = [part for part in np.array_split(latency_us[order], _PARTS) if len(part)]
        share = 100 * (np.arange(len(parts)) + 0.5) / len(parts)
        axes.plot(share, [part.mean() for part in parts], "o-", label="mean")
        axes.plot(share, [np.percentile(part, 95) for part in parts], "^-", label="p95")
        axes.axhline(self.model_.threshold_us, color="tab:red", label="inflection point")
        axes.set_yscale("log")
        axes.set_xlabel("reads in order of their predicted slowness, %")
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


def fitted(
    model: Model | LatencyModel, record: dict[str, Any], point: InflectionPoint | None = None
) -> FittedModel:
    """Return the result of training a drive, of the model's kind."""
    kind = FittedLatency if isinstance(model, LatencyModel) else FittedNetwork
    return kind(model, record, point)


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
