# SPDX-License-Identifier: MIT
"""Test whether predictions identify the faster of several drives at the same moment.

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
from linnapp.learn.judging.evaluation import predictions
from linnapp.learn.labelling.inflection import size_classes
from linnapp.model import LatencyModel
from linnapp.model.latency_model import CAP
from linnapp.trace.logged_drive import PAGE_BYTES
from linnapp.trace.recorded import Recorded
from linnapp.trace.rows import Rows

#: Maximum time between the reads of a pair in us, about the duration of a read. A longer limit
#: would pair reads under different loads, a shorter one would give few pairs.
WITHIN_US = 200

#: The other drive's prediction must be lower by this share to redirect a read from the default
#: replica, as with `replayer --home-margin`.
HOME_MARGIN = 0.25

#: Number of pairs whose sums are stored together.
_PAIRS_A_SUM = 32

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
class Estimate:
    """A value and its 95 % interval over blocks of time, whose ends are None for too few blocks."""

    value: float
    low: float | None
    high: float | None


@dataclasses.dataclass(frozen=True)
class PairsJudged:
    """Benefit of predictions for choosing a drive. Times are in us, means over all pairs."""

    pairs: int
    #: Share of the pairs in which the slower read has the higher prediction. Ties count half.
    right: Estimate
    #: Gain of the lower prediction compared with round robin, and with the lower `rival`.
    over_turns_us: Estimate
    over_rival_us: Estimate
    #: Gain compared with round robin if a read leaves the default replica only for a prediction
    #: that is lower by `HOME_MARGIN`.
    with_margin_us: Estimate
    #: Gain of the faster drive, an upper bound that cannot be known in advance.
    at_best_us: Estimate


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


def judge(drives: Sequence[Iterable[DriveReads]]) -> PairsJudged:
    """Evaluate predictions for several drives, whose reads are given in parts, in order of time.

    Memory use is two parts of each drive and 2 bytes per pair.
    """
    sums, starts_ns = [np.empty((0, 7))], [np.empty(0, np.uint64)]
    for parts in _together(drives):
        found = []
        for first, second in itertools.combinations(parts, 2):
            rows = nearest(first, second)
            pairs = [reads.take(row) for reads, row in zip((first, second), rows, strict=True)]
            found.append((pairs[0].arrival_ns, _columns(*pairs)))
        if not found:
            continue
        times, columns = (np.concatenate(part) for part in zip(*found, strict=True))
        if len(times):
            order = np.argsort(times, kind="stable")
            firsts = np.arange(0, len(times), _PAIRS_A_SUM)
            sums.append(np.add.reduceat(columns[order], firsts))
            starts_ns.append(times[order[firsts]])
    return _judged(np.concatenate(sums), np.concatenate(starts_ns))


def judge_models(
    models: Sequence[LatencyModel], traces: Sequence[Recorded], **reader_options: Any
) -> PairsJudged:
    """Compare the models of an array's drives with choosing the fewest pending pages.

    Parameters
    ----------
    models : sequence of LatencyModel
    traces : sequence of path or IoTable
        Simultaneous recordings of the drives on one machine, in the order of `models`.
    **reader_options
        Those of :func:`~linnapp.trace.recorded.open_recording`.
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
        none = Estimate(float("nan"), None, None)
        return PairsJudged(0, none, none, none, none, none)
    numbers = stats.block_numbers(starts_ns)
    blocks = sums.sum(axis=0)[None] if numbers is None else stats.block_sums(numbers, *sums.T)
    n = len(blocks)
    # The first row is the original data.
    weights = np.concatenate([np.ones((1, n)), stats.resamples(n)])
    drawn = weights @ blocks
    means = drawn[:, 1:] / drawn[:, :1]

    def estimate(column: int, less: int | None = None) -> Estimate:
        found = means[:, column] - (0.0 if less is None else means[:, less])
        interval = stats.block_interval(float(found[0]), found[1:], n)
        return Estimate(interval.value, *interval.ends)

    right, turns, rival, followed, margin, best = range(6)
    return PairsJudged(
        int(sums[:, 0].sum()),
        estimate(right),
        estimate(turns, followed),
        estimate(rival, followed),
        estimate(turns, margin),
        estimate(turns, best),
    )
