# SPDX-License-Identifier: MIT
"""Judge rules for choosing a drive on logs of a real drive, laid side by side as an array.

A log has the latency of each I/O. Each log is split in the middle, and models are trained on the
first half. The second halves are laid side by side, each from a whole second, as if they were
drives that hold the same blocks. Two reads of one size class that began within 200 us on two of
them stand for one read that either drive could have served, and a rule chooses between them.

The logs are separate recordings, so a choice does not change the state of either drive. This
measures how well a rule recognises the faster drive, not what an array gains whose reads are moved.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from eval import figures, heimdall, trace_files
from eval.cache import ROOT
from eval.experiment import Context
from eval.long_table import LongTable
from eval.study import Study, load_study_texts
from linnapp import stats
from linnapp.lab.work import StepError
from linnapp.learn.fit import fit_latency, fit_network
from linnapp.learn.judge import predictions
from linnapp.learn.labels import size_classes
from linnapp.learn.pairs import DriveReads, match_pairs
from linnapp.learn.trees import scale_prior, shipped_prior, unit_of_drive_us
from linnapp.model import CAP, NEVER, LatencyModel, Model
from linnapp.trace import replay_log
from linnapp.trace.reads import IoTable, load, pages_of

OWN, BEST = "trees, own log", "perfect choice"
#: Follows the latency of the nearest read on the same drive, which may be a later one.
NEIGHBOUR = "neighbouring read"
#: The paper's network by the bias of its loss, with the paper's training, as in eval.cells.
NETWORKS = {"network, no bias": 1.0, "network, biased loss": 5.0}
PAPER_TRAINING = {"search": "paper", "burst_share": 0.0, "labels": "paper", "even_if_worse": True}
RULES = (
    "pending pages", "reads in flight", "last latency", "EWMA", "EWMA times in flight", "c3",
    "prequal",
)  # fmt: skip
POLICIES = (
    OWN, "trees, another log", "trees, shipped prior", *NETWORKS, "heimdall", *RULES, NEIGHBOUR,
    BEST,
)  # fmt: skip

#: As in replayer/policies: the weight of a new latency in averages, and Prequal's numbers of
#: samples and latencies, of latencies that are nearest by requests in flight, and its quantile.
WEIGHT = 0.1
SAMPLES, LATENCIES, NEAREST, HOT = 120, 64, 5, 0.84

#: Limits of groups of pairs: size in KiB, I/Os in flight on both drives, latency in us of the
#: slower read.
LIMITS = {"KiB": (4, 16), "I/Os in flight": (32, 96, 120), "us, slower read": (1000, 2000, 4000)}
ALL = ("all", "all")

Array = NDArray[Any]


class Reads(NamedTuple):
    """Reads of the second half of a log, or pairs of reads of two logs.

    Arrays have a row for each read, or for each pair with a column for each drive.
    """

    arrival_ns: Array
    latency_us: Array
    pages: Array
    #: Reads and writes in flight at arrival.
    in_flight: Array
    #: I/Os that the last reads found in flight, in the last dimension.
    samples: Array
    #: Scores by policy: the drive with the lower one is chosen.
    score: dict[str, Array]


def average(values: Array) -> Array:
    """Return the moving average after each value, which begins at the first one."""
    return np.asarray(lfilter([WEIGHT], [1, WEIGHT - 1], values, zi=[(1 - WEIGHT) * values[0]])[0])


def windows(values: Array, length: int) -> Array:
    """Return each value with those before it, oldest first, shape (n, length)."""
    padded = np.concatenate((np.full(length - 1, np.nan), values))
    return np.lib.stride_tricks.sliding_window_view(padded, length)


def rule_scores(table: IoTable, first: int, in_flight: Array) -> dict[str, Array]:
    """Return the scores of the rules, which need no training, for the reads from `first` on."""
    read = table.is_served_read
    begin, latency = table.arrival_ns.astype(np.int64), table.latency_ns.astype(np.int64)
    order = np.argsort((begin + latency)[read], kind="stable")
    end, us = (begin + latency)[read][order], latency[read][order] / 1000
    ended = np.searchsorted(np.sort(begin + latency), end, "right")
    waiting = np.searchsorted(begin, end) - ended
    service_us = (end - np.maximum(begin[read][order], np.append(0, end[:-1]))) / 1000
    now = in_flight[first:]
    # The last read that was answered before each one.
    last = np.maximum(np.searchsorted(end, begin[read][first:], "right") - 1, 0)
    ewma, service = average(us)[last], average(service_us)[last]
    distance = np.abs(windows(in_flight[order], LATENCIES)[last] - now[:, None])
    near = distance <= np.partition(distance, NEAREST - 1)[:, NEAREST - 1 : NEAREST]
    ranked = np.sort(np.where(near, windows(us, LATENCIES)[last], np.inf))
    middle = (near.sum(axis=1, keepdims=True) - 1) // 2
    return {
        "pending pages": table.pending[read][first:],
        "reads in flight": np.arange(first, len(end)) - last - 1,
        "last latency": us[last],
        "EWMA": ewma,
        "EWMA times in flight": ewma * (1 + now),
        "c3": ewma - service + (1 + now + average(waiting)[last]) ** 3 * service,
        "prequal": np.take_along_axis(ranked, middle, axis=1)[:, 0],
    }


def neighbours_us(arrival_ns: Array, latency_us: Array, pages: Array) -> Array:
    """Return the latency of the nearest read of the same size class on the same drive."""
    found, classes = np.full(len(pages), np.median(latency_us)), size_classes(pages)
    for size_class in np.unique(classes):
        rows = np.flatnonzero(classes == size_class)
        gaps = np.concatenate(([np.inf], np.diff(arrival_ns[rows].astype(float)), [np.inf]))
        nearest = np.arange(len(rows)) + np.where(gaps[:-1] < gaps[1:], -1, 1)
        found[rows] = latency_us[rows[np.minimum(nearest, len(rows) - 1)]]
    return found


def as_records(table: IoTable) -> Array:
    """Return a log as records of a replay, from which Heimdall is trained."""
    records = np.zeros(len(table), replay_log.RECORD)
    records["due_ns"], records["latency_ns"] = table.arrival_ns, table.latency_ns
    records["size_bytes"], records["offset_bytes"] = table.size_bytes, table.sector * np.uint64(512)
    records["device_latency_us"] = table.latency_ns // np.uint64(1000)
    records["op"] = np.where(table.is_write, replay_log.WRITE, replay_log.READ)
    return records


def models_of(taught: IoTable, trees: Sequence[LatencyModel], k: int, seed: int) -> dict[str, Any]:
    """Return the models that choose drive `k`, by policy; `taught` is the first half of its log."""
    read = taught.is_served_read
    unit_us = unit_of_drive_us(taught.latency_ns[read] / 1000, pages_of(taught.size_bytes)[read])
    like = LatencyModel.mean_of_last(1, NEVER, trees[k].overdue_us).without_trees()
    found: dict[str, LatencyModel | Model] = {
        OWN: trees[k],
        "trees, another log": trees[(k + 1) % len(trees)],
        "trees, shipped prior": like.times(scale_prior(shipped_prior(), unit_us)),
    }
    for name, bias in NETWORKS.items():
        found[name] = fit_network(taught, bias=bias, seed=seed, **PAPER_TRAINING).model_
    return found


def second_halves(paths: Sequence[Path], seed: int) -> Iterator[Reads]:
    """Train on the first half of each log, and score the reads of the second."""
    tables = [load(path) for path in paths]
    trees: list[Any] = [fit_latency(table.split()[0], seed=seed).model_ for table in tables]
    for k, table in enumerate(tables):
        taught, judged = table.split()
        first = int(np.count_nonzero(taught.is_served_read))
        seen = heimdall.reads_of(as_records(table)).features
        in_flight = seen[:, 0].astype(float)
        score = rule_scores(table, first, in_flight)
        for name, model in models_of(taught, trees, k, seed).items():
            score[name] = np.concatenate([part.score for part in predictions(model, judged)])
        network, _ = heimdall.learn(heimdall.reads_of(as_records(taught)), seed)
        score["heimdall"] = network.logit(seen[first:])
        served = judged.take(judged.is_served_read)
        latency_us = np.minimum(served.latency_ns // np.uint64(1000), CAP).astype(float)
        score[NEIGHBOUR] = neighbours_us(served.arrival_ns, latency_us, pages_of(served.size_bytes))
        score[BEST] = latency_us
        second = np.uint64(1_000_000_000)
        arrival_ns = served.arrival_ns - judged.arrival_ns[0] // second * second
        samples = windows(in_flight, SAMPLES)[first:]
        yield Reads(
            arrival_ns, latency_us, pages_of(served.size_bytes), in_flight[first:], samples, score
        )


def paired(first: Reads, second: Reads) -> Reads:
    """Pair the reads of two logs."""
    both = (first, second)
    drives = [
        DriveReads(log.arrival_ns, log.latency_us, log.pages, log.pages, size_classes(log.pages))
        for log in both
    ]
    rows = match_pairs(drives[0], drives[1])

    def columns(*values: Array) -> Array:
        return np.stack([column[row] for column, row in zip(values, rows, strict=True)], axis=1)

    score = {name: columns(*(log.score[name] for log in both)) for name in first.score}
    pairs = Reads._make(
        (*itertools.starmap(columns, zip(first[:-1], second[:-1], strict=True)), score)
    )
    # Drives with many I/Os in flight rank after all others, by their number.
    limit = np.nanquantile(pairs.samples, HOT, axis=(1, 2), method="inverted_cdf")[:, None]
    hot = pairs.in_flight > limit
    pairs.score["prequal"] = np.where(hot, CAP + pairs.in_flight, pairs.score["prequal"])
    return pairs


def groups(pairs: Reads) -> Iterator[tuple[tuple[str, str], Array]]:
    """Yield the names of groups of pairs, and which pairs they have."""
    yield ALL, np.ones(len(pairs.pages), bool)
    by = (4 * pairs.pages[:, 0], pairs.in_flight.sum(axis=1), pairs.latency_us.max(axis=1))
    for (unit, limits), values in zip(LIMITS.items(), by, strict=True):
        for low, high in itertools.pairwise((0, *limits, np.inf)):
            name = f"{low} to {high}" if low else f"up to {high}"
            name = f"over {low}" if high == np.inf else name
            yield (unit, name), (values > low) & (values <= high) | (values <= low) & (low == 0)


def judged(pairs: Sequence[Reads]) -> LongTable:
    """Return the numbers of all policies, with intervals over blocks of time."""
    scores = {name: np.concatenate([pair.score[name] for pair in pairs]) for name in POLICIES}
    columns = zip(*(pair[:-1] for pair in pairs), strict=True)
    merged = Reads._make((*map(np.concatenate, columns), scores))
    blocks = stats.block_numbers(merged.arrival_ns[:, 0])
    if blocks is None:
        raise StepError("the second halves of the logs have too few pairs of reads for intervals")
    latency_us = merged.latency_us
    order = np.sign(latency_us @ (1, -1))
    gain_us, right = {}, {}
    for name, score in scores.items():
        chosen_us = np.where(score[:, ::-1] < score, latency_us[:, ::-1], latency_us)
        gain_us[name] = (latency_us - chosen_us).mean(axis=1)
        right[name] = (1 + order * np.sign(score.astype(float) @ (1, -1))) / 2
    table = LongTable(tuple(EXPERIMENT.factors))
    for place, among in groups(merged):
        for name in POLICIES if among.any() else ():
            values = (right[name], gain_us[name], gain_us[BEST], gain_us[name] - gain_us[OWN])
            sums = stats.block_sums(blocks[among], 1, *(column[among] for column in values)).T
            table.add(place, name, "right", stats.ratio_interval(sums[1], sums[0]))
            table.add(place, name, "gain_us", stats.ratio_interval(sums[2], sums[0]))
            table.add(place, name, "share", stats.ratio_interval(sums[2], sums[3]))
            if name != OWN:
                table.add(place, name, "gain_us", stats.ratio_interval(sums[4], sums[0]), OWN)
        table.add(place, BEST, "pairs", float(among.sum()))
    return table


def draw(table: LongTable, path: Path) -> None:
    """Draw the share of the perfect choice's gain that each policy has, over all pairs."""
    rows = {name: name for name in POLICIES if name != BEST}
    panel = figures.Panel("", ALL, rows, "share", "share of the perfect choice's gain, %")
    ours = [name for name in POLICIES if name.startswith("trees")]
    figures.draw_ranked(table, [panel], path, ours=ours, scale=100, width=8)


def measure_all(context: Context) -> LongTable:
    """Judge all policies on the logs that the user named."""
    paths = [*trace_files.files(trace_files.GIVEN).values()]
    if len(paths) < 2:
        raise StepError(f"name two or more logs of drives in {trace_files.VARIABLE}")
    halves = list(second_halves(paths, context.seeds[0]))
    return judged([paired(*logs) for logs in itertools.combinations(halves, 2)])


EXPERIMENT = Study(
    **load_study_texts("real"),
    measure_all=measure_all,
    factors={"by": (), "pairs": ()},
    policies=POLICIES,
    reference=OWN,
    figure=draw,
    inputs={"logs": trace_files.digests(trace_files.GIVEN)},
    pages={"real.md.j2": ROOT / "docs" / "real-drive.md"},
)
