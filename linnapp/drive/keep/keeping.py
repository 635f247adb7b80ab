# SPDX-License-Identifier: MIT
"""The kill switch: back to `observe`, and md's `linnos` off, where it is not as training foresaw.

A process that looks once a minute at each drive of drives.conf that enforces, and at each array
that asks. What has been seen so far is a few numbers, which it keeps in memory: nothing on disk can
be out of date, and a look costs no start of Python. Told to end or killed, it changes nothing, and
begins anew.

A look has two sources. Of all hinted reads the kernel counts how many were refused. Of some reads
(half of them, or 2000 where those are more) its trace events tell what each drive was predicted to
take and what the one that served it took. Three figures come of it, each held against what the
training record says of the newest reads of the recording:

- the share of the hinted reads that were refused;
- the share of the reads that were sent elsewhere since they were predicted to take longer here, as
  md does it, from 25 % on. What training foresaw is how often a prediction for this drive, drawn by
  lot, is that much above one for another. Of two drives that are never slow at once it is up to
  twice as often;
- by how much predictions are off: the mean distance of logarithms. A network predicts no time, and
  is judged by how many of the reads that it called fast were slow.

A share may be twice what was foreseen, and ten percent of the reads more: so many fast reads a
model may refuse by training's own rules, and a recording of 15 minutes has too few bursts to tell
one percent from three. Predictions may be off by twice the factor that was foreseen. With as many
reads as a figure is of at the least, chance makes half of that ten percent, and a tenth of a factor
of two.

A burst, a backup, a checkpoint pass. So a figure has to be beyond its bound at every look for ten
minutes, and at three at the least. A look that is not, ends that; one of too few reads is added to
the next.

A drive that has become slow is refused, and left, more than was ever foreseen, and rightly: to go
back to it would be the worst to be done. The kernel sends it a read now and then all the same, and
others may read from it, and how long all of those took it counts. While the median is above the
model's threshold (of a drive that refuses), or that of another mirror by what makes md choose it,
the share is no reason.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from linnapp.drive import journal
from linnapp.drive.drives_conf import DrivesConf, load_conf, save_conf
from linnapp.drive.enable.places import alone
from linnapp.drive.journal import Log
from linnapp.drive.keep import switched_back
from linnapp.drive.keep.figures import AVOID_RATIO, Figure, Foreseen, KeptMirror, Served
from linnapp.drive.md import MdArray
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

#: For how much of the time reads are traced, and how many at the most at a look.
_SAMPLED_TIME, _SAMPLED_READS = 0.5, 2000

#: How long those are waited for that were sent.
_ENDING_S = 0.1


def keep(
    conf_path: AnyPath,
    *,
    window_s: float,
    every_s: float,
    log: Log = print,
    verbose: bool = False,
) -> None:
    """Look every `every_s`, until told to end; what was wrong for `window_s` is switched back."""
    keeper = Keeper(conf_path, window_s, every_s, log, verbose=verbose)
    while True:
        begin_s = time.monotonic()
        keeper.look()
        time.sleep(max(0.0, begin_s + every_s - time.monotonic()))


class _Kept:
    """What drives.conf names and is switched back as one: a drive that enforces, or an array."""

    events: tuple[str, ...]

    def __init__(self, name: str, mirrors: Sequence[KeptMirror]) -> None:
        self.name = name
        self.mirrors = {mirror.drive.device_number: mirror for mirror in mirrors}
        self.models = [mirror.foreseen.model_id for mirror in mirrors]
        self._looked_s: float | None = None
        self._reads = 0

    def look(self, window_s: float, sample_s: float) -> None:
        """Look, and judge what has been seen; reads are traced for `sample_s` at the most."""
        begin_s = self._looked_s
        try:
            text = self._sampled(sample_s)
            if begin_s is not None:  # the first one shows how busy they are
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
        """Whether a drive is refused, or left, rightly."""
        raise NotImplementedError

    def beyond(self, window_s: float) -> str:
        """What is wrong, if it has been for long enough."""
        now_s = time.monotonic()
        found = (mirror.beyond(now_s, window_s) for mirror in self.mirrors.values())
        return "; ".join(filter(None, found))

    @property
    def now(self) -> str:
        """What was last seen, in words."""
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
        """As of its kind; what was refused the kernel counts."""
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
        """Refuse nothing more."""
        self._mirror.drive.set_mode("observe")

    def written(self, conf: DrivesConf) -> DrivesConf:
        """With that in the file."""
        entry = conf.drives.get(self.name)
        if entry is None:
            return conf
        return conf.updated({self.name: dataclasses.replace(entry, mode="observe")}, {})


class _Asking(_Kept):
    """An array that asks before it reads."""

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
        """Leave the choice to md."""
        self._array.set_asks(False)

    def written(self, conf: DrivesConf) -> DrivesConf:
        """With that in the file."""
        return conf.updated({}, {self.name: False} if self.name in conf.arrays else {})


def passed_over(question: Question, device: int) -> bool:
    """Whether a read went elsewhere since it was predicted to take longer here."""
    here, there = question.answers[device], question.answers[question.sent_to]
    if question.sent_to == device or here.expected == "unknown":
        return False
    if here.predicted_us and there.predicted_us:
        return AVOID_RATIO * here.predicted_us > there.predicted_us
    return here.expected == "slow" and there.expected != "slow"


def served_by(device: int, questions: Sequence[Question]) -> list[Served]:
    """The reads that a drive has served, of which something was predicted."""
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
    """Looks at all that drives.conf names."""

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
        """Look once; what is wrong for long enough is switched back."""
        try:
            conf = load_conf(self._conf_path) or DrivesConf()
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
        """Once, until there is something else to be said."""
        if self._said.get(name) != line:
            self._said[name] = line
            self._log(line)

    def _enforcing(self, name: str, conf: DrivesConf) -> _Enforcing | None:
        """A drive, if it enforces; the one of before, if its model is."""
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
        """An array, if it asks; the one of before, if its drives' models are."""
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
        """Switch it back, also in the file; if others are at work, at a later look."""
        try:
            with alone():
                kept.switch_back()
                self._log(f"{kept.name}: switched back: {why}")
                journal.note(f"{kept.name}: switched back: {why}")
                self._tried(lambda: switched_back.remember(kept.name, why))
                self._tried(lambda: self._save(kept))
        except LinnappError as error:
            self._say(f"{kept.name} back", f"{kept.name}: is to be switched back: {error}")
            return
        self._said.pop(f"{kept.name} back", None)

    def _save(self, kept: _Enforcing | _Asking) -> None:
        conf = load_conf(self._conf_path) or DrivesConf()
        save_conf(self._conf_path, kept.written(conf))

    def _tried(self, act: Callable[[], None]) -> None:
        """What fails of the rest does not switch it on again."""
        try:
            act()
        except LinnappError as error:
            self._log(str(error))


def _for_words(window_s: float) -> str:
    return f"{window_s / 60:.0f} minutes" if window_s >= 120 else f"{window_s:g} seconds"
