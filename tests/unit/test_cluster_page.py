# SPDX-License-Identifier: MIT
"""The tables of docs/cluster.md, and its words, are what eval/results has."""

from __future__ import annotations

import json
import re

import pytest

from eval.cache import RESULTS
from eval.experiments.cluster.pages import (
    BESIDE,
    FAILING,
    FURTHER,
    OF_CEPH,
    PAGE,
    SIMULATED,
    committed,
    of_gluster,
)
from eval.experiments.cluster.text import EXTRA, LIBRARY, RULES
from eval.intervals import Interval
from eval.page_tables import with_tables

TABLES = json.loads((RESULTS / "cluster.json").read_text())["tables"]
BURSTS = "bursts, 20 us one way"


def test_the_page_has_the_committed_tables() -> None:
    page = PAGE.read_text()
    tables = committed()[PAGE]
    assert [table.header[0] for table in tables] == [BURSTS, FURTHER, BESIDE, OF_CEPH, FAILING]
    assert page == with_tables(page, tables), "`python -m eval --pages cluster` writes it"


def test_every_rule_has_a_row_with_its_mean() -> None:
    (table,) = of_gluster({BURSTS: TABLES[BURSTS]})
    assert [row[0] for row in table.rows] == list(RULES.values())
    means = [float(row[1].split()[0]) for row in TABLES[BURSTS]["rows"]]
    assert [float(row[1]) for row in table.rows] == means


def test_every_further_cell_has_a_row() -> None:
    _, further, beside, _, failing = committed()[PAGE]
    assert len(further.rows) + len(beside.rows) == len(TABLES) - 1
    # of which the page says below the tables that the library is above nobody
    for table in (further, failing):
        (above,) = (i for i, title in enumerate(table.header) if title.endswith("is below; above"))
        assert all(row[above].endswith("; 0") for row in table.rows)


def test_of_the_first_cell_it_says_how_far_off_the_simulation_is() -> None:
    simulation = json.loads((RESULTS / "simulation.json").read_text())["tables"]
    off = [row[3].removesuffix(" %") for row in simulation["the lab and the simulation"]["rows"]]
    first, *_ = committed()[PAGE]
    column = first.header.index(SIMULATED)
    assert [row[column] for row in first.rows] == off + [""] * (len(RULES) - len(off))


def test_another_mean_beside_the_simulation_is_refused() -> None:
    with pytest.raises(ValueError, match="beside the simulation another"):
        of_gluster({BURSTS: TABLES[BURSTS]}, [("primary", "1.0", "1.0", "0 %")])


def test_what_is_said_to_be_won_or_lost_is() -> None:
    """By intervals: to whom the library loses, from whom it is not apart, whom it is below."""
    column = TABLES[BURSTS]["header"].index("liblinnos-cluster's mean below its by")
    below = {row[0]: _interval(row[column]) for row in TABLES[BURSTS]["rows"] if row[column]}
    rivals = {RULES[rule] for rule in RULES if rule not in (*LIBRARY, "oracle")}
    lost = {title for title in rivals if below[title].is_below}
    undecided = {title for title in rivals if not below[title].is_apart}
    assert lost == {RULES["clone"]} and "clone" in EXTRA
    assert undecided == {RULES["own-latency"]}


def _interval(cell: str) -> Interval:
    value, low, high = map(float, re.findall(r"-?[\d.]+", cell))
    return Interval(value, low, high)
