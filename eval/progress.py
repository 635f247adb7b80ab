# SPDX-License-Identifier: MIT
"""How far a long piece of work is: a line that changes, and in a log one now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

#: Between lines where the output is no terminal.
QUIET_S = 15.0


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Show on stderr how many of a number of things are done, and how long the rest may take.

    Parameters
    ----------
    what : str
    total : int

    Yields
    ------
    callable
        To be called when one more is done.
    """
    console = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}: {task.completed}/{task.total}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        # As an average of all: what takes minutes is not foretold by the last few.
        speed_estimate_period=float("inf"),
    )
    task = progress.add_task(what, total=total)
    shown_s = time.monotonic() - QUIET_S

    def one_more() -> None:
        nonlocal shown_s
        progress.advance(task)
        now_s = time.monotonic()
        if progress.disable and (progress.finished or now_s - shown_s >= QUIET_S):
            console.print(progress)
            shown_s = now_s

    with progress:
        yield one_more


class Steps:
    """Announces each of some steps on stdout, and how long it took.

    Parameters
    ----------
    total : int
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.start = time.monotonic()
        self.console = Console(highlight=False, markup=False, soft_wrap=True)

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
