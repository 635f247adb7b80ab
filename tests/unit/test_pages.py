# SPDX-License-Identifier: MIT
"""The tables in the documentation equal those made from the committed results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eval import pages
from eval.cache import RESULTS
from eval.experiments import NAMES, ON_REQUEST, load
from eval.experiments.cluster.pages import of_gluster
from eval.experiments.cluster.text import RULES
from eval.experiments.traces import pages as traces
from eval.experiments.traces import replays, scores
from eval.page_tables import Shown, with_tables
from eval.study import Study
from eval.work import StepError


@pytest.mark.parametrize("name", [*NAMES, *ON_REQUEST])
def test_pages_have_the_committed_tables(name: str) -> None:
    experiment = load(name)
    if isinstance(experiment, Study):
        for template, path in experiment.pages.items():
            page = path.read_text()
            tables = pages.render(template, pages.committed(experiment.table_name))
            assert page == with_tables(page, tables), f"`python -m eval --pages {name}` writes it"
        return
    for path, tables in (experiment.pages() if experiment.pages else {}).items():
        page = path.read_text()
        assert page == with_tables(page, tables), f"`python -m eval --pages {name}` writes it"


def test_with_tables_replaces_the_table_with_the_same_first_column() -> None:
    table = Shown(("a", "b"), [("1", "2")])
    page = "text\n\n| a | old |\n|---|---|\n| x | y |\n| z | z |\n\n| b |\n|---|\n| 1 |\n"
    made = with_tables(page, [table])
    assert made == "text\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n| b |\n|---|\n| 1 |\n"
    for wrong in ("no table\n", page + page):
        with pytest.raises(ValueError, match=r"tables begin with \| a \|, one should"):
            with_tables(wrong, [table])


def test_with_tables_refuses_a_page_without_such_a_table() -> None:
    page = "a\n\n| b | c |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\n| d |\n|---|\n"
    assert with_tables(page, [Shown(("b", "e"), [("5", "6")])]) == (
        "a\n\n| b | e |\n|---|---|\n| 5 | 6 |\n\n| d |\n|---|\n"
    )
    with pytest.raises(ValueError, match=r"^0 tables begin with \| x \|, one should"):
        with_tables(page, [Shown(("x",), [])])


def test_only_keeps_the_named_rows_and_columns() -> None:
    table = Shown(("a", "b", "c", "b"), [("1", "2", "3", "4"), ("5", "6", "7", "8")])
    assert table.only(("b",), ("5",)) == Shown(("a", "b", "b"), [("5", "6", "8")])
    assert table.only(("c",)).rows == [("1", "3"), ("5", "7")]
    with pytest.raises(ValueError, match="a: no 9, d"):
        table.only(("d",), ("1", "9"))


BURSTS_IN_CLUSTERS = "bursts, 20 us one way"


def test_gluster_table_has_a_row_for_each_rule() -> None:
    tables = json.loads((RESULTS / "cluster.json").read_text())["tables"]
    (table,) = of_gluster({BURSTS_IN_CLUSTERS: tables[BURSTS_IN_CLUSTERS]})
    assert [row[0] for row in table.rows] == list(RULES.values())
    means = [float(row[1].split()[0]) for row in tables[BURSTS_IN_CLUSTERS]["rows"]]
    assert [float(row[1]) for row in table.rows] == means
    with pytest.raises(ValueError, match="beside the simulation another"):
        of_gluster(
            {BURSTS_IN_CLUSTERS: tables[BURSTS_IN_CLUSTERS]}, [("primary", "1.0", "1.0", "0 %")]
        )


def line(slowness: str, **us: tuple[float, float]) -> scores.Line:
    """Return a trace's row from the mean and p99 of policies."""
    names = {"two": scores.TWO, "off": replays.OFF, "on": replays.ON}
    runs: dict[str, dict[str, Any]] = {
        names.get(name, name): {"mean_us": mean, "p99_us": p99, "reads": 300, "elapsed_s": 2.0}
        for name, (mean, p99) in us.items()
    }
    return scores.Line(traces.FRONT[0], 2000.0, slowness, runs)


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


def test_front_has_means_and_p99_of_the_best_rival_and_ours() -> None:
    # A difference of 0.5 % is no gain over the default replica; larger ones are bold.
    assert traces.front([LEVEL, BURSTS]).rows == [
        ("MSR 105", "300, 2 s", "100/200", "100/200 home", "**102**/200", "101/**203**", "100/300",
         "**102**/290"),
        ("with bursts", "300, 2 s", "200/2000", "100/1900 `prequal`", "90/**2100**", "-/-", "-/-",
         "-/-"),
    ]  # fmt: skip


def test_extremes_are_the_greatest_gain_and_the_greatest_loss() -> None:
    lost = line("calm", baseline=(100, 200), prequal=(90, 150), two=(95, 203))
    won = line("bursts", baseline=(200, 2000), prequal=(100, 1900), two=(80, 203))
    rows = traces.extremes([lost, LEVEL, won]).rows
    assert [row[:3] for row in rows] == [
        ("gain: MSR 105, bursts", "200/2000", "100/1900 `prequal`"),
        ("loss: MSR 105", "100/200", "90/150 `prequal`"),
    ]


def test_every_names_the_best_rule_by_mean_and_by_p99() -> None:
    table = traces.every([CALM, BURSTS])
    rules = [dict(zip(table.header, row, strict=True))["best rule"] for row in table.rows]
    assert rules == ["`prequal` 99.5/150", "`prequal` 100, `c3` 150"]


def test_every_has_mean_and_p99_of_each_run() -> None:
    table = traces.every([CALM, BURSTS])
    assert [row[:3] for row in table.rows] == [
        ("MSR 105 at 2,000", "300", "100/200"), ("with bursts", "300", "200/2000")
    ]  # fmt: skip
    calm, bursts = (dict(zip(table.header, row, strict=True)) for row in table.rows)
    assert (calm["`linnos`"], bursts["`linnos`"]) == ("**102**/200", "90.0/**2100**")
    # md with queries is compared with md without
    assert (calm["md off"], calm["md on"], bursts["md on"]) == ("90.0/300", "**91.0**/290", "-/-")


def test_counted_counts_wins_by_mean_and_by_p99() -> None:
    table = traces.counted([CALM, BURSTS])
    row = next(row for row in table.rows if row[:2] == ("`linnos`", "doing nothing"))
    assert row[2:6] == ("1", "1", "+2.0", "+2.0/-55.0")
    assert row[6:] == ("1", "0", "+5.0", "0/+5.0")
    # For means, the number of significant ones is known.
    table = traces.counted([CALM, BURSTS], sure={"`linnos` against doing nothing": ("0", "1")})
    row = next(row for row in table.rows if row[:2] == ("`linnos`", "doing nothing"))
    assert row[2:4] == ("1 (0)", "1 (1)") and row[6:8] == ("1", "0")


def test_summed_names_the_run_with_the_largest_loss() -> None:
    row = next(row for row in traces.summed([CALM, BURSTS], {}).rows if row[0] == "`linnos`")
    assert row[2:5] == ("1", "1", "+2.0, MSR 105 at 2000, calm")
    assert row[5:] == ("0", "1", "+5.0, MSR 105 at 2000, bursts")


def test_tables_names_what_is_missing_without_public_traces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = [line for line in traces.committed() if line.trace not in traces.FRONT]
    monkeypatch.setattr(traces, "committed", lambda: recorded)
    with pytest.raises(StepError, match="LINNOS_TRACES=DIR"):
        traces.tables()
