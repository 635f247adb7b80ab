# SPDX-License-Identifier: MIT
"""Training of latency models: reproducible, validated on later reads, never worse than none."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blktrace_builder import EBUSY, C, Q, TraceBuilder
from running import run
from test_latency_log import line

from linnapp.engine import leaves_of, predict_hinted_us, predict_us
from linnapp.errors import LinnappError, NoGainError, TraceError
from linnapp.learn import trees as latency_training
from linnapp.learn.examples import load_reads, split
from linnapp.learn.fit import read_latencies, train_drive
from linnapp.learn.judge import area_under_roc, evaluate
from linnapp.learn.labels import find_inflection_points
from linnapp.learn.options import LabellingOptions, Recipe, TrainingOptions
from linnapp.learn.trees import NEVER
from linnapp.model import (
    CAP,
    FEATURES,
    FRACTION_BITS,
    N_FEATURES,
    N_FEATURES_MIN,
    N_LEAVES,
    N_SPLITS,
    NO_SPLIT,
    LatencyModel,
    load_model,
)

RECIPE = Recipe(kind="latency")
WITHOUT_PRIOR = Recipe(kind="latency", prior=False)
#: A model and its record.
Learnt = tuple[LatencyModel, dict[str, Any]]


def trained(path: Path, recipe: Recipe = RECIPE) -> Learnt:
    [point] = find_inflection_points([read_latencies(path, recipe)], recipe.labelling)
    drive = train_drive(path, point, recipe)
    assert isinstance(drive.model_, LatencyModel)
    return drive.model_, drive.record_


@pytest.fixture(scope="module")
def learnt(long_log: Path) -> Learnt:
    """Return the model and record of `long_log`."""
    return trained(long_log)


@pytest.fixture(scope="module")
def models(long_log: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the command's models of `long_log`, trained without TensorFlow, and its output."""
    out = tmp_path_factory.mktemp("trained") / "m"
    code = (
        "import sys; from linnapp.cli import cli\n"
        f"cli.main(['train', '--kind', 'latency', '--trace', {str(long_log)!r}, '-o', "
        f"{str(out)!r}], standalone_mode=False)\n"
        "assert not {'tensorflow', 'sklearn'} & set(sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, cwd=out.parent, text=True
    )
    return out, result.stderr


def test_training_of_trees_repeats_with_its_seed_and_learns(learnt: Learnt, long_log: Path) -> None:
    model, record = learnt
    again, _ = trained(long_log)
    assert model.to_bytes() == again.to_bytes()
    assert (record["prediction"], record["n_trees"], record["why_no_trees"]) == (
        "trees",
        32 + 8,
        None,
    )
    assert record["auc"] > max(record["auc_last_latencies"], record["auc_pending"])
    assert record["mean_abs_log2_error"] < record["mean_abs_log2_error_last_latencies"]
    assert record["quantisation"]["largest_difference_log2"] < (33 + 9) / 1024
    assert record["model_id"] == model.model_id
    json.dumps(record)


def test_slices_are_evaluated_by_trees_not_trained_on_them(
    long_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown = []
    real = latency_training.TreeTrainingData.grow_trees

    def grow(
        data: latency_training.TreeTrainingData, n_reads: int | None = None
    ) -> tuple[LatencyModel, float]:
        result = real(data, n_reads)
        if data.corrects_prior:
            return result
        grown.append((n_reads or len(data.reads), result[0]))
        assert data.bursts.before(n_reads or 10**9).place.max() < grown[-1][0]
        return result

    monkeypatch.setattr(latency_training.TreeTrainingData, "grow_trees", grow)
    model, record = trained(long_log)
    reads = load_reads(long_log, overdue_us=record["overdue_us"])
    parts = split(len(reads), TrainingOptions())
    assert [n for n, _ in grown] == [parts.training.stop, parts.validation.stop, len(reads)]
    assert grown[2][1].to_bytes() == model.to_bytes()
    test = reads.take(parts.test)
    slow = test.latency_us > model.threshold_us
    predicted_us = predict_us(grown[1][1], test.features)
    assert record["auc"] == area_under_roc(predicted_us, slow)
    refused = predicted_us > model.refuse_us
    assert record["test"]["false_revoke"] == np.count_nonzero(refused & ~slow)
    assert record["slow_admitted_ratio"] == np.mean(slow & ~refused)
    assert "false_submit_ratio" not in record


def test_training_settings_do_not_depend_on_the_test_slice(
    learnt: Learnt, long_log: Path, tmp_path: Path
) -> None:
    ios = [row.split(",") for row in long_log.read_text().splitlines()]
    ios.sort(key=lambda io: float(io[5]))
    n = round(len(ios) * 0.9)
    late = [[io[0], str(3 * int(io[1])), *io[2:]] for io in ios[n:]]
    changed = tmp_path / "az.trace"
    changed.write_text("".join(",".join(io) + "\n" for io in ios[:n] + late))
    _, before = learnt
    _, after = trained(changed)
    for key in ("threshold_us", "overdue_us", "refuse_us", "validation_quality"):
        assert before[key] == after[key], key
    assert before["auc"] != after["auc"]


def even(us: float, n: int = 5000, at: dict[int, int] | None = None) -> np.ndarray:
    latency_us = np.full(n, us)
    for place, other_us in (at or {}).items():
        latency_us[place] = other_us
    return latency_us


def drawn(draw: Callable[[np.random.Generator, int], np.ndarray]) -> np.ndarray:
    return draw(np.random.default_rng(1), 5000)


#: Latencies of synthetic logs, in us.
FAR_APART = {
    "one of half a second": even(100, at={2500: 500_000}),
    "all alike": even(100),
    "all without an end": even(2**32),
    "heavy tail": drawn(lambda rng, n: np.minimum(100 * (1 + rng.pareto(0.7, n)), 1e8)),
    "two modes": drawn(lambda rng, n: np.where(rng.random(n) < 0.05, 30_000_000, 100)),
    "in stretches": np.where(np.arange(5000) // 50 % 10, 100, 10_000_000),
}


@pytest.mark.parametrize("latency_us", FAR_APART.values(), ids=FAR_APART.keys())
def test_latencies_that_differ_widely_are_learnt(tmp_path: Path, latency_us: np.ndarray) -> None:
    path = tmp_path / "az.trace"
    path.write_text("".join(line(i * 1.0, int(us), 1, 4096) for i, us in enumerate(latency_us)))
    try:
        model, record = trained(path)
    except NoGainError as error:
        assert "no better than" in str(error)
        return
    assert LatencyModel.from_bytes(model.to_bytes()) == model
    assert model.leaves.min(initial=0) >= -math.log2(latency_training.LARGEST_STEP) * (
        1 << FRACTION_BITS
    )
    quality = record["validation_quality"]
    if record["prediction"] == "trees":
        assert quality["trees"]["deviance"] < quality["one number"]["deviance"]


def test_one_outlier_does_not_change_other_predictions(tmp_path: Path) -> None:
    """The outlier doubles the mean, which is then the latency of none of the reads."""
    rng = np.random.default_rng(4)
    large = rng.random(5000) < 0.5
    latency_us = np.where(large, 1000, 100) + rng.integers(0, 20, 5000)
    latency_us[np.flatnonzero(large)[1000]] = 500_000
    path = tmp_path / "az.trace"
    path.write_text(
        "".join(
            line(i * 1.0, int(us), 1, 65536 if large[i] else 4096)
            for i, us in enumerate(latency_us)
        )
    )
    model, _ = trained(path)
    reads = load_reads(path, overdue_us=model.overdue_us)
    small_us = predict_us(model, reads.features[reads.pages == 1])
    assert 50 < np.median(small_us) < 200


def grown_by_hand(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, n_trees: int, rate: float
) -> tuple[list[list[float]], np.ndarray]:
    """Return the step of each row in each tree, and the scores: every split at every value tried.

    Nodes are processed level by level, each as a set of rows.
    """
    score = np.full(len(y), math.log(np.average(y, weights=weights)))
    steps = []
    for _ in range(n_trees):
        ratio = y * np.exp(-score)
        g, h = weights * (1 - ratio), weights * ratio
        nodes = [np.arange(len(y))]
        for _ in range(4):
            children = []
            for rows in nodes:
                best, sides = 1e-9, [rows]
                for column in x.T:
                    for limit in np.unique(column[rows])[:-1]:
                        left, right = rows[column[rows] <= limit], rows[column[rows] > limit]
                        if min(len(left), len(right)) < latency_training.MIN_LEAF_READS:
                            continue
                        gain = sum(
                            sign * g[part].sum() ** 2 / h[part].sum()
                            for sign, part in ((1, left), (1, right), (-1, rows))
                        )
                        if gain > best:
                            best, sides = gain, [left, right]
                children += sides
            nodes = children
        step = np.empty(len(y))
        for rows in nodes:
            newton = -rate * g[rows].sum() / h[rows].sum()
            step[rows] = max(newton, -math.log(latency_training.LARGEST_STEP))
        score += step
        steps.append(step)
    return steps, score


@pytest.mark.parametrize("weighted", [False, True])
def test_booster_agrees_with_a_search_of_all_splits(weighted: bool) -> None:
    rng = np.random.default_rng(7)
    features = np.zeros((900, N_FEATURES), np.uint32)
    features[:, :3] = rng.integers(0, (30, 9, 200), (900, 3))
    latency_us = (np.where(features[:, 0] > 20, 900, 100) + 3 * features[:, 2]) * rng.lognormal(
        0, 0.3, 900
    )
    latency_us[5] = 3_000_000  # Without a limit of the step, others are divided by thousands.
    weights = rng.uniform(0.1, 2, 900) if weighted else np.ones(900)
    like = LatencyModel.mean_of_last(1, NEVER, 1000)
    model, drift = latency_training.grow(
        lambda: [features], latency_us, like, n_trees=4, learning_rate=0.3,
        weights=weights if weighted else None,
    )  # fmt: skip
    steps, score = grown_by_hand(features[:, :3], latency_us, weights, 4, 0.3)
    assert drift < 5 / 1024
    found = leaves_of(model, features) / (1 << FRACTION_BITS) * math.log(2)
    assert np.allclose(found.T, steps, atol=1e-3)
    assert np.allclose(np.log(predict_us(model, features)), score, atol=0.02)


def test_times_moves_an_overflowing_base_into_the_leaves() -> None:
    rng = np.random.default_rng(5)
    parts = [
        dataclasses.replace(
            LatencyModel.mean_of_last(1, NEVER, 1),
            splits=np.full((n_trees, N_SPLITS), NO_SPLIT, np.uint32),
            leaves=rng.integers(-9000, 0, (n_trees, N_LEAVES)),
            base=base,
        )
        for n_trees, base in ((3, 24_000), (2, 25_000))
    ]
    product = parts[0].times(parts[1])
    assert product.base == 2**15 - 1
    features = np.zeros((1, N_FEATURES), np.uint32)
    sums = [part.base + int(leaves_of(part, features).sum()) for part in (*parts, product)]
    assert sums[0] + sums[1] == sums[2]


@pytest.mark.parametrize("refused", [0, 5, 30])
def test_train_warns_of_recordings_that_lack_refused_reads(tmp_path: Path, refused: int) -> None:
    builder = TraceBuilder()
    for i in range(400):
        builder.io(200 * i, 200 * i + 100 + i % 9, 8 * i)
    for i in range(refused):
        builder.add(Q, 200 * i + 1, 8000 + 8 * i).add(C, 200 * i + 2, 8000 + 8 * i, error=EBUSY)
    builder.sort().write(tmp_path / "d.blk")
    result = run("train", "--kind", "latency", "--trace", tmp_path / "d.blk", "-o", tmp_path / "m")
    assert result.exit_code == 0, result.output
    warning = re.search(r"d: (\d+)% OF THE READS WERE REFUSED while", result.stderr)
    assert (warning and warning[1]) == {0: None, 5: "1", 30: "7"}[refused]


@pytest.mark.parametrize("kind", ["latency", "network"])
def test_too_few_reads_make_no_model(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "az.trace"
    path.write_text("".join(line(i * 1.0, 100 + i % 7, 1, 4096) for i in range(127)))
    result = run("train", "--kind", kind, "--trace", path, "-o", tmp_path / "m")
    assert "127 reads are too few to learn from: at least 128" in str(result.exception)
    assert not (tmp_path / "m").exists()


def test_train_names_the_line_of_a_wrong_time_stamp(tmp_path: Path) -> None:
    """Otherwise, synthetic bursts for half a century would need hundreds of GiB."""
    trace = tmp_path / "az.trace"
    since_1970_ms = 1_700_000_000_000
    trace.write_text(
        line(0, 100, 1, 4096)
        + "".join(line(since_1970_ms + i, 100 + i % 50, 1, 4096) for i in range(999))
    )
    result = run("train", "--trace", trace, "-o", tmp_path / "out")
    assert isinstance(result.exception, TraceError)
    assert "az.trace:2: 19676 days after line 1" in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_evaluate_recognises_the_training_trace_by_its_contents(
    models: tuple[Path, str], long_log: Path, tmp_path: Path
) -> None:
    shutil.copytree(models[0], tmp_path / "m")
    (tmp_path / "az.trace").write_bytes(long_log.read_bytes())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "az.trace").write_bytes(
        b"".join(long_log.read_bytes().splitlines(keepends=True)[:-1])
    )
    warning = "THE MODEL WAS TRAINED ON THIS TRACE, so these results are too good: az.json has"
    for trace, same in ((tmp_path / "az.trace", True), (tmp_path / "other" / "az.trace", False)):
        judged = run("evaluate", "--model", tmp_path / "m", "--trace", trace)
        assert (warning in judged.output) == same
        judged = run("evaluate", "--model", tmp_path / "m", "--trace", trace, "--json")
        assert json.loads(judged.output)["trained_on_this_trace"] is same
    (tmp_path / "m" / "az.json").unlink()
    judged = run("evaluate", "--model", tmp_path / "m", "--trace", tmp_path / "az.trace")
    assert judged.exit_code == 0 and warning not in judged.output


def turning_log(path: Path, n: int = 6000) -> None:
    """Write a log in which first large and later small reads are slow, which misleads trees."""
    rng = np.random.default_rng(2)
    large = (np.arange(n) // 20) % 2 == 0
    slow = np.where(np.arange(n) < 0.7 * n, large, ~large)
    latency_us = np.where(slow, 900, 100) + rng.integers(0, 50, n)
    path.write_text(
        "".join(line(i * 1.0, int(latency_us[i]), 1, 65536 if large[i] else 4096) for i in range(n))
    )


def test_trees_that_fail_on_later_reads_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "turning.trace"
    turning_log(path)
    with pytest.raises(NoGainError, match="trees predict the validation slice no better than one"):
        trained(path, WITHOUT_PRIOR)


def closed_loop_log(path: Path, n: int = 9000) -> None:
    """Write the first of three drives that one thread reads in turn, each slow for a while in turn.

    While another drive is slow its reads are rare; while it is slow itself they follow closely.
    """
    rng = np.random.default_rng(3)
    now_us, lines = 0.0, []
    for i in range(n):
        slow = int(now_us / 100_000) % 3 == i % 3
        latency_us = int(rng.integers(90, 110)) + 2000 * slow
        if i % 3 == 0:
            lines.append(line(now_us / 1000, latency_us, 1, 4096))
        now_us += latency_us
    path.write_text("".join(lines))


def test_predictions_do_not_depend_on_the_read_rate(tmp_path: Path) -> None:
    """The closed loop determines the recorded rate; a client that chooses the drive changes it."""
    path = tmp_path / "loop.log"
    closed_loop_log(path)
    model, _ = trained(path)
    reads = {}
    for latency_us in (100, 2100):
        for since_us in (2300, 100):
            reads[latency_us, since_us] = [1, 0, 0, 0, 0, 0]
            for k in range(4):
                reads[latency_us, since_us] += [latency_us, 0, 1, k * (since_us + 100) + since_us]
            reads[latency_us, since_us] += [0]
    predicted_us = dict(
        zip(reads, predict_us(model, np.array(list(reads.values()), np.uint32)), strict=True)
    )
    assert predicted_us[100, 2300] < 150 and predicted_us[100, 100] < 200, predicted_us
    assert predicted_us[2100, 100] > 1500 and predicted_us[2100, 2300] > 400, predicted_us


def test_query_without_an_offset_is_answered_by_the_mean() -> None:
    rng = np.random.default_rng(3)
    features = np.zeros((20_000, N_FEATURES), np.uint32)
    features[:, FEATURES.index("in_region")] = 5 * rng.integers(0, 2, len(features))
    is_in_region = features[:, FEATURES.index("in_region")] > 0
    like = LatencyModel.mean_of_last(1, NEVER, 1000)
    how = {"n_trees": 32, "learning_rate": 0.15}
    latency_us = np.where(is_in_region, 1000, 100)
    asked = np.zeros((3, N_FEATURES), np.uint32)
    asked[:, FEATURES.index("in_region")] = (0, 5, CAP)
    model, _ = latency_training.grow_from_reads((features,), latency_us, like, 1, **how)
    alone, together, nowhere = predict_us(model, asked).tolist()
    assert 95 < alone < 110 and 950 < together < 1010 and 500 < nowhere < 600
    # A model with fewer features is trained only on those.
    like = dataclasses.replace(like, n_features=N_FEATURES_MIN)
    model, _ = latency_training.grow_from_reads((features,), latency_us, like, 1, **how)
    assert model.n_features == N_FEATURES_MIN
    assert len(set(predict_us(model, asked).tolist())) == 1


def test_reads_are_refused_only_where_it_helps(learnt: Learnt, long_log: Path) -> None:
    model, _ = learnt
    reads = load_reads(long_log, overdue_us=model.overdue_us)
    parts = split(len(reads), TrainingOptions())
    for rows in (parts.training, parts.validation):
        part = reads.take(rows)
        fast = part.latency_us <= model.threshold_us
        refused = predict_hinted_us(model, part.features) > model.refuse_us
        assert 0 < refused[fast].mean() < 0.12
        assert part.latency_us[refused].mean() > 2 * part.latency_us[~refused].mean()
    # If a failover costs more than any read, no read is refused.
    dear = dataclasses.replace(RECIPE, labelling=LabellingOptions(failover_us=1e6))
    model, record = trained(long_log, dear)
    assert (model.refuse_us, record["refuse_us"]) == (NEVER, None)


def test_training_uses_every_third_read_of_a_long_recording(
    long_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = load_reads(long_log, overdue_us=500)
    monkeypatch.setattr(latency_training, "MAX_READS", len(whole) // 2 - 100)
    _, record = trained(long_log)
    assert record["reads"] == -(-len(whole) // 3)
    for chunk_ios in (100, 5000):
        third = load_reads(long_log, overdue_us=500, step=3, chunk_ios=chunk_ios)
        assert np.array_equal(third.features, whole.features[::3])
        assert np.array_equal(third.latency_us, whole.latency_us[::3])


def test_evaluate_has_the_numbers_of_the_predictions_in_chunks_of_any_size(
    learnt: Learnt, long_log: Path
) -> None:
    model, _ = learnt
    result = evaluate(model, long_log)
    reads = load_reads(long_log, overdue_us=model.overdue_us)
    predicted_us = predict_us(model, reads.features)
    slow = reads.latency_us > model.threshold_us
    assert result.auc == area_under_roc(predicted_us, slow)
    assert result.auc_pending == area_under_roc(reads.pending, slow)
    assert result.confusion.true_slow == np.count_nonzero(slow & (predicted_us > model.refuse_us))
    assert result.mean_predicted_us == pytest.approx(predicted_us.mean())
    error = np.abs(np.log2(np.maximum(reads.latency_us, 1) / predicted_us)).mean()
    assert result.mean_abs_log2_error == pytest.approx(error)
    for chunk_ios in (333, 10**6):
        again = evaluate(model, long_log, chunk_ios=chunk_ios).to_json()
        for name, value in result.to_json().items():
            # Sums of chunks round differently.
            expected = value if isinstance(value, str) else pytest.approx(value, rel=1e-12)
            assert again[name] == expected, name


def test_commands_describe_a_latency_model_by_its_latencies(
    models: tuple[Path, str], long_log: Path, tmp_path: Path
) -> None:
    out, output = models
    of_networks = "accuracy|false submits|slow admitted"
    assert "40 trees" in output and "area under ROC: this model 0." in output
    assert not re.search(of_networks, output)
    judged = run("evaluate", "--model", out, "--trace", long_log)
    assert "mean error: a factor of" in judged.output and "predicted fast" in judged.output
    model = load_model(out / "az.linnos")
    assert isinstance(model, LatencyModel)
    dataclasses.replace(model, refuse_us=NEVER).save(tmp_path / "never.linnos")
    judged = run("evaluate", "--model", tmp_path / "never.linnos", "--trace", long_log)
    assert "it refuses no reads" in judged.output
    assert not re.search(f"{of_networks}|predicted fast", judged.output)
    reads = load_reads(long_log, overdue_us=model.overdue_us)
    np.save(tmp_path / "f.npy", reads.features[:500])
    for engine in ("numpy", "c"):
        predicted = run(
            "predict", "--model", out, "--features", tmp_path / "f.npy", "--engine", engine
        )
        expected = predict_us(model, reads.features[:500]).tolist()
        assert [int(us) for us in predicted.output.split()] == expected
    np.save(tmp_path / "digits.npy", np.zeros((3, 31), np.uint8))
    predicted = run("predict", "--model", out, "--features", tmp_path / "digits.npy")
    assert isinstance(predicted.exception, LinnappError) and "(n, 23)" in str(predicted.exception)
