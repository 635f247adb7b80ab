# SPDX-License-Identifier: MIT
"""Make an array read from the mirror that is predicted to answer first, in one step.

The array's own load is recorded, and a latency model is trained for each drive and evaluated on
reads that were not used in training. Only if all models have a benefit, the deployment is changed
(:mod:`linnapp.drive.deployment`): models are uploaded, the drives observe, md queries LinnOS.
"""

from __future__ import annotations

import contextlib
import datetime
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from linnapp.drive import state, switches
from linnapp.drive.checks import Target, check
from linnapp.drive.deployment import deploy
from linnapp.drive.drives_conf import DEFAULT_CONF, load_conf
from linnapp.drive.journal import Log
from linnapp.drive.recording import RecordingProgress, UnmergedError, check_can_trace, record
from linnapp.drive.stable_ids import name_to_keep, warn_of_name
from linnapp.drive.sysfs import Drive, disk_stat
from linnapp.drive.units import UNIT, enable_unit, is_restored_by_systemd
from linnapp.errors import NoGainError, TraceError
from linnapp.files import AnyPath
from linnapp.learn.fit import train_array
from linnapp.learn.options import Observer, Recipe
from linnapp.learn.trees import reads_needed
from linnapp.model import LatencyModel, Model


def steps(
    target: Target,
    drives: Sequence[Drive],
    conf_path: AnyPath,
    for_s: float,
    recordings: AnyPath | None = None,
) -> list[str]:
    """Describe the steps of :func:`enable`, without changes."""
    names = ", ".join(target.drives)
    unobserved = [drive for drive in drives if not drive.is_observed]
    found = [
        f"record {names} with blktrace for {for_s:g} s"
        if recordings is None
        else f"read the recordings of {names} in {recordings}",
        f"train a latency model for each in {target.folder}, and change nothing if one of them "
        "cannot choose, or predicts the newest reads no better than a simpler method",
    ]
    if any(drive.observer == "none" for drive in unobserved):
        found.append("modprobe linnos")
    if unobserved:
        added = ", ".join(drive.name for drive in unobserved)
        found.append(f"let the module linnos observe {added}")
    kept = ", ".join(map(name_to_keep, target.names))
    found.append(f"write {conf_path}: {kept}")
    found += [f"upload {name}'s model, mode observe" for name in target.drives]
    if target.array is not None:
        found.append(f"echo on >/sys/block/{target.array}/md/linnos")
    if is_restored_by_systemd(Path(conf_path)):
        found.append(f"systemctl enable {UNIT}")
    return found


def check_enabling(
    target: Target, conf_path: AnyPath, recordings: AnyPath | None = None
) -> list[Drive]:
    """Raise an error if :func:`enable` cannot work; return the drives."""
    drives = check(target, load_conf(conf_path))
    if recordings is None:
        check_can_trace(target.nodes)
    return drives


def enable(
    target: Target,
    *,
    conf_path: AnyPath = DEFAULT_CONF,
    for_s: float,
    recordings: AnyPath | None = None,
    log: Log = print,
    show: Callable[[str], None] = lambda _: None,
    observer: Observer | None = None,
) -> None:
    """Record for `for_s`, train, evaluate, upload, switch on, and save the settings.

    `recordings` is a folder whose ``<drive>.blk`` is used instead of recording. `log` receives a
    line for each step; `show` receives the progress of the recording twice a second.

    Raises
    ------
    NoGainError
        If a drive's model has no benefit; nothing is then changed.
    LinnappError
        If a check or a step fails; all changes are then undone.
    KeyboardInterrupt
        On ctrl-C; nothing is then changed, and a recording that was started is kept.
    """
    # The prior made md slower on calm drives: record for longer instead.
    recipe = Recipe(kind="latency", prior=False, check_losses=True)
    check_enabling(target, conf_path, recordings)
    for name in target.names:
        if why := warn_of_name(name):
            log(f"warning: {why}")
    with state.alone():
        own_recordings = target.folder / "recording"
        # Another run of the same second may have made models that drives.conf names.
        models = target.folder / f"{datetime.datetime.now():%Y%m%d-%H%M%S.%f}"
        try:
            if recordings is None:
                _record(target, own_recordings, for_s, recipe, log, show)
            folder = Path(recordings or own_recordings)
            trained = _train(target, folder, models, recipe, log, observer)
            # Read it again, because it may have changed during the recording.
            drives = check(target, load_conf(conf_path))
            conf = deploy(drives, target.md, trained, models, conf_path, log)
        except BaseException as error:
            shutil.rmtree(models, ignore_errors=True)
            if recordings is None and not isinstance(error, UnmergedError):
                is_useless = isinstance(error, NoGainError | TraceError)
                _keep_or_remove(target, own_recordings, is_useless, log)
            with contextlib.suppress(OSError):
                target.folder.rmdir()
            state.remove_unused()
            raise
        # This also removes the remains of a run that was killed.
        state.remove_models(target.folder, conf.models)
    enable_unit(Path(conf_path), log)


def _record(
    target: Target,
    directory: Path,
    for_s: float,
    recipe: Recipe,
    log: Log,
    show: Callable[[str], None],
) -> None:
    begin = {name: disk_stat(name)["read_ios"] for name in target.drives}
    needed = reads_needed(recipe)

    def reads() -> dict[str, int]:
        return {name: disk_stat(name)["read_ios"] - begin[name] for name in target.drives}

    def on_progress(progress: RecordingProgress) -> None:
        free = shutil.disk_usage(directory).free
        if free < progress.size_bytes:
            raise TraceError(
                f"{directory}: {progress.size_bytes >> 20} MiB are recorded after "
                f"{progress.seconds:.0f} s, {free >> 20} are free, and merging takes as much "
                "again; make room, record for a shorter time (--for), or name another place with "
                "LINNAPP_STATE"
            )
        show(describe_progress(progress, for_s, reads(), needed))

    # Remove a previous recording, parts of which could otherwise remain.
    shutil.rmtree(directory, ignore_errors=True)
    log(f"recording {', '.join(target.drives)} for {for_s:g} s; ctrl-C ends it without any change")
    with switches.observing(target.drives, "enable", log):
        done, _ = record(
            target.nodes,
            directory,
            duration_s=for_s,
            on_progress=on_progress,
            at_ctrl_c="keep",
        )
    if not any(reads().values()):
        raise TraceError(
            f"{target.title}: no reads during the recording, so there is nothing to learn from; "
            "enable it under its usual load"
        )
    for recording in done:
        recording.log_dropped(log)


def describe_progress(
    progress: RecordingProgress, for_s: float, reads: Mapping[str, int], needed: int
) -> str:
    """Return a recording's progress, and the time that it needs if there will be too few reads."""
    text = (
        f"{progress.seconds:.0f} of {for_s:g} s; reads: "
        f"{', '.join(f'{name} {n}' for name, n in reads.items())}; {needed} of each are needed"
    )
    if progress.dropped:
        text += f", {progress.dropped} EVENTS DROPPED"
    fewest = min(reads.values())
    if fewest and progress.seconds >= min(30.0, for_s / 2):
        needed_s = needed * progress.seconds / fewest
        if needed_s > for_s:
            text += f"; at this rate --for {needed_s:.0f}"
    return text


def _keep_or_remove(target: Target, directory: Path, useless: bool, log: Log) -> None:
    """Print the path of a recording if it is complete and may be useful, otherwise remove it."""
    if useless or not all((directory / f"{name}.blk").exists() for name in target.drives):
        shutil.rmtree(directory, ignore_errors=True)
        return
    log(
        "nothing is changed; to train on this recording: linnapp enable "
        f"{target.arguments} --recordings {directory}"
    )


def _train(
    target: Target,
    recordings: Path,
    models: Path,
    recipe: Recipe,
    log: Log,
    observer: Observer | None,
) -> dict[str, Model | LatencyModel]:
    """Train a model for each drive; return them by the drives' names."""
    log(f"training {', '.join(target.drives)}")
    traces = [recordings / f"{name}.blk" for name in target.drives]
    no_gain: dict[str, str] = {}
    trained = {}
    with contextlib.suppress(NoGainError):
        # Use one process only, because the machine has other work.
        trained = train_array(
            traces,
            models,
            recipe,
            observer=observer,
            on_no_gain=no_gain.__setitem__,
            processes=1,
        )
    reasons = [f"{name}: no model: {why}" for name, why in no_gain.items()]
    if not reasons:
        # Ctrl-C ended the training after the first drives.
        if len(trained) < len(target.drives):
            raise KeyboardInterrupt
        found = {name: why_not(result.record_) for name, result in trained.items()}
        reasons = [f"{name}: {why}" for name, why in found.items() if why]
    if reasons:
        raise NoGainError(f"{target.title} is not changed. {'; '.join(reasons)}")
    return {name: result.model_ for name, result in trained.items()}


def why_not(record: Mapping[str, Any]) -> str:
    """Return the reason why a drive's model has no benefit, or an empty text if it has one.

    The model is compared with choosing by pending I/Os, as md does, and with chance. `record` is
    the record of its training. The statistics of the newest reads in it are those of trees that
    were not trained on these reads.
    """
    area = record["auc"]
    if area is None:
        error = record["mean_abs_log2_error"]
        error_of_last = record["mean_abs_log2_error_last_latencies"]
        if error <= error_of_last:
            return ""
        return (
            f"its model has no benefit: for the newest reads, its error is a factor of "
            f"{2**error:.2f}, that of the mean of the last latencies {2**error_of_last:.2f}"
        )
    others = {"the number of pending pages": record["auc_pending"] or 0.0, "chance": 0.5}
    best = max(others, key=lambda name: others[name])
    if area > others[best]:
        return ""
    return (
        f"its model has no benefit: for the newest reads, its area under ROC is {area:.3f}, that "
        f"of {best} {others[best]:.3f}; record for longer, under a load that makes the drive slow"
    )
