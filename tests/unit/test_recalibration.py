# SPDX-License-Identifier: MIT
"""Recalibration: when it retrains, and that a drive always keeps a working model."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import numpy as np
import pytest
from fake_sysfs import activate_what_is_written, make_tree
from test_model_format import random_model
from test_training import array_trace

from linnapp import recalibration
from linnapp.array_training import LabellingOptions, Recipe, label_array
from linnapp.errors import LinnappError
from linnapp.inflection import LatencyDistribution
from linnapp.model import Model
from linnapp.recalibration import decide, recalibrate
from linnapp.sysfs import Drive
from linnapp.training import TrainingOptions

RECIPE = Recipe(training=TrainingOptions(max_epochs=2), auto_bias=False)


def uniform(n: int = 10_000) -> LatencyDistribution:
    return LatencyDistribution(np.arange(n) % 1000)


@pytest.mark.parametrize(
    ("active_us", "retrain"), [(900, False), (941, False), (951, True), (840, True), (None, True)]
)
def test_five_percentiles(active_us: int | None, retrain: bool) -> None:
    distribution = uniform()
    (point,) = label_array([distribution], LabellingOptions(threshold_us=900), 1)
    decision = decide("sda", active_us, distribution, point)
    assert decision.retrain == retrain
    if active_us is not None:
        expected = abs(active_us - 900) / 10
        assert decision.shift_percentiles == pytest.approx(expected, abs=0.11)
        assert f"threshold, {active_us} us" in decision.reason


def test_too_few_reads_change_nothing() -> None:
    distribution = uniform(100)
    (point,) = label_array([distribution], LabellingOptions(threshold_us=90), 1)
    assert not decide("sda", 10, distribution, point).retrain


@pytest.fixture
def array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_tree(tmp_path / "sys", monkeypatch)
    activate_what_is_written(tmp_path / "sys", monkeypatch)
    monkeypatch.setenv("LINNAPP_STATE", str(tmp_path / "state"))
    # One CPU: training happens in this process, without the start of others.
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    (tmp_path / "rec").mkdir()
    for i, disk in enumerate(("sda", "sdb")):
        array_trace(tmp_path / "rec" / f"{disk}.blk", i + 1)
    return tmp_path


def run(array: Path) -> tuple[list[recalibration.Decision], list[str]]:
    lines: list[str] = []
    decisions = recalibrate(
        [Path("sda"), Path("sdb")],
        array / "models",
        RECIPE,
        duration_s=1,
        recordings=array / "rec",
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
    assert all("keep: the active threshold" in line for line in lines)

    Drive("sda").upload(random_model(threshold_us=50))  # far below the point of this recording
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


@pytest.mark.parametrize("where", ["read_latencies", "train_labelled", "_upload"])
@pytest.mark.parametrize("how", [KeyboardInterrupt, LinnappError("no luck")])
def test_ending_at_any_step_leaves_the_active_models(
    array: Path, monkeypatch: pytest.MonkeyPatch, where: str, how: BaseException
) -> None:
    old = random_model(threshold_us=50)
    for disk in "sda", "sdb":
        Drive(disk).upload(old)

    def end(*_: object, **__: object) -> None:
        raise how

    monkeypatch.setattr(recalibration, where, end)
    with pytest.raises((KeyboardInterrupt, LinnappError)):
        run(array)
    for disk in "sda", "sdb":
        assert Drive(disk).read_model() == old.to_bytes()
    assert not [p for p in (array / "models").iterdir() if p.is_dir() and p.name.startswith(".")]


def test_what_killed_runs_left_is_removed(array: Path) -> None:
    left = [array / "models" / name for name in (".recording.x", ".20260101-000000.y")]
    for path in left:
        path.mkdir(parents=True)
        (path / "file").touch()
    run(array)
    assert not any(path.exists() for path in left)


def test_only_drives_that_moved_are_trained(array: Path) -> None:
    run(array)
    (first,) = (p for p in (array / "models").iterdir() if p.is_dir())
    first.rename(array / "elsewhere")  # the next run may have the same second as its name
    Drive("sda").upload(random_model(threshold_us=50))
    _, lines = run(array)
    assert "training sda" in lines
    (out,) = (p for p in (array / "models").iterdir() if p.is_dir())
    assert sorted(path.name for path in out.iterdir()) == ["sda.json", "sda.linnos"]


def test_two_at_once_do_not_meet(array: Path) -> None:
    (array / "models").mkdir()
    with (array / "models" / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LinnappError, match="another recalibration is running"):
            run(array)
    run(array)
