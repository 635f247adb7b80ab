# SPDX-License-Identifier: MIT
"""Statistics of replays with intervals: seeds are pooled, policies are paired by block of time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eval import contenders, intervals
from eval.cells import Replayed, load_replayed_reads
from eval.intervals import Blocks, Pooled
from eval.long_table import LongTable, Place

#: The percentiles in tables, and those that are also compared between policies.
PERCENTS = (50.0, 80.0, 90.0, 95.0, 99.0, 99.9, 99.99)
COMPARED = (95.0, 99.0)

#: Fields of a replay's summary whose value for each seed is in the table.
OF_EACH_SEED = ("reads", "response_mean_us", "revoked", "hedged", "late_ios", "training_reads")


class Reads(NamedTuple):
    """The reads of one replay, for statistics."""

    due_us: NDArray[Any]
    latency_us: NDArray[Any]
    #: Length of the replay.
    length_s: float
    #: The replayer's summary.
    summary: Mapping[str, Any] = {}


def as_reads(result: Replayed | Reads) -> Reads:
    """Load the reads of a replay."""
    if isinstance(result, Reads):
        return result
    reads = load_replayed_reads(result)
    replay = result.replay
    return Reads(reads["due_us"], reads["latency_us"], replay.replayed_s, result.summary)


def add_reads(
    table: LongTable,
    place: Place,
    by_seed: Mapping[int, Mapping[str, Replayed | Reads]],
    compared: Sequence[str] = (),
    *,
    fields: Sequence[str] = OF_EACH_SEED,
) -> None:
    """Add the numbers of replays of the same reads under several policies, seeds pooled.

    Means and percentiles have intervals; a percentile that rests on too few reads is left out.
    Each policy in `compared` (by default ours) is compared with all others by its mean, and by
    percentiles too if it is ours.
    """
    seeds: list[Blocks] = []
    latencies: dict[str, list[NDArray[Any]]] = {}
    summaries: dict[str, list[Mapping[str, Any]]] = {}
    for seed, by_policy in by_seed.items():
        due_us: NDArray[Any] | None = None
        for name, result in by_policy.items():
            reads = as_reads(result)
            if due_us is None:
                due_us = reads.due_us
                seeds.append(Blocks(due_us, reads.length_s * 1e6))
            elif not np.array_equal(due_us, reads.due_us):
                raise ValueError(
                    f"{', '.join(place)}, seed {seed}: the reads of {name} are not those of "
                    f"{next(iter(by_policy))}; policies can be compared only on the same reads"
                )
            seeds[-1].add(name, reads.latency_us)
            latencies.setdefault(name, []).append(reads.latency_us)
            summaries.setdefault(name, []).append(reads.summary)
            for field in fields:
                if reads.summary.get(field) is not None:
                    table.add(place, name, field, reads.summary[field], seed=seed)
    drawn = Pooled(seeds, PERCENTS)
    ours = contenders.ours(drawn.policies)
    pairs = [p for p in itertools.permutations(drawn.policies, 2) if p[0] in (compared or ours)]
    add_pooled(table, place, drawn, latencies, pairs, tails=dict.fromkeys(ours, COMPARED))
    for name in drawn.policies:
        for field, share in _shares_of_reads(summaries[name]).items():
            table.add(place, name, field, share)
        for bound in {"oracle", "verdict"} & {*drawn.policies}:
            # If a bound has no significant gain, a share of its gain has no meaning.
            if "baseline" in drawn.policies and drawn.mean_reduction(bound, "baseline").is_above:
                table.add(place, name, f"share_of_{bound}", drawn.share(name, bound))


def add_pooled(
    table: LongTable,
    place: Sequence[str],
    drawn: Pooled,
    latencies: Mapping[str, Sequence[NDArray[Any]]],
    pairs: Iterable[tuple[str, str]],
    *,
    tails: Mapping[str, Sequence[float]],
    n_beyond: int = intervals.MIN_READS_BEYOND,
    counted: str = "reads",
) -> None:
    """Add the means and percentiles of policies with intervals, and their differences.

    Parameters
    ----------
    latencies : mapping of str to arrays
        The latencies of each policy in us, an array for each seed.
    pairs : iterable of (str, str)
        Policies that are compared by their means, and what each is compared with.
    tails : mapping of str to floats
        Policies of pairs that are also compared by percentiles, and which.
    n_beyond : int
        The number of latencies that must lie beyond a percentile. With fewer it is left out.
    counted : str
        The measure for the number of latencies.
    """
    values: dict[tuple[str, float], float] = {}
    for name in drawn.policies:
        pooled = np.concatenate(latencies[name])
        table.add(place, name, counted, len(pooled))
        table.add(place, name, "mean_us", drawn.mean(name))
        for percent in drawn.percents:
            value = intervals.percentile(pooled, percent, n_beyond)
            if value is not None:
                values[name, percent] = value
                table.add(place, name, key(percent), drawn.percentile(name, percent, value))
    for name, other in pairs:
        table.add(place, name, "mean_us", drawn.mean_reduction(name, other), other)
        for percent in tails.get(name, ()):
            both = values.get((name, percent)), values.get((other, percent))
            if both[0] is not None and both[1] is not None:
                lower = drawn.percentile_reduction(name, other, percent, (both[0], both[1]))
                table.add(place, name, key(percent), lower, other)


def _shares_of_reads(summaries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the shares of reads sent twice and refused, and the number of errors of all seeds."""
    known = [summary for summary in summaries if "extra_io_ratio" in summary]
    n = sum(summary["reads"] for summary in known)
    if not n:
        return {}
    return {
        "extra_io_ratio": sum(of["extra_io_ratio"] * of["reads"] for of in known) / n,
        "revoked_ratio": sum(of.get("revoked", 0) for of in known) / n,
        "errors": sum(of.get("data_errors", 0) + of.get("io_errors", 0) for of in known),
    }


def key(percent: float) -> str:
    """Return the field of a percentile, such as p50_us or p999_us."""
    return f"p{percent:g}_us".replace(".", "")


def number(triple: Sequence[float | None] | None, digits: int = 0, scale: float = 1.0) -> str:
    """Write a number with its interval; a dash if there is no number."""
    if triple is None or triple[0] is None:
        return "-"
    value, low, high = (math.nan if v is None else v * scale for v in triple)
    if math.isnan(low):
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
