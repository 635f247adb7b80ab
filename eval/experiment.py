# SPDX-License-Identifier: MIT
"""The context in which an experiment runs, and the tables of its report."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from eval import seeds
from eval.cache import Cache
from eval.long_table import LongTable
from linnapp.lab.work import StepError, Work, map_parallel

Item = TypeVar("Item")
Done = TypeVar("Done")

#: Stands for a number of the paper that is not known here.
NOT_AVAILABLE = "not available here"


def names_from_environment(variable: str, unnamed: Iterable[str]) -> tuple[str, ...]:
    """Return the names in an environment variable; if there are none, those in `unnamed`.

    They are not checked, because this is called on import, also by programs that measure nothing.
    """
    names = tuple(name for name in os.environ.get(variable, "").split(",") if name)
    return names or tuple(unnamed)


def check_names(variable: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise StepError if one of the names from an environment variable is not known."""
    for name in names:
        if name not in known:
            raise StepError(f"{variable}: {name} is not known; known are {', '.join(known)}")


@dataclass(frozen=True)
class Context:
    """The context of a run."""

    #: The experiment's name.
    name: str
    #: Shared by all experiments.
    cache: Cache
    #: The number of guests at a time.
    jobs: int
    #: Use the development seeds.
    development: bool
    #: The experiment's output. The outputs of the others are in the same folder.
    folder: Path
    #: The number of seeds; None for all.
    n_seeds: int | None = None

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the repeats."""
        return seeds.repeats(self.development, self.n_seeds)

    def table_of(self, name: str) -> LongTable:
        """Return the long table of another experiment, or raise StepError if it has not run."""
        path = self.folder.parent / name / "table.csv"
        if not path.exists():
            raise StepError(f"{path} does not exist; `make eval-{name}` makes it")
        return LongTable.load(path)

    def map(self, work: Callable[[Item], Done], items: Iterable[Item], what: str) -> list[Done]:
        """Apply a function to items, as many at a time as there are jobs."""
        return map_parallel(work, items, jobs=self.jobs, what=f"[{self.name}] {what}")

    def work(self) -> Work:
        """Return an executor of steps that depend on each other, as many at a time as jobs."""
        return Work(self.jobs, f"[{self.name}] ")


@dataclass(frozen=True)
class Table:
    """A table of the report, as text."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
