# SPDX-License-Identifier: MIT
"""Measure the benefit of choosing mirrors, with md's `linnos` alternately off and on.

The array runs its usual load. Each block of time lasts a minute, and the order in each pair of
blocks is random. A minute is long compared with the causes of slow reads (garbage collection and
flushes, up to seconds), and short compared with the changes of a load during a day. A day has 720
pairs. Reads in the first two seconds after each change are not counted: in that time the reads sent
before end, md updates its positions of the disk heads, and probes complete.

Reads at about the same time are alike, so the block is the unit, not the read. For each pair, the
ratio of the latencies with on and with off is one value. The interval of the mean of its logarithm
is Student's t over the pairs (:mod:`linnapp.stats`).

The readers' latencies are recorded with blktrace at the array, from a read's arrival (Q) to its
completion (C), because this is possible wherever `linnapp enable` could record, and the parser
follows reads that md splits. The counters in /sys/block/md0/stat have no percentiles.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import stats
from linnapp.drive.checks import Target, check_array, check_space, find_target
from linnapp.drive.md import MdArray
from linnapp.drive.recording import check_can_trace, record
from linnapp.drive.state import alone, remove_unused
from linnapp.drive.switches import alternating
from linnapp.drive.sysfs import Drive, disk_stat, is_observed
from linnapp.errors import DeviceError, LinnappError
from linnapp.files import AnyPath
from linnapp.terminal import StatusLine
from linnapp.trace.blktrace import COMPLETED, ERROR, BlktraceReader

#: For shorter blocks, a fifth of the block.
_WASH_S = 2.0

#: Maximum number of I/Os recorded per block of a busy array: 200 MB.
_MAX_IOS = 1_000_000

#: With fewer pairs there is no result.
MIN_PAIRS = 8

#: Latency statistics by name: the percentile, or None for the mean. The first two are tested, the
#: last one is only displayed.
MEASURES: dict[str, float | None] = {"p99": 99, "mean": None, "p50": 50}
TESTED = ("p99", "mean")


@dataclasses.dataclass(frozen=True)
class Plan:
    """Parameters of a trial."""

    #: Duration.
    hours: float
    #: Length of a block.
    block_s: float
    #: Seed of the order of the blocks.
    seed: int

    @property
    def wash_s(self) -> float:
        """Time at the beginning of a block that is not counted."""
        return min(_WASH_S, self.block_s / 5)

    @property
    def n_pairs(self) -> int:
        """Number of pairs of blocks."""
        return int(self.hours * 3600 / (2 * self.block_s) + 1e-9)

    def check(self) -> None:
        """Refuse parameters with which no result is possible."""
        if self.n_pairs < MIN_PAIRS:
            raise LinnappError(
                f"--hours {self.hours:g} has {self.n_pairs} pairs of blocks of {self.block_s:g} s, "
                f"and a result needs at least {MIN_PAIRS}: --hours "
                f"{1.05 * MIN_PAIRS * 2 * self.block_s / 3600:.2g}, or more"
            )


@dataclasses.dataclass(frozen=True)
class Block:
    """Latencies of the readers in a block."""

    #: Number of reads.
    reads: int
    #: Statistics by the names of `MEASURES`; empty without reads.
    latency_us: dict[str, float]
    #: Number of lost events.
    dropped: int

    @classmethod
    def summarise(cls, latency_us: npt.NDArray[np.float64], dropped: int) -> Block:
        """Compute the statistics of a block's reads."""
        found = {}
        if len(latency_us):
            for name, percent in MEASURES.items():
                us = latency_us.mean() if percent is None else np.percentile(latency_us, percent)
                found[name] = max(float(us), 1e-3)
        return cls(len(latency_us), found, dropped)


@dataclasses.dataclass(frozen=True)
class Effect:
    """A latency with off and with on, geometric means over the pairs, and their ratio."""

    off_us: float
    on_us: float
    #: Logarithm of on / off to base 2.
    change: stats.Interval

    @property
    def factor(self) -> float:
        """Ratio of on to off."""
        return float(2.0**self.change.value)

    @property
    def ends(self) -> tuple[float, float]:
        """Confidence interval of the ratio."""
        return 2.0**self.change.low, 2.0**self.change.high


@dataclasses.dataclass(frozen=True)
class TrialOutcome:
    """The results of a trial."""

    array: str
    #: State of the array before, which was restored.
    was_on: bool
    plan: Plan
    #: Reason for the end: ``time``, ``interrupted``, ``failed``.
    ended: str
    #: Blocks with off and with on.
    pairs: list[tuple[Block, Block]]
    #: Number of excluded pairs: the array was degraded or busy with a resync or check.
    disturbed: int

    @property
    def reads(self) -> tuple[int, int]:
        """Number of reads with off and with on."""
        off, on = (sum(pair[k].reads for pair in self.pairs) for k in (0, 1))
        return off, on

    @property
    def effects(self) -> dict[str, Effect]:
        """Effects by name, tested ones first; empty if there are too few pairs with reads."""
        pairs = [pair for pair in self.pairs if all(block.reads for block in pair)]
        if len(pairs) < MIN_PAIRS:
            return {}
        level = 1 - (1 - stats.LEVEL) / len(TESTED)
        found = {}
        for name in MEASURES:
            logs = np.log2([[block.latency_us[name] for block in pair] for pair in pairs])
            off_us, on_us = (2.0 ** logs.mean(axis=0)).tolist()
            change = stats.mean_interval(logs[:, 1] - logs[:, 0], level)
            found[name] = Effect(off_us, on_us, change)
        return found

    @property
    def dropped(self) -> int:
        """Number of lost events."""
        return sum(block.dropped for pair in self.pairs for block in pair)


def check_trial(device: str) -> tuple[Target, MdArray]:
    """Raise an error if a trial cannot work; return its target and array."""
    array = MdArray(device)
    target = find_target([device])
    if os.geteuid() != 0:
        raise DeviceError("recording and switching need root; run this command with sudo")
    check_array(array)
    drives = [Drive(name) for name in target.drives if is_observed(name)]
    if not any(drive.mode != "off" and drive.model_id is not None for drive in drives):
        raise DeviceError(
            f"{array.name}: no mirror has a model and a mode other than off, so that "
            f"linnos changes nothing; linnapp enable /dev/{array.name}, or linnapp upload"
        )
    check_can_trace([Path("/dev", array.name)])
    check_space()
    return target, array


def run_trial(device: str, plan: Plan, display: StatusLine) -> TrialOutcome:
    """Switch off and on until the time is over; ctrl-C ends it earlier.

    `display` never shows latencies, so that they do not make a user end the trial.
    """
    plan.check()
    target, array = check_trial(device)
    with alone():
        folder = target.folder / "trial"
        _remove_folder(folder)  # of a trial that was ended by a crash of the machine
        was_on = bool(array.asks)
        trial = _Trial(array, folder, plan, display)
        try:
            with alternating(array, folder, display.log):
                ended = trial.run()
        finally:
            _remove_folder(folder)
            remove_unused()
    return TrialOutcome(array.name, was_on, plan, ended, trial.pairs, trial.disturbed)


def _remove_folder(folder: Path) -> None:
    """Remove a trial's folder of recordings, and its parent if that has no models."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()


class _Trial:
    """A running trial."""

    def __init__(self, array: MdArray, folder: Path, plan: Plan, display: StatusLine) -> None:
        self._array = array
        self._plan = plan
        self._display = display
        self._rng = np.random.default_rng(plan.seed)
        self._folder = folder
        self.pairs: list[tuple[Block, Block]] = []
        self.disturbed = 0

    def run(self) -> str:
        """Run the trial and return the reason for its end."""
        plan = self._plan
        end = time.localtime(time.time() + 2 * plan.block_s * plan.n_pairs)
        self._display.log(
            f"{self._array.name}: {plan.n_pairs} pairs of blocks, until "
            f"{time.strftime('%Y-%m-%d %H:%M', end)}; ctrl-C ends the trial with the result so far"
        )
        try:
            while len(self.pairs) + self.disturbed < plan.n_pairs:
                self._add_pair()
        except KeyboardInterrupt:
            return "interrupted"
        except LinnappError as error:
            if not self.pairs:
                raise
            self._display.log(str(error))
            return "failed"
        return "time"

    def _add_pair(self) -> None:
        on_first = bool(self._rng.integers(2))
        first, second = self._measure(on_first), self._measure(not on_first)
        off, on = (second, first) if on_first else (first, second)
        if not self.pairs and not off.reads + on.reads:
            raise DeviceError(
                f"{self._array.name}: no reads in {2 * self._plan.block_s:g} s; start "
                "the trial under its usual load"
            )
        if self._array.n_missing or self._array.sync_action != "idle":
            self.disturbed += 1
            self._display.log(
                f"{self._array.name} is degraded, or busy with a resync or check: not counted"
            )
            return
        self.pairs.append((off, on))

    def _measure(self, on: bool) -> Block:
        plan, state = self._plan, "on" if on else "off"
        reads = sum(block.reads for pair in self.pairs for block in pair)
        self._display.show(
            f"pair {len(self.pairs) + 1} of {plan.n_pairs}, linnos {state}; {reads} reads"
        )
        self._array.set(state, noted=False)
        ios = self._count_ios()
        time.sleep(plan.wash_s)
        ios_per_s = (self._count_ios() - ios) / max(plan.wash_s, 1e-3)
        counted_s = plan.block_s - plan.wash_s
        recorded_s = min(counted_s, _MAX_IOS / max(ios_per_s, 1))
        (recording,), _ = record(
            [Path("/dev", self._array.name)],
            self._folder,
            duration_s=recorded_s,
            at_ctrl_c="discard",
        )
        latency_us = read_latencies_us(recording.path) if recording.events else np.zeros(0)
        recording.path.unlink()
        time.sleep(counted_s - recorded_s)
        return Block.summarise(latency_us, recording.dropped)

    def _count_ios(self) -> int:
        counts = disk_stat(self._array.name)
        return counts["read_ios"] + counts["write_ios"]


def read_latencies_us(path: AnyPath) -> npt.NDArray[np.float64]:
    """Return the latencies of a recording's reads in us, shape (n,).

    For a read that is still in flight when the recording ends, it is the time until then.
    """
    completed_ns, open_since_ns, end_ns = [], [], 0
    for chunk in BlktraceReader(path):
        is_open = chunk.is_read & ((chunk.flags & (COMPLETED | ERROR)) == 0)
        completed_ns.append(chunk.latency_ns[chunk.is_served_read].astype(np.float64))
        open_since_ns.append(chunk.arrival_ns[is_open].astype(np.float64))
        end_ns = max(end_ns, int((chunk.arrival_ns + chunk.latency_ns).max()))
    open_ns = [end_ns - since_ns for since_ns in open_since_ns]
    return np.concatenate([*completed_ns, *open_ns]) / 1000


def to_json(found: TrialOutcome) -> dict[str, Any]:
    """Return the outcome as JSON."""
    latencies: dict[str, Any] = {}
    for name, effect in found.effects.items():
        latencies[name] = {"off_us": effect.off_us, "on_us": effect.on_us}
        if name in TESTED:
            low, high = effect.ends
            latencies[name] |= {
                "lower_percent": 100 * (1 - effect.factor),
                "interval_percent": [100 * (1 - high), 100 * (1 - low)],
                "significant": effect.change.excludes_zero,
            }
    return {
        "array": found.array,
        "ended": found.ended,
        "pairs": len(found.pairs),
        "pairs_planned": found.plan.n_pairs,
        "pairs_disturbed": found.disturbed,
        "reads": dict(zip(("off", "on"), found.reads, strict=True)),
        "latencies": latencies,
        "events_dropped": found.dropped,
        "linnos_before": "on" if found.was_on else "off",
        "config": {**dataclasses.asdict(found.plan), "wash_s": found.plan.wash_s},
    }
