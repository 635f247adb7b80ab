# SPDX-License-Identifier: MIT
"""How far a long piece of work is: a line that changes, and in a log one now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

#: Between lines where the output is no terminal.
QUIET_S = 15.0


class Counting:
    """Counts things of several kinds that are done; see :func:`counting`."""

    def __init__(self, totals: Mapping[str, int]) -> None:
        self._console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}: {task.completed}/{task.total}", markup=False),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
            # As an average of all: what takes minutes is not foretold by the last few.
            speed_estimate_period=float("inf"),
        )
        self._tasks = {
            what: self.progress.add_task(what, start=False, total=total, visible=False)
            for what, total in totals.items()
        }
        self._shown_s = time.monotonic() - QUIET_S

    def begin(self, what: str) -> None:
        """One of a kind begins; with the first of it the kind's time does."""
        task = self.progress.tasks[self._tasks[what]]
        if not task.started:
            self.progress.start_task(task.id)
            self.progress.update(task.id, visible=True)

    def end(self, what: str) -> None:
        """One more of a kind is done."""
        self.progress.advance(self._tasks[what])
        task = self.progress.tasks[self._tasks[what]]
        now_s = time.monotonic()
        if self.progress.disable and (task.finished or now_s - self._shown_s >= QUIET_S):
            self._console.print(self.progress.make_tasks_table([task]))
            self._shown_s = now_s


@contextmanager
def counting(totals: Mapping[str, int]) -> Iterator[Counting]:
    """Show on stderr how many of each kind of things are done, and how long the rest may take."""
    count = Counting(totals)
    with count.progress:
        yield count


class Steps:
    """Announces each of some steps on stdout, or on stderr, and how long it took."""

    def __init__(self, total: int, *, stderr: bool = False) -> None:
        self.total = total
        self.done = 0
        self.start = time.monotonic()
        self.console = Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Do one of them within the block."""
        self.done += 1
        line = f"[{self.done}/{self.total}] {what} ..."
        begin = time.monotonic()
        if self.console.is_terminal:
            with self.console.status(Text(line)):
                yield
        else:
            self.console.print(line, end="")
            line = ""
            yield
        now = time.monotonic()
        self.console.print(f"{line} {now - begin:.1f} s (total {now - self.start:.0f} s)")


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table as text: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join((row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:]))) for row in rows
    )
