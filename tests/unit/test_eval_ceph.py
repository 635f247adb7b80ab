# SPDX-License-Identifier: MIT
"""Ceph's numbers and words, of reads that were made up."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval import experiments
from eval.experiments.ceph import CELLS, EXPERIMENT, LIBRARY, RULES, draw, reading, table
from eval.experiments.cluster import score
from eval.experiments.cluster.cells import told
from eval.experiments.cluster.lab import MEASURED_MS, READ, Measured, together

#: What reads of each rule take in the mean, in us; others as balanced ones.
TAKES = {
    "primary": 900.0,
    "own-latency": 160.0,
    "clone": 130.0,
    "ceph-library-agents": 140.0,
    "oracle": 100.0,
}


@functools.cache
def data() -> dict[str, Any]:
    seeds = []
    for seed in (1, 2):
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
    return {"cells": [{**told(CELLS["8-clients"]), **scored}]}


def test_gains_are_over_the_primary_and_the_library_is_compared_with_each() -> None:
    (cell,) = data()["cells"]
    assert cell["rules"]["ceph-library-agents"]["share_of_gain"] == pytest.approx([0.95] * 3)
    assert cell["below"]["ceph-library-agents"]["own-latency"] == pytest.approx([0.125] * 3)
    assert cell["rules"]["balance"]["strayed"] == 6
    (rows,) = (one.rows for one in table(data()).values())
    assert [row[0] for row in rows] == list(RULES.values())
    by_title = {row[0]: row for row in rows}
    assert by_title[RULES["balance"]][-1] == "6" and by_title[RULES[LIBRARY[1]]][-2] == "0.5"


def test_it_is_said_against_ceph_s_rules_and_the_best_other_one(tmp_path: Path) -> None:
    words = reading(data()).splitlines()[1]
    assert words.startswith("bursts, 20 us one way, 8 clients: liblinnos-ceph, 1")
    assert "the best rule without extra reads, lowest own last latency" in words
    assert "below balance" in words
    draw(data(), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_clients_reads_are_put_together_in_their_order() -> None:
    clients = []
    for first_ns in (0, 5):
        reads = np.zeros(3, READ)
        reads["due_ns"] = first_ns + 10 * np.arange(3)
        clients.append(Measured(reads, (3, first_ns, 0), {"asked": 2, "strayed": first_ns}))
    both = together(clients)
    assert both.reads["due_ns"].tolist() == [0, 5, 10, 15, 20, 25]
    assert both.disk_reads == (3, 0, 0) and both.counted == {"asked": 4, "strayed": 5}


def test_it_runs_only_when_it_is_asked_for() -> None:
    assert "ceph" in experiments.ON_REQUEST and "ceph" not in experiments.NAMES
    assert experiments.load("ceph") is EXPERIMENT
