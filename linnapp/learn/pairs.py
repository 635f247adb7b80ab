# SPDX-License-Identifier: MIT
"""Judge whether predictions identify the faster of several drives at the same moment.

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

from linnapp import stats
from linnapp.learn.judge import predictions
from linnapp.learn.labels import size_classes
from linnapp.model import CAP, LatencyModel
from linnapp.stats import Floats, Interval
from linnapp.trace.blktrace import IoChunk, Rows
from linnapp.trace.reads import Recorded, pages_of

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
        """Return served reads with their predictions. The alternative policy uses pending pages."""
        return cls(
            served.arrival_ns,
            np.minimum(served.latency_ns // np.uint64(1000), CAP).astype(np.uint32),
            predicted,
            served.pending,
            size_classes(pages_of(served.size_bytes)),
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
    """Match reads of two drives that arrived at about the same time.

    In a pair, each read is the nearest in time to the other among the reads of its drive and size
    class, and they arrived within `within_us` of each other. Return the rows of the first and of
    the second drive's reads, each of shape (pairs,).
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
    """Evaluate predictions for choosing among drives; see :func:`match_pairs`.

    The reads of each drive are in one or more parts, in order of time. Memory use is two parts of
    each drive and 2 bytes per pair.
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
    """Compare the reads of each pair, shape (pairs, 7).

    The columns are 1, then 1 if the prediction ranks the two reads correctly (0.5 for a tie), then
    the latency in us with each policy.
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
