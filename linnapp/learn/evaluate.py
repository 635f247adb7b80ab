# SPDX-License-Identifier: MIT
"""Evaluate a model on a trace, and several models on their ability to choose a drive.

:func:`evaluate` measures how accurate the predictions of one drive's model are, and how well they
rank its reads.

:func:`judge` measures whether predictions identify the faster of several drives at the same moment.
The area under the ROC curve does not show this. It mostly measures how well predictions distinguish
busy moments from quiet ones, and all drives of an array share these moments. Therefore pairs of
reads are compared: reads of the same size class that began on two drives at about the same time, in
recordings of one machine. A pair represents one read that either drive could have served.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import engine, stats
from linnapp.engine import digits, predict_hinted_us, predict_us
from linnapp.errors import TraceError
from linnapp.learn.judge import Confusion, area_under_roc
from linnapp.learn.labels import size_classes
from linnapp.model import CAP, LatencyModel, Model
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
        metrics = dataclasses.asdict(self)
        del metrics["confusion"]
        return {
            **metrics,
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
    """Scores by which reads are ranked. Beyond `MAX_RANKED_READS`, only every n-th is kept."""

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
    model: Model | LatencyModel, trace: Recorded, **reader_options: Any
) -> Iterator[Predictions]:
    """Run a model on the served reads of a trace, in chunks. Errors are as for :func:`evaluate`."""
    if not isinstance(model, Model | LatencyModel):
        raise TypeError(
            f"model={model!r}: expected a Model or a LatencyModel, such as the attribute model_ of "
            "the result of linnapp.load_model()"
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


def evaluate(model: Model | LatencyModel, trace: Recorded, **reader_options: Any) -> Evaluation:
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
    # Sums of the latencies of all reads and of admitted reads. For a latency model also sums of the
    # predictions, of their errors, and of the errors of the mean of the last latencies.
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
REDIRECT_MARGIN = 0.25

#: Maximum number of pairs whose sums are stored together, to limit the memory. If a part has fewer
#: pairs than `_SUMS_A_PART`, they are stored one by one, so that each is in its block of time.
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
    alternative: npt.NDArray[Any]
    #: Only reads of the same size class are paired.
    size_class: npt.NDArray[np.int64]

    @classmethod
    def from_served(cls, served: IoChunk, predicted: npt.NDArray[Any]) -> DriveReads:
        """Return served reads with their predictions. The alternative are the pending pages."""
        return cls(
            served.arrival_ns,
            np.minimum(served.latency_ns // np.uint64(1000), CAP).astype(np.uint32),
            predicted,
            served.pending,
            size_classes(-(-served.size_bytes.astype(np.int64) // PAGE_BYTES)),
        )


@dataclasses.dataclass(frozen=True)
class PairsJudged:
    """Benefit of predictions for choosing a drive: means over all pairs, with their intervals.

    Times are in us. If there are too few blocks of time, the intervals are unknown.
    """

    pairs: int
    #: Share of the pairs in which the slower read has the higher prediction. Ties count half.
    ranked_correctly: Interval
    #: Gain of reading from the drive with the lower prediction, compared with round robin, and
    #: compared with reading from the drive with the lower score of the alternative policy.
    gain_over_round_robin_us: Interval
    gain_over_alternative_us: Interval
    #: Gain compared with round robin if a read is redirected from the default replica only for a
    #: prediction that is lower by `REDIRECT_MARGIN`.
    gain_with_margin_us: Interval
    #: Gain of the faster drive compared with round robin, which no policy can exceed.
    oracle_gain_us: Interval


def match_pairs(
    first: DriveReads, second: DriveReads, within_us: float = WITHIN_US
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Match reads of two drives: each read of a pair is the nearest one of the other's drive.

    Parameters
    ----------
    first, second : DriveReads
    within_us : float
        Maximum time between the arrivals of the two reads of a pair.

    Returns
    -------
    first_rows, second_rows : intp array, shape (pairs,)
        Rows of the paired reads.
    """
    found = [(np.empty(0, np.intp), np.empty(0, np.intp))]
    for size_class in np.intersect1d(first.size_class, second.size_class):
        rows = [np.flatnonzero(reads.size_class == size_class) for reads in (first, second)]
        times = [
            reads.arrival_ns[chosen].astype(np.int64)
            for reads, chosen in zip((first, second), rows, strict=True)
        ]
        there, back = _nearest_to(*times), _nearest_to(*times[::-1])
        here = np.flatnonzero(back[there] == np.arange(len(there)))
        there = there[here]
        close = np.abs(times[0][here] - times[1][there]) <= within_us * 1000
        found.append((rows[0][here[close]], rows[1][there[close]]))
    first_rows, second_rows = (np.concatenate(part) for part in zip(*found, strict=True))
    return first_rows, second_rows


def _nearest_to(
    times: npt.NDArray[np.int64], others: npt.NDArray[np.int64]
) -> npt.NDArray[np.intp]:
    """Return the index of the nearest other time for each time. Both arrays ascend."""
    after = np.minimum(np.searchsorted(others, times), len(others) - 1)
    before = np.maximum(after - 1, 0)
    return np.where(times - others[before] <= others[after] - times, before, after)


def judge(drives: Sequence[Iterable[DriveReads]], within_us: float = WITHIN_US) -> PairsJudged:
    """Evaluate predictions for choosing among drives.

    Parameters
    ----------
    drives : sequence of iterable of DriveReads
        The reads of each drive, in one or more parts, in order of time. Memory use is two parts of
        each drive and 2 bytes per pair.
    within_us : float
        Maximum time between the arrivals of the two reads of a pair.
    """
    sums, starts_ns = [np.empty((0, 7))], [np.empty(0, np.uint64)]
    for parts in _aligned_parts(drives):
        found = []
        for first, second in itertools.combinations(parts, 2):
            rows = match_pairs(first, second, within_us)
            pairs = [reads.take(row) for reads, row in zip((first, second), rows, strict=True)]
            found.append((pairs[0].arrival_ns, _compare(*pairs)))
        if not found:
            continue
        times, columns = (np.concatenate(part) for part in zip(*found, strict=True))
        if len(times):
            order = np.argsort(times, kind="stable")
            step = min(_PAIRS_A_SUM, 1 + len(times) // _SUMS_A_PART)
            firsts = np.arange(0, len(times), step)
            sums.append(np.add.reduceat(columns[order], firsts))
            starts_ns.append(times[order[firsts]])
    return _summarise(np.concatenate(sums), np.concatenate(starts_ns))


def judge_models(
    models: Sequence[LatencyModel], traces: Sequence[Recorded], **reader_options: Any
) -> PairsJudged:
    """Compare the models of an array's drives with choosing the fewest pending pages.

    `traces` are simultaneous recordings of the drives on one machine, in the order of `models`.
    """

    def reads(model: LatencyModel, trace: Recorded) -> Iterator[DriveReads]:
        for found in predictions(model, trace, **reader_options):
            yield DriveReads.from_served(found.served, found.score)

    return judge([reads(model, trace) for model, trace in zip(models, traces, strict=True)])


def _aligned_parts(drives: Sequence[Iterable[DriveReads]]) -> Iterator[list[DriveReads]]:
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


#: Columns of the result of :func:`_compare`, after the number of pairs.
_RANKED, _ROUND_ROBIN, _ALTERNATIVE, _PREDICTED, _WITH_MARGIN, _ORACLE = range(6)


def _compare(first: DriveReads, second: DriveReads) -> Floats:
    """Compare the reads of each pair.

    Returns
    -------
    float array, shape (pairs, 7)
        1, then 1 if the prediction ranks the two reads correctly (0.5 for a tie), then the latency
        in us with each policy.
    """
    latency_us, predicted, alternative = (
        np.column_stack((getattr(first, name), getattr(second, name))).astype(np.float64)
        for name in ("latency_us", "predicted", "alternative")
    )
    orders = [np.sign(np.diff(pair, axis=1)[:, 0]) for pair in (latency_us, predicted)]
    return np.column_stack((
        np.ones(len(latency_us)),
        (1 + orders[0] * orders[1]) / 2,
        latency_us.mean(axis=1),
        _chosen_us(latency_us, alternative),
        _chosen_us(latency_us, predicted),
        _chosen_us(latency_us, predicted, REDIRECT_MARGIN),
        latency_us.min(axis=1),
    ))  # fmt: skip


def _chosen_us(latency_us: Floats, score: Floats, margin: float = 0.0) -> Floats:
    """Return the mean latency if reads are redirected to a lower score.

    Each drive of a pair is the default replica equally often.
    """
    redirected = score[:, ::-1] < (1 - margin) * score
    return np.asarray(np.where(redirected, latency_us[:, ::-1], latency_us).mean(axis=1))


def _summarise(sums: Floats, starts_ns: npt.NDArray[np.uint64]) -> PairsJudged:
    """Return the means of all pairs with their intervals, given sums by time."""
    if not len(sums):
        return PairsJudged(0, *[Interval.unknown()] * 5)
    numbers = stats.block_numbers(starts_ns)
    blocks = sums.sum(axis=0)[None] if numbers is None else stats.block_sums(numbers, *sums.T)
    n = len(blocks)
    # The first row is the original data.
    weights = np.concatenate([np.ones((1, n)), stats.resamples(n)])
    totals = weights @ blocks
    means = totals[:, 1:] / totals[:, :1]

    def estimate(column: int, minus: int | None = None) -> Interval:
        values = means[:, column] - (0.0 if minus is None else means[:, minus])
        return stats.block_interval(float(values[0]), values[1:], n)

    return PairsJudged(
        int(sums[:, 0].sum()),
        estimate(_RANKED),
        estimate(_ROUND_ROBIN, _PREDICTED),
        estimate(_ALTERNATIVE, _PREDICTED),
        estimate(_ROUND_ROBIN, _WITH_MARGIN),
        estimate(_ROUND_ROBIN, _ORACLE),
    )
