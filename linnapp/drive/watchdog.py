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

A drive that has become slow is refused or passed over more often than expected, and this is
right: returning to it would be the worst reaction. The kernel nevertheless sends it an occasional
read, and other programs may read from it. The kernel counts the latencies of all these reads. While
their median exceeds the model's threshold (for a drive that refuses), or another mirror's median
by md's margin, the share is not a reason to switch back.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from linnapp.drive import journal, switches
from linnapp.drive.drives_conf import DrivesConf, load_conf, save_conf
from linnapp.drive.expectations import AVOID_RATIO, Figure, Foreseen, KeptMirror, Served
from linnapp.drive.journal import Log
from linnapp.drive.md import MdArray
from linnapp.drive.state import alone
from linnapp.drive.sysfs import Drive
from linnapp.drive.tracefs import DECISION, EXPECTED, REQUESTS, SENT, recording
from linnapp.errors import DeviceError, LinnappError
from linnapp.files import AnyPath
from linnapp.trace.formats.decisions import (
    NO_CHOICE,
    NO_MODEL,
    PROBE,
    SLOW,
    UNKNOWN,
    add_answers,
    parse_decisions,
)
from linnapp.trace.formats.questions import Question, parse_questions

#: Share of the time in which reads are traced, and maximum number of reads per check.
_SAMPLED_TIME, _SAMPLED_READS = 0.5, 2000

#: Time to wait for reads that have been sent.
_ENDING_S = 0.1


def keep(
    conf_path: AnyPath,
    *,
    window_s: float,
    every_s: float,
    log: Log = print,
    verbose: bool = False,
) -> None:
    """Check every `every_s` until a signal ends this; switch back after a fault of `window_s`."""
    keeper = Keeper(conf_path, window_s, every_s, log, verbose=verbose)
    while True:
        begin_s = time.monotonic()
        keeper.look()
        time.sleep(max(0.0, begin_s + every_s - time.monotonic()))


class _Kept:
    """A unit that is switched back as a whole: a drive that enforces, or an array."""

    events: tuple[str, ...]

    def __init__(self, name: str, mirrors: Sequence[KeptMirror]) -> None:
        self.name = name
        self.mirrors = {mirror.drive.device_number: mirror for mirror in mirrors}
        self.models = [mirror.foreseen.model_id for mirror in mirrors]
        self._looked_s: float | None = None
        self._reads = 0

    def look(self, window_s: float, sample_s: float) -> None:
        """Check, and evaluate the measurements; reads are traced for `sample_s` at most."""
        begin_s = self._looked_s
        try:
            text = self._sampled(sample_s)
            if begin_s is not None:  # the first check shows how many reads there are
                self._take(text, begin_s)
        finally:
            self._looked_s = time.monotonic()
            for mirror in self.mirrors.values():
                mirror.see()
            for mirror in self.mirrors.values():
                mirror.judge(self._looked_s, window_s, is_slow=self._is_slow(mirror))

    def _sampled(self, sample_s: float) -> bytes:
        now_s, before = time.monotonic(), self._reads
        self._reads = sum(mirror.drive.disk_stat["read_ios"] for mirror in self.mirrors.values())
        if self._looked_s is None:
            return b""
        per_s = (self._reads - before) / max(now_s - self._looked_s, 1e-3)
        with recording(self.events, *self.mirrors) as recorder:
            time.sleep(min(sample_s, max(_SAMPLED_READS / max(per_s, 1), 0.02)))
            recorder.stop(*(event for event in self.events if event not in REQUESTS))
            time.sleep(_ENDING_S)
            recorder.stop()
            return recorder.text()

    def _take(self, text: bytes, begin_s: float) -> None:
        raise NotImplementedError

    def _is_slow(self, mirror: KeptMirror) -> bool:
        """Return true if a drive is rightly refused or passed over."""
        raise NotImplementedError

    def beyond(self, window_s: float) -> str:
        """Describe the fault if it has lasted long enough, otherwise return an empty text."""
        now_s = time.monotonic()
        found = (mirror.beyond(now_s, window_s) for mirror in self.mirrors.values())
        return "; ".join(filter(None, found))

    @property
    def now(self) -> str:
        """Describe the last measurements."""
        return "; ".join(
            f"{mirror.drive.name}: {mirror.away}, {mirror.off}" for mirror in self.mirrors.values()
        )


class _Enforcing(_Kept):
    """A drive that refuses reads."""

    events = (DECISION, *REQUESTS)

    def __init__(self, name: str, drive: Drive, foreseen: Foreseen) -> None:
        away = Figure.of_share("hinted reads are refused", foreseen.refused)
        self._mirror = KeptMirror(drive, foreseen, away)
        super().__init__(name, [self._mirror])
        self._stats = drive.stats

    def look(self, window_s: float, sample_s: float) -> None:
        """Check like the base class; the number of refused reads is the kernel's counter."""
        stats, before = self._mirror.drive.stats, self._stats
        self._stats = stats
        refused, hinted = (
            stats.get(name, 0) - before.get(name, 0) for name in ("revoked", "latency_critical")
        )
        if self._looked_s is not None:
            self._mirror.away.add(refused, hinted, self._looked_s)
        super().look(window_s, sample_s)

    def _take(self, text: bytes, begin_s: float) -> None:
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
            and row["reason"] not in (NO_MODEL, NO_CHOICE)
            and row["of_latency"] == self._mirror.foreseen.predicts_us
        ]
        self._mirror.add(served, begin_s)

    def _is_slow(self, mirror: KeptMirror) -> bool:
        us = mirror.median_us
        return us is not None and us > mirror.threshold_us

    def switch_back(self) -> None:
        """Switch to observe, so that no more reads are refused."""
        self._mirror.drive.set_mode("observe")

    def written(self, conf: DrivesConf) -> DrivesConf:
        """Return a configuration with that change."""
        entry = conf.drives.get(self.name)
        if entry is None:
            return conf
        return conf.updated(DrivesConf({self.name: dataclasses.replace(entry, mode="observe")}))


class _Asking(_Kept):
    """An array that queries LinnOS before it reads."""

    events = (EXPECTED, SENT, *REQUESTS)

    def __init__(self, name: str, array: MdArray, drives: Sequence[tuple[Drive, Foreseen]]) -> None:
        self._array = array
        mirrors = []
        for drive, foreseen in drives:
            others = [other for each, other in drives if each is not drive]
            share = foreseen.passed_over(others)
            away = Figure.of_share("reads are sent elsewhere by what is predicted", share)
            mirrors.append(KeptMirror(drive, foreseen, away))
        super().__init__(name, mirrors)

    def _take(self, text: bytes, begin_s: float) -> None:
        questions = parse_questions(text)
        for device, mirror in self.mirrors.items():
            asked = [question for question in questions if device in question.answers]
            elsewhere = [passed_over(question, device) for question in asked]
            mirror.away.add(sum(elsewhere), len(elsewhere), begin_s)
            mirror.add(served_by(device, asked), begin_s)

    def _is_slow(self, mirror: KeptMirror) -> bool:
        us = mirror.median_us
        others_us = [other.median_us for other in self.mirrors.values() if other is not mirror]
        least_us = min((other for other in others_us if other is not None), default=math.inf)
        return us is not None and AVOID_RATIO * us > least_us

    def switch_back(self) -> None:
        """Switch queries off, so that md chooses."""
        self._array.set_asks(False)

    def written(self, conf: DrivesConf) -> DrivesConf:
        """Return a configuration with that change."""
        entry = conf.arrays.get(self.name)
        if entry is None:
            return conf
        return conf.updated(DrivesConf({}, {self.name: dataclasses.replace(entry, asks=False)}))


def passed_over(question: Question, device: int) -> bool:
    """Return true if a read was redirected because it was predicted to take longer here."""
    here, there = question.answers[device], question.answers[question.sent_to]
    if question.sent_to == device or here.expected == "unknown":
        return False
    if here.predicted_us and there.predicted_us:
        return AVOID_RATIO * here.predicted_us > there.predicted_us
    return here.expected == "slow" and there.expected != "slow"


def served_by(device: int, questions: Sequence[Question]) -> list[Served]:
    """Return the reads that a drive has served and for which there was a prediction."""
    found = []
    for question in questions:
        answer = question.answers[device]
        if (
            question.sent_to == device
            and question.latency_us != UNKNOWN
            and answer.expected != "unknown"
        ):
            is_slow = answer.expected in ("probe", "slow")
            found.append(Served(answer.predicted_us, is_slow, question.latency_us))
    return found


class Keeper:
    """Checks all drives and arrays of drives.conf."""

    def __init__(
        self, conf_path: AnyPath, window_s: float, every_s: float, log: Log, *, verbose: bool
    ) -> None:
        self._conf_path = Path(conf_path)
        self._window_s = window_s
        self._every_s = every_s
        self._log = log
        self._verbose = verbose
        self._kept: dict[str, _Enforcing | _Asking] = {}
        self._said: dict[str, str] = {}

    def look(self) -> None:
        """Check once; switch back after faults that have lasted long enough."""
        try:
            conf = load_conf(self._conf_path)
            self._said.pop("", None)
        except LinnappError as error:
            self._say("", str(error))
            return
        on = {}
        for name in (*conf.drives, *conf.arrays):
            try:
                found = self._enforcing(name, conf) or self._asking(name, conf)
            except LinnappError as error:
                self._say(name, f"{name}: is not looked at: {error}")
                continue
            if found is not None:
                on[name] = found
        self._kept = on
        for name, kept in on.items():
            try:
                kept.look(self._window_s, _SAMPLED_TIME * self._every_s / len(on))
                self._say(name, f"{name}: is looked at, models {', '.join(kept.models)}")
            except LinnappError as error:
                self._say(name, f"{name}: is seen in part only: {error}")
            if self._verbose:
                self._log(kept.now)
            if why := kept.beyond(self._window_s):
                self._switch_back(kept, f"{why}, for {_for_words(self._window_s)}")

    def _say(self, name: str, line: str) -> None:
        """Log a line, unless it is the same as the last one for this name."""
        if self._said.get(name) != line:
            self._said[name] = line
            self._log(line)

    def _enforcing(self, name: str, conf: DrivesConf) -> _Enforcing | None:
        """Return a drive if it enforces; the existing object if that still has the same model."""
        if name not in conf.drives or not Path(name).exists():
            return None
        drive = Drive(name)
        if drive.mode != "enforce":
            return None
        before = self._kept.get(name)
        if isinstance(before, _Enforcing) and before.models == [drive.model_id]:
            return before
        return _Enforcing(name, drive, Foreseen.load(conf.drives[name], drive.model_id))

    def _asking(self, name: str, conf: DrivesConf) -> _Asking | None:
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
            raise DeviceError("of its drives in drives.conf fewer than two are there and not off")
        before = self._kept.get(name)
        active = [drive.model_id for drive, _ in drives]
        if isinstance(before, _Asking) and before.models == active:
            return before
        return _Asking(
            name, array, [(drive, Foreseen.load(entry, drive.model_id)) for drive, entry in drives]
        )

    def _switch_back(self, kept: _Enforcing | _Asking, why: str) -> None:
        """Switch it back, also in the file; if another process holds the lock, retry later."""
        try:
            with alone():
                kept.switch_back()
                self._log(f"{kept.name}: switched back: {why}")
                journal.note(f"{kept.name}: switched back: {why}")
                self._tried(lambda: switches.add_reset(kept.name, why))
                self._tried(lambda: self._save(kept))
        except LinnappError as error:
            self._say(f"{kept.name} back", f"{kept.name}: is to be switched back: {error}")
            return
        self._said.pop(f"{kept.name} back", None)

    def _save(self, kept: _Enforcing | _Asking) -> None:
        conf = load_conf(self._conf_path)
        save_conf(self._conf_path, kept.written(conf))

    def _tried(self, act: Callable[[], None]) -> None:
        """Run one of the other steps; its failure must not undo the switch."""
        try:
            act()
        except LinnappError as error:
            self._log(str(error))


def _for_words(window_s: float) -> str:
    return f"{window_s / 60:.0f} minutes" if window_s >= 120 else f"{window_s:g} seconds"
