# SPDX-License-Identifier: MIT
"""Work of experiments: steps in order, persistent workers, and progress in a log."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eval import research, workers
from eval.cells import PAPER_TRAINING
from linnapp.lab.work import Step, StepError, Work, map_parallel
from linnapp.learn.options import LabellingOptions, Recipe, TrainingOptions


def test_steps_begin_when_those_before_them_are_done_and_wait_for_no_others() -> None:
    work, begun = Work(2), list[str]()
    goes_on = threading.Event()

    def add(name: str, *after: Step[str]) -> Step[str]:
        def call() -> str:
            begun.append(name)
            return "".join(step.result for step in after) + name

        return work.add("test", call, list(after))

    first, second = add("a"), add("b")
    last = add("d", add("c", first, second))
    # With a barrier between the kinds it would never end.
    waiting = work.add("recording", lambda: goes_on.wait(600))
    work.add("replaying", goes_on.set, [last])
    work.do()
    assert last.result == "abcd" and waiting.result
    assert begun[2:] == ["c", "d"]


def test_no_task_starts_after_an_error() -> None:
    work, begun = Work(1), list[str]()

    def fail() -> None:
        raise ValueError("no")

    failing = work.add("test", fail)
    work.add("test", lambda: begun.append("after"), [failing])
    work.add("test", lambda: begun.append("other"))
    with pytest.raises(ValueError, match="no"):
        work.do()
    assert begun == []


@pytest.fixture(autouse=True)
def _stopped_afterwards() -> Iterator[None]:
    yield
    workers.stop()


def test_worker_is_not_pinned_to_the_cpu_of_its_caller() -> None:
    (cpus,) = map_parallel(
        lambda which: workers.call(os.sched_getaffinity, which), [0], jobs=1, what="test"
    )
    assert cpus == os.sched_getaffinity(os.getpid())
    assert workers.call(os.getenv, "OPENBLAS_NUM_THREADS") == "1"


def test_a_failed_training_says_why(tmp_path: Path) -> None:
    with pytest.raises(StepError, match=r"nothing\.blk"):
        workers.train([tmp_path / "nothing.blk"], tmp_path / "models", tmp_path / "train.txt")
    assert not (tmp_path / "models").exists()


def test_options_of_experiments_reach_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Recipe] = []

    def train_array(_: object, __: object, recipe: Recipe, **more: object) -> dict[str, Any]:
        asked.append(recipe)
        return {"d": SimpleNamespace(record_={"auc": 0.5})}

    monkeypatch.setattr("linnapp.learn.fit.train_array", train_array)
    (tmp_path / "d.blk").touch()
    for options in ((), PAPER_TRAINING):
        arguments = ["--trace", str(tmp_path / "d.blk"), "-o", str(tmp_path), "--kind", "network"]
        research.command.main([*arguments, *options], standalone_mode=False)
    reader = {"device": None, "allow_truncated": False}
    assert asked[0] == Recipe(reader=reader)
    assert asked[1] == Recipe(
        LabellingOptions(search="paper"), TrainingOptions(bias=5.0, burst_share=0.0),
        labels="paper", auto_bias=False, max_refused=1.0, reader=reader,
    )  # fmt: skip
