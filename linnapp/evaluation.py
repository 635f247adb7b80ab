# SPDX-License-Identifier: MIT
"""Judges a model on a trace: how often it would have been right, and what that would do."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from linnapp import engine
from linnapp.blktrace import BlktraceReader
from linnapp.errors import TraceError
from linnapp.features import FeatureLayout, digits
from linnapp.files import AnyPath
from linnapp.model import Model
from linnapp.training import Confusion


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
    """

    model_id: str
    threshold_us: int
    confusion: Confusion
    mean_us: float
    mean_admitted_us: float

    def to_json(self) -> dict[str, Any]:
        """All figures by name."""
        return {
            "model_id": self.model_id,
            "threshold_us": self.threshold_us,
            "reads": self.confusion.total,
            **self.confusion.to_json(),
            "mean_us": self.mean_us,
            "mean_admitted_us": self.mean_admitted_us,
        }


def evaluate(
    model: Model, trace: AnyPath, engine_name: engine.Engine = "numpy", **reader_options: Any
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
    for chunk in BlktraceReader(trace, history=model.history, **reader_options):
        served = chunk.take(chunk.is_served_read)
        if not len(served):
            continue
        vectors = digits(served.pending, served.hist_pending, served.hist_latency_us, layout)
        predicted = engine.predict(model, vectors, engine_name)
        latency_us = served.latency_ns // np.uint64(1000)
        slow = latency_us > np.uint64(model.threshold_us)
        counts += np.array(dataclasses.astuple(Confusion.of(slow, predicted)))
        sum_us += float(latency_us.sum())
        sum_admitted_us += float(latency_us[~predicted].sum())
        n_admitted += int(np.count_nonzero(~predicted))
    confusion = Confusion(*(int(count) for count in counts))
    if not confusion.total:
        raise TraceError(f"{trace}: no completed read to evaluate on")
    return Evaluation(
        model.model_id,
        model.threshold_us,
        confusion,
        sum_us / confusion.total,
        sum_admitted_us / n_admitted if n_admitted else 0.0,
    )
