# SPDX-License-Identifier: MIT
"""Replays become numbers with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eval import cells, scores
from eval.cells import READS, Cell, Replay, Replayed
from eval.long_table import FASTER, NOT_SIGNIFICANT, SLOWER, LongTable, verdict
from eval.scores import Reads
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
    """Three seeds of one workload, in which policies differ by known factors in all blocks."""
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
    made = LongTable(("workload",))
    scores.add_reads(made, PLACE, by_seed, series=True)
    return made


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
    blocks = [key for key, _ in table.items() if key.measure.startswith("block_")]
    assert len(blocks) == 20 * len(POLICIES)


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


def test_different_reads_cannot_be_compared() -> None:
    reads = _reads(np.ones(100))
    other = reads._replace(due_us=np.arange(100.0))
    with pytest.raises(ValueError, match="az-e, seed 1: the reads of hedge are not those of base"):
        scores.add_reads(LongTable(("w",)), PLACE, {1: {"baseline": reads, "hedge": other}})


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
    kept = cells.reads_of(
        Replayed(
            Replay(Cell("az-e", "enterprise", 1, train_s=4.0, replay_s=2.0), "x"), {}, tmp_path
        )
    )
    assert kept["due_us"].tolist() == [1, 5]
    assert kept["latency_us"].tolist() == [1.5, 2]
    assert kept["home"].tolist() == [1, 2]
