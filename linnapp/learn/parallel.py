# SPDX-License-Identifier: MIT
"""Runs one task per drive, in as many processes as there are CPUs.

Each task gets an observer as its last argument; in another process its calls travel through a pipe
to the caller's. Whatever ends :func:`run_tasks`, or its process, no process is left of it: they are
killed, for TensorFlow in the middle of a step heeds nothing else. (An executor of
concurrent.futures waits for what they do.) The one exception is a ctrl-C that is to keep results:
it is passed on to tasks, which may end early with one.
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

#: How long what ends this program waits at most.
_LOOK_S = 0.2


@dataclasses.dataclass(frozen=True)
class Task:
    """A call of `function` with `arguments` and an observer; `name` stands for its result."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def run_tasks(
    tasks: Sequence[Task],
    observer: Any,
    processes: int | None = None,
    *,
    keep_interrupted: bool = False,
) -> dict[str, Any]:
    """Run tasks and collect their results by name, in the order of the tasks.

    Their functions and arguments can be pickled, and `observer`'s methods are called from them.
    There are at most so many `processes`, as many as usable CPUs unless given; one task, or one
    process, runs in the caller itself. After ctrl-C KeyboardInterrupt is raised, or with
    `keep_interrupted` the results are returned that there are, if any; tasks that have not begun
    are dropped. Ctrl-C once more ends all.
    """
    limit = min(processes or len(os.sched_getaffinity(0)), len(tasks))
    if limit == 1:
        done, interrupted = _run_here(tasks, observer)
    else:
        done, interrupted = _run_apart(tasks, observer, limit, keep_interrupted)
    if interrupted and not (done and keep_interrupted):
        raise KeyboardInterrupt
    return {task.name: done[task.name] for task in tasks if task.name in done}


def _run_here(tasks: Sequence[Task], observer: Any) -> tuple[dict[str, Any], bool]:
    done = {}
    for task in tasks:
        try:
            done[task.name] = task.function(*task.arguments, observer)
        except KeyboardInterrupt:
            return done, True
        # The ones after it are not begun.
        if _was_interrupted(done[task.name]):
            return done, True
    return done, False


def _was_interrupted(result: Any) -> bool:
    """Whether a task turned ctrl-C into its result, which then says so."""
    return bool(getattr(result, "interrupted", False))


def _run_apart(
    tasks: Sequence[Task], observer: Any, limit: int, keep_interrupted: bool
) -> tuple[dict[str, Any], bool]:
    left = list(reversed(tasks))
    done: dict[str, Any] = {}
    workers: list[_Worker] = []
    told = interrupted = False
    # So that no process begins unknown, and no message is received by half.
    with signals_held() as let_in:
        try:
            while len(workers) < limit:
                workers.append(_Worker())
            while True:
                for worker in workers:
                    if left and worker.task is None:
                        worker.begin(left.pop())
                at_work = {worker.pipe: worker for worker in workers if worker.task is not None}
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
                # One that a task alone was told of is for all, too.
                if (told or stopped) and not interrupted:
                    if not keep_interrupted:
                        raise KeyboardInterrupt
                    interrupted = True
                    left.clear()
                    for worker in at_work.values():
                        os.kill(worker.pid, signal.SIGINT)
        finally:
            for worker in workers:
                worker.end()


class _Worker:
    """A process that does one task after the other."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.task: Task | None = None
        self._process = context.Process(target=_work, args=(theirs, os.getpid()), daemon=True)
        # Ctrl-C is to wait until the process is ready for it; what would let it in is done before.
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
        with contextlib.suppress(BrokenPipeError):  # found out when its answer is received
            self.pipe.send(task)

    def receive(self, done: dict[str, Any], observer: Any) -> bool:
        """Take a call of the observer, or the result of the task: did ctrl-C end it early?"""
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
    """Sends every call of a method through the pipe."""

    def __init__(self, pipe: connection.Connection) -> None:
        self._pipe = pipe

    def __getattr__(self, method: str) -> Callable[..., None]:
        def send(*arguments: Any) -> None:
            with signals_held():
                self._pipe.send((method, arguments))

        return send


def _work(pipe: connection.Connection, caller: int) -> None:
    """In a worker: do what the pipe says, until it is closed or the calling process has ended.

    Ctrl-C comes twice, from the terminal and from the caller, and ends a task once. Where the
    caller heeds none, as in the background of a script, nor does a worker.
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
    """What stands for a task's error in the caller, which sees where it was."""
    where = traceback.format_exc()
    if not isinstance(error, (LinnappError, KeyboardInterrupt)):
        error.add_note(where)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(where)
    return error
