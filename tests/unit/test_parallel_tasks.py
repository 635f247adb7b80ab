# SPDX-License-Identifier: MIT
"""Tasks in separate processes: how they end, and how errors and results are returned."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import waiting_tasks

from linnapp.errors import LinnappError
from linnapp.learn.parallel import Pool, Task

ROOT = Path(__file__).parents[2]


def run_tasks(tasks: list[Task], observer: Any, processes: int, **options: Any) -> dict[str, Any]:
    with Pool(processes) as pool:
        return pool.run(tasks, observer, **options)


class Observer:
    """Interrupt the process of one task, as `kill` of that process does."""

    def begun(self, pid: int) -> None:
        os.kill(pid, signal.SIGINT)


def _begin_and_wait(seconds: float, observer: Any) -> float:
    observer.begun(os.getpid())
    time.sleep(seconds)
    return seconds


def _wait(seconds: float, _: Any) -> float:
    time.sleep(seconds)
    return seconds


@pytest.mark.parametrize("keeps", [False, True])
def test_ctrl_c_in_one_task_ends_all_tasks(keeps: bool) -> None:
    tasks = [Task("a", _begin_and_wait, (600.0,)), Task("b", _wait, (600.0,))]
    with pytest.raises(KeyboardInterrupt):
        run_tasks(tasks, Observer(), 2, keep_interrupted=keeps)


class OfTwoError(Exception):
    """An error that can be pickled but not unpickled."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


def _fails(how: str, _: Any) -> Any:
    if how == "of two":
        raise OfTwoError(1, 2)
    if how == "a lock":
        error = LinnappError("the reason")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise error
    if how == "plain":
        raise ValueError("the reason")
    return threading.Lock()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("of two", "1 and 2"),
        ("a lock", "the reason"),
        ("plain", "the reason"),
        ("result", "cannot pickle '_thread.lock'"),
    ],
)
def test_error_is_raised_even_if_it_cannot_be_pickled(how: str, message: str) -> None:
    with pytest.raises((RuntimeError, ValueError, TypeError), match=message) as caught:
        run_tasks([Task("a", _fails, (how,)), Task("b", _wait, (600.0,))], None, 2)
    texts = [str(caught.value), *getattr(caught.value, "__notes__", ())]
    assert how == "result" or any("in _fails" in text for text in texts), "where it was"


def test_killed_parent_ends_its_processes(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, waiting_tasks.__file__],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    begun = waiting_tasks.begun(process, tmp_path)
    process.kill()
    process.wait()
    pids = [int(path.read_text()) for path in begun]
    # Without an interrupt they would run for 600 s.
    patience = time.monotonic() + 300
    try:
        while (running := [pid for pid in pids if _runs(pid)]) and time.monotonic() < patience:
            time.sleep(0.01)
        assert not running
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_second_ctrl_c_ends_processes_that_keep_their_results(tmp_path: Path) -> None:
    script = (
        "import sys; from linnapp import cli; sys.argv = ['linnapp', 'wait']\n"
        "cli._COMMANDS['wait'] = ''; cli._ELSEWHERE['wait'] = 'waiting_tasks'; cli.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{Path(__file__).parent}"},
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    begun = waiting_tasks.begun(process, tmp_path)
    process.send_signal(signal.SIGINT)
    while process.poll() is None and not all(Path(f"{path}.told").exists() for path in begun):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=600)
    assert process.returncode == 128 + signal.SIGINT and b"Traceback" not in stderr
    assert not any(_runs(int(path.read_text())) for path in begun)


def _runs(pid: int) -> bool:
    try:
        stat = Path("/proc", str(pid), "stat").read_text()
    except FileNotFoundError:
        return False
    # The process that reaps orphans may not do so at once.
    return stat.rpartition(")")[2].split()[0] != "Z"
