# SPDX-License-Identifier: MIT
"""From the traces of an array to its models: label, train, quantise, record.

The drives of an array are each other's replicas: their inflection points are found together, and
each drive then gets a model of its own, ``<trace>.linnos``, with a training record beside it,
``<trace>.json``, and of a latency model when to hedge by it, ``<trace>.hedge``. All of them appear
at once or none does; what the directory holds of other drives stays.

Labelling needs only each drive's latency distribution, training only its own trace, so no process
ever holds more than one trace (:mod:`linnapp.learn.parallel` and :mod:`linnapp.learn.fleet` spread
the work).
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from linnapp.errors import NoGainError, TraceError
from linnapp.files import (
    AnyPath,
    check_replaced_directory,
    replaced_directory,
)
from linnapp.learn.drive_training import train_drive
from linnapp.learn.features.dataset import load_reads
from linnapp.learn.features.split import check_enough, split
from linnapp.learn.labelling.inflection import (
    InflectionPoint,
    LatencyDistribution,
    find_inflection_points,
)
from linnapp.learn.options import Observer, Recipe
from linnapp.learn.parallel import Task, run_tasks
from linnapp.learn.record import HEDGE_SUFFIX, TrainedDrive
from linnapp.model import SUFFIX
from linnapp.trace.recorded import Recorded, drive_name

#: Of all that a drive is trained to.
SUFFIXES = (SUFFIX, HEDGE_SUFFIX, ".json")


def drive_names(traces: Sequence[AnyPath]) -> list[str]:
    """The drives of several traces."""
    names = [drive_name(trace) for trace in traces]
    for name in names:
        if names.count(name) > 1:
            raise TraceError(f"two traces are named {name!r}, which would be one model; rename one")
    return names


def read_latencies(
    trace: Recorded, recipe: Recipe, observer: Observer | None = None, *, whole: bool = False
) -> LatencyDistribution:
    """Read a trace for what labelling needs of it: its training slice, or all of it.

    A point that is trained for must come from the training slice alone, or figures on the others
    would be of reads that had a say in what counts as slow.
    """
    observer = observer or Observer()
    name = drive_name(trace)
    reads = load_reads(
        trace,
        on_progress=lambda done, total: observer.reading(name, done, total),
        **recipe.reader,
    )
    if not whole:
        try:
            check_enough(len(reads))
        except TraceError as error:
            raise TraceError(f"{trace}: {error}") from error
    rows = slice(None) if whole else split(len(reads), recipe.training).training
    if not len(reads.latency_us[rows]):
        raise TraceError(
            f"{trace}: {len(reads)} completed reads are too few to train on and to judge by; "
            "record more"
        )
    return LatencyDistribution(
        reads.latency_us[rows], reads.pages[rows] if recipe.labelling.by_size else None
    )


def train_array(
    traces: Sequence[AnyPath],
    out_dir: AnyPath,
    recipe: Recipe | None = None,
    *,
    observer: Observer | None = None,
    processes: int | None = None,
) -> list[str]:
    """Train the models of an array.

    Parameters
    ----------
    traces : sequence of path
        One per drive; a single one stands for its replicas.
    out_dir : path
        Gets a model and a record per trace, in one step: the directory is replaced. Models of
        other drives that are in it stay.

    Returns
    -------
    list of str
        The drives that have a new model: not those for which no model would be better than
        admitting every read (the observer is told), and after ctrl-C those that had begun, with
        their best epoch. For the others `out_dir` keeps what it held.

    Raises
    ------
    TraceError
        If a trace cannot be read, or has nothing to learn from.
    NoGainError
        If there is no drive for which a model would be better.
    KeyboardInterrupt
        If ctrl-C came before any drive had a model; nothing is then written.
    """
    recipe = recipe or Recipe()
    observer = observer or Observer()
    names = drive_names(traces)
    check_replaced_directory(out_dir, SUFFIXES)
    done = run_tasks(
        [Task(name, read_latencies, (t, recipe)) for name, t in zip(names, traces, strict=True)],
        observer,
        processes,
    )
    distributions: list[LatencyDistribution] = list(done.values())
    points = find_inflection_points(distributions, recipe.labelling, recipe.training.seed)
    for name, point, distribution in zip(names, points, distributions, strict=True):
        observer.labelled(name, point, len(distribution))
    return train_labelled(traces, points, out_dir, recipe, observer=observer, processes=processes)


def train_labelled(
    traces: Sequence[AnyPath],
    points: Sequence[InflectionPoint],
    out_dir: AnyPath,
    recipe: Recipe,
    *,
    observer: Observer | None = None,
    processes: int | None = None,
    keep_interrupted: bool = True,
) -> list[str]:
    """Train the models of drives whose inflection points are known; as :func:`train_array`.

    With `keep_interrupted` false, ctrl-C leaves `out_dir` as it was and raises KeyboardInterrupt.
    """
    out_dir = Path(out_dir)
    observer = observer or Observer()
    names = drive_names(traces)
    replaced = [f"{name}{suffix}" for name in names for suffix in SUFFIXES]
    with replaced_directory(out_dir, SUFFIXES, replaced) as directory:
        trained = run_tasks(
            [
                Task(name, _train_or_why_not, (trace, point, recipe))
                for name, trace, point in zip(names, traces, points, strict=True)
            ],
            observer,
            processes,
            keep_interrupted=keep_interrupted,
        )
        without = [name for name, result in trained.items() if isinstance(result, NoGainError)]
        for name in without:
            observer.no_gain(name, str(trained.pop(name)))
        if not trained:
            raise NoGainError(
                f"no model for {', '.join(without)}: none would be better than admitting every read"
            )
        for name, result in trained.items():
            save_drive(directory, name, result)
        _keep_old(out_dir, directory, set(names) - trained.keys())
    return list(trained)


def _train_or_why_not(
    trace: Recorded, point: InflectionPoint, recipe: Recipe, observer: Observer
) -> TrainedDrive | NoGainError:
    """A drive's model; or why there is none, which is no reason to leave the others without."""
    try:
        return train_drive(trace, point, recipe, observer)
    except NoGainError as error:
        return error


def save_drive(directory: AnyPath, name: str, result: TrainedDrive) -> None:
    """Write all that a drive was trained to; the record comes last: with it there, it is done."""
    result.save(Path(directory) / f"{name}{SUFFIX}")


def _keep_old(old: Path, new: Path, names: set[str]) -> None:
    for name in names:
        for suffix in SUFFIXES:
            if (old / f"{name}{suffix}").exists():
                shutil.copy2(old / f"{name}{suffix}", new)
