# SPDX-License-Identifier: MIT
"""Positions within bursts, and decisions read from the trace event."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval import contenders, decisions
from eval.cells import Cell, Replay, Replayed
from eval.experiments import bursts
from eval.experiments.bursts import design, enforced, observed, place
from eval.experiments.bursts.enforced import Enforced
from eval.experiments.bursts.observed import Observed
from eval.long_table import LongTable
from linnapp.stats import Interval
from linnapp.trace.decisions import FAST, SLOW

HEAD = "# tracer: nop\n#\n# entries-in-buffer/entries-written: {0}/{1}   #P:1\n#\n"
EVENT = (
    "        replayer-51      [000] .....     {time:.6f}: linnos_decision: dev=251:{minor} "
    "sector={sector} nr_sector=8 pending={pending} hist_pending=1,2,3,4 "
    "hist_latency_us=100,90,3000,80 out_fast={fast} out_slow={slow} revoked={revoked} "
    "reason={reason}\n"
)


def _write(folder: Path, events: list[str], written: int | None = None) -> None:
    head = HEAD.format(len(events), len(events) if written is None else written)
    (folder / "decisions.txt").write_text(head + "".join(events))
    (folder / "devices.txt").write_text("251:0\n251:1\n251:2\n")


def test_decisions_are_parsed_from_trace_events(tmp_path: Path) -> None:
    events = [
        EVENT.format(
            time=1.5, minor=2, sector=16, pending=7, fast=-5, slow=9, revoked=1, reason="slow"
        ),
        EVENT.format(
            time=1.6, minor=0, sector=8, pending=1, fast=5, slow=-9, revoked=0, reason="fast"
        ),
    ]
    _write(tmp_path, events)
    table = decisions.read(tmp_path)
    assert table["drive"].tolist() == [2, 0]
    assert table["offset_bytes"].tolist() == [8192, 4096]
    assert table["predicted_slow"].tolist() == [True, False]
    assert table["revoked"].tolist() == [True, False]
    assert table["reason"].tolist() == [SLOW, FAST]
    assert table["hist_latency_us"].tolist() == [[100, 90, 3000, 80]] * 2
    assert table["time_us"] == pytest.approx([1.5e6, 1.6e6])


def test_lost_events_are_an_error(tmp_path: Path) -> None:
    event = EVENT.format(
        time=1.5, minor=0, sector=16, pending=7, fast=1, slow=0, revoked=0, reason="fast"
    )
    _write(tmp_path, [event], written=3)
    with pytest.raises(ValueError, match="2 events did not fit"):
        decisions.read(tmp_path)


def test_each_observed_read_has_its_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads of two drives are mixed; a read without a decision is an error."""
    home = np.array([0, 1, 0, 1, 1])
    offset = np.arange(5) * 4096
    events = [
        EVENT.format(
            time=1 + i / 10, minor=home[i], sector=offset[i] // 512, pending=1, fast=1, slow=0,
            revoked=0, reason="fast",
        )
        for i in range(5)
    ]  # fmt: skip
    _write(tmp_path, events)
    log = {"home": home, "offset_bytes": offset, "start_us": np.arange(5.0)}
    monkeypatch.setattr(observed, "read_log", lambda path: log)
    result = Replayed(Replay(Cell("az-e", "enterprise", 1, 1.0, 1.0), "linnos"), {}, tmp_path)
    table, reads = observed.match_observed(result)
    assert table["offset_bytes"].tolist() == reads["offset_bytes"].tolist()
    assert reads["home"].tolist() == [0, 0, 1, 1, 1]
    assert reads["nth"].tolist() == [0, 1, 0, 1, 2]
    _write(tmp_path, events[:-1])
    with pytest.raises(ValueError, match="decisions, "):
        observed.match_observed(result)


@pytest.mark.parametrize("pattern", ["every 10th", "10 in a row", "100 in a row"])
def test_a_tenth_of_the_reads_is_in_bursts(pattern: str) -> None:
    position = observed.positions(np.arange(10_000), pattern)
    in_a_row = design.PATTERNS[pattern][1]
    assert (position > 0).mean() == pytest.approx(0.1)
    assert position.max() == in_a_row
    # As kernel/flashsim/inject.c has it: a run begins with the cycle, while an
    # interval ends with the slow one.
    first = int(np.flatnonzero(position)[0])
    assert first == (0 if in_a_row > 1 else 9)


def test_each_drive_has_its_turn() -> None:
    slot_ms = 50
    _, every_ms = enforced.slots(slot_ms, 1000)
    time_us = np.arange(0.5, 3 * every_ms) * 1000
    turns = [
        enforced.burst_of(time_us, np.full(len(time_us), drive), slot_ms)[0] for drive in range(3)
    ]
    assert not np.any(turns[0] & turns[1]) and not np.any(turns[1] & turns[2])
    for drive, turn in enumerate(turns):
        began_ms = time_us[turn][0] / 1000
        assert began_ms == pytest.approx(drive * every_ms + 0.5)
        assert turn.sum() == slot_ms


def test_time_since_the_end_of_a_burst() -> None:
    slot_ms = 50
    _, every_ms = enforced.slots(slot_ms, 1000)
    drive = np.array([1])
    before = enforced.burst_of(np.array([every_ms * 1000.0 - 1]), drive, slot_ms)
    assert before[1][0] == -1 and not before[0][0]
    inside = enforced.burst_of(np.array([every_ms * 1000.0 + 10]), drive, slot_ms)
    assert inside[0][0] and inside[2][0] == pytest.approx(10 - slot_ms * 1000)
    after = enforced.burst_of(np.array([(every_ms + slot_ms) * 1000.0 + 7]), drive, slot_ms)
    assert not after[0][0] and after[2][0] == pytest.approx(7)


def _observed(workload: str, slow: int, found: int, position: str) -> Observed:
    numbers = {
        "reads": 10 * slow, "slow_in_bursts": slow, "found": found,
        "right": 10 * slow - slow + found, "false_revokes": 0, "missed": slow - found,
        **dict.fromkeys(observed.CAUSES, 0), "blind": slow - found,
        "by_position": {position: {"reads": slow, "slow": slow, "found": found}},
        "by_block": {"slow": [slow - found, found] * 5, "found": [0, found] * 5},
    }  # fmt: skip
    return Observed(workload, "random 10 %", "calm recording", numbers)


WHERE = {"pattern": "random 10 %", "trained_on": "calm recording"}


def test_reads_of_all_workloads_are_counted_together() -> None:
    table = LongTable(bursts.FACTORS)
    bursts.add_observed(
        table, [_observed("az-e", 10, 9, "11-20"), _observed("az-c", 95, 1, "2")]
    )  # fmt: skip
    recall = table.interval(place(**WHERE), "", "recall")
    assert recall.value == pytest.approx(10 / 105)
    # With all bursts found in some blocks and none in others, the interval is wide.
    assert recall.low < 0.05 and recall.high > 0.3
    assert table.value(place(**WHERE), "", "blind") == 95
    assert table.value(place(**WHERE, workload="az-e"), "", "recall") == pytest.approx(0.9)
    at = place(**WHERE, position="2")
    assert table.value(at, "", "recall") == pytest.approx(1 / 95)
    assert table.value(at, "", "false_submits") == pytest.approx(94 / 95)


def _enforced(workload: str, mean_us: float, recovery_us: list[float], **changes: Any) -> Enforced:
    numbers = {
        "mean_us": mean_us, "burst_mean_us": mean_us, "calm_us": mean_us,
        "excess_us": {"1": mean_us},
        "bursts": len(recovery_us) + 1, "never_trusted": 1, "revoked_after_burst": 3,
        "probes": 2, "answered_probes": 0, "answered_probes_us": 0.0, "recovery_us": recovery_us,
    }  # fmt: skip
    given = {"slot_ms": 50, "policy": "linnos", "probing": "default", **changes}
    return Enforced(workload, given["slot_ms"], given["policy"], given["probing"], numbers, REPLAY)


REPLAY = Replayed(Replay(Cell("az-e", "enterprise", 1, 1.0, 1.0), "linnos"), {}, Path())


@pytest.fixture
def enforced_table(monkeypatch: pytest.MonkeyPatch) -> LongTable:
    """The numbers of made-up replays, and the reductions of means."""

    def add_reads(table: LongTable, at: Any, by_seed: Any, **_: Any) -> None:
        ((_, replays),) = by_seed.items()
        for policy in replays:
            table.add(at, policy, "mean_us", 7.0)
        table.add(at, "linnos", "mean_us", Interval(0.1, 0.05, 0.2), "hedge")

    monkeypatch.setattr(bursts.scores, "add_reads", add_reads)
    table = LongTable(bursts.FACTORS)
    same = [
        _enforced(workload, mean_us, recovery_us, slot_ms=slot_ms, **which)
        for slot_ms in design.SLOT_MS
        for which in (
            *({"policy": policy} for policy in contenders.INJECTED),
            *({"probing": setting} for setting in design.SETTINGS),
        )
        for workload, mean_us, recovery_us in (("az-e", 100, [1, 2, 3]), ("az-c", 300, [10]))
    ]
    bursts.add_enforced(table, same)
    return table


def test_latencies_of_workloads_are_averaged_and_counts_added(enforced_table: LongTable) -> None:
    at = place(burst_ms=50)
    assert enforced_table.value(at, "linnos", "mean_us") == 200
    assert enforced_table.value(place(burst_ms=50, position="1"), "hedge", "excess_us") == 200
    at = place(burst_ms=50, probing="after 10 ms")
    expected = {"bursts": 6, "never_trusted": 2, "probes": 4, "recovery_p50_us": 2.5}
    for measure, value in expected.items():
        assert enforced_table.value(at, "linnos", measure) == value
    assert enforced_table.get(at, "linnos", "probe_mean_us") is None


def test_report_has_all_tables_and_a_figure(enforced_table: LongTable, tmp_path: Path) -> None:
    results = [
        _observed("az-e", 10, 6, "2")._replace(pattern=pattern) for pattern in design.PATTERNS
    ]
    bursts.add_observed(enforced_table, results)
    tables = bursts.EXPERIMENT.tables(enforced_table)
    assert [f"By {', '.join(group)}" in tables for group in bursts.GROUPS] == [True] * 8
    pairs = tables["Mean read latency of pairs of policies"]
    assert pairs.rows[0][-2:] == ("10.0 [5.0, 20.0]", "faster")
    bursts.EXPERIMENT.draw(enforced_table, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
