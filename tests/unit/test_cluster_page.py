# SPDX-License-Identifier: MIT
"""The tables of clusters, and what docs/cluster.md says of them, are what eval/results has."""

from __future__ import annotations

import json
import re

import pytest

from eval.cache import RESULTS, ROOT
from eval.cells import WORKLOADS
from eval.experiments.cluster import pages
from eval.experiments.cluster.pages import (
    BESIDE,
    CEPH_BESIDE,
    FAILING,
    FULL,
    FURTHER,
    MEANS,
    OF_CEPH,
    PAGE,
    SIMULATED,
    SIMULATION,
    committed,
    of_gluster,
)
from eval.experiments.cluster.text import EXTRA, LIBRARY, OTHERS, RULES
from eval.intervals import Interval
from eval.page_tables import with_tables

#: What an engine would choose by itself, and who else is above the library by most beside traces.
HOMES = ("primary", "round-robin", "engine-1", "engine-2", "elasticsearch")

TABLES = json.loads((RESULTS / "cluster.json").read_text())["tables"]
BURSTS = "bursts, 20 us one way"


def test_the_pages_have_the_committed_tables() -> None:
    begins = {
        FULL: [BURSTS, FURTHER, BESIDE, OF_CEPH, FAILING, CEPH_BESIDE, MEANS],
        PAGE: [BURSTS, OF_CEPH, SIMULATION],
    }
    for path, tables in committed().items():
        page = path.read_text()
        assert [table.header[0] for table in tables] == begins[path]
        assert page == with_tables(page, tables), "`python -m eval --pages cluster` writes it"


def test_the_page_has_who_is_nearest_and_whom_the_library_loses_to() -> None:
    bursts, ceph, _ = committed()[PAGE]
    (full, *_), ours = committed()[FULL], {RULES[rule] for rule in (*LIBRARY, "oracle")}
    nearest = sorted((row for row in full.rows if row[0] not in ours), key=lambda r: float(r[1]))
    assert {row[0] for row in nearest[:3]} <= {row[0] for row in bursts.rows}
    assert {RULES[rule] for rule in ("clone", "elasticsearch", "prequal", "own-latency")} <= {
        row[0] for row in ceph.rows
    }


def test_every_rule_has_a_row_with_its_mean() -> None:
    (table,) = of_gluster({BURSTS: TABLES[BURSTS]})
    assert [row[0] for row in table.rows] == list(RULES.values())
    means = [float(row[1].split()[0]) for row in TABLES[BURSTS]["rows"]]
    assert [float(row[1]) for row in table.rows] == means


def test_every_further_cell_has_a_row() -> None:
    _, further, beside, _, failing, _, _ = committed()[FULL]
    assert len(further.rows) + len(beside.rows) == len(TABLES) - 1
    # of which the page says that the library is above nobody
    for table in (further, failing):
        (above,) = (i for i, title in enumerate(table.header) if title.endswith("is below; above"))
        assert all(row[above].endswith("; 0") for row in table.rows)


def test_of_the_first_cell_it_says_how_far_off_the_simulation_is() -> None:
    simulation = json.loads((RESULTS / "simulation.json").read_text())["tables"]
    off = [row[3].removesuffix(" %") for row in simulation["the lab and the simulation"]["rows"]]
    first, *_ = committed()[FULL]
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


def test_of_loads_each_loss_is_named() -> None:
    """Where the library is above a rival, the page has the load and the rival's name."""
    loads = {title: table for title, table in TABLES.items() if not title.startswith("bursts")}
    words = {"own-latency": "own latencies", "engine-2": "GlusterFS 2", "random": "*at random*"}
    words |= {
        "elasticsearch": "Elasticsearch's rule",
        "engine-1": "GlusterFS 1",
        "prequal": "Prequal",
    }
    titles = {title: rule for rule, title in RULES.items()}
    drawn, brought = " ".join(_beside().split()).split("Beside [public traces]")
    second = [line for line in drawn.split(" - ") if line.startswith("**Lost** to second reads")]
    clauses = second[0].split(";")
    for title, table in loads.items():
        load = title.split(",")[0]
        losses = drawn if load in WORKLOADS else brought
        column = table["header"].index("liblinnos-cluster's mean below its by")
        below = {titles[row[0]]: _interval(row[column]) for row in table["rows"] if row[column]}
        lost = {rule for rule in below if below[rule].is_below} - {*LIBRARY, "oracle"}
        for rule in lost - set(EXTRA):
            assert f"`{load}`" in losses and words[rule] in losses, (title, rule)
        hedges = {
            rule
            for rule, word in (("hedge", "at will"), ("hedge-capped", "under a cap"))
            if any(word in clause and f"`{load}`" in clause for clause in clauses)
        }
        assert lost & set(EXTRA) == {"clone"} | hedges, title


def test_what_is_said_of_bursts_elsewhere_is() -> None:
    """In which cells it is below all rivals, and from whom it is not apart in the others."""
    column = "liblinnos-cluster's mean below its by"
    cells = {
        title.removeprefix("bursts, ").removeprefix("20 us one way, "): {
            row[0]: pages._side(row[table["header"].index(column)])
            for row in table["rows"]
            if row[0] in {RULES[rule] for rule in OTHERS}
        }
        for title, table in TABLES.items()
        if title.startswith("bursts, ") and title != BURSTS
    }
    assert not [title for title, sides in cells.items() if -1 in sides.values()]
    undecided = {
        title: {rule for rule, side in sides.items() if not side} for title, sides in cells.items()
    }
    assert {title for title, of in undecided.items() if not of} == {
        "5 us one way", "4 clients", "10 % writes", "a node gone and back"
    }  # fmt: skip
    own, prequal = RULES["own-latency"], RULES["prequal"]
    assert {title for title, of in undecided.items() if of - {own}} == {
        title for title, of in undecided.items() if prequal in of
    } == {"16 clients", "9 nodes, 4 clients", "a server stands still"}  # fmt: skip
    assert [own in undecided[title] for title in ("16 clients", "9 nodes, 4 clients")] == [0, 0]
    assert own in undecided["a server stands still"]


def test_of_enterprise_drives_it_is_said_how_far_below_the_primary() -> None:
    column = "liblinnos-cluster's mean below its by"
    below = {}
    for load in (load for load in WORKLOADS if load.endswith("-e")):
        table = TABLES[f"{load}, 50 us one way"]
        below[load] = _interval(table["rows"][0][table["header"].index(column)])
    shares = sorted(round(one.value) for one in below.values() if one.is_above)
    assert f"by {shares[0]} to {shares[-1]} % below the primary" in " ".join(_beside().split())
    assert [load for load, one in below.items() if not one.is_apart] == ["co-e"]


def test_of_traces_it_is_said_beside_how_many_somebody_is_below_it() -> None:
    lost = [
        row
        for row in committed()[FULL][2].rows
        if row[0].strip("`") not in WORKLOADS and not row[8].endswith("; 0")
    ]
    assert len(lost) == 6
    results = (ROOT / "docs" / "results.md").read_text()
    assert "beside traces in six of seven" in " ".join(results.split())


def test_beside_traces_it_is_nowhere_a_hundredth_above_home() -> None:
    """Home is whose turn it is; how often it is below that and the primary is in the page.

    So is by how much it is above those who stay with one node, and who the best rivals are.
    """
    column = "liblinnos-cluster's mean below its by"
    traces = [
        {row[0]: dict(zip(table["header"], row, strict=True)) for row in table["rows"]}
        for title, table in TABLES.items()
        if title.split(",")[0] not in (*WORKLOADS, "bursts")
    ]
    below = {rule: [_interval(rows[RULES[rule]][column]) for rows in traces] for rule in HOMES}
    _, brought = " ".join(_beside().split()).split("Beside [public traces]")
    n_below = [sum(one.is_above for one in below[rule]) for rule in HOMES[:2]]
    assert (len(traces), *n_below) == (7, 6, 4)
    assert "below the primary in six of seven, below turns, its home here, in four" in brought
    assert not [one for rule in HOMES[:2] for one in below[rule] if one.is_below or one.value < -1]
    least = {rule: min(one.value for one in below[rule]) for rule in HOMES[2:]}
    most = [-min(least["engine-1"], least["engine-2"]), -least["elasticsearch"]]
    assert re.findall(r"by up to ([\d.]+) %", brought) == [f"{share:.1f}" for share in most]
    oracle_us = {rows[RULES["oracle"]]["mean us"].split(".")[0] for rows in traces}
    assert oracle_us == {"176"} and "the oracle takes 176 us beside each" in brought


def _beside() -> str:
    """What the page says of loads."""
    return PAGE.read_text().split("Beside loads of Table 1")[1].split("\n#")[0]


def _interval(cell: str) -> Interval:
    value, low, high = map(float, re.findall(r"-?[\d.]+", cell))
    return Interval(value, low, high)
