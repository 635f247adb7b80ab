# SPDX-License-Identifier: MIT
"""Work on several things at a time, with a line that says how far it is."""

from __future__ import annotations

import itertools
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

Item = TypeVar("Item")
Done = TypeVar("Done")

#: Between lines where the output is no terminal.
_QUIET_S = 15.0


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Progress:
    """One line for one stage of an experiment.

    Parameters
    ----------
    what : str
    total : int
    """

    def __init__(self, what: str, total: int) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self.start = time.monotonic()
        self._shown = -_QUIET_S

    def step(self) -> None:
        """One more is done."""
        self.done += 1
        now = time.monotonic()
        elapsed = now - self.start
        last = self.done == self.total
        if not sys.stderr.isatty() and not last and now - self._shown < _QUIET_S:
            return
        self._shown = now
        left = elapsed / self.done * (self.total - self.done)
        line = f"{self.what}: {self.done}/{self.total}, {_clock(elapsed)}"
        if not last:
            line += f", about {_clock(left)} left"
        if sys.stderr.isatty():
            print(f"\r\033[K{line}", end="\n" if last else "", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)


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
    progress = Progress(what, len(listed))
    cpus: queue.SimpleQueue[int] = queue.SimpleQueue()
    for _, cpu in zip(range(jobs), itertools.cycle(sorted(os.sched_getaffinity(0))), strict=False):
        cpus.put(cpu)
    with ThreadPoolExecutor(max_workers=jobs, initializer=lambda: _stay_on(cpus.get())) as pool:
        futures = {pool.submit(work, item): i for i, item in enumerate(listed)}
        try:
            for future in as_completed(futures):
                results[futures[future]] = future.result()
                progress.step()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [results[i] for i in range(len(listed))]
