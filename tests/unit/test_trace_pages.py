# SPDX-License-Identifier: MIT
"""Tables of public traces in the pages are what eval/results/traces.json has."""

from __future__ import annotations

from typing import Any

import pytest

from eval import intervals
from eval.cache import ROOT
from eval.errors import StepError
from eval.experiments.traces import pages, replays, scores
from eval.page_tables import with_tables

README = " ".join((ROOT / "README.md").read_text().split())


def test_tables_are_the_results() -> None:
    for path, tables in pages.tables().items():
        page = path.read_text()
        assert page == with_tables(page, tables), "`python -m eval --pages` writes them"


FRONT = pages.on_the_front_page(pages.committed())
WORDS = (
    "none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
)  # fmt: skip


def test_the_front_page_says_how_much_the_papers_method_loses() -> None:
    above = [line.above("linnos") or 0 for line in pages.committed()]
    lost = sum(share > scores.LEVEL for share in above)
    assert (
        f"Of [all {len(above)} runs](eval/results/tables.md#public-traces) `linnos` is above doing "
        f"nothing in {lost}, by up to {100 * max(above):.0f} %."
    ) in README


def test_the_front_page_says_how_often_ours_loses() -> None:
    """In the first screen, below the greatest gain and loss."""

    def lost(key: str) -> str:
        above = (of.above(scores.TWO, of.best(pages.rivals(of), key), key) for of in FRONT)
        return WORDS[sum((share or 0) > scores.LEVEL for share in above)]

    level = sum(abs(of.above(replays.ON, replays.OFF) or 0) < scores.LEVEL for of in FRONT)
    first = README.split(" ## ")[0]
    assert f"Of {WORDS[len(FRONT)]} [runs](#what-it-is-worth) of public traces those" in first
    assert (
        f"of the {WORDS[len(FRONT)]} runs `lowest-two` has a mean over 1 % above the best rival's "
        f"in {lost('mean_us')}, a p99 over 1 % above the lowest of theirs in {lost('p99_us')}. "
        f"md's mean changes by under 1 % in {WORDS[level]}."
    ) in first


def test_the_front_page_says_how_few_reads_some_p99_are_of() -> None:
    few = sum(line.runs["baseline"]["reads"] < 100 * intervals.RESTS_ON for line in FRONT)
    assert f"In {WORDS[few]} rows fewer than {intervals.RESTS_ON} reads lie beyond p99." in README


def test_what_ends_within_a_burst_is_not_on_the_front_page() -> None:
    both = pages.at_the_demos_rate(pages.committed())
    left_out = [line.name for line in both if line.trace in pages.FRONT and line not in FRONT]
    assert left_out == ["MQSim tpcc at 51279, bursts"]
    assert "[All runs](eval/results/tables.md#public-traces), tpcc's bursts, too;" in README


def test_nine_rivals_are_named() -> None:
    page = (ROOT / "docs" / "evaluation.md").read_text()
    section = page.split("\n## Public traces\n")[1].split("\n#")[0]
    assert f"[{WORDS[len(pages.RIVALS)]}](docs/evaluation.md#public-traces)" in README
    for name in pages.RIVALS:
        called = name.removesuffix(", 5% cap")
        assert ("md" if name == replays.OFF else f"`{called}`") in section, name


def line(slowness: str, **us: tuple[float, float]) -> scores.Line:
    """A trace under policies, by their mean and p99."""
    names = {"two": scores.TWO, "off": replays.OFF, "on": replays.ON}
    runs: dict[str, dict[str, Any]] = {
        names.get(name, name): {"mean_us": mean, "p99_us": p99, "reads": 300, "elapsed_s": 2.0}
        for name, (mean, p99) in us.items()
    }
    return scores.Line(pages.FRONT[0], 2000.0, slowness, runs)


CALM = line(
    "calm", baseline=(100, 200), prequal=(99.5, 150), linnos=(102, 200), two=(100.9, 203),
    off=(90, 300), on=(91, 290),
)  # fmt: skip
LEVEL = line(
    "calm", baseline=(100, 200), prequal=(99.5, 150), linnos=(102, 200), two=(100.9, 203),
    off=(100, 300), on=(102, 290),
)  # fmt: skip
BURSTS = line(
    "bursts", baseline=(200, 2000), prequal=(100, 1900), c3=(101, 150), linnos=(90, 2100)
)  # fmt: skip


def test_the_front_page_has_means_and_p99_of_the_best_rival_and_ours() -> None:
    # Half a percent makes nobody better than who stays at home; what is above it is bold.
    assert pages.front([LEVEL, BURSTS]).rows == [
        ("MSR 105", "300, 2 s", "100/200", "100/200 home", "**102**/200", "101/**203**", "100/300",
         "**102**/290"),
        ("with bursts", "300, 2 s", "200/2000", "100/1900 `prequal`", "90/**2100**", "-/-", "-/-",
         "-/-"),
    ]  # fmt: skip


def test_the_front_page_begins_with_the_greatest_gain_and_the_greatest_loss() -> None:
    lost = line("calm", baseline=(100, 200), prequal=(90, 150), two=(95, 203))
    won = line("bursts", baseline=(200, 2000), prequal=(100, 1900), two=(80, 203))
    rows = pages.extremes([lost, LEVEL, won]).rows
    assert [row[:3] for row in rows] == [
        ("gain: MSR 105, bursts", "200/2000", "100/1900 `prequal`"),
        ("loss: MSR 105", "100/200", "90/150 `prequal`"),
    ]


def test_the_best_rule_is_that_of_the_mean_and_of_the_p99() -> None:
    table = pages.every([CALM, BURSTS])
    rules = [dict(zip(table.header, row, strict=True))["best rule"] for row in table.rows]
    assert rules == ["`prequal` 99.5/150", "`prequal` 100, `c3` 150"]


def test_of_every_run_there_are_mean_and_p99() -> None:
    table = pages.every([CALM, BURSTS])
    assert [row[:3] for row in table.rows] == [
        ("MSR 105 at 2,000", "300", "100/200"), ("with bursts", "300", "200/2000")
    ]  # fmt: skip
    calm, bursts = (dict(zip(table.header, row, strict=True)) for row in table.rows)
    assert (calm["`linnos`"], bursts["`linnos`"]) == ("**102**/200", "90.0/**2100**")
    # md that asks is held against md that does not
    assert (calm["md off"], calm["md on"], bursts["md on"]) == ("90.0/300", "**91.0**/290", "-/-")


def test_who_is_above_is_counted_by_mean_and_by_p99() -> None:
    table = pages.counted([CALM, BURSTS])
    row = next(row for row in table.rows if row[:2] == ("`linnos`", "doing nothing"))
    assert row[2:6] == ("1", "1", "+2.0", "+2.0/-55.0")
    assert row[6:] == ("1", "0", "+5.0", "0/+5.0")
    # Of means it is known how many are so beyond chance.
    table = pages.counted([CALM, BURSTS], sure={"`linnos` against doing nothing": ("0", "1")})
    row = next(row for row in table.rows if row[:2] == ("`linnos`", "doing nothing"))
    assert row[2:4] == ("1 (0)", "1 (1)") and row[6:8] == ("1", "0")


def test_a_short_page_says_where_somebody_is_above_most() -> None:
    row = next(row for row in pages.summed([CALM, BURSTS], {}).rows if row[0] == "`linnos`")
    assert row[2:5] == ("1", "1", "+2.0, MSR 105 at 2000, calm")
    assert row[5:] == ("0", "1", "+5.0, MSR 105 at 2000, bursts")


def test_without_public_traces_the_pages_say_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = [line for line in pages.committed() if line.trace not in pages.FRONT]
    monkeypatch.setattr(pages, "committed", lambda: recorded)
    with pytest.raises(StepError, match="LINNOS_TRACES=DIR"):
        pages.tables()
