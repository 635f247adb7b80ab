# SPDX-License-Identifier: MIT
"""Training: reproducible, biased, independent of the later slices, complete or not at all."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from blktrace_builder import WRITE, TraceBuilder
from test_latency_log import random_log

from linnapp import files
from linnapp.errors import LinnappError, TraceError
from linnapp.learn import network
from linnapp.learn.examples import split
from linnapp.learn.fit import fit_network, train_array
from linnapp.learn.judge import Confusion
from linnapp.learn.network import SETTLED_EPOCHS, Epoch, Examples, TrainedNetwork, outputs_of, train
from linnapp.learn.options import LabellingOptions, Recipe, TrainingOptions
from linnapp.model import Model

RECIPE = Recipe(training=TrainingOptions(max_epochs=4), auto_bias=False)


def noisy_reads(n: int = 6000, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return reads that are slow after a slow read, with noise, so learnable but not perfectly."""
    rng = np.random.default_rng(seed)
    digits = rng.integers(0, 10, (n, 31), dtype=np.uint8)
    slow = (digits[:, 27] >= 7) ^ (rng.random(n) < 0.1)
    return digits, slow


@pytest.fixture(scope="module")
def two_epochs() -> TrainedNetwork:
    """Train on `noisy_reads()` for two epochs."""
    return train(*noisy_reads(), TrainingOptions(max_epochs=2))


def same_weights(one: TrainedNetwork, other: TrainedNetwork) -> bool:
    return all(np.array_equal(one.weights[name], other.weights[name]) for name in one.weights)


def test_network_depends_on_the_seed_alone(two_epochs: TrainedNetwork) -> None:
    again, other = (
        train(*noisy_reads(), TrainingOptions(max_epochs=2, seed=seed)) for seed in (1, 2)
    )
    assert same_weights(two_epochs, again)
    assert not np.array_equal(two_epochs.weights["hidden_weights"], other.weights["hidden_weights"])


def test_network_learns_and_a_bias_trades_false_submits_for_false_revokes() -> None:
    digits, slow = noisy_reads(12000)
    by_bias = {}
    for bias in (0.3, 1.0, 10.0):
        net = train(digits, slow, TrainingOptions(max_epochs=6, bias=bias))
        by_bias[bias] = net.best.confusion
    assert by_bias[1.0].accuracy > 0.85
    assert by_bias[0.3].false_submit > by_bias[1.0].false_submit > by_bias[10.0].false_submit
    assert by_bias[0.3].false_revoke < by_bias[10.0].false_revoke


def test_the_validation_slice_is_not_learnt_from() -> None:
    digits, slow = noisy_reads()
    options = TrainingOptions(max_epochs=1)
    first = split(len(slow), options).validation.start
    scrambled = np.concatenate((slow[:first], ~slow[first:]))
    one, other = (train(digits, labels, options) for labels in (slow, scrambled))
    assert same_weights(one, other)


def test_confusion_counts_outcomes_and_has_no_ratios_of_nothing() -> None:
    truth = np.array([1, 1, 1, 0, 0, 0, 0], bool)
    predicted = np.array([1, 0, 0, 1, 0, 0, 0], bool)
    confusion = Confusion.of(truth, predicted)
    assert (confusion.true_slow, confusion.false_submit) == (1, 2)
    assert (confusion.false_revoke, confusion.true_fast) == (1, 3)
    assert confusion.false_submit_ratio == pytest.approx(2 / 7)
    assert confusion.slow_recall == pytest.approx(1 / 3)
    # Ratios of no reads are unknown.
    assert '"slow_recall": null' in json.dumps(Confusion.of(truth[3:], truth[:4]).to_json())
    nothing = Confusion.of(truth[:0], truth[:0]).to_json()
    for ratio in ("accuracy", "false_submit_ratio", "false_revoke_ratio", "slow_recall"):
        assert nothing[ratio] is None


def test_ctrl_c_waits_until_tensorflow_is_between_two_steps(two_epochs: TrainedNetwork) -> None:
    digits, slow = noisy_reads()
    epochs: list[int] = []

    def tell(epoch: Epoch) -> None:
        if epoch.number == 2:
            signal.raise_signal(signal.SIGINT)
        epochs.append(epoch.number)  # not left in the middle

    net = train(digits, slow, TrainingOptions(max_epochs=9), tell)
    assert net.interrupted and epochs == [1, 2]
    assert same_weights(net, two_epochs)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("limit", [4, SETTLED_EPOCHS, 60])
def test_best_epoch_is_kept_with_any_epoch_limit(limit: int) -> None:
    rng = np.random.default_rng(1)
    digits = rng.integers(0, 10, (3000, 31), dtype=np.uint8)
    slow = rng.random(3000) < 0.5  # nothing to learn: overfits at once
    net = train(digits, slow, TrainingOptions(max_epochs=limit, patience_epochs=2))
    losses = [epoch.validation_loss for epoch in net.epochs]
    assert net.best.number == 1 + int(np.argmin(losses)) < len(losses)
    part = split(len(slow), TrainingOptions()).validation
    outputs = outputs_of(net.weights, digits[part])
    assert Confusion.of(slow[part], outputs[:, 1] > outputs[:, 0]) == net.best.confusion
    assert len(losses) == min(limit, SETTLED_EPOCHS)  # training stops long after the best epoch


def test_train_refuses_too_few_reads_and_only_fast_reads() -> None:
    digits, slow = noisy_reads()
    with pytest.raises(TraceError, match="too few"):
        train(digits[:50], slow[:50])
    with pytest.raises(TraceError, match="are fast"):
        train(digits, np.zeros(len(slow), bool))


def array_trace(
    path: Path, seed: int, n: int = 3000, slower_from: int | None = None, pause_us: float = 700
) -> Path:
    """Record a drive that is slow in runs of about 5 reads, and always from a given read on."""
    rng = np.random.default_rng(seed)
    builder = TraceBuilder()
    now = 0.0
    slow = False
    for i in range(n):
        if rng.random() < (0.2 if slow else 0.04):
            slow = not slow
        latency = rng.normal(1500, 100) if slow else rng.normal(100, 10)
        latency += 700 if slower_from is not None and i >= slower_from else 0
        builder.io(now, now + latency, 8 * i)
        if i % 5 == 0:
            builder.io(now + 1, now + 300, 8 * i + 10**6, 8192, flags=WRITE)
        now += rng.exponential(pause_us) + latency
    return builder.sort().write(path)


def test_array_gets_a_model_and_a_record_per_drive(tmp_path: Path) -> None:
    traces = [array_trace(tmp_path / f"d{i}.blk", i) for i in range(2)]
    out = tmp_path / "models" / "array"
    assert [*train_array(traces, out, RECIPE, processes=1)] == ["d0", "d1"]
    names = [f"d{i}.{kind}" for i in range(2) for kind in ("json", "linnos")]
    assert sorted(path.name for path in out.iterdir()) == names
    assert [path.name for path in out.parent.iterdir()] == ["array"]
    for i in range(2):
        loaded = Model.load(out / f"d{i}.linnos")
        record = json.loads((out / f"d{i}.json").read_text())
        assert loaded.model_id == record["model_id"]
        assert loaded.threshold_us == record["threshold_us"]
        assert 100 < loaded.threshold_us < 1500
        assert record["accuracy"] > 0.9
        assert record["validation"]["true_slow"] > 0
        assert record["quantisation"]["integer_differs_from_float"] <= 0.01 * record["reads"]
        assert record["trace"]["reads"] == 3000
        assert len(record["trace"]["sha256"]) == 64
        assert record["options"]["seed"] == 1
        assert record["bursts"]["rows"] > 0
        assert record["labelling"]["replicas"] == 2
        low, high = record["searched_percentiles"]
        assert low < record["threshold_percentile"] < high and not record["search_ended_at_edge"]


def test_training_in_processes_gives_the_same_bits(tmp_path: Path) -> None:
    """Trees are trained, because each process would have to import TensorFlow."""
    traces = [array_trace(tmp_path / f"d{i}.blk", i) for i in range(2)]
    models = []
    for processes in (1, 2):
        out = tmp_path / str(processes)
        train_array(traces, out, Recipe(kind="latency"), processes=processes)
        models.append([(out / f"d{i}.linnos").read_bytes() for i in range(2)])
    assert models[0] == models[1]


def test_training_does_not_depend_on_the_test_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inflection point, labels, bias, epoch and weights stay the same."""
    monkeypatch.setattr(network, "CANDIDATES", (1.0, 4.0))
    short = Recipe(training=TrainingOptions(max_epochs=2))
    records = []
    for name, slower_from in (("calm", None), ("slow", 2560)):
        (tmp_path / name).mkdir()
        trace = array_trace(tmp_path / name / "d.blk", 1, slower_from=slower_from)
        train_array([trace], tmp_path / name / "out", short)
        records.append(json.loads((tmp_path / name / "out" / "d.json").read_text()))
    one, other = records
    assert one["model_id"] == other["model_id"]
    assert one["threshold_us"] == other["threshold_us"]
    assert one["bias_search"] == other["bias_search"] and one["epochs"] == other["epochs"]
    assert one["training"] == other["training"] and one["validation"] == other["validation"]
    # Nearly all reads of the test slice are slow in one of the traces.
    tests = [record["test"] for record in records]
    assert tests[0]["true_slow"] + tests[0]["false_submit"] < 200
    assert tests[1]["true_slow"] + tests[1]["false_submit"] > 400
    # The quality of a model is measured on the slice that had no influence on it.
    assert one["decided_by"]["test"] == []
    for record in records:
        assert record["accuracy"] == record["test"]["accuracy"]
        assert record["slow_recall"] == record["test"]["slow_recall"]
        reads = [record[f"{part}_reads"] for part in ("training", "validation", "test")]
        assert reads == [2100, 450, 450]


def test_labels_take_their_medians_from_the_training_slice_alone(tmp_path: Path) -> None:
    """Later reads take longer; they would raise the median, and so the limit for slow."""
    n = 1000
    latency_us = np.random.default_rng(1).integers(500, 1500, n)
    latency_us[700:] = 5000
    path = tmp_path / "d.csv"
    path.write_text(
        "".join(f"{i},{us},1,4096,{i * 4096},{i},4096\n" for i, us in enumerate(latency_us))
    )
    options = {"threshold_us": 600, "burst_share": 0, "bias": 2, "max_epochs": 1}
    record = fit_network(path, **options, even_if_worse=True).record_
    limit_us = np.median(latency_us[:700]) + LabellingOptions().failover_us
    assert record["labelled_slow_ratio"] == np.mean(latency_us > limit_us)
    assert np.median(latency_us) > limit_us + 100  # the whole recording would say otherwise


def test_the_validation_loss_weighs_bursts_by_their_share() -> None:
    digits, slow = noisy_reads(1000)
    bursts = Examples(digits[:200], ~slow[:200])
    options = TrainingOptions(max_epochs=1, burst_share=0.2, bias=2.0)
    trained = train(digits, slow, options, added_validation=bursts)
    validation = split(len(slow), options).validation

    def loss(rows: np.ndarray, labels: np.ndarray) -> float:
        outputs = outputs_of(trained.weights, rows)
        losses = network.hinge(np, labels.astype(np.float32), outputs, options.bias, options.loss)
        return float(np.mean(losses))

    recorded_loss = loss(digits[validation], slow[validation])
    burst_loss = loss(bursts.digits, bursts.slow)
    assert abs(recorded_loss - burst_loss) > 0.1
    expected = 0.8 * recorded_loss + 0.2 * burst_loss
    assert trained.best.validation_loss == pytest.approx(expected, rel=1e-4)


def test_training_does_not_depend_on_the_order_of_the_traces(tmp_path: Path) -> None:
    quick = Recipe(training=TrainingOptions(max_epochs=1), auto_bias=False, even_if_worse=True)
    traces = [array_trace(tmp_path / f"d{i}.blk", i, 600 + 200 * i) for i in range(3)]
    contents = []
    for number, order in enumerate([(0, 1, 2), (2, 0, 1)]):
        out = tmp_path / f"models{number}"
        train_array([traces[i] for i in order], out, quick, processes=1)
        records = {path.name: json.loads(path.read_text()) for path in out.glob("*.json")}
        for record in records.values():
            del record["training_seconds"]
        models = {path.name: path.read_bytes() for path in out.glob("*.linnos")}
        contents.append((models, records))
    assert len(contents[0][0]) == 3
    assert contents[0] == contents[1]


def test_training_replaces_only_the_files_of_its_drives(tmp_path: Path) -> None:
    quick = Recipe(training=TrainingOptions(max_epochs=1), auto_bias=False, even_if_worse=True)
    out = tmp_path / "models"
    (out / "other").mkdir(parents=True)
    kept = ["a.linnos", "a.json", "bb.linnos", "b.old.json", "other/b.json"]
    replaced = ["b.linnos", "b.json"]
    for name in [*kept, *replaced]:
        (out / name).write_text(f"old {name}")
    owner = (out / "a.linnos").stat()
    assert [*train_array([array_trace(tmp_path / "b.blk", 1, 1000)], out, quick)] == ["b"]
    for name in kept:
        assert (out / name).read_text() == f"old {name}"
    assert (out / "a.linnos").stat().st_mtime_ns == owner.st_mtime_ns
    record = json.loads((out / "b.json").read_text())
    assert Model.load(out / "b.linnos").model_id == record["model_id"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.blk", "models"]


@pytest.mark.parametrize("failing", [1, 2])
def test_a_directory_is_whole_when_ctrl_c_or_an_error_comes_as_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    out = tmp_path / "models"
    out.mkdir()
    (out / "a.linnos").write_text("old")
    real, calls = Path.rename, []

    def rename(self: Path, target: Path) -> Path:
        calls.append(self)
        if len(calls) == failing:
            os.kill(os.getpid(), signal.SIGINT)
        if len(calls) == 2 == failing:
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    writing = files.replaced_directory(out, (".linnos",), ["b.linnos"])
    with pytest.raises((KeyboardInterrupt, LinnappError)), writing as directory:
        (directory / "b.linnos").write_text("new")
    assert (out / "a.linnos").read_text() == "old"
    assert (out / "b.linnos").exists() == (failing == 1)
    assert [path.name for path in tmp_path.iterdir()] == ["models"]


def test_full_disk_leaves_the_old_models_and_its_error_names_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "d.trace"
    random_log(trace, n=2000)
    train_array([trace], tmp_path / "m", Recipe(kind="latency"))
    before = {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    real = os.fsync

    def full(fd: int) -> None:
        real(fd)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LinnappError) as raised:
        train_array([trace], tmp_path / "m", Recipe(kind="latency"))
    assert str(raised.value) == f"{tmp_path}/m/d.linnos: No space left on device"
    assert {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.trace", "m"]


def test_traces_of_one_name_are_refused(tmp_path: Path) -> None:
    paths = []
    for name in "ab":
        (tmp_path / name).mkdir()
        paths.append(array_trace(tmp_path / name / "sda.blk", 1, 10))
    with pytest.raises(TraceError, match="named 'sda'"):
        train_array(paths, tmp_path / "m")
