# SPDX-License-Identifier: MIT
"""Intervals of `linnapp trial` are right, even if it may end at any interim analysis.

Trials are drawn from recordings of drives that have bursts of slow reads. Each block is a part of
a recording, of the program whose turn it is in that pair.
"""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from linnapp.learn import paired_blocks
from linnapp.learn.paired_blocks import (
    DECIDING,
    ERROR,
    N_BINS,
    PairedBlocks,
    alpha_of_analysis,
    bins_of,
    looks,
)
from linnapp.trace.blktrace import BlktraceReader

RECORDED = Path(__file__).parents[2] / "traces" / "recorded"
N_PAIRS = 40
#: Reads of a stretch, stretches of a run, and runs of a block: some have bursts, some none.
STRETCH, STRETCHES, RUNS = 200, 3, 5
#: Factor by which the switch shortens slow reads.
SLOW_US, FACTOR = 120, 0.25


class Load:
    """A program's reads in blocks, with the switch off and on.

    Parameters
    ----------
    name : str
        Of its recording.
    """

    def __init__(self, name: str) -> None:
        chunks = BlktraceReader(RECORDED / f"{name}.blk.xz")
        ns = np.concatenate([chunk.latency_ns[chunk.is_served_read] for chunk in chunks])
        self.off_us = ns[: len(ns) // STRETCH * STRETCH] / 1000
        self.on_us = np.where(self.off_us > SLOW_US, SLOW_US + FACTOR * (self.off_us - SLOW_US),
                              self.off_us)  # fmt: skip
        sides = [us.reshape(-1, STRETCH) for us in (self.off_us, self.on_us)]
        self.counts = np.array([[bins_of(row) for row in side] for side in sides])
        self.sums_us = np.array([side.sum(axis=1) for side in sides])

    def pair(self, rng: np.random.Generator, on: int) -> tuple[np.ndarray, np.ndarray]:
        """Return two blocks, the second with the switch on, if it has an effect."""
        n = self.counts.shape[1]
        counts, sums_us = [], []
        for side in (0, on):
            rows = (rng.integers(n, size=(RUNS, 1)) + np.arange(STRETCHES)).ravel() % n
            counts.append(self.counts[side, rows].sum(axis=0))
            sums_us.append(self.sums_us[side, rows].sum())
        return np.array(counts), np.array(sums_us)


@pytest.fixture(scope="module")
def loads() -> list[Load]:
    return [Load("fio"), Load("pgbench")]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use just enough exchanges to go below the smallest share of an interim analysis."""
    monkeypatch.setattr(paired_blocks, "N_EXCHANGES", 999)


def trial(loads: list[Load], seed: int, *, on: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    # At any analysis, each program has equally many pairs.
    pairs = [loads[k % 2].pair(rng, on) for k in range(N_PAIRS)]
    return np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])


def test_trials_without_an_effect_hardly_ever_decide(loads: list[Load]) -> None:
    """No latency decides a trial at any interim analysis more often than promised."""
    n = 200
    wrong = 0
    for seed in range(n):
        counts, sums_us = trial(loads, seed, on=0)
        wrong += any(
            PairedBlocks(counts[:done], sums_us[:done]).p_value(name)
            <= alpha_of_analysis(N_PAIRS, last=done == N_PAIRS)
            for done in looks(N_PAIRS)
            for name in DECIDING
        )
    print(f"{wrong} of {n} trials were wrong")
    # At most three standard deviations more than the promised share.
    assert wrong <= n * ERROR + 3 * math.sqrt(n * ERROR * (1 - ERROR))


def truth(loads: list[Load]) -> dict[str, float]:
    """Return the switch's true effect on a latency, as a factor, over equal numbers of blocks."""
    counts = sum(load.counts.mean(axis=1) for load in loads)
    sums_us = sum(load.sums_us.mean(axis=1) for load in loads)
    every = PairedBlocks(1e6 * np.asarray(counts)[None], 1e6 * np.asarray(sums_us)[None])
    return {name: on / off for name in DECIDING for off, on in [every.latencies_us(name)]}


def test_true_effect_is_rejected_at_most_at_the_stated_rate(loads: list[Load]) -> None:
    n, error = 150, 0.1
    for name, factor in truth(loads).items():
        rejected = sum(
            PairedBlocks(*trial(loads, seed, on=1)).p_value(name, math.log2(factor)) <= error
            for seed in range(n)
        )
        print(f"{name}: {factor:.3f} is rejected in {rejected} of {n}")
        assert rejected <= n * error + 3 * math.sqrt(n * error * (1 - error))


def test_interval_covers_the_true_effect(loads: list[Load]) -> None:
    """Also when a trial ends because it is decided, or hopeless."""
    n, missed, decided, pairs = 20, 0, 0, 0
    expected = truth(loads)
    for seed in range(n):
        counts, sums_us = trial(loads, seed, on=1)
        for done in looks(N_PAIRS):
            blocks = PairedBlocks(counts[:done], sums_us[:done])
            error = alpha_of_analysis(N_PAIRS, last=done == N_PAIRS)
            found = {name: blocks.effect(name, error, N_PAIRS) for name in DECIDING}
            if all(effect.is_done for effect in found.values()):
                break
        pairs += done
        missed += any(not found[k].low <= x <= found[k].high for k, x in expected.items())
        decided += any(effect.is_decided for effect in found.values())
    print(f"{missed} missed it, {decided} decided, of {n}, after {pairs / n:.0f} pairs")
    assert missed <= n * ERROR + 3 * math.sqrt(n * ERROR * (1 - ERROR))
    assert decided > n / 2


def test_an_interval_and_a_decision_agree(loads: list[Load]) -> None:
    counts, sums_us = trial(loads, 1, on=1)
    blocks = PairedBlocks(counts, sums_us)
    for name in DECIDING:
        for error in (0.3, 0.05, 0.002):
            effect = blocks.effect(name, error, N_PAIRS)
            assert effect.low <= effect.factor <= effect.high
            assert not effect.is_decided or blocks.p_value(name) <= error


def test_an_interval_holds_no_effect_where_the_test_does_not_reject_it(
    loads: list[Load], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Percentile factors are tested with shifted medians, the null effect without."""
    blocks = PairedBlocks(*trial(loads, 1, on=1))
    for p_of_none, expected in ((0.2, False), (0.01, True)):
        monkeypatch.setattr(
            blocks,
            "p_value",
            lambda name, there, p=p_of_none: p if there == 0 else float(there < -0.5),
        )
        effect = blocks.effect("p99", 0.05, N_PAIRS)
        assert effect.is_decided == expected
        assert (effect.high == 1.0) != expected


def test_a_trial_goes_on_while_one_standard_error_more_would_decide_it(
    loads: list[Load],
) -> None:
    """The power is that of a difference one standard error larger than the observed one."""
    blocks = PairedBlocks(*(part[:12] for part in trial(loads, 3, on=0)))
    effect = blocks.effect("mean", 0.01, N_PAIRS)
    _, exchanged = blocks._differences("mean", math.log2(effect.factor))
    found, done = abs(math.log2(effect.factor)) / exchanged.std(), 12 / N_PAIRS
    needed = NormalDist().inv_cdf(1 - alpha_of_analysis(N_PAIRS, last=True) / 2)
    rest = np.random.default_rng(1).normal(size=200_000) * math.sqrt(1 - done)
    last = found * math.sqrt(done) + (1 - done) * (found + 1) / math.sqrt(done) + rest
    assert effect.power == pytest.approx(np.mean(last > needed), abs=0.01)


def test_latencies_are_those_of_the_reads() -> None:
    us = np.random.default_rng(1).lognormal(5, 1, (2, 100000))
    us[1] *= 1.5
    blocks = PairedBlocks(np.array([[bins_of(side) for side in us]]), us.sum(axis=1)[None])
    for name, exact in (
        ("p50", np.percentile(us, 50, axis=1)),
        ("p99", np.percentile(us, 99, axis=1)),
        ("mean", us.mean(axis=1)),
    ):
        assert blocks.latencies_us(name) == pytest.approx(tuple(exact), rel=0.01)
    assert blocks.reads == (100000, 100000)
    assert bins_of(np.array([0, 1e30])).nonzero()[0].tolist() == [0, N_BINS - 1]
    with pytest.raises(ValueError, match="no reads"):
        PairedBlocks(np.zeros((1, 2, N_BINS)), np.zeros((1, 2))).latencies_us("p99")


def test_interim_analyses_divide_the_error_rate() -> None:
    for n in (8, 12, 40, 720, 10000):
        found = looks(n)
        assert found == sorted(set(found)) and found[-1] == n
        shares = [alpha_of_analysis(n, last=look == n) for look in found]
        assert sum(shares) * len(DECIDING) == pytest.approx(ERROR)
        # Each can be reached: by exchanging no pair, or all.
        assert all(2 / 2**look < share for look, share in zip(found, shares, strict=True))
