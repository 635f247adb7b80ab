# SPDX-License-Identifier: MIT
"""Recalibration: the decision to retrain; a drive always keeps a working model."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from fake_sysfs import activate_what_is_written, make_tree
from test_model_format import random_model
from test_training import array_trace

from linnapp.drive import comparison as comparison_module
from linnapp.drive import recalibration
from linnapp.drive.comparison import (
    Verdicts,
    compare,
    compare_means,
    compare_predictions,
)
from linnapp.drive.drives_conf import ArrayEntry, DriveEntry, DrivesConf, load_conf, save_conf
from linnapp.drive.expectations import TrainingExpectation
from linnapp.drive.recalibration import decide, recalibrate
from linnapp.drive.state import alone
from linnapp.drive.sysfs import Drive
from linnapp.errors import LinnappError
from linnapp.learn import fit as drive_training
from linnapp.learn import network as training
from linnapp.learn import trees as latency_training
from linnapp.learn.examples import load_reads
from linnapp.learn.labels import (
    LabellingOptions,
    LatencyDistribution,
    find_inflection_points,
)
from linnapp.learn.network import TrainingOptions
from linnapp.learn.options import Recipe
from linnapp.learn.trees import predict_newest
from linnapp.model import LatencyModel, Model
from linnapp.trace.rows import split

RECIPE = Recipe(training=TrainingOptions(max_epochs=2), auto_bias=False)


def always_slow(threshold_us: int) -> Model:
    """Return a model that revokes every read."""
    model = random_model(threshold_us=threshold_us)
    return dataclasses.replace(model, output_bias=np.array([-(10**12), 10**12]))


def always_fast(threshold_us: int) -> Model:
    """Return a model that admits every read."""
    model = random_model(threshold_us=threshold_us)
    return dataclasses.replace(model, output_bias=np.array([10**12, -(10**12)]))


#: Between fast and slow reads of the recording of `array`, so such a model is kept.
SETTLED_US = 600


def uniform(n: int = 10_000) -> LatencyDistribution:
    return LatencyDistribution(np.arange(n) % 1000)


@pytest.mark.parametrize(
    ("active_us", "retrain"), [(900, False), (941, False), (951, True), (840, True), (None, True)]
)
def test_decide_retrains_after_a_move_of_five_percentiles(
    active_us: int | None, retrain: bool
) -> None:
    distribution = uniform()
    (point,) = find_inflection_points([distribution], LabellingOptions(threshold_us=900))
    decision = decide("sda", active_us, distribution, point)
    assert decision.retrain == retrain
    if active_us is not None:
        expected = abs(active_us - 900) / 10
        assert decision.shift_percentiles == pytest.approx(expected, abs=0.11)
        assert f"threshold, {active_us} us" in decision.reason


def test_decide_adds_the_sampling_error_to_the_limit() -> None:
    distribution = uniform()
    (point,) = find_inflection_points([distribution], LabellingOptions(threshold_us=900))
    for sampling, retrain in ((0.0, True), (2.0, True), (4.0, False)):
        decision = decide("sda", 830, distribution, point, 5.0, sampling)
        assert decision.retrain == retrain
        assert decision.sampling_percentiles == sampling
    assert "less than 9.0 (5, and 4.0 that sampling explains)" in decision.reason


def test_too_few_reads_change_nothing() -> None:
    distribution = uniform(100)
    (point,) = find_inflection_points([distribution], LabellingOptions(threshold_us=90))
    assert not decide("sda", 10, distribution, point).retrain


def long_trace(path: Path, seed: int, **options: Any) -> Path:
    """Write a trace of 90 s, whose newest reads fill enough blocks of time."""
    return array_trace(path, seed, n=6000, pause_us=14_000, **options)


def settle() -> None:
    """Give both drives models that recalibration keeps, so that none is trained."""
    for disk in "sda", "sdb":
        Drive(disk).upload(always_fast(SETTLED_US))


@pytest.fixture
def array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_tree(tmp_path / "sys", monkeypatch)
    activate_what_is_written(tmp_path / "sys", monkeypatch)
    monkeypatch.setenv("LINNAPP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("LINNAPP_RUN", str(tmp_path / "run"))
    # One CPU: training happens in this process, without the start of others.
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    (tmp_path / "rec").mkdir()
    for i, disk in enumerate(("sda", "sdb")):
        long_trace(tmp_path / "rec" / f"{disk}.blk", i + 1)
    return tmp_path


def run(
    array: Path, kind: Literal["network", "latency"] | None = None
) -> tuple[list[recalibration.Decision], list[str]]:
    lines: list[str] = []
    decisions = recalibrate(
        [Path("sda"), Path("sdb")],
        array / "models",
        RECIPE,
        duration_s=1,
        kind=kind,
        recordings=array / "rec",
        conf_path=array / "drives.conf",
        log=lines.append,
    )
    return decisions, lines


def test_first_run_trains_second_keeps_and_a_moved_point_retrains(array: Path) -> None:
    decisions, lines = run(array)
    assert [d.retrain for d in decisions] == [True, True]
    first = Drive("sda").model_id
    assert first is not None
    assert sum("uploaded" in line for line in lines) == 2

    decisions, lines = run(array)
    assert [d.retrain for d in decisions] == [False, False]
    assert Drive("sda").model_id == first
    assert len(lines) == 2 and all("keep: the active threshold" in line for line in lines)

    Drive("sda").upload(always_slow(50))  # much lower than this recording's threshold
    decisions, _ = run(array)
    assert [d.retrain for d in decisions] == [True, False]
    assert Drive("sda").model_id == first  # the same recording and seed give the same model
    history = [
        json.loads(line)
        for line in (array / "state" / "sda" / "recalibration.jsonl").read_text().splitlines()
    ]
    assert [line["retrain"] for line in history] == [True, False, True]
    assert Path(history[0]["uploaded"]).exists()
    assert Model.load(array / "state" / "sda" / "previous.linnos").threshold_us == 50


def test_drives_conf_names_the_active_models(array: Path) -> None:
    """A boot restores the new model, and the entry of another drive is unchanged."""
    conf_path = array / "drives.conf"
    _, lines = run(array, "latency")
    assert not conf_path.exists() and not any("drives.conf" in line for line in lines)
    for disk in ("sda", "sdb"):
        Drive(disk).upload(always_slow(50))
    old = DriveEntry("observe", array / "old.linnos", "/dev/md0")
    save_conf(
        conf_path, DrivesConf({"/dev/sda": old, "/dev/sdx": old}, {"/dev/md0": ArrayEntry(True)})
    )
    _, lines = run(array, "latency")
    conf = load_conf(conf_path)
    assert set(conf.drives) == {"/dev/sda", "/dev/sdx"}
    model = conf.drives["/dev/sda"].model
    assert model is not None
    assert LatencyModel.load(model).model_id == Drive("sda").model_id
    assert conf.drives["/dev/sda"] == dataclasses.replace(old, model=model)
    assert conf.drives["/dev/sdx"] == old and conf.arrays == {"/dev/md0": ArrayEntry(True)}
    assert TrainingExpectation.load(conf.drives["/dev/sda"], Drive("sda").model_id).predicts_us
    assert any("has the new model of sda, for the next boot" in line for line in lines)

    # An unwritable file is reported; the upload remains.
    conf_path.write_text("[what]\n")
    Drive("sda").upload(always_slow(50))
    _, lines = run(array, "latency")
    assert any("keeps the old model" in line and "[what]" in line for line in lines)
    assert Drive("sda").model_kind == "latency"


@pytest.mark.parametrize("where", ["_read_blocks", "train_labelled", "compare", "_upload"])
@pytest.mark.parametrize("how", [KeyboardInterrupt, LinnappError("no luck")])
def test_ending_at_any_step_leaves_the_active_models(
    array: Path, monkeypatch: pytest.MonkeyPatch, where: str, how: BaseException
) -> None:
    old = {"sda": random_model(threshold_us=50), "sdb": random_model(threshold_us=SETTLED_US)}
    for disk, model in old.items():
        Drive(disk).upload(model)

    def end(*_: object, **__: object) -> None:
        raise how

    monkeypatch.setattr(recalibration, where, end)
    with pytest.raises((KeyboardInterrupt, LinnappError)):
        run(array)
    for disk, model in old.items():
        assert Drive(disk).read_model() == model.to_bytes()
    assert not [p for p in (array / "models").iterdir() if p.is_dir() and p.name.startswith(".")]


@pytest.mark.parametrize("auto_bias", [False, True])
def test_ctrl_c_while_training_uploads_nothing(
    array: Path, monkeypatch: pytest.MonkeyPatch, auto_bias: bool
) -> None:
    """Not even the best model so far, which `linnapp train` would keep."""
    old = always_slow(50)
    for disk in "sda", "sdb":
        Drive(disk).upload(old)
    real = training._judged
    calls = 0

    def interrupted(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 3:  # after the first epoch of the first drive, or of its first candidate
            raise KeyboardInterrupt
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(training, "_judged", interrupted)
    lines: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        recalibrate(
            [Path("sda"), Path("sdb")],
            array / "models",
            Recipe(training=TrainingOptions(max_epochs=4), auto_bias=auto_bias),
            duration_s=1,
            recordings=array / "rec",
            log=lines.append,
        )
    assert calls == 3
    assert not any("uploaded" in line for line in lines)
    for disk in "sda", "sdb":
        assert Drive(disk).read_model() == old.to_bytes()
    assert [path.name for path in (array / "models").iterdir()] == [".lock"]


def test_a_model_that_serves_the_newest_reads_no_better_is_not_uploaded(
    array: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load has changed, but the new model is no better: sdb's network admits all reads."""
    old = {"sda": always_slow(50), "sdb": always_fast(50)}
    for disk, model in old.items():
        Drive(disk).upload(model)
    real = drive_training.quantise
    monkeypatch.setattr(
        drive_training,
        "quantise",
        lambda weights, threshold_us: always_fast(threshold_us),
    )
    decisions, lines = run(array)
    assert [decision.retrain for decision in decisions] == [True, True]
    assert Drive("sda").model_id != old["sda"].model_id  # admitting all reads is better
    assert Drive("sdb").read_model() == old["sdb"].to_bytes()
    assert any(line.startswith("sda: better: for the newest 900 reads") for line in lines)
    assert any(line.startswith("sdb: not uploaded, no better: for the newest") for line in lines)
    (line,) = (array / "state" / "sdb" / "recalibration.jsonl").read_text().splitlines()
    remembered = json.loads(line)
    assert remembered["uploaded"] is None
    comparison = remembered["comparison"]
    assert comparison["unit"] == "us" and comparison["new"] == comparison["active"]

    monkeypatch.setattr(drive_training, "quantise", real)
    (first,) = (p for p in (array / "models").iterdir() if p.is_dir())
    first.rename(array / "elsewhere")  # the next run may have the same second as its name
    run(array)  # a trained model is better than admitting all reads
    assert Drive("sdb").read_model() != old["sdb"].to_bytes()


def test_recalibrate_keeps_the_active_model_when_a_new_one_gains_nothing(
    array: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new network of sda refuses every read; that of sdb is used as trained."""
    old = always_fast(50)
    for disk in "sda", "sdb":
        Drive(disk).upload(old)
    real = drive_training.quantise
    turns = iter((True, False))

    def quantise(weights: object, threshold_us: int) -> Model:
        model: Model = real(weights, threshold_us)  # type: ignore[arg-type]
        if not next(turns):
            return model
        none = np.zeros_like(model.output_weights)
        return dataclasses.replace(model, output_weights=none, output_bias=np.array([0, 1]))

    monkeypatch.setattr(drive_training, "quantise", quantise)
    decisions, lines = run(array)
    assert [decision.retrain for decision in decisions] == [True, True]
    (line,) = (line for line in lines if line.startswith("sda: not retrained: "))
    assert "sda.blk: no model is better than admitting every read" in line
    assert Drive("sda").read_model() == old.to_bytes()
    assert Drive("sdb").read_model() != old.to_bytes()
    remembered = json.loads((array / "state" / "sda" / "recalibration.jsonl").read_text())
    assert remembered["retrain"] and remembered["uploaded"] is remembered["comparison"] is None


def test_models_are_compared_on_the_test_slice_alone(array: Path) -> None:
    trace = array / "rec" / "sda.blk"
    reads = load_reads(trace)
    newest = reads.latency_us[split(len(reads), RECIPE.training).test].astype(float)
    compared = compare(trace, always_fast(90), always_slow(90), RECIPE, 2)
    assert compared.reads == len(newest) == 900
    assert compared.new == pytest.approx(newest.mean())
    assert compared.active == pytest.approx(newest.mean() + 15)
    assert compared.new_is_better
    without = compare(trace, always_fast(90), None, RECIPE, 2)
    assert without.active == pytest.approx(newest.mean()) and not without.new_is_better


@pytest.mark.parametrize("n", [19, 60, 150, 1500, 15_000])
@pytest.mark.parametrize(("alike", "gap_ms"), [(1, 10), (50, 10), (50, 500)])
def test_recalibrate_keeps_the_active_model_when_both_are_equally_good(
    n: int, alike: int, gap_ms: int
) -> None:
    """Predictions and slow reads come in runs of `alike` reads, which last up to 25 s."""
    rng = np.random.default_rng([n, alike])
    arrival_ns = (np.arange(n) * gap_ms * 10**6).astype(np.uint64)
    trials, better = 1000, 0
    for _ in range(trials):
        slow, *predicted = rng.normal(size=(3, -(-n // alike))).repeat(alike, axis=1)[:, :n]
        latency_us = np.where(slow > 1.28, 2000, 100) * np.exp(rng.normal(size=n) / 5)
        new_us, active_us = (300 * np.exp(of / 2) for of in predicted)
        found = compare_predictions(arrival_ns, latency_us, new_us, active_us)
        better += found.new_is_better
        if n < 800:
            assert found.p_value is None and "cannot tell" in found.verdict
            assert "record for longer (--duration)" in str(found)
            break
    assert (better > 0) == (n >= 800)
    assert better / trials <= 0.025 + 2 * (0.025 * 0.975 / trials) ** 0.5


def test_recalibrate_compares_networks_by_what_refusing_saves() -> None:
    """Check that an informative network is better, but neither of two uninformative ones."""
    n, trials = 4000, 400
    arrival_ns = (np.arange(n) * 10**7).astype(np.uint64)
    pages = np.ones(n, np.uint16)
    blind, knowing = 0, 0
    for draw in range(trials):
        rng = np.random.default_rng(draw)
        slow = (rng.random(n // 20) < 0.05).repeat(20)
        latency_us = np.where(slow, 2000, 90).astype(np.uint32)
        guesses = [(rng.random(n // 20) < 0.05).repeat(20) for _ in range(2)]
        one, other, knows = (
            Verdicts(arrival_ns, latency_us, revoked, pages) for revoked in (*guesses, slow)
        )
        blind += compare_means(one, other, 15.0, 3).new_is_better
        if draw < 50:
            knowing += compare_means(knows, other, 15.0, 3).new_is_better
    assert blind / trials <= 0.025 + 2 * (0.025 * 0.975 / trials) ** 0.5
    assert knowing >= 45


def test_recalibrate_removes_the_files_of_killed_runs(array: Path) -> None:
    left = [array / "models" / name for name in (".recording.x", ".20260101-000000.y")]
    for path in left:
        path.mkdir(parents=True)
        (path / "file").touch()
    settle()
    run(array)
    assert not any(path.exists() for path in left)


def test_only_drives_that_moved_are_trained(array: Path) -> None:
    settle()
    Drive("sda").upload(always_slow(50))
    _, lines = run(array)
    assert "training sda" in lines
    (out,) = (p for p in (array / "models").iterdir() if p.is_dir())
    assert sorted(path.name for path in out.iterdir()) == ["sda.json", "sda.linnos"]


def test_whole_disk_is_recorded_even_if_a_partition_is_named(
    array: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[Path] = []

    def record(devices: list[Path], *_: object, **__: object) -> None:
        recorded.extend(devices)
        raise LinnappError("enough")

    monkeypatch.setattr(recalibration, "record", record)
    with pytest.raises(LinnappError, match="enough"):
        recalibrate(["sda1", "sdb"], array / "models", RECIPE, duration_s=1)
    assert recorded == [Path("/dev/sda"), Path("/dev/sdb")]


@pytest.fixture
def arrays(array: Path) -> Path:
    """Arrays of sda's partition and sdb, one in each state; return the folder of their files."""
    block = array / "sys" / "block"
    holders = [block / "sda" / "sda1" / "holders", block / "sdb" / "holders"]
    for name, state in (("md0", "on"), ("md1", "unguarded"), ("md2", "off"), ("md3", None)):
        (block / name / "md").mkdir(parents=True)
        if state is not None:  # a kernel that can query
            (block / name / "md" / "linnos").write_text(state + "\n")
        for each in holders:
            each.mkdir(exist_ok=True)
            (each / name).symlink_to(block / name)
    return block


def asks(block: Path) -> list[str]:
    return [(block / f"md{k}" / "md" / "linnos").read_text().strip() for k in range(3)]


def test_recalibrate_refuses_to_record_while_another_command_runs(
    array: Path, arrays: Path
) -> None:
    """Also during a block of a trial in which md/linnos is off."""
    (arrays / "md0" / "md" / "linnos").write_text("off\n")
    with alone(), pytest.raises(LinnappError, match="another linnapp enable, disable, trial or"):
        recalibrate(["sda"], array / "models", RECIPE, duration_s=1)
    assert asks(arrays) == ["off", "unguarded", "off"]


@pytest.mark.parametrize("end", [None, LinnappError])
def test_no_read_is_redirected_while_drives_are_recorded(
    array: Path, arrays: Path, monkeypatch: pytest.MonkeyPatch, end: type[Exception] | None
) -> None:
    """test_switches.py has the other ends of a recording."""
    settle()
    Drive("sda").set_mode("enforce")
    seen = []

    def record(_: object, directory: Path, **options: object) -> tuple[list[object], int]:
        seen.append((Drive("sda").mode, asks(arrays)))
        assert options["keep_interrupted"] is False
        with pytest.raises(LinnappError, match="is running"), alone():
            pass
        if end is not None:
            raise end
        for disk in "sda", "sdb":
            shutil.copy(array / "rec" / f"{disk}.blk", directory)
        return [], 0

    monkeypatch.setattr(recalibration, "record", record)
    lines: list[str] = []

    def log(line: str) -> None:
        lines.append(line)
        if "keep" in line:  # The settings are restored before the recording is evaluated.
            seen.append((Drive("sda").mode, asks(arrays)))

    with contextlib.nullcontext() if end is None else pytest.raises(end):
        recalibrate(["sda", "sdb"], array / "models", RECIPE, duration_s=1, log=log)
    before = ("enforce", ["on", "unguarded", "off"])
    assert seen == [("observe", ["off"] * 3)] + [before] * (2 if end is None else 0)
    assert (Drive("sda").mode, asks(arrays)) == before
    for title in ("sda: mode is observe", "md0: linnos is off", "md1: linnos is off"):
        assert f"{title} during the recording, so that no read is redirected" in lines


#: Recalibrates sda, whose recording lasts until the end.
RECORDING = """
import sys, time
from linnapp.cli import main
from linnapp.drive import recalibration

def record(*_, **__):
    print("recording", flush=True)
    time.sleep(600)

recalibration.record = record
sys.argv = ["linnapp", "recalibrate", "sda", "--models", sys.argv[1]]
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_termination_while_recording_restores_modes_and_arrays(
    array: Path, arrays: Path, number: signal.Signals
) -> None:
    Drive("sda").set_mode("enforce")
    with subprocess.Popen(
        [sys.executable, "-c", RECORDING, array / "models"],
        stdout=subprocess.PIPE,
        text=True,
        # nohup makes processes ignore the signal, which is not tested here.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "recording\n"
        recorded = Drive("sda").mode, asks(arrays)
        process.send_signal(number)
        process.wait(timeout=600)
    assert recorded == ("observe", ["off"] * 3)
    assert process.returncode in (128 + number, -number)
    assert Drive("sda").mode == "enforce" and asks(arrays) == ["on", "unguarded", "off"]


@pytest.mark.parametrize(
    ("devices", "recipe", "message"),
    [
        (["sda", "sda1"], RECIPE, "sda1: sda is named twice"),
        (
            ["sda"],
            dataclasses.replace(RECIPE, training=TrainingOptions(n_hidden=64)),
            "`n_hidden=64`: the kernel does not run such networks",
        ),
    ],
)
def test_recalibrate_refuses_unusable_arguments_before_recording(
    array: Path,
    monkeypatch: pytest.MonkeyPatch,
    devices: list[str],
    recipe: Recipe,
    message: str,
) -> None:
    def record(*_: object, **__: object) -> None:
        raise AssertionError("recorded")

    monkeypatch.setattr(recalibration, "record", record)
    with pytest.raises(LinnappError, match=message):
        recalibrate(devices, array / "models", recipe, duration_s=1)


def test_concurrent_recalibrations_exclude_each_other(array: Path) -> None:
    (array / "models").mkdir()
    with (array / "models" / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LinnappError, match="another recalibration is running"):
            run(array)
    settle()
    run(array)


def record_again(array: Path, round_: int, *, slower: bool = False) -> None:
    """Write new recordings of the array: of the same load, or of one with all reads slower."""
    for i, disk in enumerate(("sda", "sdb")):
        path = array / "rec" / f"{disk}.blk"
        long_trace(path, 10 * round_ + i, slower_from=0 if slower else None)
    # The next run may have the same second as its name.
    for number, path in enumerate(p for p in (array / "models").iterdir() if p.is_dir()):
        path.rename(array / f"elsewhere-{round_}-{number}")


def test_latency_models_follow_the_load_and_do_not_swing(array: Path) -> None:
    """Check that a round changes the model if and only if the load has changed."""
    decisions, lines = run(array, kind="latency")
    assert [d.retrain for d in decisions] == [True, True]
    assert sum("uploaded" in line for line in lines) == 2
    active = {disk: Drive(disk).model_id for disk in ("sda", "sdb")}
    assert None not in active.values() and Drive("sda").model_kind == "latency"

    for round_ in (2, 3, 4):  # the active model determines the kind
        record_again(array, round_)
        _, lines = run(array)
        assert {disk: Drive(disk).model_id for disk in active} == active, lines
        assert sum("not uploaded, no better: for the newest" in line for line in lines) == 2
        assert sum("not significant (p = " in line for line in lines) == 2

    record_again(array, 5, slower=True)
    _, lines = run(array)
    moved = {disk: Drive(disk).model_id for disk in active}
    assert all(moved[disk] != active[disk] for disk in active)
    assert sum(": significant (p = " in line.replace("; ", ": ") for line in lines) == 2
    remembered = (array / "state" / "sda" / "recalibration.jsonl").read_text().splitlines()
    comparison = json.loads(remembered[-1])["comparison"]
    assert comparison["unit"] == "deviance" and comparison["new"] < comparison["active"]
    assert comparison["p_value"] <= comparison_module.ALPHA

    record_again(array, 6, slower=True)
    _, lines = run(array)
    assert {disk: Drive(disk).model_id for disk in active} == moved, lines


def test_newest_reads_evaluate_a_model_not_trained_on_them(array: Path) -> None:
    run(array, kind="latency")
    (out,) = (p for p in (array / "models").iterdir() if p.is_dir())
    model = LatencyModel.load(out / "sda.linnos")
    recipe = dataclasses.replace(RECIPE, kind="latency")
    trace = array / "rec" / "sda.blk"
    newest, predicted_us = predict_newest(model, trace, recipe, own=True)
    record = json.loads((out / "sda.json").read_text())
    assert len(newest) == record["test_reads"] == 900
    error = latency_training.mean_abs_log2_error(predicted_us, newest.latency_us)
    assert error == pytest.approx(record["mean_abs_log2_error"])
    # All reads taught the model itself, which therefore does better on these.
    _, flattered_us = predict_newest(model, trace, recipe, own=False)
    flattered = latency_training.deviances(flattered_us, newest.latency_us).mean()
    assert flattered < latency_training.deviances(predicted_us, newest.latency_us).mean()


def test_a_latency_model_takes_the_place_of_a_network_that_serves_worse(array: Path) -> None:
    for disk in "sda", "sdb":
        Drive(disk).upload(always_slow(90))
    _, lines = run(array, kind="latency")
    assert Drive("sda").model_kind == Drive("sdb").model_kind == "latency"
    assert any("sda: better: for the newest 900 reads" in line for line in lines)


def test_kinds_are_not_mixed_by_accident(array: Path) -> None:
    run(array, kind="latency")
    Drive("sdb").upload(always_fast(90))
    told = (
        "sdb has a network and sda a latency model; choose the kind of all new models with `kind=`"
    )
    with pytest.raises(LinnappError, match=told):
        run(array)


def test_missing_latency_support_is_reported_before_recording(
    array: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(*_: object, **__: object) -> None:
        raise AssertionError("recorded")

    monkeypatch.setattr(recalibration, "record", record)
    (array / "sys" / "block" / "sdb" / "linnos" / "model_kind").unlink()
    with pytest.raises(LinnappError, match="latency models are needed, which this kernel does"):
        recalibrate(["sda", "sdb"], array / "models", RECIPE, duration_s=1, kind="latency")
