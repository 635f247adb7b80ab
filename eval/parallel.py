# SPDX-License-Identifier: MIT
"""Work on several things at a time."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from eval.progress import counting

Item = TypeVar("Item")
Done = TypeVar("Done")


def _stay_on(cpu: int) -> None:
    """Keep this thread, and what it starts, on one CPU.

    A guest is two processes that take turns, the kernel and what runs on it; each turn costs more
    when it goes to another CPU.
    """
    os.sched_setaffinity(threading.get_native_id(), {cpu})


def map_parallel(
    work: Callable[[Item], Done], items: Iterable[Item], *, jobs: int, what: str
) -> list[Done]:
    """Apply a function to items, several at a time.

    The work is to be done by other processes (guests, trainings); the threads
    here only wait for them.

    Returns
    -------
    list
        In the order of the items.

    Raises
    ------
    Exception
        The first that the function raised; what had not begun is dropped.
    """
    listed = list(items)
    results: dict[int, Done] = {}
    cpus: queue.SimpleQueue[int] = queue.SimpleQueue()
    for _, cpu in zip(range(jobs), itertools.cycle(sorted(os.sched_getaffinity(0))), strict=False):
        cpus.put(cpu)
    with (
        counting(what, len(listed)) as one_more,
        ThreadPoolExecutor(max_workers=jobs, initializer=lambda: _stay_on(cpus.get())) as pool,
    ):
        futures = {pool.submit(work, item): i for i, item in enumerate(listed)}
        try:
            for future in as_completed(futures):
                results[futures[future]] = future.result()
                one_more()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [results[i] for i in range(len(listed))]
