# SPDX-License-Identifier: MIT
"""The tables of docs/cluster.md, and its words, are what eval/results has."""

from __future__ import annotations

import json
import re

from eval.cache import RESULTS
from eval.experiments.cluster.pages import OF_BOTH, OF_CEPH, PAGE, committed, of_gluster
from eval.experiments.cluster.text import EXTRA, LIBRARY, RULES
from eval.intervals import Interval
from eval.page_tables import with_tables

TABLES = json.loads((RESULTS / "cluster.json").read_text())["tables"]
BURSTS = "bursts, 20 us one way"


def test_the_page_has_the_committed_tables() -> None:
    page = PAGE.read_text()
    tables = committed()[PAGE]
    assert {OF_CEPH, OF_BOTH, BURSTS} <= {table.header[0] for table in tables}
    assert page == with_tables(page, tables), "`python -m eval --pages cluster` writes it"


def test_every_rule_has_a_row_with_its_mean() -> None:
    (table,) = of_gluster({BURSTS: TABLES[BURSTS]})
    assert [row[0] for row in table.rows] == list(RULES.values())
    means = [float(row[1].split()[0]) for row in TABLES[BURSTS]["rows"]]
    assert [float(row[1]) for row in table.rows] == means


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
