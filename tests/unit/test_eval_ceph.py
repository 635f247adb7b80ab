# SPDX-License-Identifier: MIT
"""Scores and text of the Ceph experiment, computed from synthetic reads."""

from __future__ import annotations

import functools
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval import experiments
from eval.cache import RESULTS, ROOT
from eval.experiments.ceph import CELLS, EXPERIMENT, LIBRARY, RULES, draw, heading, reading, table
from eval.experiments.cluster import pages, score
from eval.experiments.cluster.cells import told
from eval.experiments.cluster.lab import GUEST, MEASURED_MS, READ, Measured, together

#: Mean latency of each rule in us; other rules are as slow as balanced reads.
TAKES = {
    "primary": 900.0,
    "own-latency": 160.0,
    "clone": 130.0,
    "ceph-library-agents": 140.0,
    "oracle": 100.0,
}


@functools.cache
def data(*names: str) -> dict[str, Any]:
    """The experiment's data of equal reads in these configurations; by default of eight clients."""
    seeds = []
    for seed in (1, 2, 3):
        rng = np.random.default_rng(seed)
        due_ns = np.sort(rng.integers(0, MEASURED_MS * 10**6, 2000))
        hard = rng.integers(1, 8, 2000) / 4
        found = {}
        for rule in RULES:
            reads = np.zeros(2000, READ)
            reads["due_ns"] = due_ns
            reads["latency_ns"] = 1e3 * TAKES.get(rule, 800.0) * hard
            counted = {"asked": 1000 * (rule == LIBRARY[1]), "strayed": 3 * (rule == "balance")}
            found[rule] = Measured(reads, (2000, 0, 0), counted)
        seeds.append(found)
    scored = score(seeds, base="primary", compared=LIBRARY)
    return {"cells": [{**told(CELLS[name]), **scored} for name in names or ("8-clients",)]}


def test_gains_are_relative_to_the_primary_and_each_alternative() -> None:
    (cell,) = data()["cells"]
    assert cell["rules"]["ceph-library-agents"]["share_of_gain"] == pytest.approx([0.95] * 3)
    assert cell["below"]["ceph-library-agents"]["own-latency"] == pytest.approx([0.125] * 3)
    assert cell["rules"]["balance"]["strayed"] == 9
    (rows,) = (one.rows for one in table(data()).values())
    assert [row[0] for row in rows] == list(RULES.values())
    by_title = {row[0]: row for row in rows}
    assert by_title[RULES["balance"]][-1] == "9" and by_title[RULES[LIBRARY[1]]][-2] == "0.5"


def test_reading_compares_with_the_rules_of_ceph_and_the_best_other(tmp_path: Path) -> None:
    words = reading(data()).splitlines()[1]
    assert words.startswith("bursts, 20 us one way, 8 clients: liblinnos-ceph, 1")
    assert "the best rule without extra reads, lowest own last latency" in words
    assert "below balance" in words
    draw(data(), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_cells_have_distinct_headings_and_a_column_or_row() -> None:
    assert len({heading(told(cell)) for cell in CELLS.values()}) == len(CELLS)
    tables = table(data("1-client", "stuck", "az-e", "16-clients", "co-c"))
    bursts, failing, loads = pages.of_ceph({title: asdict(one) for title, one in tables.items()})
    assert [title for title in bursts.header if "client" in title and "mean" in title] == [
        "1 client: mean us", "16 clients: mean us"
    ]  # fmt: skip
    assert [row[0] for row in bursts.rows] == list(RULES.values())
    assert (failing.header[0], loads.header[0]) == (pages.FAILING, pages.CEPH_BESIDE)
    assert [row[0] for row in failing.rows] == ["a server stands still"]
    assert [row[0] for row in loads.rows] == ["`az-e`", "`co-c`"]
    row = dict(zip(loads.header, loads.rows[0], strict=True))
    assert row["best of 12 rivals"].startswith("lowest own last latency 1")
    assert row["rivals that liblinnos-ceph is below; above"] == "12; 0"
    assert row["liblinnos-ceph: of the oracle's gain"] == "95 %"
    (only,) = pages.of_ceph({title: asdict(one) for title, one in table(data()).items()})
    assert len(only.header) == 4


def test_reads_of_clients_are_merged_in_order() -> None:
    clients = []
    for first_ns in (0, 5):
        reads = np.zeros(3, READ)
        reads["due_ns"] = first_ns + 10 * np.arange(3)
        clients.append(Measured(reads, (3, first_ns, 0), {"asked": 2, "strayed": first_ns}))
    both = together(clients)
    assert both.reads["due_ns"].tolist() == [0, 5, 10, 15, 20, 25]
    assert both.disk_reads == (3, 0, 0) and both.counted == {"asked": 4, "strayed": 5}


def test_ceph_experiment_runs_only_on_request() -> None:
    assert "ceph" in experiments.ON_REQUEST and "ceph" not in experiments.NAMES
    assert experiments.load("ceph") is EXPERIMENT


def test_committed_tables_have_every_rule_in_every_cell() -> None:
    for found in json.loads((RESULTS / "ceph.json").read_text())["tables"].values():
        assert [row[0] for row in found["rows"]] == list(RULES.values())


def test_the_client_has_every_rule() -> None:
    rules = ROOT / "eval" / "simulator" / "rules.c"
    known = "".join(path.read_text() for path in (GUEST / "reads.c", GUEST / "ceph.c", rules))
    assert all(f'"{rule}"' in known for rule in RULES)
