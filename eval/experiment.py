# SPDX-License-Identifier: MIT
"""An experiment, and the context in which it runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from eval import seeds
from eval.cache import Cache
from eval.long_table import LongTable
from eval.page_tables import Shown
from linnapp.lab.work import StepError, Work, map_parallel

Item = TypeVar("Item")
Done = TypeVar("Done")

#: Where a number of the paper would stand that is not known here.
NOT_AVAILABLE = "not available here"


#: Sources that decide which policies are compared over many cells, and how.
GRID_SOURCES = (
    *("eval/grid.py", "eval/contenders.py", "eval/heimdall.py", "eval/scores.py"),
    "eval/intervals.py",
)


@dataclass(frozen=True)
class Context:
    """The context of a run."""

    #: The experiment's.
    name: str
    #: Shared by all experiments.
    cache: Cache
    #: Guests at a time.
    jobs: int
    #: Use the development seeds.
    development: bool
    #: The experiment's output. The outputs of the others are in the same folder.
    folder: Path
    #: The number of seeds; all if None.
    n_seeds: int | None = None

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the repeats."""
        return seeds.repeats(self.development, self.n_seeds)

    def data_of(self, name: str) -> dict[str, Any]:
        """The data that another experiment left; StepError if it has not run."""
        path = self.folder.parent / name / "data.json"
        if not path.exists():
            raise StepError(f"{path}: not there; `make eval-{name}` makes it")
        data: dict[str, Any] = json.loads(path.read_text())
        return data

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
    """Rows for people: what stands in the report and in the committed results."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Experiment:
    """One experiment."""

    #: As in `make eval-NAME`.
    name: str
    title: str
    #: All that it is run with, besides the seeds.
    parameters: Mapping[str, Any]
    #: Does the work; its return value, JSON, is the data file. A list under "runs"
    #: is also written to summary.json.
    run: Callable[[Context], dict[str, Any]]
    #: The data as tables, by heading.
    table: Callable[[dict[str, Any]], dict[str, Table]]
    #: The data in words.
    reading: Callable[[dict[str, Any]], str]
    #: The data, and where its figure goes.
    draw: Callable[[dict[str, Any], Path], None]
    #: The figure or table it stands for.
    source: str = "not in the papers"
    #: The paper's result, as far as it is known here.
    paper: str = NOT_AVAILABLE
    #: The differences from the paper, and the reasons.
    differs: str = ""
    #: More files that decide the outcome, relative to the repository.
    sources: tuple[str, ...] = field(default=())
    #: What runs it; `make eval-NAME` unless given.
    command: str = ""
    #: Experiments whose data it reads; it is finished only as long as they stay the same.
    uses: tuple[str, ...] = ()
    #: The part of the data that is committed with the tables, for later runs.
    numbers: Callable[[dict[str, Any]], Any] | None = None
    #: Its parameters name "cells", a table each, of which a run may have some: what is committed of
    #: the others stays.
    adds: bool = False
    #: The tables of pages that are made from its committed results.
    pages: Callable[[], Mapping[Path, list[Shown]]] | None = None
