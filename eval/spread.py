# SPDX-License-Identifier: MIT
"""Would a second set of leaf values, of how far predictions are off, say which reads to send twice?

    python -m eval.spread az-e bs-e az-c bs-c co-e    # development cells, seed 1010

Today's rule (liblinnos/race.h) knows by how much reads were off that were predicted to take about
as long. A second set of trees predicts how far each is off by itself. Pairs of reads of the second
half of a recording (eval/pairs.py) stand for one that is sent to both drives, the lower prediction
first: what would be gained by sending the twentieth of them twice that each way expects most of?
The first two thirds of the first half teach what a read takes, the last what that is off by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eval.pairs import (
    SEED,
    Floats,
    Pair,
    Reads,
    halves,
    load,
    parser,
    predictions,
    recordings,
    shown,
)
from linnapp.learn.judging.chance import N_RESAMPLES, TAIL
from linnapp.learn.judging.pairs import Estimate
from linnapp.learn.trees.training import LEARNING_RATE, N_TREES, boost
from linnapp.trace.difference import MAX_BLOCKS, resampled_means

#: Of the pairs so many may be sent twice.
SHARE = 0.05
#: Of a distribution so many quantiles are looked at.
QUANTILES = 64
#: A read is hardly off by less than this, in powers of e: the clock ticks in us.
LEAST_OFF = 0.02


@dataclass(frozen=True)
class Expected:
    """Of a drive's reads: what each is predicted to take, and by how much that may be off."""

    predicted_us: Floats
    #: Natural logarithms of took over predicted, a row a read, a column a quantile.
    off: Floats


def _quantiles(of: Floats) -> Floats:
    return np.quantile(of, (np.arange(QUANTILES) + 0.5) / QUANTILES)


def _by_class(off: Floats, predicted_us: Floats, later_us: Floats) -> Floats:
    """Of the later reads: as far off as those were of the same power of two, and some of all."""
    known, asked = (np.log2(us).astype(int) for us in (predicted_us, later_us))
    rows = np.tile(_quantiles(off), (len(asked), 1))
    for power in np.unique(asked):
        of_it = off[known == power]
        if len(of_it) >= QUANTILES:
            rows[asked == power] = _quantiles(of_it)
    return rows


def expected(taught: Reads, judged: Reads) -> tuple[Expected, Expected]:
    """Of the judged reads by today's rule, and by a second set of leaf values."""
    at = 2 * len(taught.latency_us) // 3
    early, late = taught.take(slice(0, at)), taught.take(slice(at, None))
    trees = boost(
        early.features, early.latency_us, SEED, n_trees=N_TREES, learning_rate=LEARNING_RATE
    )
    late_us, us = predictions(trees, late), predictions(trees, judged)
    off = np.log(late.latency_us / late_us)
    spread = boost(
        late.features, np.maximum(abs(off), LEAST_OFF), SEED,
        n_trees=N_TREES, learning_rate=LEARNING_RATE,
    )  # fmt: skip
    standard = _quantiles(off / predictions(spread, late))
    return (
        Expected(us, _by_class(off, late_us, us)),
        Expected(us, predictions(spread, judged)[:, None] * standard),
    )


def gain_us(first_us: Floats, second_us: Floats) -> Floats:
    """The mean of max(0, X1 - X2) over all quantiles of either, a row a read."""
    gain = np.zeros(len(first_us))
    for one in first_us.T:
        gain += np.maximum(0, one[:, None] - second_us).mean(axis=1)
    return np.asarray(gain / first_us.shape[1])


def gained(took_us: Floats, by: Floats) -> Floats:
    """What each pair gains where those are sent twice of which most is expected."""
    twice = np.zeros(len(by), bool)
    twice[np.argsort(-by, kind="stable")[: round(SHARE * len(by))]] = True
    return np.asarray(np.maximum(0, took_us[:, 0] - took_us[:, 1]) * twice)


def columns(judged: list[Reads], ways: list[tuple[Expected, Expected]]) -> Floats:
    """Of each pair, in order of time, what it gains today, by the spread, and at best."""
    times, took, scores = [], [], []
    for pair in Pair.all_of(judged):
        us = np.column_stack(pair.of([reads.latency_us for reads in judged])).astype(np.float64)
        predicted = np.column_stack(pair.of([two[0].predicted_us for two in ways]))
        order = np.argsort(predicted, axis=1, kind="stable")
        score = []
        for way in range(2):
            off = np.stack(pair.of([two[way].off for two in ways]), axis=1)
            sides = np.take_along_axis(predicted[:, :, None] * np.exp(off), order[..., None], 1)
            score.append(gain_us(sides[:, 0], sides[:, 1]))
        times.append(pair.of([reads.arrival_ns for reads in judged])[0])
        took.append(np.take_along_axis(us, order, 1))
        scores.append(np.column_stack(score))
    in_time = np.argsort(np.concatenate(times), kind="stable")
    us, by = np.concatenate(took)[in_time], np.concatenate(scores)[in_time]
    return np.column_stack([gained(us, one) for one in (*by.T, us[:, 0] - us[:, 1])])


def estimates(gains: Floats) -> list[Estimate]:
    """Means of the columns, and by how much the second is above the first; blocks of time."""
    gains = np.column_stack((gains, gains[:, 1] - gains[:, 0]))
    parts = [[len(part), *part.sum(axis=0)] for part in np.array_split(gains, MAX_BLOCKS)]
    means = resampled_means(np.array(parts, np.float64), SEED, N_RESAMPLES)
    low, high = np.quantile(means, (TAIL, 1 - TAIL), axis=0)
    return [Estimate(*of) for of in zip(gains.mean(axis=0).tolist(), low, high, strict=True)]


def main() -> None:
    options = parser("python -m eval.spread", __doc__)
    options.add_argument("of", nargs="+", help="a cell, or a folder with flash0.blk to flash2.blk")
    arguments = options.parse_args()
    head = ["of", "pairs", "gained today, us", "by spreads", "at best", "more by spreads"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for name in arguments.of:
        taught, judged = halves([load(path) for path in recordings(arguments, name)])
        ways = [expected(*both) for both in zip(taught, judged, strict=True)]
        gains: Any = columns(judged, ways)
        row = [name, f"{len(gains):,}", *(shown(of) for of in estimates(gains))]
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
