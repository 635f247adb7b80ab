# SPDX-License-Identifier: MIT
"""The account of the paper: operating points, what predictors see, the cost of hedging."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval.experiments import fig10, hedging, published
from eval.experiments.fig10 import PREDICTORS, bound_for, judged
from linnapp.learn.examples import load_reads
from linnapp.trace.replay_log import HEDGED

FIO = Path(__file__).parents[2] / "traces" / "recorded" / "fio.blk.xz"


def test_bound_for_gives_at_most_the_share_of_false_submits_and_refuses_no_more_than_needed() -> (
    None
):
    score = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    slow = np.array([0, 1, 0, 0, 1, 0, 1, 0, 0, 1], bool)
    for most, bound, n_refused in ((0.0, 0.2, 9), (0.1, 0.5, 6), (0.2, 0.7, 4), (0.39, 1.0, 1)):
        assert bound_for(score, slow, most) == bound
        assert np.count_nonzero(score >= bound) == n_refused
        assert np.mean(slow & (score < bound)) <= most
    assert bound_for(score, slow, 0.4) == float("inf")
    # Reads with equal scores are refused together.
    tied = np.array([0.1, 0.5, 0.5, 0.5])
    assert bound_for(tied, np.array([False, True, False, True]), 0.25) == 0.5


def test_judged_gives_accuracy_over_the_base_and_the_matched_point() -> None:
    slow = np.tile([True, False, False, False, True], 40)
    score = np.where(slow, 0.4, 0.1) + np.tile([0.2, 0.0], 100)
    half = slice(0, 100), slice(100, 200)
    found = judged(score, slow, *half, 0.5)
    assert found["base"] == pytest.approx(0.6)
    assert found["accuracy"] == pytest.approx(0.8) and found["gain"] == pytest.approx(0.2)
    assert (found["false_submit_ratio"], found["false_revoke_ratio"]) == (pytest.approx(0.2), 0)
    assert found["auc"] == 1.0
    # The matched bound is chosen on the first half alone, where no slow read need pass.
    assert found["matched_submit_ratio"] <= fig10.MATCHED
    assert found["matched_revoke_ratio"] == 0


def test_predictors_differ_in_one_respect_from_another() -> None:
    def respects(name: str) -> set[tuple[str, Any]]:
        return set(vars(PREDICTORS[name]).items())

    for name, of, changed in (
        ("biased", "unbiased", {"bias"}),
        ("biased on every slow read", "biased", {"loss"}),
        ("unbiased, shuffled", "unbiased", {"shuffled"}),
        ("biased, shuffled", "biased", {"shuffled"}),
        ("trees, the network's numbers", "unbiased", {"trees"}),
    ):
        assert {key for key, _ in respects(name) ^ respects(of)} == changed


def test_inputs_have_a_row_for_each_read_that_is_judged() -> None:
    reads = load_reads(FIO)
    inputs = {kind: fig10.inputs_of(kind, FIO) for kind in
              ("numbers", "sized", "features", "outside")}  # fmt: skip
    assert {kind: len(rows) for kind, rows in inputs.items()} == dict.fromkeys(inputs, len(reads))
    assert inputs["numbers"].shape[1] == 9 and inputs["sized"].shape[1] == 10
    assert np.array_equal(inputs["sized"][:, :9], inputs["numbers"])
    n = inputs["features"].shape[1]
    assert inputs["outside"].shape[1] > n
    assert np.array_equal(inputs["outside"][:, :n], inputs["features"], equal_nan=True)
    log = fig10.log_of(FIO)
    took_us = (log.end - log.start)[log.is_read] // 1000
    assert np.array_equal(took_us, reads.latency_us)


def test_hedging_compares_the_same_reads_of_both_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = {
        "linnos": {"latency_us": np.array([100.0, 900.0, 200.0])},
        "linnos-hl": {
            "latency_us": np.array([150.0, 400.0, 260.0]),
            "flags": np.array([0, HEDGED, 0]),
            "size_bytes": np.array([4096, 24576, 4096], np.uint32),
        },
    }
    monkeypatch.setattr(published, "replay_of", lambda context, cell, policy: policy)
    monkeypatch.setattr(hedging, "replayed", lambda cache, policy: type("D", (), {"log": policy}))
    monkeypatch.setattr(hedging, "read_log", logs.__getitem__)
    context: Any = type("C", (), {"cache": None})
    found = hedging.measure(context, workload="co-e", policy="linnos-hl", seed=1)
    assert found["hedged_ratio"] == pytest.approx(1 / 3)
    assert found["hedged_bytes_ratio"] == pytest.approx(0.75)
    assert (found["twice_alone_us"], found["twice_us"]) == (900, 400)
    assert (found["once_alone_us"], found["once_us"]) == (150, 205)
    assert (found["mean_alone_us"], found["mean_us"]) == (400, 270)
