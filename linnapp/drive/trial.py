# SPDX-License-Identifier: MIT
"""Measure the benefit of choosing mirrors, with md's `linnos` alternately off and on.

The array runs its usual load. Each block of time lasts a minute, and the order in each pair of
blocks is random. A minute is long compared with the causes of slow reads (garbage collection and
flushes, up to seconds) and with the time lost at each change. It is short compared with the changes
of a load during a day, which has 720 pairs. Reads in the first two seconds after each change are
not counted: in that time the reads sent before end, md updates its positions of the disk heads, and
probes complete.

The readers' latencies are recorded with blktrace at the array, from a read's arrival (Q) to its
completion (C). This is possible wherever `linnapp enable` could record, works on all supported
kernels, and the parser follows reads that md splits. The counters in /sys/block/md0/stat have no
percentiles and a clock of 4 ms. BPF would require libbpf and the kernel's types. Histograms of
trace events keep each read's sector permanently, and are full within seconds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from linnapp.drive.checks import Target, check_array, check_space, find_target
from linnapp.drive.md import MdArray
from linnapp.drive.recording import check_can_trace, record
from linnapp.drive.state import alone, remove_unused
from linnapp.drive.switches import alternating, restore_left
from linnapp.drive.sysfs import Drive, disk_stat, observer_of
from linnapp.errors import DeviceError, LinnappError
from linnapp.files import AnyPath
from linnapp.learn.paired_blocks import (
    DECIDING,
    MEASURES,
    MIN_PAIRS,
    N_BINS,
    Effect,
    PairedBlocks,
    alpha_of_analysis,
    bins_of,
    looks,
)
from linnapp.trace.blktrace import COMPLETED, ERROR, BlktraceReader

#: For shorter blocks, a fifth of the block.
_WASH_S = 2.0

#: Maximum number of I/Os recorded per block of a busy array: 200 MB.
_MAX_IOS = 1_000_000


@dataclasses.dataclass(frozen=True)
class Plan:
    """Parameters of a trial."""

    #: Maximum duration.
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
        """Maximum number of pairs of blocks."""
        return int(self.hours * 3600 / (2 * self.block_s) + 1e-9)

    def check(self) -> None:
        """Refuse parameters with which no decision is possible."""
        if self.n_pairs < MIN_PAIRS:
            raise LinnappError(
                f"--hours {self.hours:g} has {self.n_pairs} pairs of blocks of {self.block_s:g} s, "
                f"and a decision needs at least {MIN_PAIRS}: --hours "
                f"{1.05 * MIN_PAIRS * 2 * self.block_s / 3600:.2g}, or more"
            )


@dataclasses.dataclass
class Block:
    """Latencies of the readers in a block."""

    #: array, shape (N_BINS,); number of reads by latency.
    counts: npt.NDArray[Any]
    #: Sum of the latencies.
    sum_us: float
    #: Number of lost events.
    dropped: int
    #: Share of its reads that md redirected by predictions; None if md does not count them.
    redirected: float | None
    #: Share of a core used for predictions.
    core: float

    @property
    def reads(self) -> int:
        """Number of reads."""
        return int(self.counts.sum())


@dataclasses.dataclass(frozen=True)
class _Counted:
    """The kernel's counters at one time."""

    time_s: float
    #: Number of the array's reads.
    reads: int
    #: Number of redirected reads since this was switched on; None if md does not count them.
    redirected: int | None
    #: Time used for predictions.
    inference_ns: int


@dataclasses.dataclass(frozen=True)
class TrialOutcome:
    """The results of a trial."""

    array: str
    #: State of the array before, which was restored.
    was_on: bool
    plan: Plan
    #: Reason for the end: ``decided``, ``hopeless``, ``time``, ``interrupted``, ``failed``.
    ended: str
    #: Blocks with off and with on.
    pairs: list[tuple[Block, Block]]
    #: Number of excluded pairs: the array was degraded or busy with a resync or check.
    disturbed: int
    #: For p99 and mean; empty if there were too few pairs.
    effects: dict[str, Effect]

    @property
    def reads(self) -> tuple[int, int]:
        """Number of reads with off and with on."""
        off, on = (sum(pair[k].reads for pair in self.pairs) for k in (0, 1))
        return off, on

    @property
    def latencies_us(self) -> dict[str, tuple[float, float]]:
        """Latencies with off and with on; empty if there are no reads of one kind."""
        if not all(self.reads):
            return {}
        blocks = paired(self.pairs)
        return {name: blocks.latencies_us(name) for name in MEASURES}

    @property
    def dropped(self) -> int:
        """Number of lost events."""
        return sum(block.dropped for pair in self.pairs for block in pair)

    @property
    def redirected(self) -> float | None:
        """Share of the reads that md redirected by predictions; None if it is unknown.

        This is md's own count, without probes.
        """
        on = [pair[1] for pair in self.pairs if pair[1].redirected is not None]
        reads = sum(block.reads for block in on)
        return (
            sum((block.redirected or 0.0) * block.reads for block in on) / reads if reads else None
        )

    @property
    def extra_core(self) -> float:
        """Additional share of a core used for predictions with on compared with off.

        Measured by the kernel in one of 64 predictions, without md's other costs of a query.
        """
        if not self.pairs:
            return 0.0
        return float(np.mean([on.core - off.core for off, on in self.pairs]))


class Display(Protocol):
    """Receives the progress of a trial; never latencies, so that they do not make a user end it."""

    def log(self, line: str) -> None:
        """Show a line permanently."""

    def show(self, line: str) -> None:
        """Show a line until the next one."""


def check_trial(device: str) -> Target:
    """Raise an error if a trial cannot work."""
    array = MdArray(device)
    target = find_target([device])
    if os.geteuid() != 0:
        raise DeviceError("recording and switching need root; run this command with sudo")
    check_array(array)
    if not any(_takes_part(name) for name in target.drives):
        raise DeviceError(
            f"{array.name}: no mirror has a model and a mode other than off, so that "
            f"linnos changes nothing; linnapp enable /dev/{array.name}, or linnapp upload"
        )
    check_can_trace([Path("/dev", array.name)])
    check_space()
    return target


def _takes_part(name: str) -> bool:
    if observer_of(name) not in ("kernel", "module"):
        return False
    drive = Drive(name)
    return drive.mode != "off" and drive.model_id is not None


def run_trial(device: str, plan: Plan, display: Display) -> TrialOutcome:
    """Switch off and on until it is decided or the time is over; ctrl-C ends it earlier."""
    plan.check()
    restore_left(display.log)
    target, array = check_trial(device), MdArray(device)
    with alone():
        folder = target.folder / "trial"
        _remove_folder(folder)  # of a trial that was ended by a crash of the machine
        was_on = bool(array.asks)
        trial = _Trial(target, array, folder, plan, display)
        try:
            with alternating(array, folder, display.log):
                ended = trial.run()
        finally:
            _remove_folder(folder)
            remove_unused()
    return TrialOutcome(
        array.name, was_on, plan, ended, trial.pairs, trial.disturbed, trial.effects
    )


def _remove_folder(folder: Path) -> None:
    """Remove a trial's folder of recordings, and its parent if that has no models."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()


class _Trial:
    """A running trial."""

    def __init__(
        self, target: Target, array: MdArray, folder: Path, plan: Plan, display: Display
    ) -> None:
        self._target = target
        self._array = array
        self._plan = plan
        self._display = display
        self._rng = np.random.default_rng(plan.seed)
        self._analyses = looks(plan.n_pairs)
        self._folder = folder
        self.pairs: list[tuple[Block, Block]] = []
        self.disturbed = 0
        self.effects: dict[str, Effect] = {}

    def run(self) -> str:
        """Run the trial and return the reason for its end."""
        ended = "time"
        try:
            self._display.log(f"{self._array.name}: {self._next_analysis()}")
            while len(self.pairs) + self.disturbed < self._plan.n_pairs:
                is_new = self._add_pair()
                if is_new and len(self.pairs) in self._analyses[:-1] and (why := self._decided()):
                    return why
        except KeyboardInterrupt:
            # The results since the last analysis are not known to anyone, so this is the final one.
            ended = "interrupted"
        except LinnappError as error:
            if not self.pairs:
                raise
            self._display.log(str(error))
            ended = "failed"
        self._analyse(last=True)
        return ended

    def _next_analysis(self) -> str:
        done = len(self.pairs)
        number = next(n for n in self._analyses if n > done)
        at_s = time.time() + 2 * self._plan.block_s * (number - done)
        at = time.strftime("%H:%M", time.localtime(at_s))
        return f"next analysis after pair {number} of {self._plan.n_pairs}, at {at}"

    def _add_pair(self) -> bool:
        """Measure a pair; return true if it was added."""
        on_first = bool(self._rng.integers(2))
        first, second = self._block(on_first), self._block(not on_first)
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
            return False
        self.pairs.append((off, on))
        return True

    def _block(self, on: bool) -> Block:
        plan = self._plan
        done, reads = len(self.pairs), sum(block.reads for pair in self.pairs for block in pair)
        state = "on" if on else "off"
        self._display.show(
            f"pair {done + 1}, linnos {state}; {reads} reads; {self._next_analysis()}"
        )
        self._array.set_state("on" if on else "off", noted=False)
        ios = self._ios()
        time.sleep(plan.wash_s)
        ios_per_s = (self._ios() - ios) / max(plan.wash_s, 1e-3)
        counted_s = plan.block_s - plan.wash_s
        recorded_s = min(counted_s, _MAX_IOS / max(ios_per_s, 1))
        before = self._counted()
        (recording,), _ = record(
            [Path("/dev", self._array.name)],
            self._folder,
            duration_s=recorded_s,
            keep_interrupted=False,
        )
        after = self._counted()
        latency_us = read_latencies_us(recording.path) if recording.events else np.zeros(0)
        recording.path.unlink()
        time.sleep(counted_s - recorded_s)
        redirected = None
        if on and before.redirected is not None and after.redirected is not None:
            # If another process switched it on in the meantime, md's count has restarted.
            redirected = max(after.redirected - before.redirected, 0) / max(
                after.reads - before.reads, 1
            )
        took_ns = after.inference_ns - before.inference_ns
        return Block(
            bins_of(latency_us),
            float(latency_us.sum()),
            recording.dropped,
            redirected,
            took_ns / max(1e9 * (after.time_s - before.time_s), 1),
        )

    def _ios(self) -> int:
        counts = disk_stat(self._array.name)
        return counts["read_ios"] + counts["write_ios"]

    def _counted(self) -> _Counted:
        guard = self._array.guard
        drives = (
            Drive(name) for name in self._target.drives if observer_of(name) in ("kernel", "module")
        )
        return _Counted(
            time.monotonic(),
            disk_stat(self._array.name)["read_ios"],
            None if guard is None else guard.redirected,
            sum(drive.stats.get("inference_ns", 0) for drive in drives),
        )

    def _analyse(self, *, last: bool) -> None:
        of_pairs = self._plan.n_pairs
        if len(self.pairs) >= MIN_PAIRS and all((blocks := paired(self.pairs)).reads):
            error = alpha_of_analysis(of_pairs, last=last)
            self.effects = {name: blocks.effect(name, error, of_pairs) for name in DECIDING}

    def _decided(self) -> str:
        """Return the reason to end at this interim analysis; empty to continue."""
        self._analyse(last=False)
        found = self.effects.values()
        if not found or not all(effect.is_done for effect in found):
            self._display.log(
                f"after {len(self.pairs)} pairs: not decided; {self._next_analysis()}"
            )
            return ""
        return "decided" if any(effect.is_decided for effect in found) else "hopeless"


def paired(pairs: list[tuple[Block, Block]]) -> PairedBlocks:
    """Return the counts of the blocks as arrays."""
    counts = np.array([[block.counts for block in pair] for pair in pairs])
    sums_us = np.array([[block.sum_us for block in pair] for pair in pairs])
    return PairedBlocks(counts.reshape(-1, 2, N_BINS), sums_us.reshape(-1, 2))


def read_latencies_us(path: AnyPath) -> npt.NDArray[np.float64]:
    """Return the latencies of a recording's reads, until its end for those still in flight then."""
    ended, open_since, end_ns = [], [], 0
    for chunk in BlktraceReader(path):
        is_open = chunk.is_read & ((chunk.flags & (COMPLETED | ERROR)) == 0)
        ended.append(chunk.latency_ns[chunk.is_served_read])
        open_since.append(chunk.arrival_ns[is_open])
        end_ns = max(end_ns, int((chunk.arrival_ns + chunk.latency_ns).max()))
    waited = [end_ns - since.astype(np.float64) for since in open_since]
    return np.concatenate([*(ns.astype(np.float64) for ns in ended), *waited]) / 1000
