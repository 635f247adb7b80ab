# SPDX-License-Identifier: MIT
"""Maintain the models of running drives: record again and retrain, and undo `enforce` on a fault.

:func:`recalibrate` records an array again, labels again and trains. A drive's network is trained
for its inflection point. When the drive ages or its load changes, the point moves. The shift is the
difference between two percentiles of a new recording: that of the active threshold and that of the
new inflection point. A new network is trained if the shift is at least five percentiles (section
4.5 of Hao et al., OSDI 2020). Latency models are always trained again, which takes seconds.

A new model replaces the active one only if it is significantly better on the newest reads, which
are not used in training (:mod:`linnapp.drive.comparison`). A drive always has a working model,
because the new one is trained in a separate directory, uploaded atomically and checked. The old one
stays active if any step before the upload fails, is interrupted or is killed.

:class:`Watchdog` checks every drive of drives.conf that enforces, once a minute. Its measurements
are a few numbers in memory. Arrays need no watchdog: md compares redirected reads with a control
group, and stops redirecting by itself.

Two shares are compared with those that the training record contains for the newest reads of the
recording: the refused share of the hinted reads, and the slow share of the admitted reads. The
bound of a share is twice the expected share plus ten percentage points. Training permits a model to
refuse that many fast reads, and a recording of 15 minutes has too few bursts to distinguish one
percent from three. With the minimum number of reads, half of the ten points are due to chance.
Bursts, backups and checkpoints are temporary, so a share must exceed its bound at every check for
ten minutes, and at three checks or more. A check with too few reads is combined with the next one.

A drive that has become slow refuses more reads than expected. This is no fault, and it would be
wrong to send all reads to this drive again. The kernel still sends it an occasional read, and other
programs may read from it. While the median latency of all these reads exceeds the model's
threshold, the refused share is no reason to reset the drive.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import shutil
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from linnapp.drive import journal, state, switches
from linnapp.drive.checks import find_target
from linnapp.drive.comparison import Comparison, compare
from linnapp.drive.deployment import recorded, replace_model
from linnapp.drive.drives_conf import DriveEntry, DrivesConf, load_conf, save_conf
from linnapp.drive.journal import Log, errors_logged
from linnapp.drive.latencies import percentile_us
from linnapp.drive.md import arrays_of
from linnapp.drive.recording import record
from linnapp.drive.stable_ids import name_to_keep
from linnapp.drive.sysfs import Drive, explain_no_node, node_of
from linnapp.errors import DeviceError, LinnappError, NoGainError, as_options
from linnapp.files import AnyPath, locked_folder, os_errors
from linnapp.learn.fit import read_latencies, train_array
from linnapp.learn.labels import InflectionPoint, LatencyDistribution, find_inflection_points
from linnapp.learn.options import Kind, Recipe
from linnapp.model import KERNEL_HIDDEN, SUFFIX, LatencyModel, Model, model_from_bytes
from linnapp.trace.reads import releasing

SHIFT_PERCENTILES = 5.0

#: Minimum number of labelled reads from which a drive's percentiles can be estimated.
MIN_LABELLED = 1400

#: Names of temporary directories: for the recordings of a run, and for new models until the
#: directory is complete and renamed.
_LEFT_OVER = re.compile(r"\.(recording|\d{8}-\d{6})\.")


# -- record again and retrain --


@dataclasses.dataclass(frozen=True)
class Decision:
    """A decision about a drive, with its reason."""

    drive: str
    retrain: bool
    #: Text for the log.
    reason: str
    #: Shift in percentiles, or None if there is no active model or too few reads were recorded.
    shift_percentiles: float | None


def decide(
    drive: str,
    active_threshold_us: int | None,
    distribution: LatencyDistribution,
    point: InflectionPoint,
    shift_percentiles: float = SHIFT_PERCENTILES,
    kind: Kind = "network",
) -> Decision:
    """Compare a drive's active threshold with its new inflection point.

    The drive is retrained if it has no model, or if its point has moved by at least
    `shift_percentiles`. A latency model is always retrained. If there are too few reads, nothing is
    changed.
    """
    n = len(distribution)
    if n < MIN_LABELLED:
        why = f"only {n} reads recorded to label by, {MIN_LABELLED} are needed; kept as it is"
        return Decision(drive, False, why, None)
    if active_threshold_us is None:
        return Decision(drive, True, "no model is active", None)
    active, new = (
        100 * float(distribution.share_at_most(us))
        for us in (active_threshold_us, point.threshold_us)
    )
    shift = abs(new - active)
    if kind == "latency":
        why = (
            f"latency models are trained each time (the point has moved by {shift:.1f} percentiles)"
        )
        return Decision(drive, True, why, shift)
    moved = shift >= shift_percentiles
    why = (
        f"the active threshold, {active_threshold_us} us, is at p{active:.1f} of the recording, "
        f"the new point, {point.threshold_us} us, at p{new:.1f}: moved by {shift:.1f} percentiles, "
        f"{'at least' if moved else 'less than'} {shift_percentiles:g}"
    )
    return Decision(drive, moved, why, shift)


@dataclasses.dataclass
class _DriveRun:
    """The recalibration of one drive, step by step."""

    drive: Drive
    trace: Path
    point: InflectionPoint
    decision: Decision
    #: The new model and its path, or None if none was trained.
    new: tuple[Model | LatencyModel, Path] | None = None
    comparison: Comparison | None = None
    uploaded: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the line for the drive's history."""
        comparison = self.comparison and dataclasses.asdict(self.comparison)
        return {
            "time": time.time(),
            **dataclasses.asdict(self.decision),
            "comparison": comparison,
            "uploaded": self.uploaded,
        }


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
    drives = [Drive(name) for name in find_target([str(device) for device in devices]).drives]
    if recordings is None:
        for drive in drives:
            if why := explain_no_node(drive.name):
                raise DeviceError(why)
    recipe = dataclasses.replace(recipe, kind=kind or _active_kind(drives), check_losses=True)
    if recipe.kind == "network" and recipe.training.n_hidden != KERNEL_HIDDEN:
        raise LinnappError(
            f"`n_hidden={recipe.training.n_hidden}`: the kernel does not run such networks, and "
            "recalibrate uploads what it trains; leave it out"
        )
    # Both the new models and active ones of the other kind then use the same table in memory.
    complete = any(drive.model_kind not in (None, recipe.kind) for drive in drives)
    with _scratch(models_dir) as scratch, releasing(complete=complete):
        if recordings is None:
            _record([drive.name for drive in drives], scratch, models_dir, duration_s, log)
        runs = _decide(drives, Path(recordings or scratch), recipe, shift_percentiles, log)
        _train(runs, models_dir / time.strftime("%Y%m%d-%H%M%S"), recipe, log)
        failures = []
        for run in runs:
            name = run.drive.name
            if run.new is None:
                continue
            if run.comparison is not None:
                kept = "" if run.comparison.new_is_better else "not uploaded, "
                log(f"{name}: {kept}{run.comparison.verdict}: {run.comparison}")
                if kept:
                    continue
            try:
                _upload(run, *run.new, conf_path, log)
            except LinnappError as error:
                failures.append(f"{name}: {error}")
        for run in runs:
            path = state.drive_directory(run.drive.name) / "recalibration.jsonl"
            with os_errors(path), path.open("a") as stream:
                stream.write(json.dumps(run.to_json()) + "\n")
        if failures:
            raise LinnappError("; ".join(failures))
    return [run.decision for run in runs]


def _active_kind(drives: Collection[Drive]) -> Kind:
    """Return the kind of the drives' active models, or "network" if there are none."""
    active = {drive.model_kind: drive.name for drive in drives}
    active.pop(None, None)
    if len(active) > 1:
        raise LinnappError(
            f"{active['network']} has a network and {active['latency']} a latency model; choose "
            "the kind of all new models with `kind=`"
        )
    return next((kind for kind in active if kind is not None), "network")


def _record(
    names: Sequence[str], directory: Path, models_dir: Path, duration_s: float, log: Log
) -> None:
    """Record the disks with these names. The caller has replaced partitions by their disks."""
    log(f"recording {', '.join(names)} for {duration_s:g} s")
    with contextlib.ExitStack() as stack:
        if any(map(arrays_of, names)):  # lock out other processes
            stack.enter_context(state.alone())
        stack.enter_context(switches.observing(names, "recalibrate", log))
        done, _ = record(
            [node_of(name) for name in names],
            directory,
            duration_s=duration_s,
            at_ctrl_c="discard",
            unmerged_dir=models_dir,
        )
    for recording in done:
        recording.log_dropped(log)


def _decide(
    drives: Iterable[Drive], recordings: Path, recipe: Recipe, shift: float, log: Log
) -> list[_DriveRun]:
    """Label the recordings and decide which drives are retrained."""
    traces = {drive: recordings / f"{drive.name}.blk" for drive in drives}
    distributions = [read_latencies(trace, recipe, may_be_few=True) for trace in traces.values()]
    points = find_inflection_points(distributions, recipe.labelling)
    runs = []
    for (drive, trace), distribution, point in zip(
        traces.items(), distributions, points, strict=True
    ):
        if warning := point.warning(drive.name):
            log(as_options(warning))
        active_us = drive.threshold_us if drive.model_id is not None else None
        decision = decide(drive.name, active_us, distribution, point, shift, recipe.kind)
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
    log(f"training {', '.join(run.drive.name for run in runs)}")
    trained = {}
    with contextlib.suppress(NoGainError):  # the log has each drive's reason
        trained = train_array(
            [run.trace for run in runs],
            out,
            recipe,
            points=[run.point for run in runs],
            on_no_gain=lambda drive, why: log(f"{drive}: not retrained: {why}"),
            keep_interrupted=False,
        )
    for run in runs:
        name = run.drive.name
        if name not in trained:
            continue
        model = trained[name].model_
        run.new = model, out / f"{name}{SUFFIX}"
        data = run.drive.read_model()
        active = None if data is None else model_from_bytes(data, name)
        # A drive's first latency model is uploaded without a comparison, because its predictions
        # are useful even if it refuses no reads.
        if active is not None or recipe.kind != "latency":
            run.comparison = compare(run.trace, model, active, recipe, run.point.replicas)


def _upload(
    run: _DriveRun, model: Model | LatencyModel, path: Path, conf_path: AnyPath | None, log: Log
) -> None:
    """Upload a drive's new model.

    The entry in drives.conf is changed first, so that both agree after a crash.
    """
    drive, keep = run.drive, name_to_keep(run.drive.name)
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


# -- the watchdog --

#: Minimum number of reads for a share. Its standard error is then at most five percentage points.
MIN_READS = 100

#: Minimum number of checks at which a share must exceed its bound, however short the window is.
MIN_CHECKS = 3

#: Minimum number of reads for the median latency. A drive that is predicted to be slow serves only
#: one of a hundred.
MIN_SERVED = 10

#: Factor and margin by which a share may exceed the expected one.
SHARE_FACTOR, SHARE_MARGIN = 2.0, 0.10

#: A share can be computed from reads of the last minute, even if the window is shorter.
_MIN_AGE_S = 60.0


@dataclasses.dataclass(frozen=True)
class ExpectedShares:
    """Expectations for future reads from a model's training record."""

    model_id: str
    #: Share of the hinted reads that are refused.
    refused: float
    #: Share of the admitted reads that are slow.
    slow: float

    @classmethod
    def load(cls, entry: DriveEntry, active: str | None) -> ExpectedShares:
        """Read the record next to a model; it must belong to the active model and be complete."""
        if entry.model is None:
            raise LinnappError("drives.conf names no model")
        path = entry.model.with_suffix(".json")
        try:
            record = json.loads(path.read_text())
            test, model_id = record["test"], str(record["model_id"])
            admitted = test["true_fast"] + test["false_submit"]
            refused = test["true_slow"] + test["false_revoke"]
            slow = test["false_submit"] / admitted if admitted else 0.0
            expected = cls(model_id, refused / (refused + admitted), slow)
        except OSError as error:
            raise LinnappError(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, ZeroDivisionError) as error:
            raise LinnappError(
                f"{path}: does not contain expectations; train again (linnapp recalibrate)"
            ) from error
        if model_id != active:
            raise LinnappError(
                f"{path} describes model {model_id}, and {active or 'none'} is active"
            )
        return expected


class MeasuredShare:
    """A share of reads, computed at each check, and the time for which it exceeded its bound."""

    def __init__(self, what: str, expected: float) -> None:
        self._what = what
        self._expected = expected
        self._bound = SHARE_FACTOR * expected + SHARE_MARGIN
        self._part, self._n, self._begin_s = 0, 0, 0.0
        #: When the share began to exceed its bound; None if it does not.
        self._since_s: float | None = None
        self._last_check_s = 0.0
        self._n_checks = 0
        self._value = 0.0

    def add(self, part: int, n: int, begin_s: float) -> None:
        """Add reads since a time, and the part of them to be counted."""
        if n and not self._n:
            self._begin_s = begin_s
        self._part += part
        self._n += n

    def check(self, now_s: float, window_s: float, *, accepted: bool = False) -> bool:
        """Compare the share with the bound if there are enough reads; return true if there were.

        If `accepted`, exceeding the bound is not a fault.
        """
        if self._n < MIN_READS:
            return False
        self._value, self._part, self._n = self._part / self._n, 0, 0
        # A share collected over hours with few reads says nothing about the last ten minutes.
        is_old = now_s - self._begin_s > max(window_s, _MIN_AGE_S)
        if self._value <= self._bound or accepted or is_old:
            self._since_s, self._n_checks = None, 0
        else:
            if self._since_s is None or self._begin_s - self._last_check_s > window_s:
                self._since_s, self._n_checks = self._begin_s, 0
            self._n_checks += 1
        self._last_check_s = now_s
        return True

    def fault(self, now_s: float, window_s: float) -> str:
        """Describe the fault if it has lasted long enough, otherwise return an empty text."""
        if self._since_s is None or self._n_checks < MIN_CHECKS:
            return ""
        if now_s - self._since_s < window_s:
            return ""
        return (
            f"{self._value:.0%} of the {self._what} (expected from training: {self._expected:.0%}, "
            f"the bound is {self._bound:.0%})"
        )


class WatchedDrive:
    """A drive that refuses reads, with its shares."""

    def __init__(self, drive: Drive, expected: ExpectedShares) -> None:
        self.drive = drive
        self.model_id = expected.model_id
        self._refused = MeasuredShare("hinted reads are refused", expected.refused)
        self._slow = MeasuredShare("admitted reads were slow", expected.slow)
        self._threshold_us = drive.threshold_us
        self._stats = drive.stats
        self._counts = self._counts_before = drive.latency_counts
        self._last_check_s = time.monotonic()

    def check(self, window_s: float) -> str:
        """Compare the shares with their bounds; describe a fault that has lasted long enough."""
        stats, now_s = self.drive.stats, time.monotonic()
        hinted, refused, admitted, slow, probes = (
            stats.get(name, 0) - self._stats.get(name, 0)
            for name in ("latency_critical", "revoked", "admitted", "false_submits", "probes")
        )
        self._stats = stats
        self._refused.add(refused, hinted, self._last_check_s)
        # Probes were predicted to be slow.
        self._slow.add(slow, max(admitted - probes, slow), self._last_check_s)
        self._counts, self._last_check_s = self.drive.latency_counts, now_s
        if self._refused.check(now_s, window_s, accepted=self._is_slow()):
            self._counts_before = self._counts
        self._slow.check(now_s, window_s)
        return self._slow.fault(now_s, window_s) or self._refused.fault(now_s, window_s)

    def _is_slow(self) -> bool:
        """Return true if the median of the reads served since the last result is slow."""
        pairs = zip(self._counts, self._counts_before, strict=True)
        served = [now - before for now, before in pairs]
        us = percentile_us(served, 50) if sum(served) >= MIN_SERVED else None
        return us is not None and us > self._threshold_us


class Watchdog:
    """Checks drives of drives.conf that enforce, and resets them after a fault of `window_s`."""

    def __init__(self, conf_path: AnyPath, window_s: float, log: Log) -> None:
        self._conf_path = Path(conf_path)
        self._window_s = window_s
        self._log = log
        self._watched: dict[str, WatchedDrive] = {}
        self._last_lines: dict[str, str] = {}

    def check(self) -> None:
        """Check once; reset after faults that have lasted long enough."""
        try:
            conf = load_conf(self._conf_path)
            self._last_lines.pop("", None)
        except LinnappError as error:
            self._log_once("", str(error))
            return
        before, self._watched = self._watched, {}
        for name, entry in conf.drives.items():
            try:
                drive = Drive(name) if Path(name).exists() else None
                if drive is None or drive.mode != "enforce":
                    continue
                active, watched = drive.model_id, before.get(name)
                if watched is None or watched.model_id != active:
                    watched = WatchedDrive(drive, ExpectedShares.load(entry, active))
                self._watched[name] = watched
                why = watched.check(self._window_s)
            except LinnappError as error:
                self._log_once(name, f"{name}: is not checked: {error}")
                continue
            self._log_once(name, f"{name}: is checked, model {watched.model_id}")
            if why:
                s = self._window_s
                lasted = f"{s / 60:.0f} minutes" if s >= 120 else f"{s:g} seconds"
                self._reset(name, watched.drive, f"{watched.drive.name}: {why}, for {lasted}")

    def _log_once(self, name: str, line: str) -> None:
        """Log a line, unless it is the same as the last one for this name."""
        if self._last_lines.get(name) != line:
            self._last_lines[name] = line
            self._log(line)

    def _reset(self, name: str, drive: Drive, why: str) -> None:
        """Set it to observe, also in the file; if another process holds the lock, retry later."""
        key = f"{name} reset"
        try:
            with state.alone():
                drive.set("observe")
                self._log(f"{name}: reset: {why}")
                journal.note(f"{name}: reset: {why}")
                # A failure of the other steps must not undo this.
                with errors_logged(self._log):
                    switches.add_reset(name, why)
                with errors_logged(self._log):
                    conf = load_conf(self._conf_path)
                    entry = dataclasses.replace(conf.drives[name], mode="observe")
                    save_conf(self._conf_path, conf.updated(DrivesConf({name: entry})))
        except LinnappError as error:
            self._log_once(key, f"{name}: must be reset, but: {error}")
            return
        self._last_lines.pop(key, None)
