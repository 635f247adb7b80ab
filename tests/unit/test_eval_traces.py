# SPDX-License-Identifier: MIT
"""User-supplied traces: which files are used, and the counts of their runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import made_up_lab
import pytest

from eval import pages, trace_files
from eval.cache import Cache
from eval.experiment import Context
from eval.experiments import trace_counts, traces
from eval.experiments.trace_counts import (
    BEST_RULE,
    BURSTS,
    CALM,
    GUARDED,
    HEDGE_CAPPED,
    OFF,
    ON,
    TWICE,
    TWO,
    UNGUARDED,
    count,
    runs_of,
)
from eval.long_table import LongTable
from linnapp.lab.work import StepError
from linnapp.stats import Interval

LINE = "0.000 0 0 4096 1\n"


def test_folder_expands_to_its_traces_by_name(tmp_path: Path) -> None:
    for name in ("b.trace", "a.trace", "deep/er/c.trace"):
        (tmp_path / "all" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "all" / name).write_text(LINE * 2)
    (tmp_path / "all" / "LICENSE").write_text("Copyright of somebody\n")
    (tmp_path / "all" / "empty").touch()
    (tmp_path / "all" / "no.xz").write_text("packed by nobody\n")
    (tmp_path / "alone.trace").write_text(LINE)
    given = (tmp_path / "all", tmp_path / "alone.trace")
    found = trace_files.files(given)
    assert list(found) == ["a.trace", "b.trace", "deep/er/c.trace", "alone.trace"]
    assert found["deep/er/c.trace"] == tmp_path / "all/deep/er/c.trace"
    # The saved data do not contain their paths.
    assert [name for name, _ in trace_files.digests(given)] == list(found)
    assert str(tmp_path) not in str(trace_files.digests(given))


def test_missing_and_duplicate_traces_are_errors(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "README").write_text("no trace\n")
    for path, why in (("gone", "no such file or folder"), ("empty", "no trace in it")):
        with pytest.raises(StepError, match=f"{path}: {why}.*LINNOS_TRACES"):
            trace_files.files((tmp_path / path,))
        assert trace_files.digests((tmp_path / path,)) == [[path, "missing"]]
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.trace").write_text(LINE)
    with pytest.raises(StepError, match=r"other/same\.trace: another trace has this name"):
        trace_files.files((tmp_path / "one", tmp_path / "other"))


def test_without_the_variable_the_recorded_applications_are_replayed() -> None:
    found = trace_files.files((trace_files.RECORDED,))
    assert {"fio.blk.xz", "pgbench.blk.xz"} <= found.keys()
    assert not [name for name in found if name.endswith((".md", ".sh"))]


def _table(*runs: tuple[float, str, dict[str, Any]]) -> LongTable:
    """Return a long table of runs: the mean, or mean and p99, of each policy."""
    table = LongTable(("trace", "rate", "slowness"))
    for iops, slowness, policies in runs:
        place = ("msr.cut.per_10k.rw_20_80.105.trace", iops / 2000, slowness)
        for policy, numbers in policies.items():
            mean_us, p99_us = numbers if isinstance(numbers, tuple) else (numbers, None)
            fields = {"mean_us": mean_us, "p99_us": p99_us, "iops": iops, "reads": 300,
                      "elapsed_s": 2.0, "extra_io_ratio": float(policy in TWICE[2:])}  # fmt: skip
            for field, value in fields.items():
                if value is not None:
                    table.add(place, policy, field, value, seed=2010)
    return table


@pytest.fixture
def table() -> LongTable:
    """A trace at two rates: `fastest` is slower at one of them without bursts, else faster."""
    made = _table(
        (1000, CALM, {"baseline": 100, "shortest-queue": 104, "fastest": 103, "oracle": 90,
                      TWO: 100}),
        (1000, BURSTS, {"baseline": 300, "shortest-queue": 150, "fastest": 120, "oracle": 100,
                        TWO: 110, HEDGE_CAPPED: 240, OFF: 400, ON: 200}),
        (2000, CALM, {"baseline": 100, "shortest-queue": 100.5, "fastest": 100.6, "oracle": 99.5,
                      TWO: 100.5, HEDGE_CAPPED: 99, OFF: 100, ON: 102}),
        (2000, BURSTS, {"baseline": 200, "shortest-queue": 100, "fastest": 150, "oracle": 100,
                        TWO: 140, HEDGE_CAPPED: 190, OFF: 400, ON: 100}),
    )  # fmt: skip
    for place in made.places:
        share = 1 - made.value(place, "fastest", "mean_us", 2010) / made.value(
            place, "baseline", "mean_us", 2010
        )
        found = Interval(share, share - 0.01, share + 0.01)
        made.add(place, "fastest", "mean_us", found, "baseline")
    return made


def test_counts_of_higher_and_lower_means(table: LongTable) -> None:
    runs = runs_of(table)
    assert [run.name for run in runs] == [
        f"MSR 105 at {iops}, {slowness}" for iops in (1000, 2000) for slowness in (CALM, BURSTS)
    ]
    fastest = count(runs, "fastest", "baseline")
    assert fastest is not None and (fastest.n, fastest.slower, fastest.faster) == (4, 1, 2)
    assert (fastest.surely_slower, fastest.surely_faster) == (1, 2)
    assert (fastest.worst, fastest.where) == (pytest.approx(0.03), "MSR 105 at 1000, calm")
    assert fastest.calm == pytest.approx(0.018)
    assert fastest.bursts == pytest.approx((-0.6 - 0.25) / 2)
    # 3 % slower than baseline, 20 % faster than shortest-queue, equal, 50 % slower than it.
    rules = count(runs, "fastest", BEST_RULE)
    assert rules is not None and (rules.slower, rules.faster) == (2, 1)
    # Runs in which the hedge was not replayed do not count, and blocks were not kept for it.
    hedge = count(runs, TWO, HEDGE_CAPPED)
    assert hedge is not None and (hedge.n, hedge.slower, hedge.faster) == (3, 1, 2)
    assert hedge.surely_slower is None
    table.add(("", "", ""), TWO, "significantly_slower", 1.0, HEDGE_CAPPED)
    hedge = count(runs, TWO, HEDGE_CAPPED)
    assert hedge is not None and (hedge.surely_slower, hedge.surely_faster) == (1, None)
    # No count for a percentile that no replay was long enough for, nor for absent policies.
    assert count(runs, "fastest", "baseline", "p99_us") is None
    assert count(runs, "linnos", "baseline") is None


def test_shares_require_a_gain_of_the_oracle(table: LongTable) -> None:
    shares = [run.share("fastest") for run in runs_of(table)]
    # Half a percent counts as no gain.
    assert shares == [pytest.approx(-0.3), pytest.approx(0.9), None, pytest.approx(0.5)]
    assert runs_of(table)[0].share("clone") is None
    counts, of_oracle = trace_counts.tables(table).values()
    assert ("fastest", "3", "50%", "-30%") in of_oracle.rows
    assert {len(row) for row in counts.rows} == {len(counts.header)}


RUNS = _table(
    (2000, CALM, {"baseline": (100, 200), "prequal": (99.5, 150), "linnos": (102, 200),
                  TWO: (100.9, 203), OFF: (100, 300), ON: (102, 290)}),
    (2000, BURSTS, {"baseline": (200, 2000), "prequal": (100, 1900), "c3": (101, 150),
                    "linnos": (90, 2100)}),
)  # fmt: skip


def test_front_page_shows_changes_of_the_mean_with_the_lowest_in_bold() -> None:
    (front,) = pages.render("traces_front.md.j2", RUNS, **trace_counts.page_data(RUNS))
    assert front.rows == [
        ("MSR 105", "300", "**55 % lower**", "-", "50 % lower, `prequal`", "-"),
    ]
    calm = next(run for run in runs_of(RUNS) if run.slowness == CALM)
    # Half a percent is no change. md with queries is compared with md without.
    assert trace_counts.change(calm, "prequal", among=["prequal", "linnos"]) == "no change"
    assert trace_counts.change(calm, "linnos", among=["linnos"]) == "2 % higher"
    assert trace_counts.change(calm, ON, OFF) == "2 % higher"


def test_all_runs_name_the_best_rule_by_mean_and_by_p99() -> None:
    every, counts, shares = pages.render("traces_all.md.j2", RUNS, **trace_counts.page_data(RUNS))
    rows = [dict(zip(every.header, row, strict=True)) for row in every.rows]
    assert [row["best rule"] for row in rows] == ["`prequal` 99.5/150", "`prequal` 100, `c3` 150"]
    # md with queries is compared with md without
    assert (rows[0]["LinnOS (OSDI'20)"], rows[0]["md on"], rows[1]["LinnOS (OSDI'20)"]) == (
        "**102**/200", "**102**/290", "90.0/**2100**",
    )  # fmt: skip
    row = next(row for row in counts.rows if row[:2] == ("LinnOS (OSDI'20)", "no steering"))
    assert row[2:] == ("1", "1", "+2.0", "+2.0/-55.0", "1", "0", "+5.0", "0/+5.0")
    assert shares.rows[0][0] == "median of 0 runs"
    (summed,) = pages.render("traces_summed.md.j2", RUNS, **trace_counts.page_data(RUNS))
    row = next(row for row in summed.rows if row[0] == "LinnOS (OSDI'20)")
    assert row[2:] == ("1", "1", "+2.0, MSR 105 at 2000, calm",
                       "0", "1", "+5.0, MSR 105 at 2000, bursts")  # fmt: skip


def test_pages_need_public_traces() -> None:
    recorded = LongTable.from_csv(RUNS.to_csv().replace("msr.cut.per_10k", "mine"))
    with pytest.raises(StepError, match="LINNOS_TRACES=DIR"):
        trace_counts.page_data(recorded)


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


def _run(tmp_path: Path, patch: pytest.MonkeyPatch, **changes: Any) -> LongTable:
    """Run the experiment on the traces in a folder in the fake lab."""
    made_up_lab.install(patch)
    given = (tmp_path / "given",)
    patch.setattr(trace_files, "GIVEN_OR_RECORDED", given)
    patch.setattr(traces, "_left_out", {})
    study = replace(
        traces.EXPERIMENT,
        factors={**traces.EXPERIMENT.factors, "trace": trace_files.names(given), **changes},
    )
    return study.run(Context("traces", Cache(tmp_path / "cache"), 1, True, tmp_path / "traces", 1))


def test_traces_are_replayed_calm_with_bursts_and_on_md(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A trace of 1000 I/Os per second is replayed at this, the double and the fourfold rate.
    _trace(tmp_path / "given" / "mine.trace")
    replays: list[tuple[str, bool]] = []
    replay = made_up_lab._replay

    def replaying(scenario: Any, policy: str, folder: Path, **more: Any) -> dict[str, Any]:
        on_md = scenario.array.devices == ["/dev/md0"]
        prepare = more.get("prepare", "")
        # md hides the drives from the replayer, so the guest slows them.
        bursts = "window_turn_mask" in prepare if on_md else scenario.inject is not None
        assert not (on_md and scenario.inject)
        assert ("--replicate-writes" in scenario.options) != on_md
        state = prepare.split(">/sys/block/md0/md/linnos")[0].split()[-1] if on_md else ""
        replays.append((f"md, {state}" if on_md else policy, bursts))
        made = replay(scenario, policy, folder, **more)
        return {**made, "mean_us": made["mean_us"] * (1.2 if state == "on" else 1)}

    monkeypatch.setattr(made_up_lab, "_replay", replaying)
    table = _run(tmp_path, monkeypatch)
    others = {UNGUARDED: "fastest", GUARDED: "linnos"}
    assert sorted(replays) == sorted(
        (others.get(policy) or (row.policy if (row := traces.ROWS.get(policy)) else policy), bursts)
        for policy in traces.EXPERIMENT.policies
        for bursts in (False, True)
        for _ in range(3)
    )
    runs = runs_of(table)
    assert [(round(run.of("baseline", "iops")), run.slowness) for run in runs] == [
        (iops, slowness) for iops in (1001, 2000, 4000) for slowness in (CALM, BURSTS)
    ]
    md = count(runs, ON, OFF)
    assert md is not None and (md.n, md.slower) == (6, 6) and md.worst == pytest.approx(0.2)
    assert md.surely_slower == 0  # its reads are the same here, only the summary differs


def test_unusable_trace_is_named_and_the_others_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "given"
    _trace(given / "a-writes.trace", writes_only=True)
    _trace(given / "b-mine.trace")
    _trace(given / "c-short.trace", 60)
    damaged = _trace(given / "d-damaged.trace")
    damaged.write_text(damaged.read_text() + "and then nothing\n")
    table = _run(tmp_path, monkeypatch, rate=(1.0,), slowness=(CALM,))
    assert {place[0] for place in table.places} == {"b-mine.trace"}
    shown = capsys.readouterr().out
    assert "a-writes.trace, rate 1: left out: no reads" in shown
    assert "c-short.trace, rate 1: left out: 20 reads in its first half, 300 are needed" in shown
    assert "left out: d-damaged.trace:2001: 'and then nothing'" in shown
    (given / "b-mine.trace").unlink()
    with pytest.raises(StepError, match="nothing to measure"):
        _run(tmp_path, monkeypatch, rate=(1.0,), slowness=(CALM,))
