# SPDX-License-Identifier: MIT
"""Experiments from workload to table, on a fake lab whose results are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import made_up_lab
import pytest

from eval import cells
from eval.cache import Cache
from eval.experiment import Context, Table
from eval.experiments import traces
from eval.experiments.traces import replays as of_traces
from eval.experiments.traces import runs as traces_runs
from eval.experiments.windows import EXPERIMENT as WINDOWS
from eval.experiments.windows import replays
from eval.work import StepError


def _trace(path: Path, n: int = 2000, *, writes_only: bool = False) -> Path:
    """Write a trace of 1000 I/Os per second, two thirds of them reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(
            f"{k}.000 0 {k % 50 * 8192} 4096 {int(k % 3 > 0 and not writes_only)}\n"
            for k in range(n)
        )
    )
    return path


def test_traces_are_compared_with_baseline_calm_and_with_bursts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up_lab.install(monkeypatch)
    # A trace of 1000 I/Os per second is replayed at this, the double and the fourfold rate.
    _trace(tmp_path / "brought" / "mine.trace")
    monkeypatch.setattr(traces_runs, "GIVEN", (tmp_path / "brought",))
    told: list[tuple[str, bool]] = []
    replay = cells.guests.replay

    def replaying(scenario: Any, policy: str, folder: Path, **more: Any) -> dict[str, Any]:
        on_md = scenario.array.devices == ["/dev/md0"]
        prepare = more.get("prepare", "")
        # md hides the drives from the replayer, so the guest slows them.
        bursts = "window_turn_mask" in prepare if on_md else scenario.inject is not None
        assert not (on_md and scenario.inject)
        assert ("--replicate-writes" in scenario.options) != on_md
        state = prepare.split(">/sys/block/md0/md/linnos")[0].split()[-1] if on_md else ""
        told.append((f"md, {state}" if on_md else policy, bursts))
        made = replay(scenario, policy, folder, **more)
        return {**made, "mean_us": made["mean_us"] * (1.2 if state == "on" else 1)}

    monkeypatch.setattr(cells.guests, "replay", replaying)
    context = Context("traces", Cache(tmp_path / "cache"), 1, True, tmp_path / "o", n_seeds=1)
    data = json.loads(json.dumps(traces.EXPERIMENT.run(context)))
    expected = [
        *(row.policy for row in of_traces.ROWS), of_traces.UNGUARDED,
        of_traces.GUARDED, of_traces.OFF, of_traces.ON, of_traces.MD_UNGUARDED,
    ]  # fmt: skip
    told_as = {of_traces.UNGUARDED: "lowest", of_traces.GUARDED: "linnos"}
    assert sorted(told) == sorted(
        (told_as.get(what, what).removesuffix(", 5% cap"), bursts)
        for what in expected for bursts in (False, True) for _ in range(3)
    )  # fmt: skip
    tables = traces.EXPERIMENT.table(data)
    assert all(len(row) == len(table.header) for table in tables.values() for row in table.rows)
    first, *_ = tables.values()
    assert [row[:3] for row in first.rows] == [
        ("mine.trace", iops, slowness)
        for iops in ("1001", "2000", "4000")
        for slowness in (of_traces.CALM, of_traces.BURSTS)
    ]
    assert {row[-1] for row in first.rows} == {"(+20.0)"}
    (learnt, *_) = tables["Reads that the models of each drive learnt from"].rows
    assert learnt[2] == "900, 901 (no trees), 902 (no trees)"
    assert "6 runs of 1 traces" in traces.EXPERIMENT.reading(data)
    counted = {row[0]: row[1:3] for row in _counted(data).rows}
    assert counted["md raid1, `on` against `off`"] == ("6", "6 by over 1%")
    assert counted["`linnos` against doing nothing"] == ("6", "0 by over 1%")
    traces.EXPERIMENT.draw(data, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
    assert traces.EXPERIMENT.numbers is not None
    assert len(traces.EXPERIMENT.numbers(data)) == 6 * len(expected)
    # Results from before an alternative existed are still described and drawn.
    for gone in ("hedge, 5% cap", "prequal", of_traces.ON):
        data["runs"] = [run for run in data["runs"] if run["policy"] != gone]
        first, *_ = traces.EXPERIMENT.table(data).values()
    assert {row[first.header.index("hedge, 5% cap")] for row in first.rows} == {"-"}
    assert not any("md raid1" in row[0] for row in _counted(data).rows)
    traces.EXPERIMENT.draw(data, tmp_path / "older.png")


def _counted(data: dict[str, Any]) -> Table:
    return traces.EXPERIMENT.table(data)["Counts, by the mean unless p99 is said"]


def test_unusable_trace_is_named_and_the_others_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up_lab.install(monkeypatch)
    brought = tmp_path / "brought"
    _trace(brought / "a-writes.trace", writes_only=True)
    _trace(brought / "b-mine.trace")
    _trace(brought / "c-short.trace", 60)
    damaged = _trace(brought / "d-damaged.trace")
    damaged.write_text(damaged.read_text() + "and then nothing\n")
    monkeypatch.setattr(traces_runs, "GIVEN", (brought,))
    monkeypatch.setattr(traces_runs, "ROWS", of_traces.ROWS[:1])
    monkeypatch.setattr(traces_runs, "RATES", (1.0,))
    context = Context("traces", Cache(tmp_path / "cache"), 1, True, tmp_path / "o", n_seeds=1)
    data = json.loads(json.dumps(traces.EXPERIMENT.run(context)))
    assert {run["trace"] for run in data["runs"]} == {"b-mine.trace"}
    why = {row["trace"]: row["why"] for row in data["left_out"]}
    assert why["a-writes.trace"] == "no reads"
    assert why["c-short.trace, 2000/s"] == "20 reads in its first half, 300 are needed"
    assert why["d-damaged.trace"].startswith("d-damaged.trace:2001: 'and then nothing'")
    assert "a-writes.trace: left out: no reads" in capsys.readouterr().out
    assert len(traces.EXPERIMENT.table(data)["Left out"].rows) == 3
    (brought / "b-mine.trace").unlink()
    with pytest.raises(StepError, match=r"a-writes\.trace: no reads; .*c-short"):
        traces.EXPERIMENT.run(context)


def test_windows_are_replayed_compared_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up_lab.install(monkeypatch)
    monkeypatch.setitem(replays.PARAMETERS, "windows", 3)
    monkeypatch.setitem(replays.PARAMETERS, "workloads", ("bs-c",))
    context = Context("windows", Cache(tmp_path / "cache"), 1, True, tmp_path, n_seeds=1)
    data = json.loads(json.dumps(WINDOWS.run(context)))
    assert "Data and I/O errors" in WINDOWS.reading(data)
    assert any(table.rows for table in WINDOWS.table(data).values())
    WINDOWS.draw(data, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
    assert WINDOWS.numbers is not None
    kept = WINDOWS.numbers(data)
    pairs = {(pair["policy"], pair["reference"]) for pair in kept[0]["compared"]}
    assert {("linnos", "shortest-queue"), ("lowest", "linnos"), ("lowest", "clone")} <= pairs
