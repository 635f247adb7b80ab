# SPDX-License-Identifier: MIT
"""Work on several things at a time."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Generic, TypeVar

from eval.progress import counting
from linnapp.lab.guest import end_all

Item = TypeVar("Item")
Done = TypeVar("Done")


class Step(Generic[Done]):
    """A part of some work; see :meth:`Work.add`.

    Attributes
    ----------
    result
        What the call returned; there is none before the work is done.
    """

    result: Done

    def __init__(self, what: str, call: Callable[[], Done], after: tuple[Step[Any], ...]) -> None:
        self.what = what
        self.call = call
        self.after = after


class Work:
    """Steps, at most `jobs` at a time, some of which need what others leave.

    A step begins as soon as those that it comes after are done and a CPU is free. Of several that
    could, the first that was added does: so no CPU waits for the last of one kind of step where
    there is another kind to go on with. `name` stands before what is told of the steps.
    """

    def __init__(self, jobs: int, name: str = "") -> None:
        self._jobs = jobs
        self._name = name
        self._steps: list[Step[Any]] = []

    def add(
        self, what: str, call: Callable[[], Done], after: Iterable[Step[Any]] = ()
    ) -> Step[Done]:
        """Add a step, whose work is in other processes; the threads here only wait for them."""
        step = Step(what, call, tuple(after))
        self._steps.append(step)
        return step

    def do(self) -> None:
        """Do all steps; once one raises something, what had not begun is dropped."""
        cpus: queue.SimpleQueue[int] = queue.SimpleQueue()
        allowed = itertools.cycle(sorted(os.sched_getaffinity(0)))
        for cpu in itertools.islice(allowed, self._jobs):
            cpus.put(cpu)
        left = list(self._steps)
        kinds = Counter(f"{self._name}{step.what}" for step in left)
        done: set[Step[Any]] = set()
        running: dict[Future[Any], Step[Any]] = {}
        with (
            counting(kinds) as count,
            ThreadPoolExecutor(self._jobs, initializer=lambda: _stay_on(cpus.get())) as pool,
        ):
            try:
                while left or running:
                    ready = (step for step in left if done.issuperset(step.after))
                    for step in list(itertools.islice(ready, self._jobs - len(running))):
                        left.remove(step)
                        count.begin(f"{self._name}{step.what}")
                        running[pool.submit(step.call)] = step
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        step = running.pop(future)
                        step.result = future.result()
                        done.add(step)
                        count.end(f"{self._name}{step.what}")
            except BaseException:
                # The pool waits for what runs, and that for its guests.
                pool.shutdown(wait=False, cancel_futures=True)
                end_all()
                raise


def _stay_on(cpu: int) -> None:
    """Keep this thread, and what it starts, on one CPU.

    A guest is two processes that take turns, the kernel and what runs on it; each turn costs more
    when it goes to another CPU.
    """
    os.sched_setaffinity(threading.get_native_id(), {cpu})


def map_parallel(
    work: Callable[[Item], Done], items: Iterable[Item], *, jobs: int, what: str
) -> list[Done]:
    """Apply a function to items, several at a time; see :meth:`Work.add`."""
    all_of_it = Work(jobs)
    steps = [all_of_it.add(what, partial(work, item)) for item in items]
    all_of_it.do()
    return [step.result for step in steps]
