# SPDX-License-Identifier: MIT
"""Would trees of how far predictions are off say better which reads to send twice?

    python -m eval.spread az-e bs-e az-c bs-c co-e    # development cells, seed 1010

The rule (liblinnos/race.h) knows by how much reads were off that were predicted to take about as
long. A second set of trees predicts how far each is off by itself; its leaves are its own, so it
can tell more than a second value in the leaves of the first would. Pairs of reads of the second
half of a recording (eval/pairs.py) stand for one that is sent to both drives at once, the lower
prediction first: what would be gained by sending the twentieth of them twice of which most is
expected, by the spread of the class of its prediction, and by trees? What copies cost others is
left out, and so is waiting first. The first two thirds of the first half teach what a read takes,
the last what that is off by.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eval.pairs import (
    SEED,
    Floats,
    Pair,
    Reads,
    estimates,
    grown,
    halves,
    load,
    parser,
    predictions,
    recordings,
    shown,
)
from linnapp.learn.judging.pairs import Estimate
from linnapp.trace.difference import MAX_BLOCKS

#: Of the pairs so many may be sent twice.
SHARE = 0.05
#: A distribution is known by the means of so many slices, each as likely.
SLICES = 256
#: A read is hardly off by less than this, in powers of e: the clock ticks in us.
LEAST_OFF = 0.02


@dataclass(frozen=True)
class Expected:
    """Of a drive's reads: what each is predicted to take, and by how much that may be off."""

    predicted_us: Floats
    #: Took over predicted, a row a read, a column a slice of what may happen.
    times: Floats


def _slices(of: Floats) -> Floats:
    return np.array([part.mean() for part in np.array_split(np.sort(of), SLICES)])


def _by_class(times: Floats, predicted_us: Floats, later_us: Floats) -> Floats:
    """Of the later reads: as far off as those of the same power of two, if there are enough."""
    known, asked = (np.log2(us).astype(int) for us in (predicted_us, later_us))
    rows = np.tile(_slices(times), (len(asked), 1))
    for power in np.unique(asked):
        of_it = times[known == power]
        if len(of_it) >= SLICES:
            rows[asked == power] = _slices(of_it)
    return rows


def expected(taught: Reads, judged: Reads) -> tuple[Expected, Expected]:
    """Of the judged reads, by the class of what is predicted and by trees of how far off it is."""
    n = len(taught.latency_us)
    # Trees are judged by reads that they have not seen: their spreads by every other one.
    early, late = taught.take(slice(0, 2 * n // 3)), taught.take(slice(2 * n // 3, None))
    tells, held = late.take(slice(0, None, 2)), late.take(slice(1, None, 2))
    trees = grown(early.features, early.latency_us)
    late_us, us = predictions(trees, late), predictions(trees, judged)
    times = late.latency_us / late_us
    off = abs(np.log(times[::2]))
    spread = grown(tells.features, np.maximum(off, LEAST_OFF))
    standard = _slices(np.log(times[1::2]) / predictions(spread, held))
    return (
        Expected(us, _by_class(times, late_us, us)),
        Expected(us, np.exp(predictions(spread, judged)[:, None] * standard)),
    )


def gain_us(first_us: Floats, second_us: Floats) -> Floats:
    """The mean of max(0, X1 - X2) over all slices of either, a row a read."""
    gain = np.zeros(len(first_us))
    for one in first_us.T:
        gain += np.maximum(0, one[:, None] - second_us).mean(axis=1)
    return np.asarray(gain / first_us.shape[1])


def gained(took_us: Floats, by: Floats) -> Floats:
    """What each pair gains where those are sent twice of which most is expected; ties by lot."""
    twice = np.zeros(len(by), bool)
    lot = np.random.default_rng(SEED).random(len(by))
    twice[np.lexsort((lot, -by))[: round(SHARE * len(by))]] = True
    return np.asarray(np.maximum(0, took_us[:, 0] - took_us[:, 1]) * twice)


def columns(judged: list[Reads], ways: list[tuple[Expected, Expected]]) -> Floats:
    """Of each pair, in order of time, what it gains by classes, by trees, and at best."""
    began, took, scores = [], [], []
    for pair in Pair.all_of(judged):
        us = np.column_stack(pair.of([reads.latency_us for reads in judged])).astype(np.float64)
        predicted = np.column_stack(pair.of([two[0].predicted_us for two in ways]))
        order = np.argsort(predicted, axis=1, kind="stable")
        score = []
        for way in range(2):
            times = np.stack(pair.of([two[way].times for two in ways]), axis=1)
            sides = np.take_along_axis(predicted[:, :, None] * times, order[..., None], 1)
            score.append(gain_us(sides[:, 0], sides[:, 1]))
        began.append(pair.of([reads.arrival_ns for reads in judged])[0])
        took.append(np.take_along_axis(us, order, 1))
        scores.append(np.column_stack(score))
    in_time = np.argsort(np.concatenate(began), kind="stable")
    us, by = np.concatenate(took)[in_time], np.concatenate(scores)[in_time]
    return np.column_stack([gained(us, one) for one in (*by.T, us[:, 0] - us[:, 1])])


def gained_by(gains: Floats) -> list[Estimate]:
    """Means of the columns, and by how much the second is above the first; blocks of time.

    Which pairs are sent twice is not chosen again for each resample.
    """
    gains = np.column_stack((gains, gains[:, 1] - gains[:, 0]))
    parts = [[len(part), *part.sum(axis=0)] for part in np.array_split(gains, MAX_BLOCKS)]
    return estimates(np.array(parts, np.float64))


def main() -> None:
    options = parser("python -m eval.spread", __doc__)
    options.add_argument("of", nargs="+", help="a cell, or a folder with flash0.blk to flash2.blk")
    arguments = options.parse_args()
    head = ["of", "pairs", "us a read gains by classes", "by trees", "at best", "more by trees"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for name in arguments.of:
        taught, judged = halves([load(path) for path in recordings(arguments, name)])
        ways = [expected(*both) for both in zip(taught, judged, strict=True)]
        gains = columns(judged, ways)
        row = [name, f"{len(gains):,}", *(shown(of) for of in gained_by(gains))]
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
