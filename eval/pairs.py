# SPDX-License-Identifier: MIT
"""Would trees that are taught the difference between replicas choose better?

    python -m eval.pairs az-e bs-e az-c bs-c co-e    # development cells, seed 1010

The first half of each recording teaches, the second judges, by pairs of reads that began on two
drives at one moment (linnapp/learn/judging/pairs.py): what is gained in us by the lower prediction
over drives in turn, and how much more that is than by today's trees. What drives have in common at
a moment does not count there. It is for choosing how to train: docs/studies.md has the table.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eval import grid
from eval.cache import Cache
from eval.cells import N_DRIVES, Cell, recorded
from eval.development import OUT
from eval.programs import keep_programs
from eval.seeds import DEVELOPMENT
from linnapp.learn.judging.chance import N_RESAMPLES, TAIL
from linnapp.learn.judging.pairs import DriveReads, Estimate, judge, nearest
from linnapp.learn.labelling.inflection import size_classes
from linnapp.learn.trees.training import LEARNING_RATE, N_TREES, OVERDUE_PERCENTILE, boost
from linnapp.model.latency_model import DEPTH
from linnapp.trace.blktrace import IoChunk
from linnapp.trace.difference import resampled_means
from linnapp.trace.logged_drive import PAGE_BYTES, LoggedDrive
from linnapp.trace.recorded import open_recording
from linnapp.trace.rows import Rows

Floats = npt.NDArray[np.float64]
#: Of each drive, the predictions of its reads.
Predicted = list[Floats]

SEED = 1

#: Trees that a second stage adds.
MORE_TREES = 8
#: Of an order's loss: how far each goes, and the least of its second derivative.
ORDER_RATE, LEAST = 0.3, 1e-3
#: A pair weighs what choosing wrongly costs; the slowest would outweigh all others.
MOST_TIMES_THE_MEAN = 20


@dataclass(frozen=True)
class Reads(Rows):
    """A drive's served reads, in order of arrival."""

    arrival_ns: npt.NDArray[np.uint64]
    latency_us: npt.NDArray[np.uint32]
    pending: npt.NDArray[np.uint32]
    pages: npt.NDArray[np.int64]
    #: A row for each; what a model sees, and whatever is tried beside it.
    features: npt.NDArray[Any]

    def judged(self, predicted: Floats, rival: npt.NDArray[Any]) -> DriveReads:
        """With two ways to choose."""
        kind = size_classes(self.pages)
        return DriveReads(self.arrival_ns, self.latency_us, predicted, rival, kind)


def load(trace: Path, beside: Callable[[list[IoChunk]], Floats] | None = None) -> Reads:
    """A recording of a drive; `beside` makes more features, a row an I/O."""
    served_ns = [chunk.latency_ns[chunk.is_served_read] for chunk in open_recording(trace)]
    latency_ns = np.concatenate(served_ns)
    first = latency_ns[: len(latency_ns) // 2] // 1000
    overdue_us = max(1, int(np.percentile(first, OVERDUE_PERCENTILE)))
    drive = LoggedDrive(overdue_us)
    chunks, features = [], []
    for chunk in open_recording(trace, overdue_us=overdue_us):
        features.append(drive.features_of(chunk).astype(np.float32))
        chunks.append(chunk.copy())
    seen = np.concatenate(features)
    served = np.concatenate([chunk.is_served_read for chunk in chunks])
    if beside:
        seen = np.column_stack((seen, beside(chunks)[served].astype(np.float32)))
    arrival_ns, pending, size = (
        np.concatenate([getattr(chunk, name) for chunk in chunks])[served]
        for name in ("arrival_ns", "pending", "size_bytes")
    )
    latency_us = np.maximum(latency_ns // 1000, 1).astype(np.uint32)
    pages = -(-size.astype(np.int64) // PAGE_BYTES)
    return Reads(arrival_ns, latency_us, pending, pages, seen)


def halves(drives: list[Reads]) -> tuple[list[Reads], list[Reads]]:
    """What all drives served before and after one moment."""
    middle = np.median(np.concatenate([reads.arrival_ns for reads in drives]))
    early = [reads.arrival_ns < middle for reads in drives]
    return (
        [reads.take(rows) for reads, rows in zip(drives, early, strict=True)],
        [reads.take(~rows) for reads, rows in zip(drives, early, strict=True)],
    )


def grown(features: npt.NDArray[Any], targets: npt.NDArray[Any], n_trees: int = N_TREES) -> Any:
    """Trees as a model has them, of features that may be more."""
    return boost(features, targets, SEED, n_trees=n_trees, learning_rate=LEARNING_RATE)


def estimates(blocks: Floats) -> list[Estimate]:
    """Means of sums by block of time, of which the first column is how many they are of."""
    means = resampled_means(blocks, SEED, N_RESAMPLES)
    low, high = np.quantile(means, (TAIL, 1 - TAIL), axis=0).tolist()
    values = (blocks[:, 1:].sum(axis=0) / blocks[:, 0].sum()).tolist()
    return [Estimate(*of) for of in zip(values, low, high, strict=True)]


def predictions(boosting: Any, reads: Reads) -> Floats:
    """Of trees, of one thread."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return np.asarray(boosting.predict(reads.features), np.float64)


@dataclass(frozen=True)
class Pair:
    """Rows of reads of two drives that began at one moment."""

    drives: tuple[int, int]
    rows: tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]

    @classmethod
    def all_of(cls, drives: list[Reads]) -> list[Pair]:
        """Every two drives'."""
        reads = [one.judged(one.latency_us.astype(np.float64), one.pending) for one in drives]
        both = itertools.combinations(range(len(drives)), 2)
        return [cls((a, b), nearest(reads[a], reads[b])) for a, b in both]

    def of(self, columns: list[Any]) -> tuple[Any, Any]:
        """What each of the two has in a column."""
        first, second = (columns[k][rows] for k, rows in zip(self.drives, self.rows, strict=True))
        return first, second


def _of_moment(drives: list[Reads]) -> Iterator[Any]:
    """Trees of by how many times a read took longer than reads of all drives at its moment."""
    logs = [np.log(reads.latency_us) for reads in drives]
    sums, counts = [log.copy() for log in logs], [np.ones(len(log)) for log in logs]
    for pair in Pair.all_of(drives):
        others = pair.of(logs)[::-1]
        for k, rows, other in zip(pair.drives, pair.rows, others, strict=True):
            sums[k][rows] += other
            counts[k][rows] += 1
    for reads, log, total, n in zip(drives, logs, sums, counts, strict=True):
        met = n > 1
        yield grown(reads.features[met], np.exp(log - total / n)[met])


def _of_what_is_left(drives: list[Reads], predicted: Predicted) -> Iterator[Any]:
    """Trees of how much more slower than predicted a read was than the other of its pair."""
    left = [reads.latency_us / us for reads, us in zip(drives, predicted, strict=True)]
    found: list[list[tuple[Any, Any]]] = [[] for _ in drives]
    for pair in Pair.all_of(drives):
        first, second = pair.of(left)
        for k, rows, ratio in zip(
            pair.drives, pair.rows, (first / second, second / first), strict=True
        ):
            found[k].append((rows, np.clip(ratio, 1 / 64, 64)))
    for reads, parts in zip(drives, found, strict=True):
        rows, ratio = (np.concatenate(part) for part in zip(*parts, strict=True))
        in_time = np.argsort(rows, kind="stable")
        yield grown(reads.features[rows[in_time]], ratio[in_time], MORE_TREES)


def _of_order(
    taught: list[Reads], judged: list[Reads], of_taught: Predicted, of_judged: Predicted
) -> Predicted:
    """Predictions that more trees correct so that pairs come in their order.

    The loss is logistic (RankNet: Burges et al., ICML 2005), a pair's weight what it costs to be
    wrong about it.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    logs, later = [np.log2(us) for us in of_taught], [np.log2(us) for us in of_judged]
    pairs = Pair.all_of(taught)
    for _ in range(MORE_TREES):
        slope, curve = ([np.zeros(len(log)) for log in logs] for _ in range(2))
        for pair in pairs:
            took = np.subtract(*(us.astype(np.float64) for us in pair.of(
                [reads.latency_us for reads in taught]
            )))  # fmt: skip
            weight = np.minimum(abs(took), MOST_TIMES_THE_MEAN * abs(took).mean())
            weight /= weight.mean()
            wrong = 1 / (1 + np.exp(np.sign(took) * np.subtract(*pair.of(logs))))
            for k, rows, side in zip(pair.drives, pair.rows, (1, -1), strict=True):
                slope[k][rows] += side * np.sign(took) * weight * wrong
                curve[k][rows] += np.maximum(weight * wrong * (1 - wrong), LEAST)
        for k, reads in enumerate(taught):
            met = curve[k] > 0
            step = HistGradientBoostingRegressor(
                max_iter=1, learning_rate=ORDER_RATE, max_depth=DEPTH, max_leaf_nodes=1 << DEPTH,
                min_samples_leaf=50, early_stopping=False, random_state=SEED,
            )  # fmt: skip
            with threadpool_limits(1):
                step.fit(reads.features[met], slope[k][met] / curve[k][met], curve[k][met])
                logs[k] += step.predict(reads.features)
                later[k] += step.predict(judged[k].features)
    return [np.exp2(log) for log in later]


def ways(taught: list[Reads], judged: list[Reads]) -> Iterator[tuple[str, Predicted]]:
    """Predictions of the later reads by each way to train; the first is today's."""
    from threadpoolctl import threadpool_limits

    twice = [grown(reads.features, reads.latency_us, 2 * N_TREES) for reads in taught]
    with threadpool_limits(1):
        early, late = (
            [
                list(trees.staged_predict(reads.features))
                for trees, reads in zip(twice, half, strict=True)
            ]
            for half in (taught, judged)
        )
    of_taught, of_judged = ([stages[N_TREES - 1] for stages in half] for half in (early, late))
    yield f"today, {N_TREES} trees", of_judged
    for n_trees in (N_TREES // 4, N_TREES // 2, 2 * N_TREES):
        yield f"{n_trees} trees", [stages[n_trees - 1] for stages in late]
    moments = zip(_of_moment(taught), judged, strict=True)
    yield "over the mean of the moment", [predictions(*both) for both in moments]
    more = zip(_of_what_is_left(taught, of_taught), judged, of_judged, strict=True)
    yield (
        f"{MORE_TREES} more, of what is left of pairs",
        [predictions(trees, reads) * us for trees, reads, us in more],
    )
    yield f"{MORE_TREES} more, of pairs' order", _of_order(taught, judged, of_taught, of_judged)


def shown(estimate: Estimate, scale: float = 1.0, digits: int = 1) -> str:
    """A number with its interval."""
    ends = [end for end in (estimate.low, estimate.high) if end is not None]
    text = f"{scale * estimate.value:.{digits}f}"
    return f"{text} [{', '.join(f'{scale * end:.{digits}f}' for end in ends)}]" if ends else text


def cell_of(arguments: argparse.Namespace, workload: str) -> Cell:
    """A development cell, shorter or with replicated writes if so wished."""
    cell = grid.cell(workload, arguments.seed)
    if arguments.seconds:
        cell = replace(cell, train_s=arguments.seconds, replay_s=0.0)
    return replace(cell, replicate_writes=arguments.replicated)


def parser(program: str, about: str | None) -> argparse.ArgumentParser:
    """Which recordings."""
    known = argparse.ArgumentParser(prog=program, description=about)
    known.add_argument("--seed", type=int, choices=DEVELOPMENT, default=DEVELOPMENT[0])
    known.add_argument("--seconds", type=float, help="record only so many of the workload")
    known.add_argument("--replicated", action="store_true", help="each write goes to all drives")
    known.add_argument("--any-version", action="store_true", help="accept recordings of older code")
    return known


def recordings(arguments: argparse.Namespace, name: str) -> list[Path]:
    """A cell's, or those in a folder: one a drive, all of the same time."""
    folder = Path(name)
    if name in grid.LENGTHS:
        keep_programs(OUT)
        cache = Cache((OUT / "cache").resolve(), any_version=arguments.any_version)
        folder = recorded(cache, cell_of(arguments, name)) / "record"
    return [folder / f"flash{drive}.blk" for drive in range(N_DRIVES)]


def main() -> None:
    options = parser("python -m eval.pairs", __doc__)
    options.add_argument("of", nargs="+", help="a cell, or a folder with flash0.blk to flash2.blk")
    arguments = options.parse_args()
    print("| cell | trees | right, % | over turns, us | over fewest pending | over today's |")
    print("|---|---|---|---|---|---|")
    for name in arguments.of:
        taught, judged = halves([load(path) for path in recordings(arguments, name)])
        pending: list[npt.NDArray[Any]] = [reads.pending for reads in judged]
        today: list[npt.NDArray[Any]] = []
        for way, predicted in ways(taught, judged):
            today = today or [*predicted]
            by_rule, by_today = (
                judge([
                    [reads.judged(*two)]
                    for reads, *two in zip(judged, predicted, rival, strict=True)
                ])
                for rival in (pending, today)
            )  # fmt: skip
            row = [
                name, way, shown(by_rule.right, 100), shown(by_rule.over_turns_us),
                shown(by_rule.over_rival_us), shown(by_today.over_rival_us),
            ]  # fmt: skip
            print(f"| {' | '.join(row)} |", flush=True)
        best = shown(by_rule.at_best_us)
        print(f"| {name} | at best, {by_rule.pairs} pairs | | {best} | | |")


if __name__ == "__main__":
    main()
