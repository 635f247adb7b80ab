# SPDX-License-Identifier: MIT
"""Keep an array's models current: record again, label again, and retrain where needed.

A drive's model is trained for its inflection point. When the drive ages or its load changes, the
point moves. The shift is the difference between two percentiles of a new recording: that of the
active threshold and that of the new inflection point. A new model is trained if the shift is at
least five percentiles (section 4.5 of Hao et al., OSDI 2020) plus the difference that random
variation of the samples explains (:mod:`linnapp.drive.resampling`).

This criterion does not apply to latency models. They are always trained again, which takes seconds.

During the recording, a drive that enforces is set to observe, and md's queries for an array are
switched off (:mod:`linnapp.drive.switches`). Both are restored afterwards.

The newest reads of the recording are not used in training. The new model replaces the active one
only if it is significantly better on these reads (:mod:`linnapp.drive.comparison`). A drive always
has a working model, because the new one is trained in a separate directory, uploaded atomically
and checked. The old one stays active if any step before the upload fails, is interrupted or is
killed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from linnapp.drive import state
from linnapp.drive.comparison import Comparison, compare
from linnapp.drive.deployment import recorded, replace_model
from linnapp.drive.drives_conf import DrivesConf, load_conf
from linnapp.drive.journal import Log
from linnapp.drive.md import arrays_of
from linnapp.drive.recording import record
from linnapp.drive.resampling import LatencyBlocks, sampling_percentiles
from linnapp.drive.stable_ids import name_to_keep
from linnapp.drive.switches import observing, restore_left
from linnapp.drive.sysfs import Drive, has_no_node, node_of
from linnapp.errors import DeviceError, LinnappError, NoGainError, as_options
from linnapp.files import AnyPath, locked_folder, os_errors
from linnapp.learn.examples import load_reads
from linnapp.learn.fit import releasing, train_labelled
from linnapp.learn.labels import (
    InflectionPoint,
    LatencyDistribution,
    find_inflection_points,
)
from linnapp.learn.options import Kind, Observer, Recipe
from linnapp.model import SUFFIX, load_model
from linnapp.model.file import KERNEL_HIDDEN, model_from_bytes
from linnapp.trace.reads import check_losses
from linnapp.trace.rows import split

SHIFT_PERCENTILES = 5.0

#: Minimum number of labelled reads from which a drive's percentiles can be estimated.
MIN_READS = 1400

#: Names of temporary directories: for the recordings of a run, and for new models until the
#: directory is complete and renamed.
_LEFT_OVER = re.compile(r"\.(recording|\d{8}-\d{6})\.")


@dataclasses.dataclass(frozen=True)
class Decision:
    """A decision about a drive, with its reason."""

    drive: str
    retrain: bool
    #: Text for the log.
    reason: str
    #: Shift in percentiles, or None if there is no active model or too few reads were recorded.
    shift_percentiles: float | None
    #: Part of the shift that chance can explain, or None if there is no shift.
    sampling_percentiles: float | None = None


def decide(
    drive: str,
    active_threshold_us: int | None,
    distribution: LatencyDistribution,
    point: InflectionPoint,
    shift_percentiles: float = SHIFT_PERCENTILES,
    sampling_percentiles: float = 0.0,
    kind: Kind = "network",
) -> Decision:
    """Compare a drive's active threshold with its new inflection point.

    The drive is retrained if it has no model, or if its point has moved by at least
    `shift_percentiles` plus `sampling_percentiles`, the difference that chance explains. A latency
    model is always retrained. If there are too few reads, nothing is changed.
    """
    if len(distribution) < MIN_READS:
        return Decision(
            drive,
            False,
            f"only {len(distribution)} reads recorded to label by, {MIN_READS} are needed; "
            "kept as it is",
            None,
        )
    if active_threshold_us is None:
        return Decision(drive, True, "no model is active", None)
    active = 100 * float(distribution.share_at_most(active_threshold_us))
    new = 100 * float(distribution.share_at_most(point.threshold_us))
    shift = abs(new - active)
    if kind == "latency":
        return Decision(
            drive,
            True,
            f"latency models are trained each time (the point has moved by {shift:.1f} "
            f"percentiles; sampling explains {sampling_percentiles:.1f})",
            shift,
            sampling_percentiles,
        )
    needed = shift_percentiles + sampling_percentiles
    moved = shift >= needed
    return Decision(
        drive,
        moved,
        f"the active threshold, {active_threshold_us} us, is at p{active:.1f} of the recording, "
        f"the new point, {point.threshold_us} us, at p{new:.1f}: moved by {shift:.1f} percentiles, "
        f"{'at least' if moved else 'less than'} {needed:.1f} ({shift_percentiles:g}, and "
        f"{sampling_percentiles:.1f} that sampling explains)",
        shift,
        sampling_percentiles,
    )


@dataclasses.dataclass
class _DriveRun:
    """The recalibration of one drive, step by step."""

    drive: Drive
    trace: Path
    point: InflectionPoint
    decision: Decision
    #: Path of the new model, or None if none was trained.
    new: Path | None = None
    comparison: Comparison | None = None
    uploaded: str | None = None

    @property
    def name(self) -> str:
        return self.drive.name


def recalibrate(
    devices: Sequence[AnyPath],
    models_dir: AnyPath,
    recipe: Recipe,
    *,
    duration_s: float,
    shift_percentiles: float = SHIFT_PERCENTILES,
    kind: Kind | None = None,
    recordings: AnyPath | None = None,
    conf_path: AnyPath | None = None,
    log: Log = print,
) -> list[Decision]:
    """Recalibrate the array once; return a decision for each drive.

    Each retraining creates a directory in `models_dir`, which is named after the time. The drive's
    state has a line for each recalibration, with the path of the uploaded model. A model that is
    not better than the active one stays in `models_dir`, but is not uploaded. A network that is not
    better than admitting every read is not written. By default, new models have the kind of the
    active models, or are networks if there are none. If `recordings` is given, the files
    ``<drive>.blk`` in this folder are used, and nothing is recorded. If the drives.conf at
    `conf_path` has an entry for a drive, the entry is changed to the new model for the next boot.

    Raises
    ------
    LinnappError
        If a drive is named twice, if the drives have models of both kinds and no kind is given, if
        the kernel does not support the new models, or if recording, training or an upload fails.
        A drive whose upload fails keeps its old model. The other drives still get their new ones.
    KeyboardInterrupt
        If ctrl-C is received. Before the uploads begin, it leaves all active models unchanged.
    """
    models_dir = Path(models_dir)
    drives = [Drive(str(device)) for device in devices]
    for number, drive in enumerate(drives):
        if drive.name in [other.name for other in drives[:number]]:
            raise LinnappError(
                f"{devices[number]}: {drive.name} is named twice; the drives of an array are each "
                "other's replicas, name each once"
            )
        if recordings is None and (why := has_no_node(drive.name)):
            raise DeviceError(why)
    recipe = dataclasses.replace(recipe, kind=kind or _active_kind(drives))
    _check_uploadable(drives, recipe)
    with _scratch(models_dir) as scratch, releasing():
        if recordings is None:
            _record([drive.name for drive in drives], scratch, models_dir, duration_s, log)
        runs = _decide(drives, Path(recordings or scratch), recipe, shift_percentiles, log)
        _train(runs, models_dir / time.strftime("%Y%m%d-%H%M%S"), recipe, log)
        failures = []
        for run in runs:
            if run.new is None:
                continue
            if run.comparison is not None:
                kept = "" if run.comparison.new_is_better else "not uploaded, "
                log(f"{run.name}: {kept}{run.comparison.verdict}: {run.comparison}")
                if kept:
                    continue
            try:
                _upload(run, run.new, conf_path, log)
            except LinnappError as error:
                failures.append(f"{run.name}: {error}")
        for run in runs:
            comparison = run.comparison
            line = {
                "time": time.time(),
                **dataclasses.asdict(run.decision),
                "comparison": None if comparison is None else dataclasses.asdict(comparison),
                "uploaded": run.uploaded,
            }
            state.append_line(run.name, "recalibration.jsonl", line)
        if failures:
            raise LinnappError("; ".join(failures))
    return [run.decision for run in runs]


def _record(
    names: Sequence[str], directory: Path, models_dir: Path, duration_s: float, log: Log
) -> None:
    """Record the disks with these names. The caller has replaced partitions by their disks."""
    log(f"recording {', '.join(names)} for {duration_s:g} s")
    restore_left(log, names)
    with contextlib.ExitStack() as stack:
        if any(map(arrays_of, names)):  # lock out other processes
            stack.enter_context(state.alone())
        stack.enter_context(observing(names, "recalibrate", log))
        done, _ = record(
            [node_of(name) for name in names],
            directory,
            duration_s=duration_s,
            keep_interrupted=False,
            unmerged_dir=models_dir,
        )
    for recording in done:
        if recording.dropped:
            log(f"{recording.drive}: {recording.dropped} events dropped in the recording")


def _decide(
    drives: Sequence[Drive], recordings: Path, recipe: Recipe, shift: float, log: Log
) -> list[_DriveRun]:
    """Label the recordings and decide which drives are retrained."""
    traces = [recordings / f"{drive.name}.blk" for drive in drives]
    blocks = [_read_blocks(trace, recipe) for trace in traces]
    distributions = [drive.distribution() for drive in blocks]
    points = find_inflection_points(distributions, recipe.labelling)
    sampling = sampling_percentiles(blocks, recipe.labelling, recipe.training.seed)
    runs = []
    for drive, trace, distribution, point, by_chance in zip(
        drives, traces, distributions, points, sampling, strict=True
    ):
        if warning := point.warning(drive.name):
            log(as_options(warning))
        active_us = drive.threshold_us if drive.model_id is not None else None
        decision = decide(drive.name, active_us, distribution, point, shift, by_chance, recipe.kind)
        log(f"{drive.name}: {'retrain' if decision.retrain else 'keep'}: {decision.reason}")
        runs.append(_DriveRun(drive, trace, point, decision))
    return runs


def _train(runs: Sequence[_DriveRun], out: Path, recipe: Recipe, log: Log) -> None:
    """Train models for the drives to be retrained, and compare them with the active models.

    No model is uploaded yet. After ctrl-C in this function, all active models are unchanged.
    """
    runs = [run for run in runs if run.decision.retrain]
    if not runs:
        return
    log(f"training {', '.join(run.name for run in runs)}")
    trained: list[str] = []
    with contextlib.suppress(NoGainError):  # the log has each drive's reason
        trained = train_labelled(
            [run.trace for run in runs],
            [run.point for run in runs],
            out,
            recipe,
            observer=_ToLog(log),
            keep_interrupted=False,
        )
    for run in runs:
        if run.name not in trained:
            continue
        run.new = out / f"{run.name}{SUFFIX}"
        data = run.drive.read_model()
        active = None if data is None else model_from_bytes(data, run.name)
        # A drive's first latency model is uploaded without a comparison, because its predictions
        # are useful even if it refuses no reads.
        if active is not None or recipe.kind != "latency":
            new = load_model(run.new)
            run.comparison = compare(run.trace, new, active, recipe, run.point.replicas)


class _ToLog(Observer):
    """Observer that logs the drives for which training returns no model."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def no_gain(self, drive: str, why: str) -> None:
        """Report that a drive's active model is kept."""
        self._log(f"{drive}: not retrained: {why}")


def _active_kind(drives: Sequence[Drive]) -> Kind:
    """Return the kind of the drives' active models, or "network" if there are none."""
    active: dict[Kind, str] = {}
    for drive in drives:
        found = drive.model_kind
        if found is not None:
            active.setdefault(found, drive.name)
    if len(active) > 1:
        raise LinnappError(
            f"{active['network']} has a network and {active['latency']} a latency model; choose "
            "the kind of all new models with `kind=`"
        )
    return next(iter(active), "network")


def _check_uploadable(drives: Sequence[Drive], recipe: Recipe) -> None:
    """Raise an error, before recording and training, if the kernel does not support the model."""
    if recipe.kind == "latency":
        for drive in drives:
            drive.check_runs_latency_models()
    elif recipe.training.n_hidden != KERNEL_HIDDEN:
        raise LinnappError(
            f"`n_hidden={recipe.training.n_hidden}`: the kernel does not run such networks, and "
            "recalibrate uploads what it trains; leave it out"
        )


def _read_blocks(trace: Path, recipe: Recipe) -> LatencyBlocks:
    """Return the part of a recording that labelling uses: its training slice."""
    recording, recipe = recipe.opened(trace)
    reads = load_reads(recording, **recipe.reader)
    check_losses(trace, reads.stats)
    rows = split(len(reads), recipe.training).training
    return LatencyBlocks(reads.latency_us[rows])


def _upload(run: _DriveRun, path: Path, conf_path: AnyPath | None, log: Log) -> None:
    """Upload a drive's new model.

    The entry in drives.conf is changed first, so that both agree after a crash.
    """
    drive, model, keep = run.drive, load_model(path), name_to_keep(run.name)
    with contextlib.ExitStack() as stack:
        if conf_path is not None:
            try:
                if keep in load_conf(conf_path).drives:
                    stack.enter_context(state.alone())
                    entry = load_conf(conf_path).drives[keep]
                    entry = dataclasses.replace(entry, model=path.absolute())
                    stack.enter_context(recorded(conf_path, DrivesConf({keep: entry})))
                    log(f"{conf_path}: has the new model of {drive.name}, for the next boot")
            except LinnappError as error:
                log(f"{conf_path}: keeps the old model, which the next boot restores: {error}")
        replace_model(drive, model, lambda problem: log(f"{drive.name}: {problem}"))
    run.uploaded = str(path)
    log(f"{drive.name}: uploaded {path} ({model.model_id}, {model.threshold_us} us)")


@contextlib.contextmanager
def _scratch(models_dir: Path) -> Iterator[Path]:
    """Yield a directory for recordings, locked against other recalibrations in `models_dir`."""
    taken = (
        "another recalibration is running there; wait until it ends, or give this one a directory "
        "of its own with `models_dir=`"
    )
    with locked_folder(models_dir, taken):
        with os_errors(models_dir):
            # No other run holds the lock, so these directories were left by killed runs.
            for path in models_dir.iterdir():
                if _LEFT_OVER.match(path.name) and path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
            scratch = tempfile.TemporaryDirectory(prefix=".recording.", dir=models_dir)
        with scratch as folder:
            yield Path(folder)
