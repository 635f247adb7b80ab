# SPDX-License-Identifier: MIT
"""Trains the drives of a fleet on a Dask cluster.

The traces are grouped into arrays. Labelling a drive and training it are tasks of their own; each
reads one trace from shared storage where it runs and returns something small, a latency
distribution or a model, so that no process ever holds more than one trace. Models are saved as
they come in: killed and started again, a fleet goes on with the drives that have no model yet.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from linnapp.errors import LinnappError, NoGainError, needs
from linnapp.files import AnyPath, check_can_make, os_errors
from linnapp.learn.drive_training import train_drive
from linnapp.learn.labelling.inflection import (
    InflectionPoint,
    LatencyDistribution,
    find_inflection_points,
)
from linnapp.learn.options import Recipe
from linnapp.learn.recipe import drive_names, read_latencies, save_drive
from linnapp.learn.record import TrainedDrive
from linnapp.model import SUFFIX
from linnapp.signals import signals_held

#: how long a scheduler has to answer
CONNECT_TIMEOUT_S = 20.0

#: how long workers have to end
_PATIENCE_S = 1.0


@dataclasses.dataclass(frozen=True)
class Progress:
    """One step of the fleet: a drive trained, or why there is no model of it."""

    array: str
    drive: str
    model_id: str | None
    #: What failed, or why no model would be better than admitting every read.
    error: str | None = None
    #: Whether training again may give a model.
    failed: bool = False


def group_by_directory(traces: Iterable[AnyPath]) -> dict[str, list[Path]]:
    """Arrays: the traces of one directory, named after its path below what all share."""
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
    on_progress: Callable[[Progress], None] | None = None,
) -> list[Progress]:
    """Train all drives of all arrays that have no model yet.

    The traces of each array, each other's replicas, are on storage that every worker sees.
    `out_dir` gets ``<array>/<drive>.linnos`` and ``.json``; drives that have both are left alone.
    `scheduler` is the address of a Dask scheduler; a local cluster unless given.
    """
    out_dir = Path(out_dir)
    with needs("a fleet needs Dask", "distributed"):
        from distributed import Client, LocalCluster, as_completed
        from distributed.comm import get_address_host_port
    todo = {
        name: [Path(trace) for trace in traces]
        for name, traces in arrays.items()
        if _missing(out_dir, name, traces)
    }
    if not todo:
        return []
    for name in todo:
        check_can_make(out_dir.absolute() / name / "a model")
    if scheduler is not None:
        try:
            get_address_host_port(scheduler)
        except ValueError as error:
            raise LinnappError(
                f"{scheduler}: not a scheduler's address, which are like tcp://10.0.0.5:8786 "
                f"({error})"
            ) from error
    results: list[Progress] = []

    def report(progress: Progress) -> None:
        results.append(progress)
        if on_progress is not None:
            on_progress(progress)

    with contextlib.ExitStack() as stack:
        cluster = None
        try:
            if scheduler is None:
                with signals_held():  # begun by half, it could not be closed
                    # One thread each: a worker holds one trace at a time.
                    cluster = LocalCluster(
                        n_workers=workers,
                        threads_per_worker=1,
                        processes=True,
                        dashboard_address="127.0.0.1:0",
                        silence_logs=logging.CRITICAL,  # what fails is reported, without traceback
                    )
                    stack.callback(_end, cluster)
            client = Client(cluster or scheduler, timeout=CONNECT_TIMEOUT_S)
            stack.callback(_close, client)
        except (OSError, ValueError) as error:
            if scheduler is None:
                raise LinnappError(f"no local cluster starts ({error})") from error
            raise LinnappError(f"{scheduler}: no Dask scheduler answers there ({error})") from error
        waiting: dict[str, dict[str, LatencyDistribution]] = {name: {} for name in todo}
        running: dict[Any, tuple[str, Path, str]] = {}
        completed = as_completed(with_results=False)
        for name, traces in todo.items():
            for trace in traces:
                future = client.submit(read_latencies, trace, recipe, pure=False)
                running[future] = (name, trace, "label")
                completed.add(future)
        failed: set[str] = set()
        for future in completed:
            name, trace, step = running.pop(future)
            drive = drive_names([trace])[0]
            try:
                result = future.result()
            except NoGainError as error:
                report(Progress(name, drive, None, str(error)))
                continue
            except Exception as error:  # a worker's error may be anything; it is reported
                failed.add(name)
                report(Progress(name, drive, None, str(error) or repr(error), failed=True))
                continue
            finally:
                future.release()
            if step == "train":
                _save(out_dir / name, drive, result)
                report(Progress(name, drive, result.model.model_id))
                continue
            waiting[name][drive] = result
            traces = todo[name]
            if len(waiting[name]) == len(traces) and name not in failed:
                names = drive_names(traces)
                points = find_inflection_points(
                    [waiting[name].pop(drive) for drive in names],
                    recipe.labelling,
                    recipe.training.seed,
                )
                for trace, point in zip(traces, points, strict=True):
                    if not _missing(out_dir, name, [trace]):
                        continue
                    # Before labels still to come: finish arrays one after another.
                    future = client.submit(
                        train_drive, trace, _light(point), recipe, pure=False, priority=10
                    )
                    running[future] = (name, trace, "train")
                    completed.add(future)
        told = {(progress.array, progress.drive) for progress in results}
        for name, traces in todo.items():
            for trace, drive in zip(traces, drive_names(traces), strict=True):
                if (name, drive) not in told and _missing(out_dir, name, [trace]):
                    why = "not trained: its point takes those of the whole array"
                    report(Progress(name, drive, None, why, failed=True))
    return results


def _end(cluster: Any) -> None:
    """Close a cluster of our own.

    In the middle of a training, or on a busy machine, its workers take their time to end; the
    models are saved by now. Once the cluster closes, no others take their place.
    """
    pids = {nanny.pid for nanny in cluster.workers.values()}
    workers = [child for child in multiprocessing.active_children() if child.pid in pids]
    impatience = threading.Timer(_PATIENCE_S, lambda: [*map(BaseProcess.kill, workers)])
    impatience.start()
    _close(cluster)
    impatience.cancel()


def _close(connected: Any) -> None:
    with contextlib.suppress(TimeoutError):
        connected.close()


def _light(point: InflectionPoint) -> InflectionPoint:
    """The point without its candidates, which training does not use."""
    return dataclasses.replace(
        point,
        candidate_percentiles=point.candidate_percentiles[:0],
        candidate_areas_us=point.candidate_areas_us[:0],
    )


def _missing(out_dir: Path, array: str, traces: Sequence[AnyPath]) -> bool:
    return not all(
        (out_dir / array / f"{drive}{suffix}").exists()
        for drive in drive_names(traces)
        for suffix in (SUFFIX, ".json")
    )


def _save(directory: Path, drive: str, result: TrainedDrive) -> None:
    with os_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
    save_drive(directory, drive, result)
