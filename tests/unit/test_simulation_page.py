# SPDX-License-Identifier: MIT
"""What the pages say of the simulation is what eval/results/simulation.json has."""

from __future__ import annotations

import json
import re

import pytest

from eval.cache import RESULTS, ROOT
from eval.experiments.cluster.pages import CELLS as COLUMNS
from eval.experiments.cluster.pages import FULL
from eval.experiments.cluster.text import EXTRA
from eval.experiments.simulation.cells import CELLS, OF_THE_LAB, RULES

TABLES = json.loads((RESULTS / "simulation.json").read_text())["tables"]
PAGE = (ROOT / "docs" / "cluster.md").read_text().split("\n## The simulation\n")[1]
WHOLE = FULL.read_text().split("\n## The simulation\n")[1]
LAB = "the lab and the simulation"


def rows_of(heading: str) -> dict[str, dict[str, str]]:
    """A committed table by its rows' first cells."""
    table = TABLES[heading]
    return {row[0]: dict(zip(table["header"], row, strict=True)) for row in table["rows"]}


def mean_us(heading: str, rule: str) -> float:
    return float(rows_of(heading)[RULES[rule]]["mean us"].split()[0])


def said(first: str) -> list[list[str]]:
    """The rows of the table of all rules, whose header begins so."""
    (table,) = re.findall(rf"^\| mean us \| {re.escape(first)} .*?\n\n", WHOLE, re.M | re.S)
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in table.split("\n")[:-2]]


def test_each_cell_has_a_table() -> None:
    assert {cell.name for cell in CELLS} < set(TABLES)


def test_means_are_the_committed_ones() -> None:
    header, _, *rows = said("1 client")
    committed = rows_of("the lab: 1 client, 20 us")
    assert header[1:] == list(COLUMNS)
    assert [row[0] for row in rows] == [title for title in RULES.values() if title in committed]
    for title, *values in rows:
        for column, value in zip(header[1:], values, strict=True):
            found = rows_of(COLUMNS[column]).get(title)
            assert value == (found["mean us"].split()[0] if found else ""), (title, column)


def test_the_simulation_is_near_the_lab_but_for_those_that_are_said() -> None:
    off = {name: float(row["off by"].split()[0]) for name, row in rows_of(LAB).items()}
    assert list(off) == [RULES[rule] for rule in OF_THE_LAB] and len(off) == len(RULES) - 1
    far = {name for name, by in off.items() if abs(by) > 10}
    assert far == {RULES["snitch"], RULES["prediction"]}
    # which the page says below the table
    assert "Cassandra's snitch is off most" in PAGE and min(off.values()) == off[RULES["snitch"]]


def test_what_is_said_to_be_won_is() -> None:
    rivals = [rule for rule in RULES if rule[:7] != "library"]
    without_extra = [r for r in rivals if r not in ("oracle", *EXTRA)]
    for cell in CELLS:
        mine = mean_us(cell.name, "library")
        if "primary" in cell.rules:
            assert mine < 1.002 * mean_us(cell.name, "primary"), cell.name
        if not cell.options.get("burst_us") or cell.options.get("turn_ms", 100) != 100:
            continue
        known = rows_of(cell.name)
        best = min(mean_us(cell.name, r) for r in without_extra if RULES[r] in known)
        assert mine < 1.01 * best, cell.name


def test_what_is_said_of_herds_is_so() -> None:
    def most(lie: str) -> list[str]:
        heading = f"calm, 16 clients{lie}"
        return [
            rows_of(heading)[RULES[rule]]["most of one node in a second"]
            for rule in ("library", "prequal", "prediction")
        ]

    assert max(most("")[0], most(", agents dead")[0]) in WHOLE
    assert most(", one agent lies: slow")[0] in WHOLE
    fast = most(", one agent lies: fast")
    assert fast[0] in WHOLE and all(float(value.split()[0]) >= 96.5 for value in fast[1:])


def test_what_is_said_to_be_lost_is() -> None:
    for cell, rules in (
        ("16 clients, bursts of 10 ms", ("pending", "prequal", "library")),
        ("16 clients, bursts of 30 ms", ("prequal", "library")),
        ("1 client, bursts of 30 ms", ("own-latency", "library")),
        ("calm, consumer, three quarters busy", ("own-queue", "library")),
    ):
        means = [mean_us(cell, rule) for rule in rules]
        assert means == sorted(means) and all(f"{mean:.1f}" in PAGE for mean in means)


@pytest.mark.parametrize("column", ["its reads in the first 100 ms", "after these", "back within"])
def test_what_is_said_of_a_slow_drive_is_so(column: str) -> None:
    table = TABLES["a drive that turns slow, and recovers"]
    (row,) = (row for row in table["rows"] if row[:2] == [RULES["library"], "16"])
    assert row[table["header"].index(column)] in WHOLE
