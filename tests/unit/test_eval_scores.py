# SPDX-License-Identifier: MIT
"""Numbers of replays: intervals, shares of a gain, and what is kept of a workload."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from replaying import write_log

from eval import cells, intervals, scores
from eval.cells import READS, Cell, Replay, Replayed
from eval.intervals import Blocks, Pooled
from eval.long_table import FASTER, NOT_SIGNIFICANT, SLOWER, LongTable, verdict
from eval.scores import Reads
from linnapp import stats
from linnapp.trace import convert as iolog
from linnapp.trace import replay_log

N_READS = 4000
POLICIES = {
    "baseline": 1.0, "clone": 1.2, "random": 1.0, "hedge": 0.81, "heuristic-adv": 0.8,
    "linnos": 0.6, "linnos-hl": 0.8, "linnos-h99": 0.82, "fastest": 0.5, "oracle": 0.4,
}  # fmt: skip
PLACE = ("az-e",)


def _reads(latency_us: NDArray[Any], **summary: float) -> Reads:
    n = len(latency_us)
    counts = {"reads": n, "revoked": 0, "extra_io_ratio": 0.0, "data_errors": 0, "io_errors": 0}
    due_us = np.linspace(0, 2e6, n, endpoint=False)
    return Reads(due_us, latency_us, 2.0, {**counts, **summary})


@pytest.fixture(scope="module")
def table() -> LongTable:
    """Return three seeds of a workload; policies differ by known factors in all blocks."""
    by_seed = {}
    for seed in (1, 2, 3):
        rng = np.random.default_rng(seed)
        hard = np.repeat(rng.exponential(1, 40), N_READS // 40)
        by_seed[seed] = {
            name: _reads(
                100 * factor * hard * rng.uniform(0.9, 1.1, N_READS),
                extra_io_ratio=0.1 * (name == "hedge"), revoked=40 * (name == "linnos"),
            )
            for name, factor in POLICIES.items()
        }  # fmt: skip
    long_table = LongTable(("workload",))
    scores.add_reads(long_table, PLACE, by_seed)
    return long_table


def _reduction(table: LongTable, policy: str, reference: str) -> Any:
    found = table.reduction(PLACE, policy, reference)
    assert found is not None
    return found


def test_numbers_are_pooled_over_seeds_and_tails_need_enough_reads(table: LongTable) -> None:
    assert table.value(PLACE, "baseline", "reads") == 3 * N_READS
    mean, p99 = (table.get(PLACE, "baseline", name) for name in ("mean_us", "p99_us"))
    assert mean is not None and mean.low < mean.value < mean.high and p99 is not None
    assert table.get(PLACE, "baseline", "p999_us") is None
    assert table.value(PLACE, "hedge", "extra_io_ratio") == pytest.approx(0.1)
    assert table.value(PLACE, "linnos", "revoked_ratio") == pytest.approx(0.01)
    assert [table.value(PLACE, "linnos", "revoked", seed) for seed in (1, 2, 3)] == [40] * 3


def test_difference_is_significant_only_if_there_is_one(table: LongTable) -> None:
    assert verdict(_reduction(table, "linnos", "hedge")) == FASTER
    assert verdict(_reduction(table, "linnos", "fastest")) == SLOWER
    assert _reduction(table, "linnos", "hedge").value == pytest.approx(0.26, abs=0.02)
    # Equal except for noise.
    assert verdict(_reduction(table, "linnos-hl", "heuristic-adv")) == NOT_SIGNIFICANT
    # Their own intervals overlap widely; only pairing shows the difference.
    ours, theirs = (table.get(PLACE, p, "mean_us") for p in ("linnos", "hedge"))
    assert ours is not None and theirs is not None and ours.high > theirs.low
    tail = table.reduction(PLACE, "linnos", "hedge", "p95_us")
    assert tail is not None and tail.is_above
    # By default, only ours are compared with all others.
    assert table.reduction(PLACE, "hedge", "baseline") is None


def test_best_rival_is_neither_a_bound_nor_our_policy(table: LongTable) -> None:
    assert table.best_rival(PLACE) == "heuristic-adv"
    share = table.get(PLACE, "linnos", "share_of_oracle")
    assert share is not None and share.value == pytest.approx(2 / 3, abs=0.03)


def test_policies_with_different_reads_cannot_be_compared() -> None:
    reads = _reads(np.ones(100))
    other = reads._replace(due_us=np.arange(100.0))
    with pytest.raises(ValueError, match="az-e, seed 1: the reads of hedge are not those of base"):
        scores.add_reads(LongTable(("w",)), PLACE, {1: {"baseline": reads, "hedge": other}})


def test_kept_workload_joins_the_start_of_each_ten_seconds() -> None:
    time_us = np.array([0, 400_000, 600_000, 9_999_999, 10_000_000, 10_499_999, 20_100_000])
    n = len(time_us)
    chunk = iolog.Workload(time_us, np.arange(n), np.full(n, 4096), np.zeros(n, bool))
    kept = cells._kept(chunk, 0.5)
    assert kept.time_us.tolist() == [0, 400_000, 500_000, 999_999, 1_100_000]
    assert kept.offset_bytes.tolist() == [0, 1, 4, 5, 6]
    assert cells._kept(chunk, 10.0) is chunk


def test_kept_reads_have_response_times_in_the_workloads_order(tmp_path: Path) -> None:
    records = np.zeros(3, replay_log.RECORD)
    records["due_ns"] = [5000, 1000, 3000]
    records["lag_ns"], records["latency_ns"] = [0, 500, 0], [2000, 1000, 7000]
    records["op"] = [replay_log.READ, replay_log.READ, replay_log.WRITE]
    records["home"] = [2, 1, 0]
    cells.write_reads(write_log(tmp_path / "log", records), tmp_path / READS)
    loaded = cells.load_replayed_reads(
        Replayed(
            Replay(Cell("az-e", "enterprise", 1, train_s=4.0, replay_s=2.0), "x"), {}, tmp_path
        )
    )
    assert loaded["due_us"].tolist() == [1, 5]
    assert loaded["latency_us"].tolist() == [1.5, 2]
    assert loaded["home"].tolist() == [1, 2]


N_SEEDS = 5
LENGTH_US = 2e6
TRIALS = 400

#: Spread of seeds: their drives and workloads make all reads slower or faster.
SEED_SPREAD = 0.2


def _bursts(rng: np.random.Generator, due_us: NDArray[Any]) -> NDArray[np.float64]:
    """Return a factor of the latency common to blocks of time, with mean 1."""
    stretch = (due_us // 50_000).astype(int)
    return np.asarray(rng.exponential(1.0, stretch.max() + 1)[stretch])


def _due(rng: np.random.Generator, n: int = 2000) -> NDArray[np.float64]:
    return np.sort(rng.uniform(0, LENGTH_US, n))


def _seed(
    rng: np.random.Generator, mean_us: dict[str, float], spread: float = SEED_SPREAD
) -> Blocks:
    """Return one seed: policies share its slowness and its bursts, and have noise of their own."""
    due_us = _due(rng)
    hardness = rng.lognormal(-(spread**2) / 2, spread) * _bursts(rng, due_us)
    blocks = Blocks(due_us, LENGTH_US)
    for policy, mean in mean_us.items():
        blocks.add(policy, mean * hardness * rng.exponential(1.0, len(due_us)))
    return blocks


def two_errors(rate: float, trials: int = TRIALS) -> float:
    return 2 * math.sqrt(rate * (1 - rate) / trials)


@pytest.mark.parametrize("n_seeds", [3, 5])
def test_pooled_intervals_cover_and_differ_at_the_stated_rate(n_seeds: int) -> None:
    """Scale all latencies of each seed; the interval over seeds should contain 100 us."""
    rng = np.random.default_rng(20)
    means = {"a": 100.0, "b": 100.0}
    trials = [Pooled([_seed(rng, means) for _ in range(n_seeds)]) for _ in range(TRIALS)]
    found = [trial.mean("a") for trial in trials]
    held = np.mean([i.low <= 100.0 <= i.high for i in found])
    assert abs(held - 0.95) <= two_errors(0.95) + 0.015
    # The interval is not too wide: the seeds' spread alone requires t * 0.2 / sqrt(n).
    wide = 2 * stats.student_t(0.975, n_seeds - 1) * 100 * SEED_SPREAD / n_seeds**0.5
    assert np.median([i.high - i.low for i in found]) < 2 * wide
    called = np.mean([trial.mean_reduction("a", "b").excludes_zero for trial in trials])
    assert called <= 0.05 + two_errors(0.05)


def test_pooled_difference_generalises_over_seeds_not_blocks() -> None:
    """A policy's gain differs between seeds but not between blocks of a seed."""
    rng = np.random.default_rng(8)
    held = {3: 0, 5: 0}
    for n_seeds in held:
        for _ in range(TRIALS):
            seeds = []
            for gain in np.exp(rng.normal(0, 0.05, n_seeds)):
                blocks = Blocks(np.arange(2000) * 1000.0, 2e6)
                base = rng.exponential(100, 2000)
                blocks.add("baseline", base)
                blocks.add("p", base * gain)
                seeds.append(blocks)
            interval = Pooled(seeds).mean_reduction("p", "baseline")
            held[n_seeds] += interval.low <= 0 <= interval.high
    for n_seeds in held:
        assert abs(held[n_seeds] / TRIALS - 0.95) <= two_errors(0.95) + 0.01


def test_two_seeds_have_no_interval() -> None:
    rng = np.random.default_rng(2)
    drawn = Pooled([_seed(rng, {"a": 80, "b": 100}) for _ in range(2)], (50.0,))
    results = (
        drawn.mean("a"),
        drawn.mean_reduction("a", "b"),
        drawn.percentile_reduction("a", "b", 50.0, (8, 10)),
    )
    assert all(found.ends == (None, None) and not math.isnan(found.value) for found in results)


def test_one_seed_draws_its_blocks() -> None:
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(TRIALS):
        blocks = _seed(rng, {"a": 100.0}, spread=0.0)
        interval = Pooled([blocks]).mean("a")
        held += interval.low <= 100.0 <= interval.high
    assert held / TRIALS >= 0.88


def test_one_seed_has_the_stated_false_positive_rate() -> None:
    """Give each of two policies its own bursts, which last a block."""
    rng = np.random.default_rng(4)
    called = {"mean": 0, "p90": 0}
    trials = 200
    for _ in range(trials):
        blocks = Blocks(np.arange(2000) * 1000.0, 2e6)
        for policy in ("a", "b"):
            burst = np.repeat(1 + (rng.random(20) < 0.3) * rng.exponential(5, 20), 100)
            blocks.add(policy, 100 * burst * rng.uniform(0.9, 1.1, 2000))
        drawn = Pooled([blocks], (90.0,))
        called["mean"] += drawn.mean_reduction("a", "b").excludes_zero
        called["p90"] += drawn.percentile_reduction("a", "b", 90.0, (1.0, 1.0001)).excludes_zero
        if drawn.mean_reduction("a", "b").excludes_zero:
            assert drawn.mean_reduction("b", "a").excludes_zero
    assert max(called.values()) / trials <= 0.05 + two_errors(0.05, trials)


@pytest.mark.parametrize(("n_differ", "excludes_zero"), [(5, False), (6, True)])
def test_one_seed_calls_a_difference_only_if_exchanging_blocks_does(
    n_differ: int, excludes_zero: bool
) -> None:
    """Five of 20 blocks differ, all in one direction, as in one of 16 random exchanges.

    A bootstrap sample almost always contains at least one of these blocks.
    """
    blocks = Blocks(np.arange(2000) * 1000.0, 2e6)
    blocks.add("a", np.full(2000, 100.0))
    blocks.add("b", np.where(np.arange(2000) // 100 < n_differ, 150.0, 100.0))
    drawn = Pooled([blocks], (90.0,))
    assert drawn.mean_reduction("a", "b").excludes_zero == excludes_zero
    assert drawn.mean_reduction("b", "a").excludes_zero == excludes_zero
    assert drawn.percentile_reduction("a", "b", 90.0, (100.0, 150.0)).excludes_zero == excludes_zero


def test_blocks_are_no_shorter_than_a_tenth_of_a_second() -> None:
    for seconds, n_blocks in ((0.05, 1), (0.5, 5), (1.0, 10), (2.5, 20), (60.0, 20)):
        assert Blocks(np.zeros(1), seconds * 1e6).n_blocks == n_blocks
    assert Blocks(np.zeros(1), 1e6, n_blocks=15).n_blocks == 15
    few = Blocks(np.arange(500.0) * 1000, 0.5e6)
    few.add("a", np.arange(500.0))
    assert Pooled([few]).mean("a").ends == (None, None)


def test_percentiles_of_blocks_agree_with_the_reads() -> None:
    rng = np.random.default_rng(5)
    due_us = _due(rng, 50_000)
    latency_us = 80 + rng.pareto(2.5, len(due_us)) * 200
    blocks = Blocks(due_us, LENGTH_US)
    blocks.add("a", latency_us)
    drawn = Pooled([blocks], (50.0, 99.0))
    for p in (50.0, 99.0):
        true_us = float(np.percentile(latency_us, p))
        interval = drawn.percentile("a", p, true_us)
        assert interval.low <= true_us <= interval.high
        assert drawn._percentile["a"][drawn.percents.index(p)][0] == pytest.approx(
            true_us, rel=0.01
        )
        assert (interval.high - interval.low) / true_us < 0.2


def test_percentile_requires_a_hundred_reads_beyond_it() -> None:
    latency_us = np.arange(99_999.0)
    assert intervals.percentile(latency_us, 99.9) is None
    assert intervals.percentile(np.arange(100_000.0), 99.9) == pytest.approx(99_899.0, abs=1)
    assert intervals.percentile(latency_us, 99) is not None
    assert intervals.percentile(np.arange(999.0), 90) is None


def test_reads_of_a_policy_are_selected_by_its_mask() -> None:
    blocks = Blocks(np.arange(100.0), 100.0, n_blocks=10)
    latency_us = np.where(np.arange(100) % 2 == 0, 10.0, 30.0)
    blocks.add("all", latency_us)
    blocks.add("even", latency_us, np.arange(100) % 2 == 0)
    drawn = Pooled([blocks])
    assert drawn.mean("all").value == 20
    assert drawn.mean("even").value == 10
    assert drawn.mean_reduction("even", "all").value == pytest.approx(0.5)
    assert drawn.share("even", "even", "all").value == pytest.approx(1)


def test_blocks_refuse_latencies_of_different_reads() -> None:
    blocks = Blocks(np.arange(100.0), 100.0)
    with pytest.raises(ValueError, match="hedge: 99 latencies of 100 reads"):
        blocks.add("hedge", np.ones(99))


def test_drives_of_a_seed_are_not_independent_values() -> None:
    by_drives = {1: [0.10, 0.11, 0.12], 2: [0.30, 0.31, 0.32], 3: [0.20, 0.21, 0.22]}
    found = intervals.interval_over_seeds(by_drives)
    assert found.value == pytest.approx(0.21)
    as_if_independent = stats.mean_interval([v for drives in by_drives.values() for v in drives])
    assert found.high - found.low > 2 * (as_if_independent.high - as_if_independent.low)
    # One seed has only its drives; a seed without a value adds no information.
    assert intervals.interval_over_seeds({1: [0.1, 0.2, 0.4]}) == stats.mean_interval(
        [0.1, 0.2, 0.4]
    )
    assert intervals.interval_over_seeds({**by_drives, 4: [math.nan]}) == found
