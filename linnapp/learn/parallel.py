# SPDX-License-Identifier: MIT
"""Run one task per drive, in as many processes as there are CPUs.

Each task receives an observer as its last argument. In another process, its calls are sent through
a pipe to the observer of the caller. When a :class:`Pool` or its process ends for any reason, all
worker processes are killed, because TensorFlow reacts to no other signal during a step. (An
executor of concurrent.futures waits for running tasks.) The only exception is a ctrl-C after which
results are kept: it is forwarded to the tasks, which can end early with a result.
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

#: Maximum delay in seconds until a request to end this program is noticed.
_LOOK_S = 0.2


@dataclasses.dataclass(frozen=True)
class Task:
    """A call of `function` with `arguments` and an observer. `name` identifies its result."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Pool:
    """Runs tasks, at most one per process at a time. Use it as a context.

    A task that has the same name as an earlier one runs in the same process, if that is idle, so
    that it finds what the earlier one has read. There are at most `processes`, by default the
    number of usable CPUs. A single task, or a single process, runs in the calling process.
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

        Functions and arguments of the tasks must be picklable. The tasks call methods of
        `observer`. If `keep_interrupted`, ctrl-C returns the available results, if there are any,
        instead of raising KeyboardInterrupt. Tasks that have not begun are dropped. A second ctrl-C
        ends everything. A worker process that ends unexpectedly raises LinnappError.
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
        left = list(tasks)
        done: dict[str, Any] = {}
        told = interrupted = False
        # Ensures that every started process is known and no message is received in part.
        with signals_held() as let_in:
            while len(self._workers) < limit:
                self._workers.append(_Worker())
            while True:
                for worker in self._workers[:limit]:
                    if left and worker.task is None:
                        worker.begin(left.pop(self._next(worker, left)))
                at_work = {worker.pipe: worker for worker in self._workers if worker.task}
                if not at_work:
                    return done, interrupted
                stopped = False
                for pipe in connection.wait(list(at_work), _LOOK_S):
                    worker = at_work[cast("connection.Connection", pipe)]
                    stopped |= worker.receive(done, observer)
                try:
                    let_in()
                except KeyboardInterrupt:
                    if told or not keep_interrupted:
                        raise
                    told = True
                # A ctrl-C that only one task has received applies to all tasks.
                if (told or stopped) and not interrupted:
                    if not keep_interrupted:
                        raise KeyboardInterrupt
                    interrupted = True
                    left.clear()
                    for worker in at_work.values():
                        os.kill(worker.pid, signal.SIGINT)

    def _next(self, worker: _Worker, left: list[Task]) -> int:
        """Return the index of the next task of a process: one that it knows, or no process does."""
        known = set().union(*(other.names for other in self._workers))
        for wanted in (worker.names, {task.name for task in left} - known):
            for at, task in enumerate(left):
                if task.name in wanted:
                    return at
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
        self.pipe, theirs = context.Pipe()
        self.task: Task | None = None
        #: Names of the tasks that it has run.
        self.names: set[str] = set()
        self._process = context.Process(target=_work, args=(theirs, os.getpid()), daemon=True)
        # Ctrl-C must wait until the process can handle it. The call that would unblock it is made
        # before.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
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
            what, value = self.pipe.recv()
        except (EOFError, OSError) as error:
            self._process.join()
            code = self._process.exitcode or 0
            by = signal.Signals(-code).name if code < 0 else f"with status {code}"
            raise LinnappError(
                f"{self.task.name}: its process has ended ({by}); if memory was short, fewer "
                "`processes=` need less"
            ) from error
        if isinstance(what, str):
            getattr(observer, what)(*value)
            return False
        if what is None:
            done[self.task.name] = value
        elif not isinstance(what, KeyboardInterrupt):
            raise what
        self.task = None
        return what is not None or _was_interrupted(value)

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

    Ctrl-C is received twice, from the terminal and from the caller, and interrupts a task once. If
    the caller ignores SIGINT, as in the background of a script, the worker ignores it, too.
    """
    end_with_parent(signal.SIGKILL)
    if os.getppid() != caller:
        return
    told = in_task = False

    def interrupt(*_: object) -> None:
        nonlocal told
        if in_task and not told:
            told = True
            raise KeyboardInterrupt
        told = True

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
            if told:
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
