# SPDX-License-Identifier: MIT
"""Judges a model on a trace: how often it would have been right, and how well it ranks reads."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError
from linnapp.learn.features import FeatureLayout, digits
from linnapp.learn.ranking import area_under_roc
from linnapp.learn.training import Confusion
from linnapp.model import Model, engine
from linnapp.trace.recorded import Recorded, open_recording

#: Ranking needs all scores at once. Of a longer trace every second, fourth, ... read is ranked,
#: which bounds memory to 200 MB and moves an area by less than 0.001.
MAX_RANKED_READS = 4_000_000


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A model against a trace.

    Attributes
    ----------
    model_id : str
    threshold_us : int
        What is slow.
    confusion : Confusion
        Over all served reads.
    mean_us : float
        Mean latency of the served reads.
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
        return {
            "model_id": self.model_id,
            "threshold_us": self.threshold_us,
            "reads": self.confusion.total,
            **self.confusion.to_json(),
            "always_fast_accuracy": self.always_fast_accuracy,
            "false_revoke_share": self.false_revoke_share,
            "mean_us": self.mean_us,
            "mean_admitted_us": self.mean_admitted_us,
            "auc": self.auc,
            "auc_last_latencies": self.auc_last_latencies,
            "auc_pending": self.auc_pending,
        }


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


def evaluate(
    model: Model, trace: Recorded, engine_name: engine.Engine = "numpy", **reader_options: Any
) -> Evaluation:
    """Run a model over a trace's served reads, in chunks.

    Raises
    ------
    TraceError
        If the trace cannot be read or holds no served read.
    """
    layout = FeatureLayout(model.history, model.pending_digits, model.latency_digits)
    counts = np.zeros(4, np.int64)
    sum_us = sum_admitted_us = 0.0
    n_admitted = 0
    scores = _Scores()
    for chunk in open_recording(trace, history=model.history, **reader_options):
        served = chunk.take(chunk.is_served_read)
        if not len(served):
            continue
        vectors = digits(served.pending, served.hist_pending, served.hist_latency_us, layout)
        outputs = engine.infer(model, vectors, engine_name)
        predicted = outputs[:, 1] > outputs[:, 0]
        latency_us = served.latency_ns // np.uint64(1000)
        slow = latency_us > np.uint64(model.threshold_us)
        counts += np.array(dataclasses.astuple(Confusion.of(slow, predicted)))
        sum_us += float(latency_us.sum())
        sum_admitted_us += float(latency_us[~predicted].sum())
        n_admitted += int(np.count_nonzero(~predicted))
        scores.add(
            outputs[:, 1] - outputs[:, 0],
            served.hist_latency_us.sum(axis=1, dtype=np.uint64),
            served.pending,
            slow,
        )
    confusion = Confusion(*(int(count) for count in counts))
    if not confusion.total:
        raise TraceError(f"{trace}: no completed read to evaluate on")
    margin, last_latencies, pending, ranked_slow = scores.columns()
    return Evaluation(
        model.model_id,
        model.threshold_us,
        confusion,
        sum_us / confusion.total,
        sum_admitted_us / n_admitted if n_admitted else 0.0,
        area_under_roc(margin, ranked_slow),
        area_under_roc(last_latencies, ranked_slow),
        area_under_roc(pending, ranked_slow),
    )
