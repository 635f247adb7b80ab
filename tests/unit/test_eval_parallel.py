# SPDX-License-Identifier: MIT
"""Parallel tasks: all are done, results keep their order, each thread stays on one CPU."""

from __future__ import annotations

import os
import threading

import pytest

from linnapp.lab.work import Step, Work, map_parallel


def test_results_are_in_the_order_of_the_items() -> None:
    assert map_parallel(lambda i: i * i, range(50), jobs=3, what="test") == [
        i * i for i in range(50)
    ]


def test_threads_stay_on_one_cpu_and_the_caller_does_not() -> None:
    before = os.sched_getaffinity(threading.get_native_id())
    both = threading.Barrier(2, timeout=600)

    def work(_: int) -> set[int]:
        both.wait()
        return os.sched_getaffinity(threading.get_native_id())

    held = map_parallel(work, range(2), jobs=2, what="test")
    assert all(len(cpus) == 1 for cpus in held)
    assert set().union(*held) == set(sorted(before)[:2])
    assert os.sched_getaffinity(threading.get_native_id()) == before


def test_error_ends_the_parallel_work() -> None:
    def work(i: int) -> int:
        if i == 3:
            raise ValueError("the third")
        return i

    with pytest.raises(ValueError, match="the third"):
        map_parallel(work, range(10), jobs=2, what="test")


def test_a_step_begins_when_those_before_it_are_done() -> None:
    work = Work(2)
    begun: list[str] = []
    steps: dict[str, Step[str]] = {}

    def add(name: str, *after: str) -> None:
        def call() -> str:
            begun.append(name)
            return "".join(steps[other].result for other in after) + name

        steps[name] = work.add("test", call, [steps[other] for other in after])

    add("a")
    add("b")
    add("c", "a", "b")
    add("d", "c")
    work.do()
    assert steps["d"].result == "abcd"
    assert begun[2:] == ["c", "d"]


def test_no_cpu_waits_for_the_last_of_a_kind() -> None:
    work = Work(2)
    goes_on = threading.Event()
    last = work.add("recording", lambda: goes_on.wait(600))
    ready = work.add("recording", lambda: None)
    work.add("replaying", goes_on.set, [ready])
    work.do()
    # With a barrier between the kinds it would never have ended.
    assert last.result


def test_ready_tasks_start_in_the_order_of_their_addition() -> None:
    work = Work(1)
    begun: list[int] = []
    first = work.add("test", lambda: begun.append(0))
    for i in (1, 2):
        work.add("test", lambda i=i: begun.append(i), [first])
    work.add("test", lambda: begun.append(3))
    work.do()
    assert begun == [0, 1, 2, 3]


def test_no_task_starts_after_an_error() -> None:
    work = Work(1)
    begun: list[str] = []

    def fail() -> None:
        raise ValueError("no")

    failing = work.add("test", fail)
    work.add("test", lambda: begun.append("after"), [failing])
    work.add("test", lambda: begun.append("beside"))
    with pytest.raises(ValueError, match="no"):
        work.do()
    assert begun == []
