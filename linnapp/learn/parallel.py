# SPDX-License-Identifier: MIT
"""Run one task per drive, in as many processes as there are CPUs.

Each task receives an observer as its last argument. In another process, method calls of the
observer are sent through a pipe to the observer of the caller.

When a :class:`Pool` or its process ends for any reason, all worker processes are killed, because
TensorFlow reacts to no other signal during a training step. This is the reason why no executor of
concurrent.futures is used: it waits for running tasks. The only exception is a ctrl-C after which
results are kept. It is forwarded to the tasks, which can end early with a result.
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import connection, resource_tracker
from typing import Any, cast

from linnapp.errors import LinnappError
from linnapp.signals import end_with_parent, signals_held

#: Maximum delay in seconds until a signal is handled.
_POLL_S = 0.2


@dataclasses.dataclass(frozen=True)
class Task:
    """A call of `function` with `arguments` and an observer. `name` identifies its result."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Pool:
    """Runs tasks, at most one per process at a time. Use it as a context.

    A task that has the same name as an earlier one runs in the same process, if that is idle, so
    that it can use the recording that the earlier one has read. There are at most `processes`, by
    default the number of usable CPUs. If one process suffices, tasks run in the calling process.
    """

    def __init__(self, processes: int | None = None) -> None:
        self._processes = processes or len(os.sched_getaffinity(0))
        self._workers: list[_Worker] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        with signals_held():
            for worker in self._workers:
                worker.end()
            self._workers.clear()

    def run(
        self, tasks: Sequence[Task], observer: Any, *, keep_interrupted: bool = False
    ) -> dict[str, Any]:
        """Run tasks and return their results by name, in the order of the tasks.

        Parameters
        ----------
        tasks : sequence of Task
            Their functions and arguments must be picklable.
        observer : object
            The tasks call its methods.
        keep_interrupted : bool
            After ctrl-C, drop the tasks that have not begun and return the available results, if
            there are any. A second ctrl-C raises KeyboardInterrupt.

        Raises
        ------
        LinnappError
            If a worker process ends unexpectedly.
        KeyboardInterrupt
            After ctrl-C, unless results are kept.
        """
        limit = min(self._processes, len(tasks))
        if limit == 1:
            done, interrupted = _run_here(tasks, observer)
        else:
            done, interrupted = self._run_apart(tasks, observer, limit, keep_interrupted)
        if interrupted and not (done and keep_interrupted):
            raise KeyboardInterrupt
        return {task.name: done[task.name] for task in tasks if task.name in done}

    def _run_apart(
        self, tasks: Sequence[Task], observer: Any, limit: int, keep_interrupted: bool
    ) -> tuple[dict[str, Any], bool]:
        waiting = list(tasks)
        done: dict[str, Any] = {}
        # Whether this process has received ctrl-C, and whether the tasks have been interrupted.
        received = interrupted = False
        # Signals are held, so that every started process is known and every message is complete.
        with signals_held() as deliver_signals:
            while len(self._workers) < limit:
                self._workers.append(_Worker())
            while True:
                for worker in self._workers[:limit]:
                    if waiting and worker.task is None:
                        worker.begin(waiting.pop(self._next(worker, waiting)))
                busy = {worker.pipe: worker for worker in self._workers if worker.task}
                if not busy:
                    return done, interrupted
                stopped = False
                for pipe in connection.wait(list(busy), _POLL_S):
                    worker = busy[cast("connection.Connection", pipe)]
                    stopped |= worker.receive(done, observer)
                try:
                    deliver_signals()
                except KeyboardInterrupt:
                    if received or not keep_interrupted:
                        raise
                    received = True
                # A ctrl-C that only one task has received applies to all tasks.
                if (received or stopped) and not interrupted:
                    if not keep_interrupted:
                        raise KeyboardInterrupt
                    interrupted = True
                    waiting.clear()
                    for worker in busy.values():
                        os.kill(worker.pid, signal.SIGINT)

    def _next(self, worker: _Worker, waiting: list[Task]) -> int:
        """Return the index of the next task of a process.

        Preferred are names of tasks that the process has run, then names that no process has run.
        """
        known = set().union(*(other.names for other in self._workers))
        for preferred in (worker.names, {task.name for task in waiting} - known):
            for index, task in enumerate(waiting):
                if task.name in preferred:
                    return index
        return 0


def _run_here(tasks: Sequence[Task], observer: Any) -> tuple[dict[str, Any], bool]:
    done = {}
    for task in tasks:
        try:
            done[task.name] = task.function(*task.arguments, observer)
        except KeyboardInterrupt:
            return done, True
        # The remaining tasks are not started.
        if _was_interrupted(done[task.name]):
            return done, True
    return done, False


def _was_interrupted(result: Any) -> bool:
    """Return true if ctrl-C ended a task early and the task returned a result nevertheless."""
    return bool(getattr(result, "interrupted", False))


class _Worker:
    """A process that runs one task after another."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, workers_end = context.Pipe()
        self.task: Task | None = None
        #: Names of the tasks that it has run.
        self.names: set[str] = set()
        self._process = context.Process(target=_work, args=(workers_end, os.getpid()), daemon=True)
        # SIGINT is blocked until the new process can handle it. The start of the resource tracker
        # would unblock it, so the tracker is started before.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        workers_end.close()
        self.pid = cast("int", self._process.pid)

    def begin(self, task: Task) -> None:
        self.task = task
        self.names.add(task.name)
        # The error is detected when the result is received.
        with contextlib.suppress(BrokenPipeError):
            self.pipe.send(task)

    def receive(self, done: dict[str, Any], observer: Any) -> bool:
        """Receive an observer call or a result; return true if ctrl-C ended the task early."""
        assert self.task is not None
        try:
            method_or_error, value = self.pipe.recv()
        except (EOFError, OSError) as error:
            self._process.join()
            code = self._process.exitcode or 0
            by = signal.Signals(-code).name if code < 0 else f"with status {code}"
            raise LinnappError(
                f"{self.task.name}: its process has ended ({by}); if memory was exhausted, use "
                "fewer `processes=`"
            ) from error
        if isinstance(method_or_error, str):
            getattr(observer, method_or_error)(*value)
            return False
        if method_or_error is None:
            done[self.task.name] = value
        elif not isinstance(method_or_error, KeyboardInterrupt):
            raise method_or_error
        self.task = None
        return method_or_error is not None or _was_interrupted(value)

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


class _RemoteObserver:
    """Forwards all method calls through the pipe."""

    def __init__(self, pipe: connection.Connection) -> None:
        self._pipe = pipe

    def __getattr__(self, method: str) -> Callable[..., None]:
        def send(*arguments: Any) -> None:
            with signals_held():
                self._pipe.send((method, arguments))

        return send


def _work(pipe: connection.Connection, caller: int) -> None:
    """Run the tasks received from the pipe until it is closed or the calling process has ended.

    The worker receives ctrl-C twice, from the terminal and from the caller, but interrupts a task
    only once. If the caller ignores SIGINT, as in the background of a script, the worker ignores
    it, too.
    """
    end_with_parent(signal.SIGKILL)
    if os.getppid() != caller:
        return
    received = in_task = False

    def interrupt(*_: object) -> None:
        nonlocal received
        is_first, received = not received, True
        if in_task and is_first:
            raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        outcome: tuple[BaseException | None, Any]
        try:
            in_task = True
            if received:
                raise KeyboardInterrupt
            outcome = None, task.function(*task.arguments, _RemoteObserver(pipe))
        except BaseException as error:
            outcome = _sendable(error), None
        in_task = False
        try:
            pipe.send(outcome)
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            pipe.send((_sendable(error), None))


def _sendable(error: BaseException) -> BaseException:
    """Return an exception that represents a task's error in the caller, with its traceback."""
    where = traceback.format_exc()
    if not isinstance(error, (LinnappError, KeyboardInterrupt)):
        error.add_note(where)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(where)
    return error
