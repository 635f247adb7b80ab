# SPDX-License-Identifier: MIT
"""Several things at a time: all of them done, in their order, each thread on one CPU."""

from __future__ import annotations

import os
import threading

import pytest

from eval.parallel import map_parallel


def test_results_are_in_the_order_of_the_items() -> None:
    assert map_parallel(lambda i: i * i, range(50), jobs=3, what="test") == [
        i * i for i in range(50)
    ]


def test_threads_stay_on_one_cpu_and_the_caller_does_not() -> None:
    before = os.sched_getaffinity(threading.get_native_id())
    both = threading.Barrier(2, timeout=30)

    def work(_: int) -> set[int]:
        both.wait()
        return os.sched_getaffinity(threading.get_native_id())

    held = map_parallel(work, range(2), jobs=2, what="test")
    assert all(len(cpus) == 1 for cpus in held)
    assert set().union(*held) == set(sorted(before)[:2])
    assert os.sched_getaffinity(threading.get_native_id()) == before


def test_an_error_ends_it() -> None:
    def work(i: int) -> int:
        if i == 3:
            raise ValueError("the third")
        return i

    with pytest.raises(ValueError, match="the third"):
        map_parallel(work, range(10), jobs=2, what="test")
