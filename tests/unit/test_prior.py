# SPDX-License-Identifier: MIT
"""The prior: it scales to the units of any drive, and few reads are enough for it."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
from test_latency_log import random_log

import linnapp
from eval.seeds import DEVELOPMENT
from linnapp.engine import predict_us
from linnapp.errors import NoGainError
from linnapp.learn.examples import BurstReads, Reads
from linnapp.learn.trees import (
    NEVER,
    PRIOR_FOLDER,
    PRIOR_NAME,
    PRIOR_UNIT_US,
    TIME_FEATURES,
    TreeTrainingData,
    _is_significantly_worse_than_mean,
    begins_with_prior,
    scale_prior,
    shipped_prior,
    unit_of_drive_us,
)
from linnapp.model import (
    CAP,
    FEATURES,
    FRACTION_BITS,
    LATENCIES,
    N_FEATURES,
    LatencyModel,
    load_model,
)


def features(n: int = 5000) -> np.ndarray:
    """Return features of all magnitudes."""
    rng = np.random.default_rng(1)
    found = np.exp2(rng.uniform(0, 16, (n, N_FEATURES))).astype(np.uint32)
    found[::7, FEATURES.index("age_us_2")] = CAP
    return found


@pytest.mark.parametrize("unit_us", [1, 12.5, 64, 100, 257, 1000, 20_000])
def test_prior_predicts_in_the_units_of_a_drive_as_in_its_own(unit_us: float) -> None:
    """They are equal within the rounding of a leaf, if times are integers in both units."""
    times = list(TIME_FEATURES)
    prior_units = features()
    prior_units[:, times] = np.where(
        prior_units[:, times] < CAP, prior_units[:, times] & ~np.uint32(0xFF), CAP
    )
    drive_units = prior_units.copy()
    known = prior_units[:, times] < CAP
    drive_units[:, times] = np.where(known, prior_units[:, times] // 256 * unit_us, CAP)
    whole = ~known | (prior_units[:, times] // 256 * unit_us == drive_units[:, times])
    prior_units, drive_units = (
        rows[whole.all(axis=1) & (drive_units <= CAP).all(axis=1)]
        for rows in (prior_units, drive_units)
    )
    assert len(prior_units) > 250
    shipped = dataclasses.replace(shipped_prior(), overdue_us=CAP)
    scaled = scale_prior(shipped, unit_us)
    predicted, expected = (
        predict_us(scaled, drive_units),
        predict_us(shipped, prior_units) * (unit_us / 256),
    )
    expected = np.maximum(expected, 1)
    assert np.all(
        np.abs(predicted - expected) <= 0.6 + unit_us / 512 + expected / (1 << FRACTION_BITS)
    )
    assert np.array_equal(predicted, predict_us(scaled, drive_units, "c"))


def test_median_uses_small_reads_if_there_are_enough() -> None:
    latency_us = np.repeat([100, 900], [20, 80])
    assert unit_of_drive_us(latency_us, np.repeat([1, 64], [20, 80])) == 100
    assert unit_of_drive_us(latency_us, np.repeat([1, 64], [19, 81])) == 900
    assert unit_of_drive_us(np.zeros(5), np.ones(5)) == 1


def test_few_reads_use_the_prior_and_record_it(tmp_path: Path) -> None:
    path = tmp_path / "few.trace"
    random_log(path, n=700)
    with pytest.raises(NoGainError, match="reads to train on are too few .*; record for "):
        linnapp.fit_latency(path, prior=False)
    fitted = linnapp.fit_latency(path)
    (tmp_path / "m").mkdir()
    fitted.save(tmp_path / "m" / "few.linnos")
    model = load_model(tmp_path / "m" / "few.linnos")
    assert isinstance(model, LatencyModel) and begins_with_prior(model)
    assert model.refuse_us == NEVER
    record = json.loads((tmp_path / "m" / "few.json").read_text())
    assert record["prediction"] == "the prior" and record["prior"] == shipped_prior().model_id
    assert record["validation_quality"]["trees"] is None
    quality = record["validation_quality"]["the prior"]
    assert quality["auc"] > 0.5
    # A recording of the named length has the reads that are needed.
    remedy = re.search(r"record for (\d+) (s|minutes), .* ([\d.]+) reads per sec", record["remedy"])
    assert remedy is not None, record["remedy"]
    seconds = int(remedy[1]) * (60 if remedy[2] == "minutes" else 1)
    assert seconds * float(remedy[3]) > 0.9 * 1000 / 0.7


def test_prior_has_a_record_of_its_training() -> None:
    record = json.loads((PRIOR_FOLDER / f"{PRIOR_NAME}.json").read_text())
    model = shipped_prior()
    assert record["model_id"] == model.model_id
    assert record["unit_us"] == PRIOR_UNIT_US and record["n_trees"] == model.n_trees
    seeds = [re.search(r"seed (\d+)", recording)[1] for recording in record["recordings"]]
    assert {int(seed) for seed in seeds} <= set(DEVELOPMENT)


def log_of(latency_us: np.ndarray) -> Reads:
    """Return reads that look equal to the prior: nothing in flight, after fast reads."""
    rows = np.zeros((len(latency_us), N_FEATURES), np.uint32)
    rows[:, FEATURES.index("pages")] = 1
    rows[:, list(LATENCIES)] = 100
    rows[:, FEATURES.index("pages_1")] = 1 + (np.arange(len(rows)) % 2)
    arrival_ns = np.arange(len(rows), dtype=np.uint64) * np.uint64(10**6)
    pages = rows[:, 0]
    return Reads(arrival_ns, latency_us.astype(np.uint32), pages, pages, features=rows)


def test_prior_has_less_influence_with_more_reads() -> None:
    """Every second read takes three times as long, for a reason specific to this drive."""
    like = LatencyModel.mean_of_last(1000, NEVER, 1000)
    ratios = []
    for n in (60, 300, 3000):
        reads = log_of(np.where(np.arange(n) % 2, 300, 100))
        added = BurstReads.none(overdue_us=1000)
        data = TreeTrainingData(reads, 1, added, like, 1, corrects_prior=True)
        fast, slow = predict_us(data.grow_trees()[0], reads.features[:2])
        ratios.append(float(slow / fast))
    assert 1 <= ratios[0] < ratios[1] < ratios[2] < 3.1
    assert ratios[0] < 1.7 and ratios[2] > 2.2


def test_a_model_is_worse_than_the_mean_only_if_that_is_significant() -> None:
    """A model predicts the mean of the last latencies, 100 us; reads are 10 ms apart."""
    like = LatencyModel.mean_of_last(1000, NEVER, 1000)
    rng = np.random.default_rng(1)

    def is_worse(latency_us: np.ndarray, gap_ms: int = 10) -> bool:
        reads = log_of(latency_us)
        at = np.arange(len(latency_us), dtype=np.uint64) * np.uint64(gap_ms * 10**6)
        return _is_significantly_worse_than_mean(like, dataclasses.replace(reads, arrival_ns=at))

    assert is_worse(rng.normal(300, 10, 1000))
    assert not is_worse(rng.normal(100, 10, 1000))
    # One burst is no evidence, however many equal reads it has.
    burst = np.full(1000, 100.0)
    burst[500:550] = 5000
    assert not is_worse(burst)
    # A recording of one second is no evidence either.
    assert not is_worse(rng.normal(300, 10, 1000), gap_ms=1)
