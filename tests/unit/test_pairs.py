# SPDX-License-Identifier: MIT
"""The area under the ROC curve, and pairs of simultaneous reads: the gain of a prediction."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import run
from test_model_format import random_model

from linnapp.learn import judge as evaluation
from linnapp.learn.judge import area_under_roc
from linnapp.learn.pairs import REDIRECT_MARGIN, DriveReads, judge, match_pairs


def reads(
    at_us: Any, latency_us: Any = 1, predicted: Any = 1, alternative: Any = 1, size_class: Any = 0
) -> Any:
    at_us = np.asarray(at_us)
    columns = np.broadcast_arrays(at_us * 1000, latency_us, predicted, alternative, size_class)
    return DriveReads(columns[0].astype(np.uint64), *columns[1:])


def test_match_pairs_finds_mutually_nearest_reads_of_one_size_class() -> None:
    first = reads([0, 1000, 1100, 5000, 9000], size_class=[0, 0, 0, 1, 0])
    second = reads([90, 1090, 5000, 5150, 9300], size_class=[0, 0, 0, 1, 0])
    first_rows, second_rows = match_pairs(first, second)
    # The read at 1000 has no pair, because its nearest read has a nearer one. Those at 9000 are
    # 300 us apart, which is too far.
    assert sorted(zip(first_rows.tolist(), second_rows.tolist(), strict=True)) == [
        (0, 0),
        (2, 1),
        (3, 3),
    ]
    assert len(match_pairs(first, second, within_us=100)[0]) == 2
    assert len(match_pairs(first, second, within_us=300)[0]) == 4
    assert len(match_pairs(first, reads([], size_class=[]))[0]) == 0


def test_a_margin_keeps_reads_on_their_drive_unless_the_other_is_better_by_more() -> None:
    """Predictions are 100 and 130; without a margin reads would leave the slower drive."""
    judged = judge([[reads([0], [100], [100], [1])], [reads([10], [500], [130], [1])]])
    assert judged.gain_over_round_robin_us.value == 300 - 100
    assert judged.gain_with_margin_us.value == 0


def test_gains_equal_a_manual_computation() -> None:
    """Only the first pair is in the predicted order; the other differs by less than the margin."""
    first = reads([0, 1000], [100, 300], [100, 90], [2, 1])
    second = reads([10, 1010], [500, 200], [400, 100], [1, 1])
    judged = judge([[first], [second]])
    assert judged.pairs == 2
    assert judged.ranked_correctly.value == 0.5
    assert judged.gain_over_round_robin_us.value == (300 + 250) / 2 - (100 + 300) / 2
    # By fewest pending pages, the first pair reads from the second drive, the other from either.
    assert judged.gain_over_alternative_us.value == (500 + 250) / 2 - (100 + 300) / 2
    assert (1 - REDIRECT_MARGIN) * 100 < 90
    assert judged.gain_with_margin_us.value == (300 + 250) / 2 - (100 + 250) / 2
    assert judged.oracle_gain_us.value == (300 + 250) / 2 - (100 + 200) / 2
    assert not judged.ranked_correctly.is_known


@pytest.fixture
def drives() -> list[DriveReads]:
    """Return three drives whose load changes at the same times; each is slow at other times."""
    rng = np.random.default_rng(1)
    at_us = np.arange(6000) * 2000
    common = np.repeat(rng.choice([1, 10], 300), 20)
    three = []
    for _ in range(3):
        own = np.repeat(rng.choice([1.0, 1.2], 600), 10)
        latency_us = (100 * common * own * rng.uniform(0.97, 1.03, 6000)).astype(np.uint32)
        three.append(reads(at_us + rng.integers(0, 50, 6000), latency_us, common, own))
    return three


def test_slowness_common_to_all_drives_gains_nothing(drives: list[DriveReads]) -> None:
    slow = drives[0].latency_us > 500
    assert area_under_roc(drives[0].predicted, slow) == 1.0
    judged = judge([[drive] for drive in drives])
    assert judged.pairs == 18_000
    assert judged.ranked_correctly.value == 0.5 and judged.gain_over_round_robin_us.value == 0
    own = [dataclasses.replace(drive, predicted=drive.alternative) for drive in drives]
    judged = judge([[drive] for drive in own])
    assert 0.7 < judged.ranked_correctly.value < 0.8 and judged.gain_over_alternative_us.value == 0
    for estimate in (judged.ranked_correctly, judged.gain_over_round_robin_us):
        assert estimate.low < estimate.value < estimate.high
    assert judged.gain_over_round_robin_us.is_above
    assert judged.oracle_gain_us.value > judged.gain_over_round_robin_us.value


def cut(drive: DriveReads, length: int) -> Iterator[DriveReads]:
    for first in range(0, len(drive), length):
        yield drive.take(slice(first, first + length))


@pytest.mark.parametrize("lengths", [(500, 500, 500), (6000, 70, 1000)])
def test_parts_give_the_result_of_the_whole(
    drives: list[DriveReads], lengths: tuple[int, ...]
) -> None:
    whole = judge([[drive] for drive in drives])
    parts = judge([cut(*both) for both in zip(drives, lengths, strict=True)])
    # Pairs are excluded if the end of a part is between the two reads.
    assert 0.97 * whole.pairs < parts.pairs <= whole.pairs
    assert parts.oracle_gain_us.value == pytest.approx(whole.oracle_gain_us.value, rel=0.02)


def test_recordings_without_pairs_have_no_share() -> None:
    judged = judge([[reads([0, 1])], [reads([5000])]])
    assert judged.pairs == 0 and np.isnan(judged.ranked_correctly.value)
    assert judge([[], [reads([0])]]).pairs == 0


def line(at_ms: float, latency_us: int) -> str:
    return f"{at_ms:.3f},{latency_us},1,4096,{int(at_ms * 1000) % 4096 * 4096},{at_ms:.3f},4096\n"


def test_evaluate_shows_the_gain_of_choosing_among_the_drives_of_an_array(tmp_path: Path) -> None:
    """The two drives are slow in alternating blocks of time."""
    rng = np.random.default_rng(3)
    traces = []
    for drive in range(2):
        slow = (np.arange(3000) // 50) % 2 == drive
        latency_us = np.where(slow, 900, 100) + rng.integers(0, 9, 3000)
        traces.append(tmp_path / f"d{drive}.trace")
        traces[-1].write_text(
            "".join(line(1.0 + 4 * k, int(us)) for k, us in enumerate(latency_us))
        )
    trace_options = [word for trace in traces for word in ("--trace", trace)]
    assert not run("train", "--kind", "latency", *trace_options, "-o", tmp_path / "m").exit_code
    result = run("evaluate", "--model", tmp_path / "m", *trace_options)
    assert not result.exit_code, result.output
    assert "3000 pairs of reads began on two drives at the same moment" in result.output
    record = json.loads(run("evaluate", "--model", tmp_path / "m", *trace_options, "--json").output)
    assert [drive["reads"] for drive in record["drives"]] == [3000, 3000]
    assert record["pairs"]["ranked_correctly"]["value"] > 0.9
    assert record["pairs"]["gain_over_round_robin_us"]["low"] > 300
    alone = run("evaluate", "--model", tmp_path / "m", *trace_options[:2], "--json")
    assert json.loads(alone.output)["reads"] == 3000


def test_evaluate_pairs_reads_of_logs_with_one_clock_when_one_log_starts_later(
    tmp_path: Path,
) -> None:
    """The second log begins with a write, 2 s later and 1.7 ms before a read."""
    traces = [tmp_path / f"d{drive}.trace" for drive in range(2)]
    lines = [line(36_000.0 + 4 * k, 900 if k // 50 % 2 else 100 + k % 9) for k in range(2500)]
    traces[0].write_text("".join(lines))
    write = line(37_998.3, 50).replace(",1,4096", ",0,4096")
    traces[1].write_text(write + "".join(lines[500:]))
    trace_options = [word for trace in traces for word in ("--trace", trace)]
    assert not run("train", "--kind", "latency", *trace_options[:2], "-o", tmp_path / "m").exit_code
    shutil.copy(tmp_path / "m/d0.linnos", tmp_path / "m/d1.linnos")
    result = run("evaluate", "--model", tmp_path / "m", *trace_options)
    assert "2000 pairs of reads began on two drives at the same moment" in result.output


@pytest.mark.parametrize("n_values", [2, 5, 1000])
def test_area_under_roc_is_the_share_of_pairs_in_the_right_order(n_values: int) -> None:
    rng = np.random.default_rng(n_values)
    score, slow = rng.integers(0, n_values, 200), rng.random(200) < 0.3
    pairs = score[slow][:, None] - score[~slow][None, :]
    expected = np.mean(np.where(pairs > 0, 1.0, np.where(pairs == 0, 0.5, 0.0)))
    assert area_under_roc(score, slow) == pytest.approx(expected)


def test_area_under_roc_is_one_zero_or_undefined() -> None:
    slow = np.array([False, False, True])
    assert area_under_roc(np.array([1, 2, 3]), slow) == 1
    assert area_under_roc(np.array([3, 2, 1]), slow) == 0
    assert area_under_roc(np.array([1, 2, 3]), np.zeros(3, bool)) is None
    assert area_under_roc(np.array([1, 2, 3]), np.ones(3, bool)) is None


def test_area_under_roc_does_not_round_large_scores() -> None:
    score = np.array([2**62, 2**62 + 1])
    assert area_under_roc(score, np.array([False, True])) == 1


def test_thinning_keeps_every_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "MAX_RANKED_READS", 10)
    judge = evaluation.Judge(random_model())
    for part in np.split(np.arange(97), [3, 4, 20, 41, 90]):
        judge.add(part, part, part < 5, part, part)
    scores, *_ = judge.ranked()
    assert judge.n_reads == 97 and scores.tolist() == list(range(0, 97, 16))
