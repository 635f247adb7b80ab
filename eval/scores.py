# SPDX-License-Identifier: MIT
"""Replays of cells as numbers with their intervals: seeds pooled, policies paired by block."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from eval import contenders, intervals, learnt
from eval.cache import Cache
from eval.cells import Cell, Replayed, reads_of
from eval.intervals import Blocks, Pooled
from linnapp.stats import Interval

#: Percentiles of the tables, and those whose differences are given too.
PERCENTS = (50.0, 80.0, 90.0, 95.0, 99.0, 99.9, 99.99)
COMPARED = (95.0, 99.0)

#: Reads that stayed at home in the replay from which `learnt` is told: its own baseline.
HOME = "home, at random's load"


def key(percent: float) -> str:
    """A percentile's field: p50_us, p999_us."""
    return f"p{percent:g}_us".replace(".", "")


def _add_paired(
    results: Mapping[str, Replayed], length_s: float
) -> Iterator[tuple[Blocks, str, dict[str, np.ndarray[Any, Any]]]]:
    """Add replays of the same reads to blocks, one by one: the blocks, a name, and its reads."""
    blocks: Blocks | None = None
    due_us = np.empty(0)
    for name, result in results.items():
        reads = reads_of(result)
        if blocks is None:
            due_us = reads["due_us"]
            blocks = Blocks(due_us, length_s * 1e6)
        elif not np.array_equal(due_us, reads["due_us"]):
            raise ValueError(f"{result.folder}: not the reads of {next(iter(results))}")
        blocks.add(name, reads["latency_us"])
        yield blocks, name, reads


def blocks_of(
    cache: Cache | None, length_s: float, results: Mapping[str, Replayed]
) -> tuple[Blocks, dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
    """One seed's replays, cut into blocks; latencies by policy; of `learnt` how good.

    Parameters
    ----------
    cache : Cache or None
        None: without `learnt`.
    """
    latencies: dict[str, np.ndarray[Any, Any]] = {}
    quality: dict[str, Any] = {}
    for blocks, name, reads in _add_paired(results, length_s):
        latencies[name] = reads["latency_us"]
        if name == "random" and cache is not None:
            drives, quality = learnt.chosen(cache, results[name])
            for bound, drive in ((contenders.LEARNT, drives), (HOME, reads["home"])):
                among = reads["served_by"] == drive
                latencies[bound] = reads["latency_us"][among]
                blocks.add(bound, reads["latency_us"], among)
    return blocks, latencies, quality


def score(
    blocks: Sequence[Blocks],
    latencies: Sequence[Mapping[str, np.ndarray[Any, Any]]],
) -> dict[str, Any]:
    """A cell's numbers over its seeds.

    Returns
    -------
    dict
        ``reads``, ``seeds``, ``policies``: {name: {field: [value, low, high]}}, a percentile that
        rests on too few reads null; ``below``: {name: {other: [share, low, high]}}, by how much
        the mean of a policy is below another's; ``tail_below`` likewise of percentiles.
    """
    drawn = Pooled(blocks, PERCENTS)
    names = drawn.policies
    pooled = {name: np.concatenate([one[name] for one in latencies]) for name in names}
    policies: dict[str, dict[str, Any]] = {}
    values: dict[float, dict[str, float]] = {percent: {} for percent in PERCENTS}
    for name in names:
        policies[name] = {"mean_us": drawn.mean(name).to_json(), "reads": len(pooled[name])}
        for percent in PERCENTS:
            value = intervals.percentile(pooled[name], percent)
            policies[name][key(percent)] = None
            if value is not None:
                values[percent][name] = value
                interval = drawn.percentile(name, percent, value)
                policies[name][key(percent)] = interval.to_json()
        for bound in ("oracle", "verdict"):
            # Where a bound gains nothing that can be told from chance, a share of it says nothing.
            if bound in names and "baseline" in names and drawn.below(bound, "baseline").is_above:
                policies[name][f"share_of_{bound}"] = drawn.share(name, bound).to_json()
    below: dict[str, dict[str, Any]] = {name: {} for name in names}
    tail: dict[str, dict[str, dict[str, Any]]] = {key(p): {} for p in COMPARED}
    for a, b in itertools.permutations(names, 2):
        below[a][b] = drawn.below(a, b).to_json()
        for percent in COMPARED:
            known = values[percent]
            # Of ours only: that is what is claimed of tails.
            if a in known and b in known and a in contenders.ours(names):
                interval = drawn.percentile_below(a, b, percent, (known[a], known[b]))
                tail[key(percent)].setdefault(a, {})[b] = interval.to_json()
    return {
        "seeds": len(blocks),
        "reads": len(pooled[names[0]]),
        "policies": policies,
        "below": below,
        "tail_below": tail,
    }


def scored(
    cache: Cache | None, results: Mapping[Cell, Mapping[str, Replayed]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Scores of every workload over its seeds; and of each seed what `learnt` knew.

    Without a cache nobody learns.
    """
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in results:
        groups.setdefault((cell.workload, cell.array), []).append(cell)
    scores, knew = [], []
    for (workload, array), same in groups.items():
        blocks, latencies = [], []
        for cell in same:
            one, latency, quality = blocks_of(cache, cell.replay_s, results[cell])
            blocks.append(one)
            latencies.append(latency)
            if quality:
                knew.append({"workload": workload, "seed": cell.seed, **quality})
        made = with_cost(score(blocks, latencies), [results[cell] for cell in same])
        scores.append({"workload": workload, "array": array, **made})
    return scores, knew


def of_repeats(repeats: Sequence[Mapping[str, Replayed]], length_s: float) -> dict[str, Any]:
    """Scores of replays of one length over their seeds, with what they cost; see :func:`score`.

    Of each seed there are replays of the same reads, by the contender's name.
    """
    of_seeds = [blocks_of(None, length_s, results) for results in repeats]
    made = score([blocks for blocks, _, _ in of_seeds], [latency for _, latency, _ in of_seeds])
    return with_cost(made, repeats)


def with_cost(made: dict[str, Any], runs: Iterable[Mapping[str, Replayed]]) -> dict[str, Any]:
    """A score with what each policy cost in the replays that it is of."""
    cost = _cost(runs)
    for name, fields in made["policies"].items():
        fields.update(cost.get(name, {}))
    return made


def compared(
    results: Mapping[str, Replayed], length_s: float, pairs: Iterable[tuple[str, str]]
) -> list[dict[str, Any]]:
    """By how much means are below others' in replays of one seed, with their intervals."""
    *_, (blocks, _, _) = _add_paired(results, length_s)
    drawn = Pooled([blocks])
    return [{"policy": a, "reference": b, "below": drawn.below(a, b).to_json()} for a, b in pairs]


def _cost(runs: Iterable[Mapping[str, Replayed]]) -> dict[str, dict[str, float]]:
    """Of each policy, over all seeds: reads sent twice and refused, as shares of the reads."""
    total: dict[str, dict[str, float]] = {}
    for by_name in runs:
        for name, result in by_name.items():
            summary = result.summary
            into = total.setdefault(name, dict.fromkeys(("reads", "extra", "revoked", "errors"), 0))
            into["reads"] += summary["reads"]
            into["extra"] += summary["extra_io_ratio"] * summary["reads"]
            into["revoked"] += summary["revoked"]
            into["errors"] += summary["data_errors"] + summary["io_errors"]
    return {
        name: {
            "extra_io_ratio": t["extra"] / t["reads"],
            "revoked_ratio": t["revoked"] / t["reads"],
            "errors": t["errors"],
        }
        for name, t in total.items()
    }


def below(cell: Mapping[str, Any], policy: str, reference: str) -> Interval:
    """By what share a policy's mean is below a reference's, of a scored cell."""
    return Interval.from_json(cell["below"][policy][reference])


def best_rival(
    cell: Mapping[str, Any], field: str = "mean_us", most_extra: float = math.inf
) -> str:
    """The policy with the lowest number in a scored cell that is neither ours nor a bound.

    Only of those that send at most a share `most_extra` of the reads twice.
    """
    policies = cell["policies"]
    known = [
        name
        for name in contenders.rivals(policies)
        if policies[name][field] is not None and policies[name]["extra_io_ratio"] <= most_extra
    ]
    return min(known, key=lambda name: policies[name][field][0])


def verdict(difference: Interval) -> str:
    """What may be said of a difference: below, above, or nothing."""
    return "below" if difference.is_above else "above" if difference.is_below else "undecided"


def said(triple: Sequence[float | None] | None) -> str:
    """A share by which something is below with its interval, and what may be said of it."""
    if triple is None:
        return "-"
    return f"{percent(triple)} ({verdict(Interval.from_json(triple))})"


def by_verdict(differences: Iterable[tuple[str, Interval]]) -> str:
    """Of which of several differences what may be said, by their names."""
    said: dict[str, list[str]] = {"below": [], "above": [], "undecided": []}
    for name, difference in differences:
        said[verdict(difference)].append(name)
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in said.items() if names)


def errors(runs: Iterable[Mapping[str, Any]]) -> str:
    """How much of replays went wrong, in words."""
    n = sum(run["data_errors"] + run["io_errors"] for run in runs)
    return f"Data and I/O errors: {n}."


def number(triple: Sequence[float | None] | None, digits: int = 0, scale: float = 1.0) -> str:
    """A number with its interval as text; a dash where there is none."""
    if triple is None or triple[0] is None:
        return "-"
    value, low, high = (math.nan if v is None else v * scale for v in triple)
    if math.isnan(low):
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def above(difference: Interval, digits: int = 0) -> str:
    """By how many % it is above, not below, with its interval; beyond chance in bold."""
    bold = "**" if verdict(difference) == "above" else ""
    value, low, high = (
        f"{shown:+.{digits}f}" if (shown := round(-100 * of, digits)) else f"{0:.{digits}f}"
        for of in (difference.value, difference.high, difference.low)
    )
    return f"{bold}{value}{bold} [{low}, {high}]"


def standing(cell: Mapping[str, Any], policy: str, other: str) -> str:
    """By how much a policy's mean is below another's, and what may be said of it."""
    said = verdict(below(cell, policy, other))
    return f"{percent(cell['below'][policy][other], 1)}: {said}"


def percent(triple: Sequence[float | None] | None, digits: int = 0) -> str:
    """A share with its interval as text."""
    text = number(triple, digits, 100.0)
    return text if text == "-" else f"{text} %"
