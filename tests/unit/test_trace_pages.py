# SPDX-License-Identifier: MIT
"""Tables of public traces in the pages are what eval/results/traces.json has."""

from __future__ import annotations

from typing import Any

import pytest

from eval.cache import ROOT
from eval.experiments.traces import pages, replays, scores

README = " ".join((ROOT / "README.md").read_text().split())


@pytest.mark.parametrize("name", pages.PAGES)
def test_tables_are_the_results(name: str) -> None:
    there, wanted = pages.pages()[name]
    assert there == wanted, "`python -m eval --pages` writes them"


def test_the_front_page_says_how_much_the_papers_method_loses() -> None:
    worst = max(line.above("linnos") or 0 for line in pages.committed())
    assert f"`linnos` is above doing nothing by up to {worst:.0%}".replace("%", " %") in README


def test_the_front_page_says_how_often_ours_loses() -> None:
    """In the first screen, below the greatest gain and loss."""
    rows = [of for of in pages.at_the_demos_rate(pages.committed()) if of.trace in pages.FRONT]
    words = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

    def higher(key: str) -> str:
        ours_and_rivals = (
            (of.runs[scores.TWO][key], of.runs[pages.rival(of)][key]) for of in rows
        )  # fmt: skip
        return words[sum(round(ours) > round(rivals) for ours, rivals in ours_and_rivals)]

    level = sum(abs(of.above(replays.ON, replays.OFF) or 0) < scores.LEVEL for of in rows)
    assert (
        f"of [{words[len(rows)]} runs](#what-it-is-worth) `lowest-two` has a higher p99 than the "
        f"best rival in {higher('p99_us')}, a higher mean in {higher('mean_us')}. md's mean "
        f"changes by under 1 % in {words[level]}."
    ) in README.split(" ## ")[0]


def line(slowness: str, **us: tuple[float, float]) -> scores.Line:
    """A trace under policies, by their mean and p99."""
    names = {"two": scores.TWO, "off": replays.OFF, "on": replays.ON}
    runs: dict[str, dict[str, Any]] = {
        names.get(name, name): {"mean_us": mean, "p99_us": p99, "reads": 300}
        for name, (mean, p99) in us.items()
    }
    return scores.Line(pages.FRONT[0], 2000.0, slowness, runs)


CALM = line(
    "calm", baseline=(100, 200), prequal=(99.5, 150), linnos=(102, 200), two=(100.9, 203),
    off=(90, 300), on=(91, 290),
)  # fmt: skip
BURSTS = line(
    "bursts", baseline=(200, 2000), prequal=(100, 1900), c3=(101, 150), linnos=(90, 2100)
)  # fmt: skip


def test_the_front_page_has_means_and_p99_of_the_best_rival_and_ours() -> None:
    # Half a percent makes nobody better than who stays at home; what is above it is bold.
    assert pages.front([CALM, BURSTS]).rows == [
        ("MSR 105", "100 / 200", "home 100 / 200", "**102** / 200", "101 / **203**", "90 / 300",
         "**91** / 290"),
        ("with bursts", "200 / 2000", "`prequal` 100 / 1900", "90 / **2100**", "- / -", "- / -",
         "- / -"),
    ]  # fmt: skip


def test_the_front_page_begins_with_the_greatest_gain_and_the_greatest_loss() -> None:
    lost = line("calm", baseline=(100, 200), prequal=(90, 150), two=(95, 203))
    won = line("bursts", baseline=(200, 2000), prequal=(100, 1900), two=(80, 203))
    rows = pages.extremes([lost, CALM, won]).rows
    assert [row[:3] for row in rows] == [
        ("gain: MSR 105, bursts", "200 / 2000", "`prequal` 100 / 1900"),
        ("loss: MSR 105", "100 / 200", "`prequal` 90 / 150"),
    ]


def test_the_best_rule_is_that_of_the_column() -> None:
    def rules(key: str) -> list[str]:
        table = pages.policies([CALM, BURSTS], key)
        return [dict(zip(table.header, row, strict=True))["rule"] for row in table.rows]

    assert rules(pages.MEAN) == ["`prequal` -0.5", "`prequal` -50.0"]
    assert rules(pages.P99) == ["`prequal` 150", "`c3` 150"]


def test_who_is_above_is_counted_by_mean_and_by_p99() -> None:
    table = pages.counted([CALM, BURSTS])
    row = next(row for row in table.rows if row[:2] == ("`linnos`", "doing nothing"))
    assert row[2:7] == ("1", "1", "+2.0, MSR 105 at 2000, calm", "+2.0", "-55.0")
    assert row[7:] == ("1", "0", "+5.0, MSR 105 at 2000, bursts", "0", "+5.0")
    # Of means it is known how many are so beyond chance.
    table = pages.counted([CALM, BURSTS], sure={"`linnos` against doing nothing": ("0", "1")})
    row = next(row for row in table.rows if row[:2] == ("`linnos`", "doing nothing"))
    assert row[2:4] == ("1 (0)", "1 (1)") and row[7:9] == ("1", "0")
