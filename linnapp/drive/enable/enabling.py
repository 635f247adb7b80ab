# SPDX-License-Identifier: MIT
"""Make an array read from the mirror that is predicted to answer first, in one step.

The array's own load is recorded, and a latency model is trained for each drive and evaluated on
reads that were not used in training. Only if all models have a benefit is anything changed: models
are uploaded, the drives observe, md queries LinnOS. ``drives.conf`` then has the settings that
:mod:`linnapp.drive.restoring` applies after a reboot. If a step fails, the previous ones are
undone; :mod:`linnapp.drive.enable.disabling` undoes all of it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from linnapp.drive import state
from linnapp.drive.drives_conf import (
    DEFAULT_CONF,
    DriveEntry,
    DrivesConf,
    load_conf,
    save_conf,
)
from linnapp.drive.enable.checks import Target, check, name_to_keep, nodes
from linnapp.drive.enable.disabling import switch_off
from linnapp.drive.enable.places import alone, home_of, remove_models, remove_unused
from linnapp.drive.enable.restore_unit import KEEP_UNIT, UNIT, enable_unit, is_restored_by_systemd
from linnapp.drive.journal import Log
from linnapp.drive.keep import switched_back
from linnapp.drive.md import MdArray
from linnapp.drive.observing import observing
from linnapp.drive.restoring import restore_drive
from linnapp.drive.stable_ids import identity_of, warn_of_name
from linnapp.drive.sysfs import Drive, disk_stat, observed, observer_of
from linnapp.drive.trial.state import put_back_left
from linnapp.drive.uploading import replace_model
from linnapp.errors import LinnappError, NoGainError, TraceError
from linnapp.files import AnyPath
from linnapp.learn.options import Observer, Recipe
from linnapp.learn.recipe import train_array
from linnapp.learn.trees.training import MIN_READS
from linnapp.model import SUFFIX, load_model
from linnapp.signals import signals_held
from linnapp.trace.recorded import check_losses
from linnapp.trace.recording import (
    PROGRESS_EVERY_S,
    RecordingProgress,
    UnmergedError,
    check_can_trace,
    record,
)

#: Default duration of a recording: three of the checkpoints that databases make every five
#: minutes, and enough reads from a rate of 1.6 per second and drive.
DEFAULT_S = 900.0

#: Interval between checks of the disk space for a recording if no progress is shown.
_LOOK_AT_ROOM_S = 20.0


@dataclasses.dataclass(frozen=True)
class Seen:
    """Progress of a recording."""

    seconds: float
    of_seconds: float
    #: Per drive.
    reads: dict[str, int]
    #: Minimum number per drive for a useful model.
    reads_needed: int
    #: Number of lost events.
    dropped: int


def reads_needed(recipe: Recipe) -> int:
    """Return the minimum number of a drive's reads with which a model can rank them."""
    share = 1 - recipe.training.validation_share - recipe.training.test_share
    return math.ceil(MIN_READS / share) + 1


def steps(
    target: Target, conf_path: AnyPath, for_s: float, recordings: AnyPath | None = None
) -> list[str]:
    """Describe the steps of :func:`enable`, without changes."""
    names = ", ".join(target.drives)
    found = []
    if recordings is None:
        found.append(f"record {names} with blktrace for {for_s:g} s")
    else:
        found.append(f"read the recordings of {names} in {recordings}")
    found.append(
        f"train a model of latencies for each, to {home_of(target)}; if one of them does not "
        "choose, or ranks the newest reads no better than others do, all is left as it is"
    )
    observers = {observer_of(name) for name in target.drives}
    if "none" in observers:
        found.append("modprobe linnos")
    if observers & {"none", "unnamed"}:
        unnamed = [n for n in target.drives if observer_of(n) in ("none", "unnamed")]
        found.append(f"name {', '.join(unnamed)} to the module linnos")
    for name in target.drives:
        found.append(f"upload {name}'s model, mode observe")
    if target.array is not None:
        found.append(f"echo on >/sys/block/{target.array}/md/linnos")
    kept = [name_to_keep(name) for name in target.named]
    found.append(f"write {conf_path}: {', '.join(kept)}")
    if is_restored_by_systemd(Path(conf_path)):
        found.append(f"systemctl enable {UNIT}")
        found.append(f"systemctl enable --now {KEEP_UNIT}")
    return found


def check_enabling(target: Target, conf_path: AnyPath, recordings: AnyPath | None = None) -> None:
    """Raise an error if :func:`enable` cannot work."""
    check(target, load_conf(conf_path) or DrivesConf())
    if recordings is None:
        check_can_trace(nodes(target))


def enable(
    target: Target,
    *,
    conf_path: AnyPath = DEFAULT_CONF,
    for_s: float = DEFAULT_S,
    recordings: AnyPath | None = None,
    log: Log = print,
    on_progress: Callable[[Seen], None] | None = None,
    observer: Observer | None = None,
) -> None:
    """Record for `for_s`, train, evaluate, upload, switch on, and save the settings.

    `recordings` is a folder whose ``<drive>.blk`` is used instead of recording. `log` receives a
    line for each step; `on_progress` is called twice a second during the recording.

    Raises
    ------
    NoGainError
        If a drive's model has no benefit; nothing is then changed.
    LinnappError
        If a check or a step fails; all changes are then undone.
    KeyboardInterrupt
        On ctrl-C; nothing is then changed, and a recording that was started is kept.
    """
    recipe = Recipe(kind="latency")
    put_back_left(log)
    check_enabling(target, conf_path, recordings)
    for name in target.named:
        if why := warn_of_name(name):
            log(f"warning: {why}")
    with alone():
        home = home_of(target)
        own = home / "recording"
        models = _fresh(home)
        try:
            if recordings is None:
                _record(target, own, for_s, recipe, log, on_progress)
            _train(target, Path(recordings or own), models, recipe, log, observer)
            # Read it again, because it may have changed during the recording.
            conf = load_conf(conf_path) or DrivesConf()
            check(target, conf)
            _apply(target, models, Path(conf_path), conf, log)
        except BaseException as error:
            shutil.rmtree(models, ignore_errors=True)
            if recordings is None and not isinstance(error, UnmergedError):
                _keep_or_remove(target, own, isinstance(error, NoGainError | TraceError), log)
            _remove_if_empty(home)
            remove_unused()
            raise
        # This also removes the remains of a run that was killed.
        remove_models(home, load_conf(conf_path) or DrivesConf())
    enable_unit(Path(conf_path), log)


def _fresh(home: Path) -> Path:
    """Return a folder that does not exist yet; drives.conf may name one of the same second."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    names = (stamp, *(f"{stamp}-{n}" for n in range(2, 1000)))
    return next(home / name for name in names if not (home / name).exists())


def _record(
    target: Target,
    directory: Path,
    for_s: float,
    recipe: Recipe,
    log: Log,
    on_progress: Callable[[Seen], None] | None,
) -> None:
    begin = {name: disk_stat(name)["read_ios"] for name in target.drives}
    needed = reads_needed(recipe)

    def reads() -> dict[str, int]:
        return {name: disk_stat(name)["read_ios"] - begin[name] for name in target.drives}

    def show(progress: RecordingProgress) -> None:
        free = shutil.disk_usage(directory).free
        if free < progress.size_bytes:
            raise TraceError(
                f"{directory}: {progress.size_bytes >> 20} MiB are recorded after "
                f"{progress.seconds:.0f} s, {free >> 20} are free, and merging takes as much "
                "again; make room, record for a shorter time (--for), or name another place with "
                "LINNAPP_STATE"
            )
        if on_progress is not None:
            on_progress(Seen(progress.seconds, for_s, reads(), needed, progress.dropped))

    def stop() -> None:
        raise KeyboardInterrupt

    # Remove a previous recording, parts of which could otherwise remain.
    shutil.rmtree(directory, ignore_errors=True)
    log(
        f"recording {', '.join(target.drives)} for {for_s:g} s; ctrl-C ends it, and changes nothing"
    )
    with observing(target.drives, log):
        done, _ = record(
            nodes(target),
            directory,
            duration_s=for_s,
            on_progress=show,
            progress_every_s=PROGRESS_EVERY_S if on_progress else _LOOK_AT_ROOM_S,
            on_interrupted=stop,
        )
    if not any(reads().values()):
        raise TraceError(
            f"nobody read {target.shown} meanwhile: there is nothing to learn from; enable it "
            "under its usual load"
        )
    for recording in done:
        if recording.dropped:
            log(f"{recording.drive}: {recording.dropped} events dropped in the recording")


def _keep_or_remove(target: Target, directory: Path, useless: bool, log: Log) -> None:
    """Print the path of a recording if it is complete and may be useful, otherwise remove it."""
    if useless or not all((directory / f"{name}.blk").exists() for name in target.drives):
        shutil.rmtree(directory, ignore_errors=True)
        return
    log(
        "nothing is changed; to train on what is recorded: linnapp enable "
        f"{target.words} --recordings {directory}"
    )


def _train(
    target: Target,
    recordings: Path,
    models: Path,
    recipe: Recipe,
    log: Log,
    observer: Observer | None,
) -> None:
    log(f"training {', '.join(target.drives)}")
    traces = [recordings / f"{name}.blk" for name in target.drives]
    for trace in traces:
        check_losses(trace)
    # Use one process only, because the machine has other work.
    trained = train_array(traces, models, recipe, observer=observer, processes=1)
    if len(trained) < len(target.drives):
        raise KeyboardInterrupt
    reasons = []
    records = {name: json.loads((models / f"{name}.json").read_text()) for name in target.drives}
    # If the other models compare predictions, a model of bursts only separates fast from slow.
    of_bursts = target.array is not None and all(map(is_burst_only, records.values()))
    for name, record_of in records.items():
        if of_bursts:
            log(f"{name}: {BURSTS_ALONE}; {record_of['remedy']}")
        elif why := why_not(record_of):
            reasons.append(f"{name}: {why}")
    if reasons:
        raise NoGainError(f"{target.shown} stays as it is. {'; '.join(reasons)}")


#: Message for a drive of an array; only md follows such a model.
BURSTS_ALONE = "its model knows added bursts alone: md follows it in these, as long as that pays"


def is_burst_only(record: Mapping[str, Any]) -> bool:
    """Return true if a model learnt only from bursts that were added to a drive's own reads."""
    return not record["chooses"] and record["n_trees"] > 0


def why_not(record: Mapping[str, Any]) -> str:
    """Return the reason why a drive's model has no benefit; empty if it has one.

    It is compared with the choice made without it: md's, by pending I/Os, or none. The record of
    its training has statistics of the newest reads, by trees that were not trained on them.
    """
    if not record["chooses"]:
        why = record["why_no_trees"] or "too few trees"
        return f"its model does not choose ({why}); {record['remedy']}"
    area = record["auc"]
    known = {
        "the number of pending pages": record["auc_pending"],
        "chance": 0.5,
    }
    if area is None:
        own, last = record["mean_abs_log2_error"], record["mean_abs_log2_error_last_latencies"]
        if own <= last:
            return ""
        return (
            f"its model is not worth it: it is off by a factor of {2**own:.2f} of the newest "
            f"reads, the mean of the last latencies by {2**last:.2f}"
        )
    best = max(known, key=lambda name: known[name] or 0.0)
    if area > (known[best] or 0.0):
        return ""
    return (
        f"its model is not worth it: it ranks the newest reads by an area under ROC of {area:.3f}, "
        f"{best} by {known[best]:.3f}; record longer, under the load that the drive is slow under"
    )


def _apply(target: Target, models: Path, conf_path: Path, conf: DrivesConf, log: Log) -> None:
    """Switch the target on, or undo all changes if that fails."""
    array = None if target.array is None else MdArray(target.array)
    before = None if array is None else array.state
    named = [name for name in target.drives if observer_of(name) in ("none", "unnamed")]
    with signals_held():  # a signal must not leave it half done
        try:
            drives = {name: observed(name) for name in target.drives}
            entries = {}
            for name, drive in drives.items():
                keep = name_to_keep(name)
                path = models / f"{name}{SUFFIX}"
                _give(drive, path, first=keep not in conf.drives, log=log)
                entries[keep] = DriveEntry(
                    "observe",
                    path,
                    target.array_id,
                    identity_of(name),
                )
                log(f"{name}: model {drive.model_id}, mode observe")
            arrays, array_identities = {}, {}
            if array is not None and target.array_id is not None:
                array.set_asks(True)
                arrays[target.array_id] = True
                array_identities[target.array_id] = identity_of(array.name)
                log(f"{array.name}: reads from the mirror that is predicted to answer first")
            save_conf(conf_path, conf.updated(entries, arrays, array_identities))
            switched_back.forget([*entries, *arrays])
        except BaseException:
            _take_back(target, conf, array, before, named, log)
            raise
    log(f"written to {conf_path}")


def _give(drive: Drive, path: Path, *, first: bool, log: Log) -> None:
    """Give a drive its model and mode; keep its previous model unless `linnapp enable` made it."""
    model = load_model(path)
    if first:
        replace_model(drive, model, log)
    else:
        drive.upload(model)
        with contextlib.suppress(LinnappError):
            state.save_upload(drive.name, model.model_id)
    drive.set_mode("observe")


def _take_back(
    target: Target,
    conf: DrivesConf,
    array: MdArray | None,
    before: str | None,
    named: list[str],
    log: Log,
) -> None:
    """Restore drives to their state in drives.conf, and switch off those that are not in it."""
    if array is not None and before is not None:
        with _logged(log):
            array.set_state(before)
    for name in target.drives:
        with _logged(log):
            keep = name_to_keep(name)
            if keep in conf.drives:
                restore_drive(keep, conf.drives[keep])
            elif observer_of(name) in ("kernel", "module"):
                switch_off(Drive(name), forget=name in named)


@contextlib.contextmanager
def _logged(log: Log) -> Iterator[None]:
    """Log errors of the block, which is part of an undo, and continue."""
    try:
        yield
    except LinnappError as error:
        log(str(error))


def _remove_if_empty(directory: Path) -> None:
    with contextlib.suppress(OSError):
        directory.rmdir()
