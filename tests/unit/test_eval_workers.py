# SPDX-License-Identifier: MIT
"""Workers: separate processes with one thread each, whose errors reach the caller."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from eval import research, workers
from eval.cells import PAPER_TRAINING
from linnapp.lab.work import StepError, map_parallel
from linnapp.learn.labels import LabellingOptions
from linnapp.learn.network import TrainingOptions
from linnapp.learn.options import Recipe


@pytest.fixture(autouse=True)
def _stopped_afterwards() -> Iterator[None]:
    yield
    workers.stop()


def test_worker_is_a_persistent_process() -> None:
    first = workers.call(os.getpid)
    assert first != os.getpid()
    assert workers.call(os.getpid) == first


def test_stopped_worker_is_replaced() -> None:
    first = workers.call(os.getpid)
    workers.stop()
    assert workers.call(os.getpid) != first


def test_worker_is_not_pinned_to_the_cpu_of_its_caller() -> None:
    (cpus,) = map_parallel(
        lambda which: workers.call(os.sched_getaffinity, which), [0], jobs=1, what="test"
    )
    assert cpus == os.sched_getaffinity(os.getpid())
    assert workers.call(os.getenv, "OPENBLAS_NUM_THREADS") == "1"


def test_call_raises_the_exception_of_the_function() -> None:
    with pytest.raises(ZeroDivisionError):
        workers.call(operator.truediv, 1, 0)


def test_a_failed_training_says_why(tmp_path: Path) -> None:
    with pytest.raises(StepError, match=r"nothing\.blk"):
        workers.train([tmp_path / "nothing.blk"], tmp_path / "models", tmp_path / "train.txt")
    assert not (tmp_path / "models").exists()


def test_options_of_experiments_reach_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Recipe] = []

    def train_array(_: object, __: object, recipe: Recipe, **more: object) -> list[str]:
        asked.append(recipe)
        return ["d"]

    monkeypatch.setattr("linnapp.learn.fit.train_array", train_array)
    for options in ((), PAPER_TRAINING):
        arguments = ["--trace", str(tmp_path / "d.blk"), "-o", str(tmp_path), *options]
        research.command.main(arguments, standalone_mode=False)
    reader = {"device": None, "allow_truncated": False}
    assert asked[0] == Recipe(reader=reader)
    assert asked[1] == Recipe(
        LabellingOptions(search="paper"), TrainingOptions(bias=5.0, burst_share=0.0),
        labels="paper", auto_bias=False, max_refused=1.0, reader=reader,
    )  # fmt: skip
