# SPDX-License-Identifier: MIT
"""Judges a model on a trace: how often it would have been right, and how well it ranks reads."""

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

#: Ranking needs all scores at once. Of a longer trace every second, fourth, ... read is ranked,
#: which bounds memory to 200 MB and moves an area by less than 0.001.
MAX_RANKED_READS = 4_000_000


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A model against a trace.

    Attributes
    ----------
    confusion : Confusion
        Over all served reads.
    mean_admitted_us : float
        Mean latency of those that the model would have admitted.
    auc : float or None
        Area under the ROC curve of the model's margin (slow output less fast output); None where
        all reads are slow, or all fast.
    auc_last_latencies, auc_pending : float or None
        Of the mean of the last reads' latencies alone, and of the pending pages alone: what a model
        must beat to be worth its while.
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
        """Accuracy of predicting every read fast: the share of fast reads."""
        return self._fast / self.confusion.total

    @property
    def false_revoke_share(self) -> float | None:
        """Share of the fast reads that the model would revoke; None without fast reads."""
        return self.confusion.false_revoke / self._fast if self._fast else None

    @property
    def _fast(self) -> int:
        return self.confusion.true_fast + self.confusion.false_revoke

    def to_json(self) -> dict[str, Any]:
        """All figures by name."""
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
    """A latency model against a trace; as a verdict it refuses what it predicts beyond `refuse_us`.

    Attributes
    ----------
    chooses : bool
        Whether reads may be refused, or sent elsewhere, by it.
    mean_predicted_us : float
    mean_abs_log2_error, mean_abs_log2_error_last_latencies : float
        Mean distance of the latency from the prediction, and from the mean of the last reads'
        latencies, in powers of two.
    """

    refuse_us: int
    chooses: bool
    mean_predicted_us: float
    mean_abs_log2_error: float
    mean_abs_log2_error_last_latencies: float

    def to_json(self) -> dict[str, Any]:
        """All figures by name."""
        return {"kind": "latency", **super().to_json()}


class _Scores:
    """What reads are ranked by; of very many every second, fourth, ... one."""

    def __init__(self) -> None:
        self._step = 1
        self._n_seen = 0
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []

    def add(self, *columns: npt.NDArray[Any]) -> None:
        """The next reads, one array a column; kept are multiples of the step."""
        first = -self._n_seen % self._step
        self._n_seen += len(columns[0])
        self._parts.append(tuple(column[first :: self._step].copy() for column in columns))
        if self._n_seen > MAX_RANKED_READS * self._step:
            self._parts = [tuple(column[::2].copy() for column in self.columns())]
            self._step *= 2

    def columns(self) -> list[npt.NDArray[Any]]:
        """All that were kept."""
        return [np.concatenate(column) for column in zip(*self._parts, strict=True)]


class _Tally:
    """What is counted of the reads, chunk by chunk."""

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
        """The next served reads, whether the model refuses them, how slow it takes them to be."""
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
        """What came of it."""
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
    """What a model says of a chunk's served reads."""

    #: The reads.
    served: IoChunk
    #: bool array, shape (n,); what it would refuse.
    refused: npt.NDArray[np.bool_]
    #: integer array, shape (n,); how slow it takes them to be: of a network the margin of slow over
    #: fast, of a latency model the prediction in us.
    score: npt.NDArray[Any]


def predictions(
    model: Model | LatencyModel,
    trace: Recorded,
    **reader_options: Any,
) -> Iterator[Predictions]:
    """Run a model over a trace's served reads, chunk by chunk; errors as of :func:`evaluate`."""
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
    """Run a model over a trace's served reads, in chunks.

    Parameters
    ----------
    model : Model or LatencyModel
        Or what was fitted, see :mod:`linnapp.learn.fitted`.
    **reader_options
        Those of :func:`~linnapp.trace.recorded.open_recording`.

    Returns
    -------
    Evaluation
        Of a latency model, a :class:`LatencyEvaluation`.
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
        chooses=model.chooses,
        mean_predicted_us=predicted_us,
        mean_abs_log2_error=error,
        mean_abs_log2_error_last_latencies=error_last,
    )
