# SPDX-License-Identifier: MIT
"""Evaluate a model on a trace: how accurate its predictions are and how well it ranks reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError
from linnapp.learn.features.digits import digits
from linnapp.learn.judging.confusion import Confusion
from linnapp.learn.judging.ranking import area_under_roc
from linnapp.model import LatencyModel, Model, engine
from linnapp.model.latency_engine import predict_hinted_us, predict_us
from linnapp.trace.blktrace import IoChunk
from linnapp.trace.logged_drive import LoggedDrive
from linnapp.trace.recorded import Recorded, open_recording

#: Ranking needs all scores at once. In a longer trace only every second, fourth, ... read is
#: ranked, which limits memory to 200 MB and changes the area under the ROC curve by less than
#: 0.001.
MAX_RANKED_READS = 4_000_000


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Metrics of a model on a trace.

    Attributes
    ----------
    model_id : str
    threshold_us : int
        The inflection point of the model: a read that takes longer is slow.
    confusion : Confusion
        Of all served reads.
    mean_us, mean_admitted_us : float
        Mean latency of all served reads, and of those that the model would have admitted.
    auc : float or None
        Area under the ROC curve of the model's score. The score of a network is its margin (output
        for slow minus output for fast). None if all reads are slow or all are fast.
    auc_last_latencies, auc_pending : float or None
        The same for the mean latency of the last reads alone, and for the number of pending pages
        alone. A useful model must have a larger area than these.
    """

    model_id: str
    threshold_us: int
    confusion: Confusion
    mean_us: float
    mean_admitted_us: float
    auc: float | None
    auc_last_latencies: float | None
    auc_pending: float | None

    @property
    def always_fast_accuracy(self) -> float:
        """Accuracy of predicting every read as fast, that is, the share of fast reads."""
        return self._fast / self.confusion.total

    @property
    def false_revoke_share(self) -> float | None:
        """Share of the fast reads that the model would revoke, or None without fast reads."""
        return self.confusion.false_revoke / self._fast if self._fast else None

    @property
    def _fast(self) -> int:
        return self.confusion.true_fast + self.confusion.false_revoke

    def to_json(self) -> dict[str, Any]:
        """Return all metrics by name."""
        figures = dataclasses.asdict(self)
        del figures["confusion"]
        return {
            **figures,
            "reads": self.confusion.total,
            **self.confusion.to_json(),
            "always_fast_accuracy": self.always_fast_accuracy,
            "false_revoke_share": self.false_revoke_share,
        }


@dataclasses.dataclass(frozen=True)
class LatencyEvaluation(Evaluation):
    """Metrics of a latency model on a trace. It refuses reads predicted to exceed `refuse_us`.

    Attributes
    ----------
    refuse_us : int
        Limit of the model: it refuses reads with a longer predicted latency.
    mean_predicted_us : float
    mean_abs_log2_error, mean_abs_log2_error_last_latencies : float
        Mean absolute error of the base-2 logarithm of the latency: of the prediction, and of the
        mean latency of the last reads.
    """

    refuse_us: int
    mean_predicted_us: float
    mean_abs_log2_error: float
    mean_abs_log2_error_last_latencies: float

    def to_json(self) -> dict[str, Any]:
        """Return all metrics by name."""
        return {"kind": "latency", **super().to_json()}


class _Scores:
    """Scores by which reads are ranked. If there are very many, only every n-th is kept."""

    def __init__(self) -> None:
        self._step = 1
        self._n_seen = 0
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []

    def add(self, *columns: npt.NDArray[Any]) -> None:
        """Add the next reads, one array per column. Only every `_step`-th read is kept."""
        first = -self._n_seen % self._step
        self._n_seen += len(columns[0])
        self._parts.append(tuple(column[first :: self._step].copy() for column in columns))
        if self._n_seen > MAX_RANKED_READS * self._step:
            self._parts = [tuple(column[::2].copy() for column in self.columns())]
            self._step *= 2

    def columns(self) -> list[npt.NDArray[Any]]:
        """Return all reads that were kept, by column."""
        return [np.concatenate(column) for column in zip(*self._parts, strict=True)]


class _Tally:
    """Metrics that are accumulated chunk by chunk."""

    def __init__(self, threshold_us: int) -> None:
        self._threshold_us = threshold_us
        self._counts = np.zeros(4, np.int64)
        self._sum_us = self._sum_admitted_us = 0.0
        self._n_admitted = 0
        self._scores = _Scores()

    def add(
        self,
        served: IoChunk,
        refused: npt.NDArray[np.bool_],
        score: npt.NDArray[Any],
    ) -> npt.NDArray[np.uint64]:
        """Add the next served reads with the model's refusals and scores. Return latencies, us."""
        latency_us = served.latency_ns // np.uint64(1000)
        slow = latency_us > np.uint64(self._threshold_us)
        self._counts += np.array(dataclasses.astuple(Confusion.of(slow, refused)))
        self._sum_us += float(latency_us.sum())
        self._sum_admitted_us += float(latency_us[~refused].sum())
        self._n_admitted += int(np.count_nonzero(~refused))
        self._scores.add(
            score, served.hist_latency_us.sum(axis=1, dtype=np.uint64), served.pending, slow
        )
        return latency_us

    def result(self, model_id: str, trace: Recorded) -> Evaluation:
        """Return the metrics. Raise TraceError if no reads were added."""
        confusion = Confusion(*(int(count) for count in self._counts))
        if not confusion.total:
            raise TraceError(f"{trace}: no completed read to evaluate on")
        score, last_latencies, pending, slow = self._scores.columns()
        return Evaluation(
            model_id,
            self._threshold_us,
            confusion,
            self._sum_us / confusion.total,
            self._sum_admitted_us / self._n_admitted if self._n_admitted else 0.0,
            area_under_roc(score, slow),
            area_under_roc(last_latencies, slow),
            area_under_roc(pending, slow),
        )


@dataclasses.dataclass(frozen=True)
class Predictions:
    """Predictions of a model for the served reads of a chunk."""

    #: The served reads.
    served: IoChunk
    #: bool array, shape (n,). True for reads that the model would refuse.
    refused: npt.NDArray[np.bool_]
    #: integer array, shape (n,). Predicted slowness: for a network the margin of slow over fast,
    #: for a latency model the predicted latency in us.
    score: npt.NDArray[Any]


def predictions(
    model: Model | LatencyModel,
    trace: Recorded,
    **reader_options: Any,
) -> Iterator[Predictions]:
    """Run a model on the served reads of a trace, in chunks. Errors are as for :func:`evaluate`."""
    if not isinstance(model, Model | LatencyModel):
        raise TypeError(
            f"model={model!r}: expected a Model or a LatencyModel, as linnapp.load_model() has them"
        )
    drive = None
    if isinstance(model, LatencyModel):
        drive = LoggedDrive(model.overdue_us)
        reader_options["overdue_us"] = model.overdue_us
    for chunk in open_recording(trace, **reader_options):
        features = drive.features_of(chunk) if drive is not None else None
        served = chunk.take(chunk.is_served_read)
        if not len(served):
            continue
        if isinstance(model, LatencyModel):
            assert features is not None
            refused = predict_hinted_us(model, features) > model.refuse_us
            yield Predictions(served, refused, predict_us(model, features))
        else:
            vectors = digits(served.pending, served.hist_pending, served.hist_latency_us)
            outputs = engine.infer(model, vectors)
            margin = outputs[:, 1] - outputs[:, 0]
            yield Predictions(served, margin > 0, margin)


def evaluate(
    model: Model | LatencyModel,
    trace: Recorded,
    **reader_options: Any,
) -> Evaluation:
    """Run a model on the served reads of a trace, in chunks.

    Parameters
    ----------
    model : Model or LatencyModel
        Or a fitted model, see :mod:`linnapp.learn.fitted`.
    trace : path or IoTable
    **reader_options
        Those of :func:`~linnapp.trace.recorded.open_recording`.

    Returns
    -------
    Evaluation
        For a latency model, a :class:`LatencyEvaluation`.

    Raises
    ------
    TypeError
        If `model` is not a model.
    TraceError
        If the trace cannot be read or contains no completed read.
    """
    model = getattr(model, "model_", model)
    tally = _Tally(getattr(model, "threshold_us", 0))
    sums = np.zeros(3)
    for found in predictions(model, trace, **reader_options):
        latency_us = tally.add(found.served, found.refused, found.score)
        if isinstance(model, LatencyModel):
            latency_us = np.maximum(latency_us, 1)
            last_us = np.maximum(found.served.hist_latency_us.mean(axis=1), 1)
            sums += (
                found.score.sum(dtype=np.float64),
                np.abs(np.log2(latency_us / found.score)).sum(),
                np.abs(np.log2(latency_us / last_us)).sum(),
            )
    whole = tally.result(model.model_id, trace)
    if not isinstance(model, LatencyModel):
        return whole
    predicted_us, error, error_last = (sums / whole.confusion.total).tolist()
    return LatencyEvaluation(
        **vars(whole),
        refuse_us=model.refuse_us,
        mean_predicted_us=predicted_us,
        mean_abs_log2_error=error,
        mean_abs_log2_error_last_latencies=error_last,
    )
