# SPDX-License-Identifier: MIT
"""The watchdog: undo `enforce` and md's `linnos` where measurements differ from training.

This process checks every drive of drives.conf that enforces, and every array that queries LinnOS,
once a minute. Its measurements so far are a few numbers in memory: no file can be out of date, and
a check does not have to start Python. If it is ended or killed, it changes nothing, and starts from
the beginning afterwards.

A check has two sources. The kernel counts how many of all hinted reads were refused. For a sample
of the reads (half of them, or 2000 if that is fewer), its trace events show the prediction for each
drive and the latency at the drive that served it. Three values result, which are compared with
the training record's values for the newest reads of the recording:

- the share of the hinted reads that were refused;
- the share of the reads that were redirected because they were predicted to take longer here, from
  a margin of 25 % on, as in md. The expected share is how often a prediction for this drive, drawn
  at random, exceeds one for another drive by that margin. For two drives that are never slow at
  the same time, the actual share is up to twice that;
- the error of predictions: the mean absolute difference of logarithms. A network predicts no
  latency; its error is the share of slow reads among those that it classified as fast.

A share may be twice the expected one plus ten percent of the reads: training permits a model to
refuse that many fast reads, and a recording of 15 minutes has too few bursts to distinguish one
percent from three. The error of predictions may be twice the expected factor. With the minimum
number of reads for a value, chance accounts for half of those ten percent, and for a tenth of a
factor of two.

Bursts, backups and checkpoints are temporary. So a value must exceed its bound at every check for
ten minutes, and at three checks or more. A check at which it does not exceed the bound ends this.
A check with too few reads is combined with the next one.

A drive that has become slow is refused or avoided more often than expected, and this is
right: returning to it would be the worst reaction. The kernel nevertheless sends it an occasional
read, and other programs may read from it. The kernel counts the latencies of all these reads. While
their median exceeds the model's threshold (for a drive that refuses), or another mirror's median
by md's margin, the share is not a reason to switch back.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from pathlib import Path

from linnapp.drive import journal, switches
from linnapp.drive.drives_conf import DrivesConf, load_conf, save_conf
from linnapp.drive.expectations import AVOID_RATIO, MeasuredDrive, Served, TrainingExpectation
from linnapp.drive.journal import Log, errors_logged
from linnapp.drive.md import MdArray
from linnapp.drive.state import alone
from linnapp.drive.sysfs import Drive
from linnapp.drive.tracefs import DECISION, EXPECTED, REQUESTS, SENT, recording
from linnapp.errors import DeviceError, LinnappError
from linnapp.files import AnyPath
from linnapp.trace.decisions import (
    NO_MODEL,
    PROBE,
    SLOW,
    UNKNOWN,
    Question,
    add_answers,
    parse_decisions,
    parse_questions,
)

#: Share of the time in which reads are traced, and maximum number of reads per check.
_SAMPLED_TIME, _SAMPLED_READS = 0.5, 2000

#: Time to wait for reads that have been sent.
_DRAIN_S = 0.1


def keep(
    conf_path: AnyPath,
    *,
    window_s: float,
    every_s: float,
    log: Log = print,
    verbose: bool = False,
) -> None:
    """Check every `every_s` until a signal ends this; reset after a fault of `window_s`."""
    watchdog = Watchdog(conf_path, window_s, every_s, log, verbose=verbose)
    while True:
        begin_s = time.monotonic()
        watchdog.check()
        time.sleep(max(0.0, begin_s + every_s - time.monotonic()))


class _Watched:
    """A unit that is reset as a whole: a drive that enforces, or an array."""

    events: tuple[str, ...]

    def __init__(self, name: str, drives: Sequence[MeasuredDrive]) -> None:
        self.name = name
        self.drives = {each.drive.device_number: each for each in drives}
        self.models = [each.expected.model_id for each in drives]
        self._last_check_s: float | None = None
        self._reads = 0

    def check(self, window_s: float, sample_s: float) -> None:
        """Check, and evaluate the measurements; reads are traced for `sample_s` at most."""
        begin_s = self._last_check_s
        try:
            text = self._sample(sample_s)
            if begin_s is not None:  # the first check shows how many reads there are
                self._add(text, begin_s)
        finally:
            self._last_check_s = time.monotonic()
            for each in self.drives.values():
                each.read_counters()
            for each in self.drives.values():
                each.check(self._last_check_s, window_s, is_slow=self._is_slow(each))

    def _sample(self, sample_s: float) -> bytes:
        now_s, before = time.monotonic(), self._reads
        self._reads = sum(each.drive.disk_stat["read_ios"] for each in self.drives.values())
        if self._last_check_s is None:
            return b""
        per_s = (self._reads - before) / max(now_s - self._last_check_s, 1e-3)
        with recording(self.events, *self.drives) as recorder:
            time.sleep(min(sample_s, max(_SAMPLED_READS / max(per_s, 1), 0.02)))
            recorder.stop(*(event for event in self.events if event not in REQUESTS))
            time.sleep(_DRAIN_S)
            recorder.stop()
            return recorder.text()

    def _add(self, text: bytes, begin_s: float) -> None:
        """Add the reads of recorded events."""
        raise NotImplementedError

    def _is_slow(self, each: MeasuredDrive) -> bool:
        """Return true if a drive is rightly refused or avoided."""
        raise NotImplementedError

    def fault(self, window_s: float) -> str:
        """Describe the fault if it has lasted long enough, otherwise return an empty text."""
        now_s = time.monotonic()
        return "; ".join(filter(None, (d.fault(now_s, window_s) for d in self.drives.values())))

    def __str__(self) -> str:
        return "; ".join(f"{d.drive.name}: {d.avoided}, {d.error}" for d in self.drives.values())


class _EnforcingDrive(_Watched):
    """A drive that refuses reads."""

    events = (DECISION, *REQUESTS)

    def __init__(self, name: str, drive: Drive, expected: TrainingExpectation) -> None:
        self._drive = MeasuredDrive(drive, expected, "hinted reads are refused", expected.refused)
        super().__init__(name, [self._drive])
        self._stats = drive.stats

    def check(self, window_s: float, sample_s: float) -> None:
        """Check like the base class; the kernel counts the refused reads."""
        before, self._stats = self._stats, self._drive.drive.stats
        refused, hinted = (
            self._stats.get(name, 0) - before.get(name, 0)
            for name in ("revoked", "latency_critical")
        )
        if self._last_check_s is not None:
            self._drive.avoided.add(refused, hinted, self._last_check_s)
        super().check(window_s, sample_s)

    def _add(self, text: bytes, begin_s: float) -> None:
        table = parse_decisions(text)
        add_answers(text, table)
        served = [
            Served(
                int(row["out_slow"]) if row["of_latency"] else 0,
                row["reason"] in (SLOW, PROBE),
                int(row["latency_us"]),
            )
            for row in table
            if row["latency_us"] != UNKNOWN
            and not row["failed"]
            and row["reason"] != NO_MODEL
            and row["of_latency"] == self._drive.expected.predicts_us
        ]
        self._drive.add(served, begin_s)

    def _is_slow(self, each: MeasuredDrive) -> bool:
        us = each.median_us
        return us is not None and us > each.threshold_us

    def reset(self) -> None:
        """Switch to observe, so that no more reads are refused."""
        self._drive.drive.set_mode("observe")

    def change_conf(self, conf: DrivesConf) -> DrivesConf:
        """Return a configuration with that change."""
        if self.name not in conf.drives:
            return conf
        entry = dataclasses.replace(conf.drives[self.name], mode="observe")
        return conf.updated(DrivesConf({self.name: entry}))


class _QueryingArray(_Watched):
    """An array that queries LinnOS before it reads."""

    events = (EXPECTED, SENT, *REQUESTS)

    def __init__(
        self, name: str, array: MdArray, drives: Sequence[tuple[Drive, TrainingExpectation]]
    ) -> None:
        self._array = array
        super().__init__(
            name,
            [
                MeasuredDrive(
                    drive,
                    expected,
                    "reads are redirected by predictions",
                    expected.redirected([other for each, other in drives if each is not drive]),
                )
                for drive, expected in drives
            ],
        )

    def _add(self, text: bytes, begin_s: float) -> None:
        queries = parse_questions(text)
        for device, each in self.drives.items():
            here = [query for query in queries if device in query.answers]
            redirected = [is_redirected(query, device) for query in here]
            each.avoided.add(sum(redirected), len(redirected), begin_s)
            each.add(served_by(device, here), begin_s)

    def _is_slow(self, each: MeasuredDrive) -> bool:
        us = each.median_us
        others_us = [other.median_us for other in self.drives.values() if other is not each]
        least_us = min((other for other in others_us if other is not None), default=math.inf)
        return us is not None and AVOID_RATIO * us > least_us

    def reset(self) -> None:
        """Switch queries off, so that md chooses."""
        self._array.set_asks(False)

    def change_conf(self, conf: DrivesConf) -> DrivesConf:
        """Return a configuration with that change."""
        if self.name not in conf.arrays:
            return conf
        entry = dataclasses.replace(conf.arrays[self.name], asks=False)
        return conf.updated(DrivesConf({}, {self.name: entry}))


def is_redirected(query: Question, device: int) -> bool:
    """Return true if a read was redirected because it was predicted to take longer here."""
    here, there = query.answers[device], query.answers[query.sent_to]
    if query.sent_to == device or here.expected == "unknown":
        return False
    if here.predicted_us and there.predicted_us:
        return AVOID_RATIO * here.predicted_us > there.predicted_us
    return here.expected == "slow" and there.expected != "slow"


def served_by(device: int, queries: Sequence[Question]) -> list[Served]:
    """Return the reads that a drive has served and for which there was a prediction."""
    return [
        Served(answer.predicted_us, answer.expected in ("probe", "slow"), query.latency_us)
        for query in queries
        if query.sent_to == device
        and query.latency_us != UNKNOWN
        and (answer := query.answers[device]).expected != "unknown"
    ]


class Watchdog:
    """Checks all drives and arrays of drives.conf."""

    def __init__(
        self, conf_path: AnyPath, window_s: float, every_s: float, log: Log, *, verbose: bool
    ) -> None:
        self._conf_path = Path(conf_path)
        self._window_s = window_s
        self._every_s = every_s
        self._log = log
        self._verbose = verbose
        self._watched: dict[str, _EnforcingDrive | _QueryingArray] = {}
        self._last_lines: dict[str, str] = {}

    def check(self) -> None:
        """Check once; reset after faults that have lasted long enough."""
        try:
            conf = load_conf(self._conf_path)
            self._last_lines.pop("", None)
        except LinnappError as error:
            self._log_once("", str(error))
            return
        found = {}
        for name in (*conf.drives, *conf.arrays):
            try:
                watched = self._find_drive(name, conf) or self._find_array(name, conf)
            except LinnappError as error:
                self._log_once(name, f"{name}: is not checked: {error}")
                continue
            if watched is not None:
                found[name] = watched
        self._watched = found
        for name, watched in found.items():
            try:
                watched.check(self._window_s, _SAMPLED_TIME * self._every_s / len(found))
                self._log_once(name, f"{name}: is checked, models {', '.join(watched.models)}")
            except LinnappError as error:
                self._log_once(name, f"{name}: is checked only in part: {error}")
            if self._verbose:
                self._log(str(watched))
            if why := watched.fault(self._window_s):
                minutes, seconds = self._window_s / 60, self._window_s
                time_text = f"{minutes:.0f} minutes" if seconds >= 120 else f"{seconds:g} seconds"
                self._reset(watched, f"{why}, for {time_text}")

    def _log_once(self, name: str, line: str) -> None:
        """Log a line, unless it is the same as the last one for this name."""
        if self._last_lines.get(name) != line:
            self._last_lines[name] = line
            self._log(line)

    def _find_drive(self, name: str, conf: DrivesConf) -> _EnforcingDrive | None:
        """Return a drive if it enforces; the existing object if that still has the same model."""
        if name not in conf.drives or not Path(name).exists():
            return None
        drive = Drive(name)
        if drive.mode != "enforce":
            return None
        before, active = self._watched.get(name), drive.model_id
        if isinstance(before, _EnforcingDrive) and before.models == [active]:
            return before
        return _EnforcingDrive(name, drive, TrainingExpectation.load(conf.drives[name], active))

    def _find_array(self, name: str, conf: DrivesConf) -> _QueryingArray | None:
        """Return an array if it queries LinnOS; the existing object if its models are the same."""
        if name not in conf.arrays or not Path(name).exists():
            return None
        array = MdArray(name)
        if not array.asks:
            return None
        drives = [
            (Drive(drive), entry)
            for drive, entry in conf.drives.items()
            if entry.array == name and Path(drive).exists()
        ]
        drives = [(drive, entry) for drive, entry in drives if drive.mode != "off"]
        if len(drives) < 2:
            raise DeviceError("fewer than two of its drives in drives.conf exist and are not off")
        before = self._watched.get(name)
        active = [drive.model_id for drive, _ in drives]
        if isinstance(before, _QueryingArray) and before.models == active:
            return before
        expected = [TrainingExpectation.load(entry, drive.model_id) for drive, entry in drives]
        pairs = [(drive, each) for (drive, _), each in zip(drives, expected, strict=True)]
        return _QueryingArray(name, array, pairs)

    def _reset(self, watched: _EnforcingDrive | _QueryingArray, why: str) -> None:
        """Reset it, also in the file; if another process holds the lock, retry later."""
        key = f"{watched.name} reset"
        try:
            with alone():
                watched.reset()
                self._log(f"{watched.name}: reset: {why}")
                journal.note(f"{watched.name}: reset: {why}")
                # A failure of the other steps must not undo this.
                with errors_logged(self._log):
                    switches.add_reset(watched.name, why)
                with errors_logged(self._log):
                    save_conf(self._conf_path, watched.change_conf(load_conf(self._conf_path)))
        except LinnappError as error:
            self._log_once(key, f"{watched.name}: must be reset, but: {error}")
            return
        self._last_lines.pop(key, None)
