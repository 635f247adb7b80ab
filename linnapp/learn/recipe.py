# SPDX-License-Identifier: MIT
"""Train the models of an array from its traces: label, train, quantise, record.

The drives of an array are replicas of each other. Their inflection points are found together. Each
drive then gets its own model, ``<trace>.linnos``, a training record, ``<trace>.json``, and, for a
latency model, a hedging table, ``<trace>.hedge``. Either all of these files appear at once or none.
Files of other drives in the directory are kept.

Labelling needs only the latency distribution of each drive, and training needs only its own trace,
so drives are processed in parallel (:mod:`linnapp.learn.parallel`, :mod:`linnapp.learn.fleet`). A
trace is parsed once: the process that labels a drive keeps its trace in memory and then trains it,
unless its traces are too long (:data:`linnapp.trace.recorded.HELD_BYTES`).
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
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
from linnapp.learn.parallel import Pool, Task
from linnapp.learn.record import HEDGE_SUFFIX, TrainedDrive
from linnapp.model import SUFFIX
from linnapp.trace.recorded import Recorded, check_losses, drive_name, release

#: Suffixes of all files that training writes for a drive.
SUFFIXES = (SUFFIX, HEDGE_SUFFIX, ".json")


def drive_names(traces: Sequence[AnyPath]) -> list[str]:
    """Return the drives of several traces. Raise TraceError if two have the same name."""
    names = [drive_name(trace) for trace in traces]
    for name in names:
        if names.count(name) > 1:
            raise TraceError(f"two traces are named {name!r}, which would be one model; rename one")
    return names


@contextlib.contextmanager
def releasing() -> Iterator[None]:
    """Free the recordings in memory at the end."""
    try:
        yield
    finally:
        release()


def read_latencies(
    trace: Recorded, recipe: Recipe, observer: Observer | None = None, *, whole: bool = False
) -> LatencyDistribution:
    """Read the latencies of a trace that labelling needs: of its training slice, or of all reads.

    An inflection point for training must come from the training slice alone. Otherwise results on
    the other slices would be about reads that contributed to the definition of a slow read.

    Raises
    ------
    TraceError
        If there are too few reads.
    """
    observer = observer or Observer()
    name = drive_name(trace)

    def show(done_bytes: int, total_bytes: int) -> None:
        observer.reading(name, done_bytes, total_bytes)

    recording, recipe = recipe.opened(trace, show)
    reads = load_reads(recording, on_progress=show, **recipe.reader)
    if recipe.check_losses:
        check_losses(trace, reads.stats)
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
        One per drive. A single trace represents all replicas.
    out_dir : path
        Receives a model and a record per trace. The directory is replaced in one step, but models
        of other drives in it are kept.
    recipe : Recipe, optional
    observer : Observer, optional
        Receives progress reports.
    processes : int, optional
        Maximum number of processes; see :class:`~linnapp.learn.parallel.Pool`.

    Returns
    -------
    list of str
        The drives that have a new model. Drives for which no model would be better than admitting
        every read are reported to the observer instead. After ctrl-C, the drives whose training had
        begun are included with their best epoch. For all other drives, `out_dir` keeps its previous
        files.

    Raises
    ------
    TraceError
        If a trace cannot be read or is not sufficient for training.
    NoGainError
        If a model would not be better for any drive.
    KeyboardInterrupt
        If ctrl-C is received before any drive has a model. No files are written.
    """
    recipe = recipe or Recipe()
    observer = observer or Observer()
    names = drive_names(traces)
    check_replaced_directory(out_dir, SUFFIXES)
    with Pool(processes) as pool, releasing():
        tasks = zip(names, traces, strict=True)
        done = pool.run([Task(name, read_latencies, (t, recipe)) for name, t in tasks], observer)
        distributions: list[LatencyDistribution] = list(done.values())
        points = find_inflection_points(distributions, recipe.labelling, recipe.training.seed)
        for name, point, distribution in zip(names, points, distributions, strict=True):
            observer.labelled(name, point, len(distribution))
        return train_labelled(traces, points, out_dir, recipe, observer=observer, pool=pool)


def train_labelled(
    traces: Sequence[AnyPath],
    points: Sequence[InflectionPoint],
    out_dir: AnyPath,
    recipe: Recipe,
    *,
    observer: Observer | None = None,
    pool: Pool | None = None,
    keep_interrupted: bool = True,
) -> list[str]:
    """Train the models of drives with known inflection points, like :func:`train_array`.

    `pool` runs the tasks; by default it has a process per CPU. If `keep_interrupted` is false,
    ctrl-C leaves `out_dir` unchanged and raises KeyboardInterrupt.
    """
    out_dir = Path(out_dir)
    observer = observer or Observer()
    names = drive_names(traces)
    replaced = [f"{name}{suffix}" for name in names for suffix in SUFFIXES]
    with replaced_directory(out_dir, SUFFIXES, replaced) as directory:
        tasks = [
            Task(name, _train_or_why_not, (trace, point, recipe))
            for name, trace, point in zip(names, traces, points, strict=True)
        ]
        with pool or Pool() as running:
            trained = running.run(tasks, observer, keep_interrupted=keep_interrupted)
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
    """Return a drive's model, or the error that explains why it has none.

    The error is returned, not raised, so that the other drives still get their models.
    """
    try:
        return train_drive(trace, point, recipe, observer)
    except NoGainError as error:
        return error


def save_drive(directory: AnyPath, name: str, result: TrainedDrive) -> None:
    """Write all files of a drive. The record is last: if it exists, the others are complete."""
    result.save(Path(directory) / f"{name}{SUFFIX}")


def _keep_old(old: Path, new: Path, names: set[str]) -> None:
    for name in names:
        for suffix in SUFFIXES:
            if (old / f"{name}{suffix}").exists():
                shutil.copy2(old / f"{name}{suffix}", new)
