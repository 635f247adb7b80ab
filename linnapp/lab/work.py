# SPDX-License-Identifier: MIT
"""Run the steps of an experiment in parallel, show their progress, and write their results."""

from __future__ import annotations

import itertools
import json
import os
import queue
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from linnapp.errors import LinnappError
from linnapp.files import replace_text
from linnapp.lab.guest import end_all

Item = TypeVar("Item")
Done = TypeVar("Done")

#: Seconds between two progress lines if the output is not a terminal.
QUIET_S = 15.0


class StepError(LinnappError):
    """A step of an experiment failed; the message names its log."""


def tail(log: Path) -> str:
    """Return the last lines of a log file, and its name."""
    text = log.read_text(errors="replace").replace("\r", "\n").splitlines()
    return "\n".join([*text[-20:], f"(the whole log: {log})"])


def keep_copy(program: Path, kept: Path) -> None:
    """Copy a program, also onto one that is running."""
    # replace_text() would lose the permissions, which copy2 keeps.
    temporary = kept.with_name(f".{kept.name}.tmp")
    shutil.copy2(program, temporary)
    temporary.replace(kept)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, and make its directory if it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, text)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file; values that JSON lacks, such as paths, become strings."""
    write_text(path, json.dumps(value, indent=1, default=str) + "\n")


class _Counting(Progress):
    """Shows on stderr how many items of each kind are done, and how long the rest may take."""

    def __init__(self, totals: Mapping[str, int]) -> None:
        console = Console(stderr=True)
        super().__init__(
            TextColumn("{task.description}: {task.completed}/{task.total}", markup=False),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            # Average over all items, because the last few do not predict steps that take minutes.
            speed_estimate_period=float("inf"),
        )
        for what, total in totals.items():
            self.add_task(what, start=False, total=total, visible=False)
        self._kinds = {task.description: task for task in self.tasks}
        self._shown_s = time.monotonic() - QUIET_S

    def begin(self, what: str) -> None:
        """Note that an item begins; the clock of its kind starts with the first."""
        task = self._kinds[what]
        if not task.started:
            self.start_task(task.id)
            self.update(task.id, visible=True)

    def end(self, what: str) -> None:
        """Note that an item is done."""
        task = self._kinds[what]
        self.advance(task.id)
        now_s = time.monotonic()
        if self.disable and (task.finished or now_s - self._shown_s >= QUIET_S):
            self.console.print(self.make_tasks_table([task]))
            self._shown_s = now_s


class Steps:
    """Prints each step, and how long it took."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.start = time.monotonic()

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Print the step that the block does."""
        self.done += 1
        begin = time.monotonic()
        print(f"[{self.done}/{self.total}] {what} ...", end="", flush=True)
        yield
        now = time.monotonic()
        print(f" {now - begin:.1f} s (total {now - self.start:.0f} s)")


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Format a table as text, with the first column aligned left and the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join((row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:]))) for row in rows
    )


class Step(Generic[Done]):
    """A step of :class:`Work`; see :meth:`Work.add`.

    Attributes
    ----------
    result
        The value that the call returned, once the work is done.
    """

    result: Done

    def __init__(self, what: str, call: Callable[[], Done], after: tuple[Step[Any], ...]) -> None:
        self.what = what
        self.call = call
        self.after = after


class Work:
    """Runs steps, at most `jobs` at a time, some of which depend on others.

    A step begins as soon as the steps it depends on are done and a CPU is free. If several can
    begin, the first that was added does, so that no CPU waits for the last step of one kind while
    steps of another kind are left. `name` is a prefix of the progress messages.
    """

    def __init__(self, jobs: int, name: str = "") -> None:
        self._jobs = jobs
        self._name = name
        self._steps: list[Step[Any]] = []

    def add(
        self, what: str, call: Callable[[], Done], after: Iterable[Step[Any]] = ()
    ) -> Step[Done]:
        """Add a step. The call must do its work in other processes, for which a thread waits."""
        step = Step(what, call, tuple(after))
        self._steps.append(step)
        return step

    def do(self) -> None:
        """Do all steps; when one raises an error, steps that have not begun are dropped."""
        cpus: queue.SimpleQueue[int] = queue.SimpleQueue()
        allowed = itertools.cycle(sorted(os.sched_getaffinity(0)))
        for cpu in itertools.islice(allowed, self._jobs):
            cpus.put(cpu)
        left = list(self._steps)
        kinds = Counter(f"{self._name}{step.what}" for step in left)
        done: set[Step[Any]] = set()
        running: dict[Future[Any], Step[Any]] = {}
        with (
            _Counting(kinds) as count,
            ThreadPoolExecutor(self._jobs, initializer=lambda: _pin_to(cpus.get())) as pool,
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
                # The pool waits for running steps, and those wait for their guests.
                pool.shutdown(wait=False, cancel_futures=True)
                end_all()
                raise


def _pin_to(cpu: int) -> None:
    """Pin this thread, and the processes that it starts, to one CPU.

    A guest consists of two processes that run alternately, its kernel and its user space. Switching
    between them is slower if the other one is on another CPU.
    """
    os.sched_setaffinity(threading.get_native_id(), {cpu})


def map_parallel(
    work: Callable[[Item], Done], items: Iterable[Item], *, jobs: int, what: str
) -> list[Done]:
    """Apply a function to each item, several at a time; see :meth:`Work.add`."""
    all_steps = Work(jobs)
    steps = [all_steps.add(what, partial(work, item)) for item in items]
    all_steps.do()
    return [step.result for step in steps]
