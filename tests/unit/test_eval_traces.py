# SPDX-License-Identifier: MIT
"""User-supplied traces: which files are used, and the counts of their runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval import pages, trace_counts, trace_files
from eval.long_table import LongTable
from eval.trace_counts import (
    BEST_RULE,
    BURSTS,
    CALM,
    HEDGE_CAPPED,
    OFF,
    ON,
    TWICE,
    TWO,
    count,
    runs_of,
)
from linnapp.lab.work import StepError
from linnapp.stats import Interval

LINE = "0.000 0 0 4096 1\n"


def test_folder_expands_to_its_traces_by_name(tmp_path: Path) -> None:
    for name in ("b.trace", "a.trace", "deep/er/c.trace"):
        (tmp_path / "all" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "all" / name).write_text(LINE * 2)
    (tmp_path / "all" / "LICENSE").write_text("Copyright of a person\n")
    (tmp_path / "all" / "empty").touch()
    (tmp_path / "all" / "no.xz").write_text("not packed\n")
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
        f"MSR 105 at {iops}, {bursts}"
        for iops in ("1,000", "2,000")
        for bursts in ("without bursts", "with bursts")
    ]
    fastest = count(runs, "fastest", "baseline")
    assert fastest is not None and (fastest.n, fastest.slower, fastest.faster) == (4, 1, 2)
    assert (fastest.surely_slower, fastest.surely_faster) == (1, 2)
    assert fastest.worst == pytest.approx(0.03)
    assert fastest.where == "MSR 105 at 1,000, without bursts"
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


RUNS = _table(
    (2000, CALM, {"baseline": (100, 200), "prequal": (99.5, 150), "linnos": (102, 200),
                  TWO: (100.9, 203), OFF: (100, 300), ON: (102, 290)}),
    (2000, BURSTS, {"baseline": (200, 2000), "prequal": (100, 1900), "c3": (101, 150),
                    "linnos": (90, 2100)}),
)  # fmt: skip


def test_front_page_shows_changes_of_the_mean_with_the_lowest_in_bold() -> None:
    (front,) = pages.render("traces_front.md.j2", RUNS, **trace_counts.page_data(RUNS))
    assert front.rows == [("MSR 105", "300", "**55 % lower**", "-", "50 % lower, `prequal`", "-")]
    calm = next(run for run in runs_of(RUNS) if run.slowness == CALM)
    # Half a percent is no change. md with queries is compared with md without.
    assert trace_counts.change(calm, "prequal", among=["prequal", "linnos"]) == "no change"
    assert trace_counts.change(calm, "linnos", among=["linnos"]) == "2 % higher"
    assert trace_counts.change(calm, ON, OFF) == "2 % higher"


def test_all_runs_name_the_best_rule_by_mean_and_by_p99() -> None:
    mean, p99, mean_counts, p99_counts, shares = pages.render(
        "traces_all.md.j2", RUNS, **trace_counts.page_data(RUNS)
    )

    def column(table: pages.Shown, *names: str) -> list[tuple[str, ...]]:
        at = [table.header.index(name) for name in names]
        return [tuple(row[i] for i in at) for row in table.rows]

    assert column(mean, "best rule", "which one") == [("99.5", "`prequal`"), ("100", "`prequal`")]
    assert column(p99, "best rule", "which one") == [("150", "`prequal`"), ("150", "`c3`")]
    # md with queries is compared with md without.
    assert column(mean, "LinnOS (OSDI'20)", "md on") == [("**102**", "**102**"), ("90.0", "-")]
    assert column(p99, "LinnOS (OSDI'20)", "md on") == [("200", "290"), ("**2,100**", "-")]

    def counted(table: pages.Shown) -> tuple[str, ...]:
        found = (row for row in table.rows if row[:2] == ("LinnOS (OSDI'20)", "no steering"))
        return next(found)[2:]

    assert counted(mean_counts) == ("1", "-", "1", "-", "+2.0", "+2.0", "-55.0")
    assert counted(p99_counts) == ("1", "0", "+5.0", "0", "+5.0")
    assert shares.header[1] == "median of 0 runs"
    mean, p99 = pages.render("traces_summed.md.j2", RUNS, **trace_counts.page_data(RUNS))
    assert counted(mean)[:2] == ("1", "-")
    assert counted(mean)[4:] == ("+2.0", "MSR 105 at 2,000, without bursts")
    assert counted(p99) == ("0", "1", "+5.0", "MSR 105 at 2,000, with bursts")


def test_pages_need_public_traces() -> None:
    recorded = LongTable.from_csv(RUNS.to_csv().replace("msr.cut.per_10k", "mine"))
    with pytest.raises(StepError, match="LINNOS_TRACES=DIR"):
        trace_counts.page_data(recorded)
