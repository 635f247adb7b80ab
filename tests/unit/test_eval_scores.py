# SPDX-License-Identifier: MIT
"""Replays become scores with intervals; the text claims only what they support."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eval import cells, scores
from eval.cells import READS, Cell, Replay, Replayed
from eval.experiments import fig08, fig09, fig11
from eval.experiments.claims import (
    BETTER,
    CLAIMS,
    NOT_COMPARABLE,
    NOT_REPRODUCED,
    NOT_SHOWN,
    UNDECIDED,
    UNKNOWN,
    UNTESTED,
    WORSE,
    Claim,
    judge,
)
from linnapp.stats import Interval, mean_interval
from linnapp.trace.formats import iolog, replay_log

N_READS = 4000
POLICIES = {
    "baseline": 1.0, "clone": 1.2, "random": 1.0, "hedge": 0.81, "heuristic-adv": 0.8,
    "linnos": 0.6, "linnos-hl": 0.8, "linnos-h99": 0.82, "lowest": 0.5, "oracle": 0.4,
}  # fmt: skip


def _cell(seed: int) -> Cell:
    return Cell("az-e", "enterprise", seed, train_s=4.0, replay_s=2.0)


def _replayed(
    folder: Path, name: str, seed: int, latency_us: NDArray[Any], **more: Any
) -> Replayed:
    folder.mkdir(parents=True)
    n = len(latency_us)
    reads = {
        "due_us": np.linspace(0, 2e6, n, endpoint=False), "latency_us": latency_us,
        "home": np.arange(n) % 3, "served_by": np.arange(n) % 3,
        "revocations": np.zeros(n, np.uint8), **more,
    }  # fmt: skip
    np.savez(folder / READS, **reads)
    summary = {"reads": n, "extra_io_ratio": 0.1 * (name == "hedge"), "revoked": 0,
               "data_errors": 0, "io_errors": 0}  # fmt: skip
    return Replayed(Replay(_cell(seed), name.split(",")[0]), summary, folder)


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A configuration of three seeds; policies differ by known factors in all blocks."""
    results: dict[Cell, dict[str, Replayed]] = {}
    for seed in (1, 2, 3):
        rng = np.random.default_rng(seed)
        hard = np.repeat(rng.exponential(1, 40), N_READS // 40)
        folder = tmp_path_factory.mktemp(f"seed{seed}")
        results[_cell(seed)] = {
            name: _replayed(
                folder / name, name, seed, 100 * factor * hard * rng.uniform(0.9, 1.1, N_READS)
            )
            for name, factor in POLICIES.items()
        }
    # Without a cache there is no log for `learnt`.
    made = []
    for cell, by_name in results.items():
        made.append(scores.blocks_of(None, cell.replay_s, by_name)[:2])
    numbers = scores.score([blocks for blocks, _ in made], [latency for _, latency in made])
    cost = scores._cost(results.values())
    for name, fields in numbers["policies"].items():
        fields.update(cost[name])
    return {"workload": "az-e", "array": "enterprise", **numbers}


def test_scores_are_pooled_over_seeds_and_tails_need_enough_reads(scored: dict[str, Any]) -> None:
    assert scored["seeds"] == 3 and scored["reads"] == 3 * N_READS
    baseline = scored["policies"]["baseline"]
    assert baseline["p99_us"] is not None
    assert baseline["p999_us"] is None and baseline["p9999_us"] is None
    assert scores.number(baseline["p999_us"]) == "-"
    value, low, high = baseline["mean_us"]
    assert low < value < high


def test_difference_is_reported_only_if_there_is_one(scored: dict[str, Any]) -> None:
    assert scores.verdict(scores.below(scored, "linnos", "hedge")) == "below"
    assert scores.verdict(scores.below(scored, "hedge", "linnos")) == "above"
    assert scores.below(scored, "linnos", "hedge").value == pytest.approx(0.26, abs=0.02)
    # Equal except for noise.
    assert scores.verdict(scores.below(scored, "linnos-hl", "heuristic-adv")) == "undecided"
    # Their own intervals overlap widely; only pairing shows the difference.
    ours, theirs = (scored["policies"][p]["mean_us"] for p in ("linnos", "hedge"))
    assert ours[2] > theirs[1]


def test_best_alternative_is_neither_a_bound_nor_our_policy(scored: dict[str, Any]) -> None:
    assert scores.best_rival(scored) == "heuristic-adv"
    assert scored["policies"]["linnos"]["share_of_oracle"][0] == pytest.approx(2 / 3, abs=0.03)


def test_different_reads_cannot_be_compared(tmp_path: Path) -> None:
    latency_us = np.ones(100)
    results = {
        "baseline": _replayed(tmp_path / "a", "baseline", 1, latency_us),
        "hedge": _replayed(tmp_path / "b", "hedge", 1, latency_us, due_us=np.arange(100.0)),
    }
    with pytest.raises(ValueError, match="not the reads of baseline"):
        scores.blocks_of(None, _cell(1).replay_s, results)


def test_tables_and_text_are_made_from_the_scores(scored: dict[str, Any], tmp_path: Path) -> None:
    grid = [
        {"workload": "az-e", "array": "enterprise", "seed": 1, "policy": p, "reads": 1, "writes": 1,
         "response_mean_us": 1.0, "revoked": 0, "hedged": 0, "late_ios": 2, "data_errors": 0,
         "io_errors": 0, "hedge_percentile": 95.0}
        for p in POLICIES
    ]  # fmt: skip
    with_cap = {**scored, "policies": {**scored["policies"]}, "below": {**scored["below"]}}
    as_free = {
        "linnos-hl, 5% cap": "linnos-hl", "lowest-h95, 5% cap": "lowest",
        "lowest-two, 5% cap": "lowest",
    }  # fmt: skip
    for capped, free in as_free.items():
        with_cap["policies"][capped] = with_cap["policies"][free]
        with_cap["below"][capped] = with_cap["below"][free]
    tuned = {"options": ["--heuristic-queue", "3"], "tried": []}
    prepared = [
        {
            "workload": "az-e", "seed": 1, "training_reads": [5, 6, 7], "enough": False,
            "heuristic_adv": tuned,
        }
    ]  # fmt: skip
    data = {"cells": [with_cap], "grid": grid, "prepared": prepared, "learnt": [], "runs": []}
    tables = fig08.table(data)
    standing = tables["Mean below the best rival's: a difference only where zero is outside"]
    assert standing.rows[0][2].endswith(": **below**")
    assert standing.rows[0][3].endswith(": undecided")
    words = fig08.reading(data)
    assert "`linnos` against the best rival of each cell: below: az-e." in words
    assert "undecided: az-e." in words
    assert "az-e seed 1 (100.0 % of its I/Os)" in words
    assert "against the best rival there: " in fig09.reading(data)
    assert "p99 (us)" in fig09.table(data)
    assert "p99.9 (us)" not in fig09.table(data)
    hedged = {**data, "hedge_percentile": {"az-e": [95.0]}}
    assert "Mean of `linnos-hl` against `linnos`: above: az-e" in fig11.reading(hedged)
    fig11.table(hedged)
    for experiment in (fig08, fig09, fig11):
        experiment.draw(data, tmp_path / "figure.png")
        assert (tmp_path / "figure.png").stat().st_size > 1000


def _claim(low: float, high: float, *, more: bool = True) -> Claim:
    return Claim("", low, high, "", lambda data: {}, more_is_better=more)


def test_a_claim_is_worse_or_better_only_by_a_joint_test_of_its_cases() -> None:
    inside, above = Interval(0.30, 0.25, 0.35), Interval(0.9, 0.85, 0.95)
    unsure, lost = Interval(0.05, -0.1, 0.2), Interval(-0.2, -0.3, -0.1)
    claim = _claim(9.6, 79.6)
    assert judge(claim, [inside, inside], 5) == NOT_SHOWN
    assert judge(claim, [inside, unsure], 5) == NOT_SHOWN
    assert judge(claim, [inside, lost], 5) == WORSE
    assert judge(claim, [above, lost], 5) == WORSE
    assert judge(claim, [inside, above], 5) == BETTER
    assert judge(claim, [], 5) == UNKNOWN
    assert judge(claim, [Interval.unknown()], 5) == UNKNOWN
    assert judge(claim, [Interval.unknown(-0.2)], 2) == UNTESTED
    # Its interval alone ends below the range; one of eight cases may do so by chance.
    just = Interval(0.0, -0.08, 0.08)
    assert judge(claim, [just], 5) == WORSE
    assert judge(claim, [just, *[inside] * 7], 5) == NOT_SHOWN
    # An interval of the same width from three seeds is weaker evidence.
    far = Interval(-0.1, -0.17, -0.03)
    assert judge(claim, [far, *[inside] * 7], 20) == WORSE
    assert judge(claim, [far, *[inside] * 7], 3) == NOT_SHOWN
    # Lower error rates are better.
    wrong = _claim(0.7, 5.7, more=False)
    assert judge(wrong, [Interval(0.03, 0.02, 0.04)], 5) == NOT_SHOWN
    assert judge(wrong, [Interval(0.001, 0.0005, 0.002)], 5) == BETTER
    assert judge(wrong, [Interval(0.09, 0.05, 0.12)], 5) == NOT_SHOWN
    assert judge(wrong, [Interval(0.09, 0.08, 0.12)], 5) == WORSE


@pytest.mark.parametrize(("n_seeds", "n_cases"), [(3, 8), (5, 24)])
def test_true_claim_is_called_worse_at_most_at_the_stated_rate(n_seeds: int, n_cases: int) -> None:
    """All cases are exactly at the worse end of the range."""
    trials, worse = 500, 0
    values = np.random.default_rng(n_cases).normal(0.1, 0.02, (trials, n_cases, n_seeds))
    for cases in values:
        worse += judge(_claim(10, 80), [mean_interval(case) for case in cases], n_seeds) == WORSE
    assert worse / trials <= 0.05 + 2 * (0.05 * 0.95 / trials) ** 0.5


def test_a_claim_about_a_ratio_is_tested_on_its_logarithm() -> None:
    """A ratio of 1.2, with seeds that differ by a factor of 1.1, is as certain as its inverse."""
    claim = next(claim for claim in CLAIMS if claim.source == "fig08")
    shares = [1 - 1.2 * 1.1**end for end in (0, 1, -1)]
    found = claim.tested_on(Interval(*shares))
    assert found.value - found.low == pytest.approx(found.high - found.value)
    assert found.value == pytest.approx(-math.log(1.2))


def test_claims_of_variants_have_no_better_side() -> None:
    gain = replace(_claim(1.0, 2.0), of_variants=True)
    inside, off = Interval(0.015, 0.012, 0.018), Interval(-0.2, -0.3, -0.1)
    assert judge(gain, [inside], 5) == NOT_SHOWN
    assert judge(gain, [Interval(0.09, 0.08, 0.1)], 5) == NOT_REPRODUCED
    assert judge(gain, [inside, off], 5) == NOT_REPRODUCED
    # It reaches the range, but a difference is not significant.
    unsure = Interval(0.004, -0.002, 0.012)
    assert judge(gain, [unsure], 5) == UNDECIDED
    assert judge(gain, [unsure, Interval(0.015, 0.012, 0.02)], 5) == NOT_SHOWN


def test_claims_measured_elsewhere_are_not_judged() -> None:
    other = replace(_claim(1.0, 2.0), unlike="another machine")
    assert judge(other, [Interval(0.5, 0.4, 0.6)], 5) == NOT_COMPARABLE
    assert judge(other, [], 5) == UNKNOWN


def test_kept_joins_the_start_of_each_ten_seconds() -> None:
    time_us = np.array([0, 400_000, 600_000, 9_999_999, 10_000_000, 10_499_999, 20_100_000])
    n = len(time_us)
    chunk = iolog.Workload(time_us, np.arange(n), np.full(n, 4096), np.zeros(n, bool))
    kept = cells._kept(chunk, 0.5)
    assert kept.time_us.tolist() == [0, 400_000, 500_000, 999_999, 1_100_000]
    assert kept.offset_bytes.tolist() == [0, 1, 4, 5, 6]
    assert cells._kept(chunk, 10.0) is chunk


def test_kept_reads_have_response_times_in_the_workloads_order(tmp_path: Path) -> None:
    header = np.zeros(1, replay_log.HEADER)
    header["magic"], header["version"] = replay_log.MAGIC, replay_log.VERSION
    header["record_bytes"] = replay_log.RECORD.itemsize
    records = np.zeros(3, replay_log.RECORD)
    records["due_ns"] = [5000, 1000, 3000]
    records["lag_ns"], records["latency_ns"] = [0, 500, 0], [2000, 1000, 7000]
    records["op"] = [replay_log.READ, replay_log.READ, replay_log.WRITE]
    records["home"] = [2, 1, 0]
    (tmp_path / "log").write_bytes(header.tobytes() + records.tobytes())
    cells.write_reads(tmp_path / "log", tmp_path / READS)
    kept = cells.reads_of(Replayed(Replay(_cell(1), "x"), {}, tmp_path))
    assert kept["due_us"].tolist() == [1, 5]
    assert kept["latency_us"].tolist() == [1.5, 2]
    assert kept["home"].tolist() == [1, 2]
