# SPDX-License-Identifier: MIT
"""What an experiment is, and what it is given to work with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from eval import seeds
from eval.cache import Cache
from eval.errors import StepError
from eval.parallel import Work, map_parallel

Item = TypeVar("Item")
Done = TypeVar("Done")

#: Where a number of the paper would stand that is not known here.
NOT_AVAILABLE = "not available here"


@dataclass(frozen=True)
class Context:
    """What an experiment is given.

    Attributes
    ----------
    name : str
        The experiment's.
    cache : Cache
        Shared by all experiments.
    jobs : int
        Guests at a time.
    development : bool
        Use the development seeds.
    folder : Path
        The experiment's output; for what is too big for its data file. The others' are beside it.
    n_seeds : int or None
        Only the first so many seeds.
    """

    name: str
    cache: Cache
    jobs: int
    development: bool
    folder: Path
    n_seeds: int | None = None

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the repeats."""
        return seeds.repeats(self.development, self.n_seeds)

    def data_of(self, name: str) -> dict[str, Any]:
        """The data that another experiment left.

        Raises
        ------
        StepError
            If it has not run.
        """
        path = self.folder.parent / name / "data.json"
        if not path.exists():
            raise StepError(f"{path}: not there; `make eval-{name}` makes it")
        data: dict[str, Any] = json.loads(path.read_text())
        return data

    def map(self, work: Callable[[Item], Done], items: Iterable[Item], what: str) -> list[Done]:
        """Apply a function to items, as many at a time as there are jobs."""
        return map_parallel(work, items, jobs=self.jobs, what=f"[{self.name}] {what}")

    def work(self) -> Work:
        """For what is no map: steps that need each other, as many at a time as there are jobs."""
        return Work(self.jobs, f"[{self.name}] ")


@dataclass(frozen=True)
class Table:
    """Rows for people: what stands in the report and in the committed results."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Experiment:
    """One experiment.

    Attributes
    ----------
    name : str
        As in `make eval-NAME`.
    title : str
    source : str
        The figure or table it stands for.
    parameters : mapping
        What it is run with, besides the seeds.
    run : callable
        Does the work; its return value, JSON, is the data file. A list under
        "runs" becomes the experiment's summary.json.
    table : callable
        The data as tables, by heading.
    reading : callable
        The data in words.
    draw : callable
        The data, and where its figure goes.
    paper : str
        What the paper reports, as far as it is known here.
    differs : str
        What is different here, and why.
    sources : tuple of str
        More files that decide the outcome, relative to the repository.
    command : str
        What runs it; `make eval-NAME` unless given.
    uses : tuple of str
        Experiments whose data it reads; it is finished only as long as they stay the same.
    numbers : callable, optional
        What of the data is committed beside the tables, for a later run to go on from.
    """

    name: str
    title: str
    source: str
    parameters: Mapping[str, Any]
    run: Callable[[Context], dict[str, Any]]
    table: Callable[[dict[str, Any]], dict[str, Table]]
    reading: Callable[[dict[str, Any]], str]
    draw: Callable[[dict[str, Any], Path], None]
    paper: str = NOT_AVAILABLE
    differs: str = ""
    sources: tuple[str, ...] = field(default=())
    command: str = ""
    uses: tuple[str, ...] = ()
    numbers: Callable[[dict[str, Any]], Any] | None = None
