# SPDX-License-Identifier: MIT
"""Recalibration and the watchdog: a drive always keeps a working model.

They run on plain files in place of sysfs; the lab tests use the real kernel.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from blktrace_builder import TraceBuilder
from fake_sysfs import FakeSysfs
from test_exporter import check_rules, needs_prometheus
from test_model_format import random_model
from test_training import array_trace
from trees_by_hand import one_tree

from linnapp.drive import comparison as comparison_module
from linnapp.drive import maintain, recording, switches
from linnapp.drive.comparison import compare, compare_means, compare_predictions
from linnapp.drive.drives_conf import DriveEntry, DrivesConf, load_conf, save_conf
from linnapp.drive.latencies import LOWEST_US
from linnapp.drive.maintain import (
    MIN_CHECKS,
    MIN_SERVED,
    ExpectedShares,
    MeasuredShare,
    Watchdog,
    decide,
    recalibrate,
)
from linnapp.drive.state import alone
from linnapp.drive.sysfs import Drive
from linnapp.engine import predict_us
from linnapp.errors import LinnappError
from linnapp.files import AnyPath
from linnapp.learn import network as training
from linnapp.learn import trees as latency_training
from linnapp.learn.examples import Reads, load_reads, split
from linnapp.learn.labels import LatencyDistribution, find_inflection_points
from linnapp.learn.options import LabellingOptions, Recipe, TrainingOptions
from linnapp.learn.trees import hold_out_newest
from linnapp.model import CAP, N_LEAVES, N_SPLITS, NEVER, LatencyModel, Model
from linnapp.trace import reads as reads_module
from linnapp.trace.reads import OVERDUE, IoTable, releasing

Run = Callable[..., Any]

RECIPE = Recipe(training=TrainingOptions(max_epochs=2), auto_bias=False)

#: Between fast and slow reads of the recording of `array`, so such a model is kept.
SETTLED_US = 600


def network(threshold_us: int, *, slow: bool) -> Model:
    """Return a network that revokes every read, or admits every read."""
    sign = -1 if slow else 1
    model = random_model(threshold_us=threshold_us)
    return dataclasses.replace(model, output_bias=np.array([sign * 10**12, -sign * 10**12]))


# -- decisions and comparisons --


def test_decide_retrains_after_a_move_of_five_percentiles() -> None:
    many, few = (LatencyDistribution(np.arange(n) % 1000) for n in (10_000, 100))
    for active_us, retrain in ((900, False), (941, False), (951, True), (840, True), (None, True)):
        (point,) = find_inflection_points([many], LabellingOptions(threshold_us=900))
        decision = decide("sda", active_us, many, point)
        assert decision.retrain == retrain
        if active_us is not None:
            expected = abs(active_us - 900) / 10
            assert decision.shift_percentiles == pytest.approx(expected, abs=0.11)
            assert f"threshold, {active_us} us" in decision.reason
    assert not decide("sda", 10, few, point).retrain


@pytest.mark.parametrize("n", [19, 150, 1500, 15_000])
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
        new_us, active_us = (300 * np.exp(logarithms / 2) for logarithms in predicted)
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
            (Reads(arrival_ns, latency_us, pages, pages), revoked) for revoked in (*guesses, slow)
        )
        blind += compare_means(one, other, 15.0, 3).new_is_better
        if draw < 50:
            knowing += compare_means(knows, other, 15.0, 3).new_is_better
    assert blind / trials <= 0.025 + 2 * (0.025 * 0.975 / trials) ** 0.5
    assert knowing >= 45


def test_reads_of_a_comparison_keep_the_overdue_reads_of_their_model(tmp_path: Path) -> None:
    events = TraceBuilder()
    for i in range(1000):
        events.io(i * 50, i * 50 + 120, 8 * i)
    trace = events.sort().write(tmp_path / "sda.blk")
    recipe = dataclasses.replace(RECIPE, kind="latency")
    splits, leaves_us = [("overdue", 0)] * N_SPLITS, [10.0] * N_LEAVES
    long, short = (
        one_tree(splits, leaves_us, threshold_us=90, refuse_us=NEVER, overdue_us=overdue_us)
        for overdue_us in (CAP, 1)
    )
    with releasing():
        reads, _ = hold_out_newest(long, trace, recipe, own=False)
        others, _ = hold_out_newest(short, trace, recipe, own=False)
    assert not reads.features[:, OVERDUE].any() and others.features[:, OVERDUE].any()


def test_refusals_are_compared_as_the_kernel_makes_them(tmp_path: Path) -> None:
    trace = tmp_path / "sda.blk"
    array_trace(trace, 1, n=6000, pause_us=14_000)
    # Without a location, as for all reads that can be refused, this model refuses all of them.
    leaves_us = [10.0] * (N_LEAVES // 2) + [1000.0] * (N_LEAVES // 2)
    splits = [("in_region", CAP - 1)] * N_SPLITS
    active = one_tree(splits, leaves_us, threshold_us=90, refuse_us=100, overdue_us=CAP)
    admits, refuses = (network(90, slow=slow) for slow in (False, True))
    found = compare(trace, admits, active, RECIPE, 3)
    assert found.active == compare(trace, admits, refuses, RECIPE, 3).active > found.new


# -- recalibration --


@pytest.fixture
def array(sysfs: FakeSysfs, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make recordings of two drives, whose newest reads fill enough blocks of time: 90 s."""
    # With one CPU, training happens in this process and starts no others.
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    (sysfs.tmp_path / "rec").mkdir()
    record_again(sysfs.tmp_path, 0)
    return sysfs.tmp_path


def record_again(array: Path, round_: int, *, slower: bool = False) -> None:
    """Write new recordings of the array: of the same load, or of one with all reads slower."""
    for i, disk in enumerate(("sda", "sdb")):
        path, slower_from = array / "rec" / f"{disk}.blk", 0 if slower else None
        array_trace(path, 10 * round_ + i + 1, n=6000, pause_us=14_000, slower_from=slower_from)
    # The next run may happen in the same second, and would then have the same name.
    for number, path in enumerate(p for p in array.glob("models/*") if p.is_dir()):
        path.rename(array / f"elsewhere-{round_}-{number}")


def upload(sda: Model, sdb: Model) -> None:
    for disk, model in (("sda", sda), ("sdb", sdb)):
        Drive(disk).upload(model)


def settle() -> None:
    """Give both drives models that recalibration keeps, so that none is trained."""
    upload(network(SETTLED_US, slow=False), network(SETTLED_US, slow=False))


def run_once(
    array: Path, kind: Literal["network", "latency"] | None = None, **options: Any
) -> tuple[list[maintain.Decision], list[str]]:
    lines: list[str] = []
    arguments = {"recordings": array / "rec", "conf_path": array / "etc" / "drives.conf", **options}
    decisions = recalibrate(
        *(["sda", "sdb"], array / "models", options.pop("recipe", RECIPE)),
        duration_s=1,
        kind=kind,
        log=lines.append,
        **{name: value for name, value in arguments.items() if name != "recipe"},
    )
    return decisions, lines


def history(array: Path, disk: str) -> list[dict[str, Any]]:
    text = (array / "state" / disk / "recalibration.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_first_run_trains_second_keeps_and_a_moved_point_retrains(array: Path) -> None:
    decisions, lines = run_once(array)
    assert [d.retrain for d in decisions] == [True, True]
    first = Drive("sda").model_id
    assert first is not None
    assert sum("uploaded" in line for line in lines) == 2

    decisions, lines = run_once(array)
    assert [d.retrain for d in decisions] == [False, False]
    assert Drive("sda").model_id == first
    assert len(lines) == 2 and all("keep: the active threshold" in line for line in lines)

    Drive("sda").upload(network(50, slow=True))  # much lower than this recording's threshold
    decisions, lines = run_once(array)
    assert [d.retrain for d in decisions] == [True, False]
    assert "training sda" in lines
    assert Drive("sda").model_id == first  # the same recording and seed give the same model
    assert [line["retrain"] for line in history(array, "sda")] == [True, False, True]
    assert Path(history(array, "sda")[0]["uploaded"]).exists()
    assert Model.load(array / "state" / "sda" / "previous.linnos").threshold_us == 50


def test_drives_conf_names_the_active_models(array: Path, sysfs: FakeSysfs) -> None:
    """A boot restores the new model, and the entry of another drive is unchanged."""
    name, conf_path = sysfs.name_of("sda"), sysfs.conf
    _, lines = run_once(array, "latency")
    assert not conf_path.exists() and not any("drives.conf" in line for line in lines)
    upload(network(50, slow=True), network(50, slow=True))
    old = DriveEntry("observe", array / "old.linnos")
    save_conf(conf_path, DrivesConf({name: old, "/dev/sdx": old}))
    _, lines = run_once(array, "latency")
    conf = load_conf(conf_path)
    model = conf.drives[name].model
    assert model is not None
    assert LatencyModel.load(model).model_id == Drive("sda").model_id
    changed = dataclasses.replace(old, model=model)
    assert conf.drives == {name: changed, "/dev/sdx": old}
    ExpectedShares.load(changed, Drive("sda").model_id)
    assert any("has the new model of sda, for the next boot" in line for line in lines)

    # An unwritable file is reported; the upload remains.
    conf_path.write_text("[what]\n")
    Drive("sda").upload(network(50, slow=True))
    _, lines = run_once(array, "latency")
    assert any("keeps the old model" in line and "[what]" in line for line in lines)
    assert Drive("sda").model_kind == "latency"


@pytest.mark.parametrize("at", ["read_latencies", "train_array", "compare", "conf", "model"])
@pytest.mark.parametrize("how", [KeyboardInterrupt, LinnappError("no luck"), signal.SIGKILL])
def test_ending_at_any_step_leaves_models_that_drives_conf_names(
    array: Path,
    sysfs: FakeSysfs,
    monkeypatch: pytest.MonkeyPatch,
    at: str,
    how: BaseException | int,
) -> None:
    """A new model is in drives.conf before the drive has it, so a boot completes the upload."""
    old = {"sda": random_model(threshold_us=50), "sdb": random_model(threshold_us=SETTLED_US)}
    upload(*old.values())
    entries = {}
    for disk, model in old.items():
        model.save(array / f"{disk}.linnos")
        entries[sysfs.name_of(disk)] = DriveEntry("off", array / f"{disk}.linnos")
    save_conf(sysfs.conf, DrivesConf(entries))

    def end(*_: object, **__: object) -> Any:
        if isinstance(how, int):
            signal.raise_signal(how)
        raise how

    with monkeypatch.context() as patch:
        if at == "model":
            sysfs.fail(lambda name, _: end() if name.endswith("model") else None)
        elif at == "conf":
            patch.setattr(maintain, "recorded", end)
        else:
            patch.setattr(maintain, at, end)
        if isinstance(how, int):
            if not (child := os.fork()):
                run_once(array, "latency")
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -how
        elif at == "conf" and isinstance(how, LinnappError):
            return  # drives.conf keeps the old model, which is reported
        else:
            with pytest.raises((KeyboardInterrupt, LinnappError)):
                run_once(array, "latency")
    sysfs.fail_never()
    for disk, model in old.items():
        if Drive(disk).read_model() is not None:  # opened for writing
            assert Drive(disk).read_model() == model.to_bytes()
    conf = load_conf(sysfs.conf)
    was_killed_late = at == "model" and isinstance(how, int)
    assert (conf == DrivesConf(entries)) == (not was_killed_late)
    assert all(model.exists() for model in conf.models)
    if isinstance(how, int):  # the next run removes what the killed one has left
        settle()
        run_once(array, "network")
    assert not [p for p in (array / "models").iterdir() if p.is_dir() and p.name.startswith(".")]


def test_ctrl_c_while_training_uploads_nothing(
    array: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even the best model so far is not uploaded, which `linnapp train` would keep."""
    old = network(50, slow=True)
    upload(old, old)
    real = training._evaluate
    calls = 0

    def interrupted(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 3:  # after the first epoch of the first drive
            raise KeyboardInterrupt
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(training, "_evaluate", interrupted)
    recipe = Recipe(training=TrainingOptions(max_epochs=4), auto_bias=False)
    with pytest.raises(KeyboardInterrupt):
        run_once(array, recipe=recipe)
    assert calls == 3
    for disk in "sda", "sdb":
        assert Drive(disk).read_model() == old.to_bytes()
    assert [path.name for path in (array / "models").iterdir()] == [".lock"]


def test_models_that_are_no_better_are_not_uploaded(
    array: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New networks admit all reads; sdb's active one does so, too. Then sda's refuses all reads."""
    old = {"sda": network(50, slow=True), "sdb": network(50, slow=False)}
    upload(*old.values())
    slow = False
    monkeypatch.setattr(
        training,
        "quantise",
        lambda weights, threshold_us: dataclasses.replace(
            random_model(threshold_us=threshold_us),
            output_weights=np.zeros((256, 2), np.int64),
            output_bias=np.array([0, 1] if slow else [10**12, -(10**12)]),
        ),
    )
    decisions, lines = run_once(array)
    assert [decision.retrain for decision in decisions] == [True, True]
    assert Drive("sda").model_id != old["sda"].model_id  # admitting all reads is better
    assert Drive("sdb").read_model() == old["sdb"].to_bytes()
    assert any(line.startswith("sda: better: for the newest 900 reads") for line in lines)
    assert any(line.startswith("sdb: not uploaded, no better: for the newest") for line in lines)
    [remembered] = history(array, "sdb")
    assert remembered["uploaded"] is None
    comparison = remembered["comparison"]
    assert comparison["unit"] == "us" and comparison["new"] == comparison["active"]

    slow = True
    upload(*old.values())
    _, lines = run_once(array)
    for disk, model in old.items():
        (line,) = (line for line in lines if line.startswith(f"{disk}: not retrained: "))
        assert f"{disk}.blk: no model is better than admitting every read" in line
        assert Drive(disk).read_model() == model.to_bytes()
        remembered = history(array, disk)[-1]
        assert remembered["retrain"] and remembered["uploaded"] is remembered["comparison"] is None


def test_models_are_compared_on_the_test_slice_alone(array: Path) -> None:
    trace = array / "rec" / "sda.blk"
    reads = load_reads(trace)
    newest = reads.latency_us[split(len(reads), RECIPE.training).test].astype(float)
    fast, slow = network(90, slow=False), network(90, slow=True)
    compared = compare(trace, fast, slow, RECIPE, 2)
    assert compared.reads == len(newest) == 900
    assert compared.new == pytest.approx(newest.mean())
    assert compared.active == pytest.approx(newest.mean() + 15)
    assert compared.new_is_better
    without = compare(trace, fast, None, RECIPE, 2)
    assert without.active == pytest.approx(newest.mean()) and not without.new_is_better


def test_recalibrations_exclude_each_other_and_remove_files_of_killed_ones(array: Path) -> None:
    left_over = [array / "models" / name for name in (".recording.x", ".20260101-000000.y")]
    for path in left_over:
        path.mkdir(parents=True)
        (path / "file").touch()
    settle()
    with (array / "models" / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LinnappError, match="another recalibration is running"):
            run_once(array)
    assert all(path.exists() for path in left_over)
    run_once(array)
    assert not any(path.exists() for path in left_over)


# -- recalibration: recordings --


@pytest.fixture
def arrays(array: Path, sysfs: FakeSysfs) -> Path:
    """Make arrays of sda's partition and sdb, one per state; return the folder of their files."""
    for name, state in (("md0", "on"), ("md1", "unguarded"), ("md2", "off"), ("md3", None)):
        if name != "md0":
            sysfs.add_array(name, {"sda1": "in_sync", "sdb": "in_sync"})
        linnos = sysfs.block / name / "md" / "linnos"
        linnos.unlink()
        if state is not None:  # a kernel that can query
            linnos.write_text(state + "\n")
    return sysfs.block


def asks(block: Path) -> list[str]:
    return [(block / f"md{k}" / "md" / "linnos").read_text().strip() for k in range(3)]


def test_recalibrate_refuses_to_record_while_another_command_runs(
    array: Path, arrays: Path
) -> None:
    """This holds also during a block of a trial in which md/linnos is off."""
    with alone(), pytest.raises(LinnappError, match="another linnapp enable, disable, trial or"):
        recalibrate(["sda"], array / "models", RECIPE, duration_s=1)
    assert asks(arrays) == ["on", "unguarded", "off"]


@pytest.mark.parametrize("end", [None, LinnappError])
def test_no_read_is_redirected_while_drives_are_recorded(
    array: Path, arrays: Path, monkeypatch: pytest.MonkeyPatch, end: type[Exception] | None
) -> None:
    """test_switches.py has the other ends of a recording. A partition stands for its disk."""
    settle()
    Drive("sda").set("enforce")
    seen = []

    def record(devices: list[Path], directory: Path, **options: object) -> tuple[list[object], int]:
        assert devices == [Path("/dev/sda"), Path("/dev/sdb")]
        seen.append((Drive("sda").mode, asks(arrays)))
        assert options["at_ctrl_c"] == "discard"
        with pytest.raises(LinnappError, match="is running"), alone():
            pass
        if end is not None:
            raise end
        for disk in "sda", "sdb":
            shutil.copy(array / "rec" / f"{disk}.blk", directory)
        return [], 0

    monkeypatch.setattr(maintain, "record", record)
    lines: list[str] = []

    def log(line: str) -> None:
        lines.append(line)
        if "keep" in line:  # The settings are restored before the recording is evaluated.
            seen.append((Drive("sda").mode, asks(arrays)))

    with contextlib.nullcontext() if end is None else pytest.raises(end):
        recalibrate(["sda1", "sdb"], array / "models", RECIPE, duration_s=1, log=log)
    before = ("enforce", ["on", "unguarded", "off"])
    assert seen == [("observe", ["off"] * 3)] + [before] * (2 if end is None else 0)
    assert (Drive("sda").mode, asks(arrays)) == before
    for title in ("sda: mode is observe", "md0: linnos is off", "md1: linnos is off"):
        assert f"{title} during the recording, so that no read is redirected" in lines


def test_recalibrate_refuses_what_cannot_be_used_before_it_records(array: Path) -> None:
    large = dataclasses.replace(RECIPE, training=TrainingOptions(n_hidden=64))
    for devices, recipe, message in (
        (["sda", "sda1"], RECIPE, "sda1: sda is named twice"),
        (["sda"], large, "`n_hidden=64`: the kernel does not run such networks"),
    ):
        with pytest.raises(LinnappError, match=message):
            recalibrate(devices, array / "models", recipe, duration_s=1)
    assert not (array / "models").exists()


def test_recording_that_cannot_be_merged_is_kept(
    array: Path, sysfs: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    sysfs.allow_tracing(monkeypatch)
    (array / "sda").touch()
    monkeypatch.setattr(maintain, "node_of", lambda name: array / name)
    is_ended = False

    def trace(_: object, scratch: Path, *rest: object) -> tuple[int, str, bool, str]:
        (scratch / "sda.blktrace.0").write_bytes(b"recorded")
        return 0, "", is_ended, ""

    def fail(trace: Path, target: Path, dropped: int) -> int:
        raise LinnappError(f"{target}: No space left on device")

    monkeypatch.setattr(recording, "_run_blktrace", trace)
    monkeypatch.setattr(recording.blktrace, "merge", fail)
    models = array / "models"
    with pytest.raises(LinnappError, match="sda.blk: No space left on device; .* kept") as raised:
        recalibrate(["sda"], models, RECIPE, duration_s=1)
    (folder,) = (path for path in models.iterdir() if path.is_dir())
    assert (folder / "sda.blktrace.0").read_bytes() == b"recorded"
    assert f"linnapp inspect {folder}/sda" in str(raised.value)
    # A recording that ctrl-C has ended is not complete.
    is_ended = True
    with pytest.raises(KeyboardInterrupt):
        recalibrate(["sda"], models, RECIPE, duration_s=1)
    assert [path for path in models.iterdir() if path.is_dir()] == [folder]


# -- recalibration: latency models --


def test_latency_models_follow_the_load_and_do_not_swing(array: Path) -> None:
    """Check that a round changes the model if and only if the load has changed."""
    upload(network(90, slow=True), network(90, slow=True))
    _, lines = run_once(array, kind="latency")
    assert any("sda: better: for the newest 900 reads" in line for line in lines)
    assert sum("uploaded" in line for line in lines) == 2
    active = {disk: Drive(disk).model_id for disk in ("sda", "sdb")}
    assert Drive("sda").model_kind == Drive("sdb").model_kind == "latency"

    for round_ in (2, 3):  # the active model determines the kind
        record_again(array, round_)
        _, lines = run_once(array)
        assert {disk: Drive(disk).model_id for disk in active} == active, lines
        assert sum("not uploaded, no better: for the newest" in line for line in lines) == 2
        assert sum("not significant (p = " in line for line in lines) == 2

    record_again(array, 5, slower=True)
    _, lines = run_once(array)
    moved = {disk: Drive(disk).model_id for disk in active}
    assert all(moved[disk] != active[disk] for disk in active)
    assert sum(": significant (p = " in line.replace("; ", ": ") for line in lines) == 2
    comparison = history(array, "sda")[-1]["comparison"]
    assert comparison["unit"] == "deviance" and comparison["new"] < comparison["active"]
    assert comparison["p_value"] <= comparison_module.ALPHA

    record_again(array, 6, slower=True)
    _, lines = run_once(array)
    assert {disk: Drive(disk).model_id for disk in active} == moved, lines
    Drive("sdb").upload(network(90, slow=False))
    with pytest.raises(LinnappError, match="sdb has a network and sda a latency model; .*`kind=`"):
        run_once(array)


def test_recordings_are_parsed_once_if_the_active_models_are_networks(
    array: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(network(90, slow=True), network(90, slow=True))
    parsed = []
    load = reads_module._load

    def count(trace: AnyPath, *args: Any, **options: Any) -> IoTable:
        parsed.append(Path(trace).name)
        return load(trace, *args, **options)

    monkeypatch.setattr(reads_module, "_load", count)
    run_once(array, kind="latency")
    assert sorted(parsed) == ["sda.blk", "sdb.blk"]


def test_newest_reads_evaluate_a_model_not_trained_on_them(array: Path) -> None:
    run_once(array, kind="latency")
    (out,) = (p for p in (array / "models").iterdir() if p.is_dir())
    model = LatencyModel.load(out / "sda.linnos")
    recipe = dataclasses.replace(RECIPE, kind="latency")
    trace = array / "rec" / "sda.blk"
    newest, held_out = hold_out_newest(model, trace, recipe, own=True)
    predicted_us = predict_us(held_out, newest.features)
    record = json.loads((out / "sda.json").read_text())
    assert len(newest) == record["test_reads"] == 900
    error = latency_training.Quality.of_predicted(predicted_us, newest, 1).mean_abs_log2_error
    assert error == pytest.approx(record["mean_abs_log2_error"])
    # All reads taught the model itself, which therefore does better on these.
    _, same = hold_out_newest(model, trace, recipe, own=False)
    assert same == model
    flattered_us = predict_us(model, newest.features)
    flattered = latency_training.deviances(flattered_us, newest.latency_us).mean()
    assert flattered < latency_training.deviances(predicted_us, newest.latency_us).mean()


# -- the watchdog: expectations and shares --

#: 5 % are refused, and 2 % of the others are slow.
TEST = {"true_fast": 931, "false_submit": 19, "true_slow": 20, "false_revoke": 30}


def test_expectations_come_from_the_record_of_the_active_model(tmp_path: Path) -> None:
    entry = DriveEntry("enforce", tmp_path / "sda.linnos")
    record = tmp_path / "sda.json"
    record.write_text(json.dumps({"model_id": "00000001", "test": TEST}))
    found = ExpectedShares.load(entry, "00000001")
    assert (found.refused, found.slow) == (0.05, 19 / 950)
    nothing = dict.fromkeys(TEST, 0)
    for text, why in (
        ("{", "does not contain expectations"),
        ("[]", "does not contain expectations"),
        (json.dumps({"model_id": "00000001", "test": nothing}), "does not contain expectations"),
        (json.dumps({"model_id": "00000009", "test": TEST}), "model 00000009, and 00000001 is"),
    ):
        record.write_text(text)
        with pytest.raises(LinnappError, match=why):
            ExpectedShares.load(entry, "00000001")
    record.unlink()
    with pytest.raises(LinnappError, match="No such file"):
        ExpectedShares.load(entry, "00000001")
    with pytest.raises(LinnappError, match="names no model"):
        ExpectedShares.load(DriveEntry("off"), "00000001")


def fault_of(*shares: float, window_s: float = 600, n: int = 100) -> str:
    found = MeasuredShare("reads are X", 0.05)
    for k, share in enumerate(shares):
        found.add(round(share * n), n, k * 60)
        found.check((k + 1) * 60, window_s)
    return found.fault(len(shares) * 60, window_s)


def test_watchdog_resets_after_ten_bad_minutes_in_a_row() -> None:
    assert fault_of(*[0.21] * 9) == ""
    expected = "21% of the reads are X (expected from training: 5%, the bound is 20%)"
    assert fault_of(*[0.21] * 10) == expected
    assert fault_of(*[0.20] * 100) == ""
    # A minute within the bound restarts the count.
    assert fault_of(*[1.0] * 9, 0.1, *[1.0] * 9) == ""
    assert fault_of(*[1.0] * 9, 0.1, *[1.0] * 10) != ""
    # Even in a short window, one check is not enough.
    assert fault_of(*[1.0] * (MIN_CHECKS - 1), window_s=0) == ""
    assert fault_of(*[1.0] * MIN_CHECKS, window_s=0) != ""
    # With 20 reads per minute there is a check every five minutes, and three are needed.
    assert fault_of(*[1.0] * 14, n=20) == ""
    assert fault_of(*[1.0] * 15, n=20) != ""
    # If 100 reads take more than ten minutes, there is no result for ten minutes.
    assert fault_of(*[1.0] * 200, n=9) == ""
    # A night without reads does not count as bad.
    found = MeasuredShare("reads are X", 0.05)
    for begin_s in (*range(0, 540, 60), 30_000, 30_060):
        found.add(100, 100, begin_s)
        found.check(begin_s + 60, 600)
    assert found.fault(30_120, 600) == ""


# -- the watchdog: checks and resets --


@pytest.fixture
def enforcing(sysfs: FakeSysfs, tmp_path: Path) -> Path:
    """Return the file of a drive that enforces, sdb."""
    path = tmp_path / "models" / "sdb.linnos"
    path.parent.mkdir()
    model = random_model(3)
    model.save(path)
    path.with_suffix(".json").write_text(json.dumps({"model_id": model.model_id, "test": TEST}))
    Drive("sdb").upload(model)
    Drive("sdb").set("enforce")
    save_conf(sysfs.conf, DrivesConf({sysfs.name_of("sdb"): DriveEntry("enforce", path)}))
    return sysfs.conf


class Load:
    """Minutes of a fake clock, in each of which the drive counts 200 hinted reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, conf: Path, block: Path) -> None:
        self.now_s = 1000.0
        self.said: list[str] = []
        self._watchdog = Watchdog(conf, 600, self.said.append)
        self._linnos = block / "sdb" / "linnos"
        self._total: dict[str, int] = {}
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)

    def check_each_minute(
        self, minutes: int, refused: int = 0, slow: int = 0, probes: int = 0, us: int = 100,
        served: int = MIN_SERVED,
    ) -> None:  # fmt: skip
        moved = {
            "latency_critical": 200,
            "revoked": refused,
            "admitted": 200 - refused,
            "false_submits": slow,
            "probes": probes,
        }
        for _ in range(minutes):
            for name, n in moved.items():
                self._total[name] = self._total.get(name, 0) + n
                (self._linnos / "stats" / name).write_text(f"{self._total[name]}\n")
            self._count_latencies(us, served)
            self._watchdog.check()
            self.now_s += 60

    def _count_latencies(self, us: int, n: int) -> None:
        path = self._linnos / "latency_us_histogram"
        counts = [int(word) for word in path.read_text().split()]
        counts[bisect.bisect_right(LOWEST_US, us) - 1] += n
        path.write_text(" ".join(map(str, counts)) + "\n")


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch, enforcing: Path, sysfs: FakeSysfs) -> Load:
    return Load(monkeypatch, enforcing, sysfs.block)


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        ({"refused": 30}, ""),
        ({"refused": 60}, "30% of the hinted reads are refused (expected from training: 5%"),
        # The reads that it serves are slower than the model's threshold.
        ({"refused": 60, "us": 2**20}, ""),
        ({"refused": 60, "us": 2**20, "served": 0}, "30% of the hinted reads are refused"),
        ({"slow": 20}, ""),
        ({"slow": 60}, "30% of the admitted reads were slow (expected from training: 2%"),
        # Probes were predicted to be slow, and are not counted.
        ({"slow": 20, "probes": 100}, "20% of the admitted reads were slow"),
        ({"slow": 60, "us": 2**20}, "30% of the admitted reads were slow"),
    ],
)
def test_drive_that_deviates_from_its_training_is_set_to_observe(
    enforcing: Path, load: Load, sysfs: FakeSysfs, counts: dict[str, int], why: str
) -> None:
    load.check_each_minute(12, **counts)
    assert Drive("sdb").mode == ("observe" if why else "enforce")
    assert load_conf(enforcing).drives[sysfs.name_of("sdb")].mode == Drive("sdb").mode
    assert [found.why[: len(why) + 5] for found in switches.current_resets()] == (
        [f"sdb: {why}"] if why else []
    )


def test_reset_drive_is_shown_until_it_enforces_again(
    run: Run, load: Load, sysfs: FakeSysfs, lines: list[str]
) -> None:
    load.check_each_minute(30)
    load.check_each_minute(9, refused=200)
    load.check_each_minute(20)
    assert Drive("sdb").mode == "enforce" and len(load.said) == 1
    assert "wwn-sdb: is checked, model " in load.said[0]
    # A recording sets the drive to observe itself, so it is reset only after that.
    (sysfs.state / "enable").mkdir(parents=True)
    with (sysfs.state / "enable" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        load.check_each_minute(20, refused=200)
        assert Drive("sdb").mode == "enforce"
        assert "must be reset, but: " in load.said[1] and len(load.said) == 2
    load.check_each_minute(20, refused=200)
    assert Drive("sdb").mode == "observe"
    why = "reset: sdb: 100% of the hinted reads are refused"
    assert why in load.said[2] and "for 10 minutes" in load.said[2] and len(load.said) == 3
    assert any("sdb: mode enforce -> observe" in line for line in lines)
    assert any(why in line for line in lines)

    # All views show it until the drive enforces again.
    for words in (["status"], ["restore"], ["status", "--json"]):
        shown = " ".join(run(*words).output.split())
        assert "100% of the hinted reads are refused" in shown, words
    metric = 'linnos_switched_back_timestamp_seconds{device="sdb"}'
    assert metric in run("exporter", "--once").output
    assert "linnapp recalibrate" in switches.current_resets()[0].describe()
    Drive("sdb").set("enforce")
    assert switches.current_resets() == []
    Drive("sdb").set("observe")
    assert len(switches.current_resets()) == 1
    assert run("disable").exit_code == 0
    assert switches.current_resets() == []


def test_watchdog_reports_an_unusable_configuration_once(
    enforcing: Path, load: Load, tmp_path: Path
) -> None:
    record = tmp_path / "models" / "sdb.json"
    whole = record.read_text()
    record.unlink()
    load.check_each_minute(3)
    assert len(load.said) == 1 and "is not checked: " in load.said[0]
    assert "sdb.json" in load.said[0]
    text = enforcing.read_text()
    enforcing.write_text("[what]\n")
    load.check_each_minute(3)
    assert len(load.said) == 2 and "expected [drive PATH]" in load.said[1]
    enforcing.unlink()
    load.check_each_minute(1)
    # The active model is not that of the file, so nothing is known about it.
    enforcing.write_text(text)
    record.write_text(whole)
    Drive("sdb").upload(random_model(9))
    load.check_each_minute(2)
    assert len(load.said) == 3 and "describes model " in load.said[2]


RULE_TEST = """
1m
linnos_switched_back_timestamp_seconds{device="sda",instance="i"} _x10 1795000000x20 stale
linnos_switched_back_timestamp_seconds{device="sdb",instance="i"} _x60
at 9m of LinnosSwitchedBack:
at 12m of LinnosSwitchedBack:
  LinnosSwitchedBack{device="sda",instance="i",severity="warning"}
at 40m of LinnosSwitchedBack:
"""


@needs_prometheus
def test_alert_fires_from_the_reset_until_enabled_again(tmp_path: Path) -> None:
    check_rules(tmp_path, RULE_TEST)
