# SPDX-License-Identifier: MIT
"""Hedge tables: the time to hedge as a function of the predicted latency."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from running import run
from test_latency_log import random_log

import linnapp
from linnapp.learn import hedge_table
from linnapp.learn.hedge_table import HedgeTable, Row, learn, raised, reads_needed
from linnapp.learn.network import TrainingOptions
from linnapp.learn.trees import load_latency_reads
from linnapp.model import LatencyModel, load_model
from linnapp.model.engine import predict_us
from linnapp.trace.rows import split


def test_row_is_the_percentile_of_reads_with_similar_predictions() -> None:
    """Three predictions are three classes; in each, one read in a hundred is late."""
    predicted = np.repeat([100, 200, 1000], 1000)
    latency = predicted + np.tile(np.r_[np.zeros(980, int), np.arange(20)], 3)
    shuffled = np.random.default_rng(1).permutation(3000)
    table = learn(predicted[shuffled], latency[shuffled], 99, latency)
    # The 990th of a thousand is the first of the ten that are late.
    assert table.rows == (Row(0, 109, 1000), Row(182, 209, 1000), Row(725, 1009, 1000))
    assert table.after_us([0, 181, 182, 724, 725, 2**24]).tolist() == [
        109, 109, 209, 209, 1009, 1009,
    ]  # fmt: skip
    assert table.to_text() == (
        "linnos hedge table 1\n# p99 of 3000 reads: predicted us, hedge after\n"
        "0 109\n182 209\n725 1009\n"
    )


def test_two_classes_a_doubling_and_no_prediction_between_them() -> None:
    predicted = np.arange(64, 256).repeat(1000)
    table = learn(predicted, predicted, 99, predicted)
    assert [row.from_us for row in table.rows] == [0, 91, 128, 182]
    # The longest in its class.
    assert table.rows[-1].after_us == 255
    assert sum(row.reads for row in table.rows) == len(predicted)


def test_longer_predictions_never_have_shorter_hedging_times() -> None:
    rng = np.random.default_rng(2)
    predicted = np.exp(rng.uniform(3, 12, 40_000)).astype(int)
    latency = rng.gamma(1.0, 300, len(predicted)).astype(int)  # independent of the prediction
    table = learn(predicted, latency, 99, latency)
    after = [row.after_us for row in table.rows]
    assert after == sorted(after) and len(after) > 1
    # Classes are pooled, not cut off: in each row one read in a hundred takes longer.
    for row, above in zip(table.rows, [*(r.from_us for r in table.rows[1:]), 1 << 30], strict=True):
        own = latency[(predicted >= row.from_us) & (predicted < above)]
        assert len(own) == row.reads >= reads_needed(99)
        assert 0.0085 < np.mean(own > row.after_us) <= 0.01
    # All classes are in reverse order, so there is one row for all.
    backwards = learn(predicted, 1_000_000 - predicted, 99, latency)
    (row,) = backwards.rows
    assert row.after_us == np.percentile(1_000_000 - predicted, 99, method="inverted_cdf")
    assert backwards.why_one_row == ""


def test_row_requires_ten_reads_beyond_its_percentile() -> None:
    assert [reads_needed(p) for p in (50, 90, 95, 99, 99.9)] == [20, 100, 200, 1000, 10_000]
    predicted = np.r_[np.full(1000, 100), np.full(999, 1000), np.full(5, 30_000)]
    table = learn(predicted, predicted, 99, predicted)
    # The few reads of 30 ms are pooled with those of 1 ms.
    assert [(row.from_us, row.reads) for row in table.rows] == [(0, 1000), (725, 1004)]
    assert [row.reads for row in learn(predicted[1:], predicted[1:], 99, predicted).rows] == [2003]


def test_few_reads_give_one_row_with_the_reason() -> None:
    few = np.full(999, 80)
    table = learn(few, few, 99, np.arange(3000))
    assert table.rows == (Row(0, 2969, 3000),)
    assert table.why_one_row == (
        "999 reads that did not teach are too few for p99 by prediction: 1000 are needed; it is "
        "that of all 3000"
    )
    # A row of 0 us would send every read twice.
    assert learn(few, few * 0, 99, few * 0).rows == (Row(0, 1, 999),)
    assert learn(np.zeros(1000), np.zeros(1000, int), 99, few).rows == (Row(0, 1, 1000),)


def bursty(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nearly uninformative predictions, and latencies that are slow a tenth of the time."""
    rng = np.random.default_rng(seed)
    slow = np.repeat(rng.random(n // 500) < 0.1, 500)
    predicted = rng.choice([100, 400], n)
    latency = predicted * rng.gamma(20, 0.05, n) + slow * rng.exponential(200, n)
    return predicted, latency.astype(int)


def test_raised_keeps_the_percentile_in_each_eighth_and_for_later_reads() -> None:
    late = {"learnt": [], "raised": []}
    for seed in range(40):
        predicted, latency = bursty(40_000, seed)
        half = 20_000
        table = learn(predicted[14_000:half], latency[14_000:half], 99, latency[:half])
        up = raised(table, predicted[:half], latency[:half])
        ratios = latency / up.after_us(predicted)
        parts = np.array_split(ratios[:half] > 1, hedge_table.N_PARTS)
        assert max(part.mean() for part in parts) <= 0.01
        # It is no higher than needed: in one eighth, the next read is late.
        assert max(np.mean(ratio > 0.99) for ratio in np.array_split(ratios[:half], 8)) > 0.0095
        late["raised"].append(np.mean(ratios[half:] > 1))
        late["learnt"].append(np.mean(latency[half:] > table.after_us(predicted[half:])))
        assert [row.reads for row in up.rows] == [row.reads for row in table.rows]
    assert np.mean(np.array(late["learnt"]) > 0.01) > 0.4
    assert np.mean(np.array(late["raised"]) > 0.01) <= 0.05


def test_raised_leaves_a_table_that_fits_and_says_by_how_much_it_raises_another() -> None:
    predicted = np.full(8000, 100)
    steady = np.tile(np.r_[np.full(99, 100), 200], 80)
    table = learn(predicted, steady, 99, steady)
    assert raised(table, predicted, steady) == table
    burst = steady.copy()
    burst[2000:2050] = 301
    up = raised(table, predicted, burst)
    assert up.rows == (Row(0, 301, 8000),) and up.factor == 3.01
    assert "# p99 of 8000 reads times 3.01: predicted us" in up.to_text()
    # With too few reads for eight parts there are fewer parts.
    assert raised(table, predicted[:1999], burst[1000:2999]).rows[0].after_us == 301
    assert raised(table, predicted[:1], burst[2000:2001]).rows[0].after_us == 301


RECORDED = Path(__file__).resolve().parents[2] / "traces" / "recorded"


@pytest.mark.parametrize("name", ["fio", "pgbench"])
def test_table_of_the_first_half_holds_for_the_second_half(
    name: str,
) -> None:
    first, second = linnapp.load(RECORDED / f"{name}.blk.xz").split(0.5)
    fitted = linnapp.fit_latency(first)
    latency_us = second.latency_ns[second.is_served_read] / 1000
    late = np.mean(latency_us > fitted.hedge_table_.after_us(fitted.predict(second)))
    assert 0.001 < late <= 0.01


def test_train_saves_the_table_with_the_model(long_log: Path, tmp_path: Path) -> None:
    out, lower = tmp_path / "m", tmp_path / "lower"
    result = run("train", "--kind", "latency", "--trace", long_log, "-o", out)
    assert result.exit_code == 0, result.output
    assert "when to hedge" not in result.stderr
    lower.mkdir()
    linnapp.fit_latency(long_log, hedge_percentile=90).save(lower / "az.linnos")
    for percentile, folder in ((99, out), (90, lower)):
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["az.hedge", "az.json", "az.linnos"]
        record = json.loads((folder / "az.json").read_text())
        kept = record["hedge_table"]
        assert kept["percentile"] == record["options"]["hedge_percentile"] == percentile
        rows = tuple(Row(*row) for row in kept["rows"])
        table = HedgeTable(percentile, rows, factor=kept["factor"])
        assert (folder / "az.hedge").read_text() == table.to_text()
        assert kept["why_one_row"] is None
    assert len(table.rows) > 1

    # Only reads that were not used for training.
    model = load_model(out / "az.linnos")
    assert isinstance(model, LatencyModel)
    reads, _ = load_latency_reads(long_log, model.overdue_us)
    parts = split(len(reads), TrainingOptions())
    unseen = reads.latency_us[parts.validation.start :]
    assert sum(row.reads for row in table.rows) == len(unseen)
    # The model's own trees were trained on these reads, so the share is not exactly 1 in 10.
    after_us = table.after_us(predict_us(model, reads.features[parts.validation.start :]))
    assert 0.03 < np.mean(unseen > after_us) < 0.12


def test_train_warns_when_reads_are_too_few_for_the_table(tmp_path: Path) -> None:
    path = tmp_path / "few.trace"
    random_log(path, n=700)
    result = run("train", "--kind", "latency", "--trace", path, "-o", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert "when to hedge: " in result.stderr
    assert "reads that did not teach are too few for p99 by prediction" in result.stderr
    assert len((tmp_path / "m" / "few.hedge").read_text().splitlines()) == 3


def test_the_first_line_is_what_the_library_expects() -> None:
    source = Path(__file__).resolve().parents[2] / "liblinnos" / "predictor" / "hedge_table.c"
    assert f'#define FIRST_LINE "{hedge_table.FIRST_LINE}\\n"' in source.read_text()
