# SPDX-License-Identifier: MIT
"""`linnapp trial` on plain files in place of sysfs; a lab test uses the real kernel."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blktrace_builder import C, Q, TraceBuilder
from fake_sysfs import FakeSysfs

from linnapp import stats
from linnapp.commands.trial import in_words, to_text
from linnapp.drive import trial
from linnapp.drive.recording import Recording
from linnapp.drive.trial import (
    Block,
    Effect,
    Plan,
    TrialOutcome,
    read_latencies_us,
    run_trial,
    to_json,
)
from linnapp.errors import DeviceError, LinnappError
from linnapp.terminal import StatusLine

PLAN = Plan(hours=0.01, block_s=1.0, seed=1)


class RecordedDisplay(StatusLine):
    """A display that keeps its messages."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.log = self.lines.append  # type: ignore[method-assign]

    def show(self, line: str) -> None:
        """Ignore the text; the next one replaces it."""


@pytest.fixture
def block(sysfs: FakeSysfs) -> Path:
    return sysfs.block


@pytest.fixture
def md(block: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an array, one mirror of which has a model."""
    monkeypatch.setattr(trial, "check_can_trace", lambda _: None)
    monkeypatch.setattr("time.sleep", lambda _: None)
    linnos = block / "sda" / "linnos"
    for file, text in (("mode", "observe"), ("model_id", "01234567"), ("model_kind", "network")):
        (linnos / file).write_text(text + "\n")
    (block / "md0" / "stat").write_text("5 0 0 0 0 0 0 0 0 0 0\n")
    return block / "md0" / "md"


@pytest.fixture
def reads(md: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[bool], Any]], None]:
    """Set a function that returns a block's latencies, given if the array is on."""

    def made_by(latency_us: Callable[[bool], Any]) -> None:
        def record(_: Any, folder: Path, **__: Any) -> tuple[list[Recording], int]:
            found = latency_us((md / "linnos").read_text().strip() == "on")
            folder.mkdir(parents=True, exist_ok=True)
            np.save(folder / "md0.npy", found)
            return [Recording("md0", folder / "md0.npy", len(found), 0)], 0

        monkeypatch.setattr(trial, "record", record)
        monkeypatch.setattr(trial, "read_latencies_us", np.load)

    return made_by


def test_trial_refuses_unsuitable_arrays_and_plans(
    md: Path, block: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(message: str, device: str = "md0", plan: Plan = PLAN) -> None:
        with pytest.raises(LinnappError, match=message):
            run_trial(device, plan, RecordedDisplay())

    refused("sda: no md array", "sda")
    refused("md9: no such disk", "md9")
    refused("--hours 0.001 has 1 pairs .* at least 8", plan=dataclasses.replace(PLAN, hours=1e-3))
    # test_bad_targets.py has the other obstacles of arrays.
    for file, text, message in (
        ("degraded", "1", "md0 is degraded"),
        ("linnos", "n/a", "boot the patched kernel; or install linnos-dkms"),
    ):
        before = (md / file).read_text()
        (md / file).write_text(text + "\n")
        refused(message)
        (md / file).write_text(before)
    (block / "sda" / "linnos" / "mode").write_text("off\n")
    refused("no mirror has a model and a mode other than off")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    refused("run this command with sudo")
    assert (md / "linnos").read_text().strip() == "off"


def test_trial_measures_an_effect_and_restores_the_mode(
    md: Path, reads: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    reads(lambda on: rng.lognormal(5, 0.5, 1000) * (0.5 if on else 1.0))
    (md / "linnos").write_text("on\n")
    found = run_trial("md0", PLAN, display := RecordedDisplay())
    assert found.ended == "time" and len(found.pairs) == 18 and found.was_on
    for effect in found.effects.values():
        low, high = effect.ends
        assert 0.4 < low < 0.5 < high < 0.6
    assert (md / "linnos").read_text().strip() == "on"
    assert "md0: 18 pairs of blocks, until " in display.lines[0]
    assert not (tmp_path / "state" / "enable").exists()
    assert "It has a benefit" in to_text(found) and "linnos on" in to_text(found)
    assert json.loads(json.dumps(to_json(found)))["latencies"]["p99"]["significant"]


def test_trial_without_an_effect_says_so(md: Path, reads: Any) -> None:
    rng = np.random.default_rng(1)
    reads(lambda _: rng.lognormal(5, 0.5, 1000))
    found = run_trial("md0", PLAN, RecordedDisplay())
    assert "No significant difference" in to_text(found)


def test_interval_of_bursty_blocks_contains_the_effect_at_the_stated_rate() -> None:
    """A third of the blocks have a burst, with off and with on; both intervals hold together."""
    rng, n, missed = np.random.default_rng(1), 200, 0
    for _ in range(n):
        pairs = []
        for _ in range(20):
            load = 1 + 10 * (rng.random(2) < 1 / 3)
            sides = [rng.lognormal(5, 1, 200) * factor for factor in load * (1.0, 0.8)]
            pairs.append((Block.summarise(sides[0], 0), Block.summarise(sides[1], 0)))
        found = TrialOutcome("md0", True, PLAN, "time", pairs, 0).effects
        ends = [found[name].ends for name in ("p99", "mean")]
        missed += not all(low <= 0.8 <= high for low, high in ends)
    assert missed <= n * 0.05 + 3 * (n * 0.05 * 0.95) ** 0.5


def test_trial_restores_the_array_after_errors_and_interrupts(md: Path, reads: Any) -> None:
    reads(lambda _: np.zeros(0))
    with pytest.raises(DeviceError, match="no reads in 2 s"):
        run_trial("md0", PLAN, RecordedDisplay())
    assert (md / "linnos").read_text().strip() == "off"

    calls = iter(range(100))

    def interrupted(on: bool, error: BaseException, after: int) -> Any:
        if next(calls) == after:
            raise error
        return np.full(100, 100.0)

    reads(lambda on: interrupted(on, KeyboardInterrupt(), 7))
    found = run_trial("md0", PLAN, RecordedDisplay())
    assert found.ended == "interrupted" and len(found.pairs) == 3
    assert "too few pairs" in to_text(found)
    calls = iter(range(100))
    reads(lambda on: interrupted(on, DeviceError("blktrace failed"), 20))
    found = run_trial("md0", PLAN, display := RecordedDisplay())
    assert found.ended == "failed" and len(found.pairs) == 10 and found.effects
    assert "blktrace failed" in display.lines
    assert (md / "linnos").read_text().strip() == "off"


def test_pairs_of_a_busy_array_do_not_count(md: Path, reads: Any) -> None:
    calls = iter(range(1000))

    def busy_for_a_while(_: bool) -> Any:
        (md / "sync_action").write_text("check" if next(calls) in (4, 5) else "idle")
        return np.full(100, 100.0)

    reads(busy_for_a_while)
    found = run_trial("md0", PLAN, RecordedDisplay())
    assert found.disturbed == 1 and "not counted: 1 pairs" in to_text(found)


def test_reads_that_have_not_ended_count_as_long_as_they_waited(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for action, time_us, sector in (
        (Q, 100, 0),
        (Q, 200, 8),
        (C, 350, 0),
        (Q, 400, 16),
        (C, 900, 16),
    ):
        trace.add(action, time_us, sector)
    trace.write(tmp_path / "md0.blk")
    assert sorted(read_latencies_us(tmp_path / "md0.blk")) == [250, 500, 700]


def effect(off_us: float, on_us: float, low: float, high: float) -> Effect:
    logs = (math.log2(x) for x in (on_us / off_us, low, high))
    return Effect(off_us, on_us, stats.Interval(*logs))


def test_trial_warning_names_the_command_that_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    harm, gain = effect(100, 120, 1.1, 1.3), effect(100, 80, 0.7, 0.9)
    for effects, was_on, is_told in (
        ({"p99": harm, "mean": harm}, True, True),
        ({"p99": harm, "mean": harm}, False, False),
        ({"p99": harm, "mean": gain}, True, False),
    ):
        monkeypatch.setattr(TrialOutcome, "effects", effects)
        found = TrialOutcome("md0", was_on, PLAN, "time", [], 0)
        assert ("`linnapp disable` switches it off" in to_text(found)) is is_told


def test_change_is_described_in_words() -> None:
    assert in_words(effect(520, 161, 0.25, 0.39)) == "69 [61, 75] % lower"
    assert in_words(effect(100, 104, 0.9, 1.2)) == "4 [-10, 20] % higher, not significant"
