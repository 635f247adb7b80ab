# SPDX-License-Identifier: MIT
"""Runs one task per drive, in as many processes as there are CPUs.

Each task gets an observer as its last argument; in another process its calls travel through a
queue to the caller's. Ctrl-C reaches every process of the terminal: a task that can end early
with a result does so, tasks that have not begun are dropped.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Task:
    """A call of `function` with `arguments` and an observer; `name` stands for its result."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def run_tasks(
    tasks: Sequence[Task], observer: Any, processes: int | None = None
) -> tuple[dict[str, Any], bool]:
    """Run tasks and collect their results; once one raises, those that have not begun are dropped.

    Parameters
    ----------
    tasks : sequence of Task
        Functions and arguments that can be pickled.
    observer : object
        Its methods are called from the tasks.
    processes : int, optional
        At most so many; the number of usable CPUs unless given. One task, or one process, runs
        in the caller itself.

    Returns
    -------
    dict
        Result by task name, in the order of the tasks; after ctrl-C only of those that had one.
    bool
        Whether ctrl-C came.
    """
    limit = processes or len(os.sched_getaffinity(0))
    if min(limit, len(tasks)) == 1:
        return _run_here(tasks, observer)
    context = multiprocessing.get_context("spawn")
    events = context.Queue()
    forwarder = threading.Thread(target=_forward, args=(events, observer), daemon=True)
    forwarder.start()
    interrupted = False
    done: dict[str, Any] = {}
    with concurrent.futures.ProcessPoolExecutor(
        min(limit, len(tasks)), context, initializer=_prepare, initargs=(events,)
    ) as pool:
        futures = {pool.submit(_run_there, task): task.name for task in tasks}
        pending = set(futures)
        try:
            while pending:
                try:
                    finished, pending = concurrent.futures.wait(
                        pending, return_when=concurrent.futures.FIRST_COMPLETED
                    )
                except KeyboardInterrupt:
                    interrupted = True
                    pending = {future for future in pending if not future.cancel()}
                    continue
                for future in finished:
                    with contextlib.suppress(KeyboardInterrupt):
                        done[futures[future]] = future.result()
        except BaseException:
            for future in pending:
                future.cancel()
            raise
    events.put(None)
    forwarder.join()
    return {task.name: done[task.name] for task in tasks if task.name in done}, interrupted


def _run_here(tasks: Sequence[Task], observer: Any) -> tuple[dict[str, Any], bool]:
    done = {}
    for task in tasks:
        try:
            done[task.name] = task.function(*task.arguments, observer)
        except KeyboardInterrupt:
            return done, True
        # A task that turned ctrl-C into a result says so; the ones after it are not begun.
        if getattr(done[task.name], "interrupted", False):
            return done, True
    return done, False


class _RemoteObserver:
    """Sends every call of a method through the queue."""

    def __init__(self, events: Any) -> None:
        self._events = events

    def __getattr__(self, method: str) -> Callable[..., None]:
        def send(*arguments: Any) -> None:
            self._events.put((method, arguments))

        return send


_events: Any = None


def _prepare(events: Any) -> None:
    """In a worker: ctrl-C must not kill it between tasks, which would break the pool."""
    global _events
    _events = events
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run_there(task: Task) -> Any:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return task.function(*task.arguments, _RemoteObserver(_events))
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _forward(events: Any, observer: Any) -> None:
    while (event := events.get()) is not None:
        method, arguments = event
        getattr(observer, method)(*arguments)
