# SPDX-License-Identifier: MIT
"""Evaluate a model on a trace: how accurate its predictions are and how well it ranks reads.

Test whether predictions identify the faster of several drives at the same moment.

The area under the ROC curve mostly measures how well predictions distinguish busy moments from
quiet ones. All drives of an array share these moments, so this ability is of no use in choosing
among the drives. This module therefore pairs reads of similar size that began on two drives at
about the same time, in recordings of one machine. A pair represents one read that either drive
could have served.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import stats
from linnapp.errors import TraceError
from linnapp.learn.examples import digits
from linnapp.learn.judge import Confusion, area_under_roc
from linnapp.learn.labels import size_classes
from linnapp.model import LatencyModel, Model, engine
from linnapp.model.engine import predict_hinted_us, predict_us
from linnapp.model.file import CAP
from linnapp.stats import Interval
from linnapp.trace.blktrace import IoChunk
from linnapp.trace.logged_drive import PAGE_BYTES, LoggedDrive
from linnapp.trace.reads import Recorded, open_recording
from linnapp.trace.rows import Rows

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
        return self.confusion.fast / self.confusion.total

    def to_json(self) -> dict[str, Any]:
        """Return all metrics by name."""
        figures = dataclasses.asdict(self)
        del figures["confusion"]
        return {
            **figures,
            "reads": self.confusion.total,
            **self.confusion.to_json(),
            "always_fast_accuracy": self.always_fast_accuracy,
            "false_revoke_share": self.confusion.false_revoke_share,
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
        Or a fitted model, see :mod:`linnapp.learn.fit`.
    trace : path or IoTable
    **reader_options
        Those of :func:`~linnapp.trace.reads.open_recording`.

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
    threshold_us = getattr(model, "threshold_us", 0)
    scores = _Scores()
    counts = np.zeros(4, np.int64)
    #: Sums over all reads: latency, and that of admitted reads. For a latency model, prediction,
    #: and errors of the prediction and of the mean of the last latencies.
    sums = np.zeros(5)
    for found in predictions(model, trace, **reader_options):
        served = found.served
        latency_us = served.latency_ns // np.uint64(1000)
        slow = latency_us > np.uint64(threshold_us)
        counts += np.array(dataclasses.astuple(Confusion.of(slow, found.refused)))
        sums[:2] += float(latency_us.sum()), float(latency_us[~found.refused].sum())
        last_us = served.hist_latency_us.sum(axis=1, dtype=np.uint64)
        scores.add(found.score, last_us, served.pending, slow)
        if isinstance(model, LatencyModel):
            latency_us = np.maximum(latency_us, 1)
            mean_last_us = np.maximum(served.hist_latency_us.mean(axis=1), 1)
            sums[2:] += (
                found.score.sum(dtype=np.float64),
                np.abs(np.log2(latency_us / found.score)).sum(),
                np.abs(np.log2(latency_us / mean_last_us)).sum(),
            )
    confusion = Confusion(*counts.tolist())
    if not confusion.total:
        raise TraceError(f"{trace}: no completed read to evaluate on")
    *ranked, slow = scores.columns()
    n_admitted = confusion.true_fast + confusion.false_submit
    whole = Evaluation(
        model.model_id,
        threshold_us,
        confusion,
        float(sums[0]) / confusion.total,
        float(sums[1]) / n_admitted if n_admitted else 0.0,
        *(area_under_roc(score, slow) for score in ranked),
    )
    if not isinstance(model, LatencyModel):
        return whole
    predicted_us, error, error_last = (sums[2:] / confusion.total).tolist()
    return LatencyEvaluation(
        **vars(whole),
        refuse_us=model.refuse_us,
        mean_predicted_us=predicted_us,
        mean_abs_log2_error=error,
        mean_abs_log2_error_last_latencies=error_last,
    )


#: Maximum time between the reads of a pair in us, about the duration of a read. A longer limit
#: would pair reads under different loads, a shorter one would give few pairs.
WITHIN_US = 200

#: The other drive's prediction must be lower by this share to redirect a read from the default
#: replica, as with `replayer --margin`.
HOME_MARGIN = 0.25

#: Maximum number of pairs whose sums are stored together. Few pairs are stored one by one, so that
#: each is in the right block of time.
_PAIRS_A_SUM = 32
_SUMS_A_PART = 1024

Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class DriveReads(Rows):
    """Served reads of a drive, in order of arrival."""

    #: uint64 array, shape (n,). The clock is common to all drives.
    arrival_ns: npt.NDArray[np.uint64]
    #: Arrays of shape (n,).
    latency_us: npt.NDArray[np.uint32]
    predicted: npt.NDArray[Any]
    #: Score of an alternative policy: pending pages, or the prediction of another model.
    rival: npt.NDArray[Any]
    #: Class of the read, such as its size class. Only reads of the same class are paired.
    kind: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class PairsJudged:
    """Benefit of predictions for choosing a drive: means over all pairs, with their intervals.

    Times are in us. If there are too few blocks of time, the intervals are unknown.
    """

    pairs: int
    #: Share of the pairs in which the slower read has the higher prediction. Ties count half.
    right: Interval
    #: Gain of the lower prediction compared with round robin, and with the lower `rival`.
    over_turns_us: Interval
    over_rival_us: Interval
    #: Gain compared with round robin if a read leaves the default replica only for a prediction
    #: that is lower by `HOME_MARGIN`.
    with_margin_us: Interval
    #: Gain of the faster drive, an upper bound that cannot be known in advance.
    at_best_us: Interval


def nearest(
    first: DriveReads, second: DriveReads, within_us: float = WITHIN_US
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the rows of paired reads of two drives, each of which is nearest to the other.

    Only reads of the same class are paired, at most `within_us` apart.
    """
    found = [(np.empty(0, np.intp), np.empty(0, np.intp))]
    for kind in np.intersect1d(first.kind, second.kind):
        rows = [np.flatnonzero(reads.kind == kind) for reads in (first, second)]
        times = [
            reads.arrival_ns[here].astype(np.int64)
            for reads, here in zip((first, second), rows, strict=True)
        ]
        there, back = _nearest_to(*times), _nearest_to(*times[::-1])
        here = np.flatnonzero(back[there] == np.arange(len(there)))
        there = there[here]
        close = np.abs(times[0][here] - times[1][there]) <= within_us * 1000
        found.append((rows[0][here[close]], rows[1][there[close]]))
    mine, other = (np.concatenate(part) for part in zip(*found, strict=True))
    return mine, other


def _nearest_to(
    times: npt.NDArray[np.int64], others: npt.NDArray[np.int64]
) -> npt.NDArray[np.intp]:
    """Return the index of the nearest other time for each time. Both arrays ascend."""
    after = np.minimum(np.searchsorted(others, times), len(others) - 1)
    before = np.maximum(after - 1, 0)
    return np.where(times - others[before] <= others[after] - times, before, after)


def judge(drives: Sequence[Iterable[DriveReads]], within_us: float = WITHIN_US) -> PairsJudged:
    """Evaluate predictions for several drives, whose reads are given in parts, in order of time.

    Memory use is two parts of each drive and 2 bytes per pair.
    """
    sums, starts_ns = [np.empty((0, 7))], [np.empty(0, np.uint64)]
    for parts in _together(drives):
        found = []
        for first, second in itertools.combinations(parts, 2):
            rows = nearest(first, second, within_us)
            pairs = [reads.take(row) for reads, row in zip((first, second), rows, strict=True)]
            found.append((pairs[0].arrival_ns, _columns(*pairs)))
        if not found:
            continue
        times, columns = (np.concatenate(part) for part in zip(*found, strict=True))
        if len(times):
            order = np.argsort(times, kind="stable")
            step = min(_PAIRS_A_SUM, 1 + len(times) // _SUMS_A_PART)
            firsts = np.arange(0, len(times), step)
            sums.append(np.add.reduceat(columns[order], firsts))
            starts_ns.append(times[order[firsts]])
    return _judged(np.concatenate(sums), np.concatenate(starts_ns))


def judge_models(
    models: Sequence[LatencyModel], traces: Sequence[Recorded], **reader_options: Any
) -> PairsJudged:
    """Compare the models of an array's drives with choosing the fewest pending pages.

    `traces` are simultaneous recordings of the drives on one machine, in the order of `models`.
    """

    def reads(model: LatencyModel, trace: Recorded) -> Iterator[DriveReads]:
        for found in predictions(model, trace, **reader_options):
            served = found.served
            yield DriveReads(
                served.arrival_ns,
                np.minimum(served.latency_ns // np.uint64(1000), CAP).astype(np.uint32),
                found.score,
                served.pending,
                size_classes(-(-served.size_bytes.astype(np.int64) // PAGE_BYTES)),
            )

    return judge([reads(*of) for of in zip(models, traces, strict=True)])


def _together(drives: Sequence[Iterable[DriveReads]]) -> Iterator[list[DriveReads]]:
    """Yield parts of all drives that cover the same period, no longer than the input parts."""
    streams = [iter(drive) for drive in drives]
    held = [(next(stream, None), next(stream, None)) for stream in streams]
    while True:
        ends = [
            int(now.arrival_ns[-1]) for now, then in held if now is not None and then is not None
        ]
        until = min(ends, default=None)
        parts = []
        for k, (now, then) in enumerate(held):
            if now is None:
                continue
            cut = len(now) if until is None else np.searchsorted(now.arrival_ns, until, "right")
            parts.append(now.take(slice(0, cut)))
            if cut < len(now) or then is None:
                held[k] = (now.take(slice(cut, None)), then)
            else:
                held[k] = (then, next(streams[k], None))
        yield parts
        if until is None:
            return


def _columns(first: DriveReads, second: DriveReads) -> Floats:
    """Return for each pair: 1, whether the ranking is correct, and the latency of each policy."""
    latency_us, predicted, rival = (
        np.column_stack((getattr(first, name), getattr(second, name))).astype(np.float64)
        for name in ("latency_us", "predicted", "rival")
    )
    orders = [np.sign(np.diff(of, axis=1)[:, 0]) for of in (latency_us, predicted)]
    return np.column_stack((
        np.ones(len(latency_us)),
        (1 + orders[0] * orders[1]) / 2,
        latency_us.mean(axis=1),
        _chosen_us(latency_us, rival),
        _chosen_us(latency_us, predicted),
        _chosen_us(latency_us, predicted, HOME_MARGIN),
        latency_us.min(axis=1),
    ))  # fmt: skip


def _chosen_us(latency_us: Floats, score: Floats, margin: float = 0.0) -> Floats:
    """Return the mean latency if reads are redirected to a lower score.

    Each drive of a pair is the default replica equally often.
    """
    leaves = score[:, ::-1] < (1 - margin) * score
    return np.asarray(np.where(leaves, latency_us[:, ::-1], latency_us).mean(axis=1))


def _judged(sums: Floats, starts_ns: npt.NDArray[np.uint64]) -> PairsJudged:
    if not len(sums):
        return PairsJudged(0, *[Interval.unknown()] * 5)
    numbers = stats.block_numbers(starts_ns)
    blocks = sums.sum(axis=0)[None] if numbers is None else stats.block_sums(numbers, *sums.T)
    n = len(blocks)
    # The first row is the original data.
    weights = np.concatenate([np.ones((1, n)), stats.resamples(n)])
    drawn = weights @ blocks
    means = drawn[:, 1:] / drawn[:, :1]

    def estimate(column: int, less: int | None = None) -> Interval:
        found = means[:, column] - (0.0 if less is None else means[:, less])
        return stats.block_interval(float(found[0]), found[1:], n)

    right, turns, rival, followed, margin, best = range(6)
    return PairsJudged(
        int(sums[:, 0].sum()),
        estimate(right),
        estimate(turns, followed),
        estimate(rival, followed),
        estimate(turns, margin),
        estimate(turns, best),
    )
