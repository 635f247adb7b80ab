# SPDX-License-Identifier: MIT
"""Train the drives of many arrays on a Dask cluster.

Each array is a small graph of tasks: one task per drive reads its latencies, one task finds the
inflection points of the array from all of them, and one task per drive trains its model. A task
reads one trace from shared storage and returns a small result, so that no process ever holds more
than one trace. Models are saved as they arrive: an interrupted fleet continues with the drives that
have no model yet.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from linnapp.errors import LinnappError, NoGainError, needs
from linnapp.files import AnyPath, check_can_make, os_errors
from linnapp.learn.fit import FittedModel, drive_names, read_latencies, train_drive
from linnapp.learn.labels import InflectionPoint, LatencyDistribution, find_inflection_points
from linnapp.learn.options import Recipe
from linnapp.model import SUFFIX
from linnapp.signals import signals_held

#: Time in seconds within which a scheduler must answer.
CONNECT_TIMEOUT_S = 20.0


class Trained(NamedTuple):
    """The result of one drive: its model, or the error that explains why it has none."""

    array: str
    drive: str
    model: FittedModel | None = None
    error: Exception | None = None

    @property
    def failed(self) -> bool:
        """True after any error but NoGainError, which the same reads would give again."""
        return self.error is not None and not isinstance(self.error, NoGainError)


def group_by_directory(traces: Iterable[AnyPath]) -> dict[str, list[Path]]:
    """Group traces into arrays, one per directory, named by its path below the common parent."""
    arrays: dict[str, list[Path]] = {}
    paths = sorted(Path(trace).absolute() for trace in traces)
    shared = Path(os.path.commonpath([trace.parent.parent for trace in paths]))
    for trace in paths:
        arrays.setdefault(str(trace.parent.relative_to(shared)), []).append(trace)
    return arrays


def train_fleet(
    arrays: Mapping[str, Sequence[AnyPath]],
    out_dir: AnyPath,
    recipe: Recipe,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
) -> Iterator[Trained]:
    """Train all drives of all arrays that have no model yet, and yield each result when it arrives.

    Parameters
    ----------
    arrays : mapping of str to sequence of path
        Traces of each array, whose drives are each other's replicas. All workers must be able to
        read them.
    out_dir : path
        Receives ``<array>/<drive>.linnos`` and ``.json``. Drives that have both are skipped.
    recipe : Recipe
    scheduler : str, optional
        Address of a Dask scheduler. By default a local cluster is started.
    workers : int, optional
        Number of processes of a local cluster.
    """
    out_dir = Path(out_dir)
    with needs("a fleet needs Dask", "'linnapp[fleet]'"):
        from distributed import as_completed
    todo = {
        name: [Path(trace) for trace in traces]
        for name, traces in arrays.items()
        if _missing(out_dir, name, traces)
    }
    if not todo:
        return
    for name in todo:
        check_can_make(out_dir.absolute() / name / "a model")
    with _connected(scheduler, workers) as client:
        tasks: dict[Any, tuple[str, str]] = {}
        for name, traces in todo.items():
            latencies = [client.submit(read_latencies, t, recipe, pure=False) for t in traces]
            points = client.submit(_find_points, latencies, recipe, pure=False)
            for i, (trace, drive) in enumerate(zip(traces, drive_names(traces), strict=True)):
                if _missing(out_dir, name, [trace]):
                    # The priority is higher than that of reading, so that arrays are finished one
                    # after another.
                    task = client.submit(_train, trace, points, i, recipe, pure=False, priority=10)
                    tasks[task] = (name, drive)
        for task in as_completed(tasks):
            name, drive = tasks.pop(task)
            try:
                model: FittedModel = task.result()
            except Exception as error:  # A worker's error can be of any type.
                yield Trained(name, drive, error=error)
                continue
            with os_errors(out_dir / name):
                (out_dir / name).mkdir(parents=True, exist_ok=True)
            model.save(out_dir / name / f"{drive}{SUFFIX}")
            yield Trained(name, drive, model)


@contextlib.contextmanager
def _connected(scheduler: str | None, workers: int | None) -> Iterator[Any]:
    """Return a client of the scheduler, or of a local cluster that ends with the context."""
    from distributed import Client, LocalCluster

    with contextlib.ExitStack() as stack:
        try:
            cluster = None
            if scheduler is None:
                # A cluster that is interrupted while it starts would keep running.
                with signals_held():
                    # One thread per worker: a worker holds one trace at a time.
                    cluster = stack.enter_context(
                        LocalCluster(
                            n_workers=workers,
                            threads_per_worker=1,
                            processes=True,
                            dashboard_address="127.0.0.1:0",
                            silence_logs=logging.CRITICAL,  # Errors are reported, not logged.
                        )
                    )
            client = stack.enter_context(Client(cluster or scheduler, timeout=CONNECT_TIMEOUT_S))
        except (OSError, ValueError) as error:
            if scheduler is None:
                raise LinnappError(f"no local cluster starts ({error})") from error
            raise LinnappError(
                f"{scheduler}: no Dask scheduler answers there ({error}); addresses look like "
                "tcp://10.0.0.5:8786"
            ) from error
        yield client


def _find_points(latencies: list[LatencyDistribution], recipe: Recipe) -> list[InflectionPoint]:
    """Return the inflection points of an array's drives, without the candidates."""
    points = find_inflection_points(latencies, recipe.labelling)
    return [
        dataclasses.replace(
            point,
            candidate_percentiles=point.candidate_percentiles[:0],
            candidate_areas_us=point.candidate_areas_us[:0],
        )
        for point in points
    ]


def _train(trace: Path, points: list[InflectionPoint], i: int, recipe: Recipe) -> FittedModel:
    return train_drive(trace, points[i], recipe)


def _missing(out_dir: Path, array: str, traces: Sequence[AnyPath]) -> bool:
    return not all(
        (out_dir / array / f"{drive}{suffix}").exists()
        for drive in drive_names(traces)
        for suffix in (SUFFIX, ".json")
    )
