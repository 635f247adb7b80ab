# SPDX-License-Identifier: MIT
"""The experiments on clusters: numbers of synthetic reads, the lab's scripts, pages and traces."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eval.cells import ARRAYS
from eval.experiment import names_from_environment
from eval.experiments import ceph
from eval.experiments.cluster import CELLS, UNNAMED, cells, lab, rules
from eval.experiments.cluster.lab import MEASURED_MS, READ, Measured, Situation, merge_clients
from eval.experiments.cluster.rules import RULES
from eval.long_table import LongTable
from linnapp.stats import Interval

ROOT = Path(__file__).parents[2]

#: Mean latency of each rule in us; other rules are as slow as round robin.
TAKES = {
    "prediction": 100.0, "pending": 180.0, "oracle": 80.0, "round-robin": 200.0,
    "own-latency": 150.0, "clone": 90.0, "c3": 140.0,
}  # fmt: skip


PLACE = ("20us",)


def made_up(seed: int, takes: dict[str, float], n: int = 4000) -> dict[str, Measured]:
    rng = np.random.default_rng(seed)
    due_ns = np.sort(rng.integers(0, MEASURED_MS * 10**6, n))
    # multiples of a quarter, so that products are whole ns
    hard = rng.integers(1, 8, n) / 4
    found = {}
    for rule in RULES:
        reads = np.zeros(n, READ)
        reads["due_ns"] = due_ns
        reads["latency_ns"] = 1e3 * takes.get(rule, takes["round-robin"]) * hard
        reads["attempts"] = 1
        found[rule] = Measured(
            reads, (n, 0, 0), {"asked": 3 * n if rule == "prediction" else 0, "strayed": 1}
        )
    return found


def table_of(takes: dict[str, float]) -> LongTable:
    table = LongTable(("situation",))
    cells.add_reads(table, "20us", [made_up(seed, takes) for seed in (1, 2, 3)])
    return table


def test_numbers_follow_from_the_reads() -> None:
    table = table_of(TAKES)
    # the latencies of all rules are multiples of the same values
    for rule, reference, lower in (
        ("prediction", "own-latency", 1 / 3), ("pending", "own-latency", -0.2),
    ):  # fmt: skip
        found = table.interval(PLACE, rule, "mean_us", reference)
        assert found.to_json() == pytest.approx([lower] * 3)
    gain = table.interval(PLACE, "prediction", "share_of_oracle")
    assert gain.to_json() == pytest.approx([100 / 120] * 3)
    expected = {"reads": 12_000, "asked": 3, "node_0": 12_000, "node_1": 0, "strayed": 3}
    for measure, value in expected.items():
        assert table.value(PLACE, "prediction", measure) == value
    mean = table.interval(PLACE, "own-latency", "mean_us")
    assert mean.low < mean.value < mean.high and 140 < mean.value < 160


def test_rules_with_different_reads_are_not_compared() -> None:
    mixed = made_up(1, TAKES)
    mixed["pending"] = made_up(2, TAKES)["pending"]
    with pytest.raises(ValueError, match="the reads differ from those of the other rules"):
        cells.add_reads(LongTable(("situation",)), "20us", [mixed])


def test_cells_have_distinct_headings_and_are_chosen_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for lab_cells in (CELLS, ceph.CELLS):
        assert len({rules.heading(cell) for cell in lab_cells.values()}) == len(lab_cells)
    assert rules.heading(CELLS["half-lost"]).endswith(", 50 % of queries lost")
    assert rules.short_heading(ceph.CELLS["stuck"]) == "a server stands still"
    assert names_from_environment("LINNOS_TEST", UNNAMED) == UNNAMED
    monkeypatch.setenv("LINNOS_TEST", "bi-e,4-clients")
    assert names_from_environment("LINNOS_TEST", UNNAMED) == ("bi-e", "4-clients")
    # a workload has the drives of its row
    drives = [CELLS[load].cluster().drives.profile for load in ("az-c", "az-e", "20us")]
    assert drives == [ARRAYS[name] for name in ("consumer", "enterprise", "enterprise")]


#: Prints the error with which each named experiment refuses to measure.
REFUSALS = """
import sys
from eval.experiments import load
from linnapp.lab.work import StepError
for name in sys.argv[1:]:
    try:
        load(name).measure_all(None)
    except StepError as error:
        print(error)
"""


def test_unknown_names_are_refused_when_an_experiment_measures() -> None:
    names = ("cluster", "ceph", "apps", "filesystems")
    unknown = {f"LINNOS_{name.upper()}": "unknown" for name in names}
    result = subprocess.run(
        [sys.executable, "-c", REFUSALS, *names],
        cwd=ROOT, env={**os.environ, **unknown}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for variable, line in zip(unknown, result.stdout.splitlines(), strict=True):
        assert line.startswith(f"{variable}: unknown is not known; known are ")


def test_comparison_widens_intervals_of_three_seeds() -> None:
    table = LongTable(("situation",))
    for rule, reduction in (
        ("faster", Interval(0.5, 0.45, 0.55)),
        ("unsure", Interval(0.127, 0.036, 0.225)),
        ("slower", Interval(-0.02, -0.03, -0.01)),
    ):
        table.add(PLACE, "library", "mean_us", reduction, rule)
    table.add(PLACE, "library", "mean_us", 0.5, "no interval")

    def words(rule: str, n_seeds: int) -> str:
        return rules.compared(table, PLACE, "library", rule, {"20us": n_seeds})

    assert words("faster", 3) == words("faster", 1) == "50 % lower"
    assert words("unsure", 3) == "(13 % lower)"
    assert words("unsure", 1) == "13 % lower"
    assert words("slower", 1) == "2.0 % higher"
    assert words("slower", 3) == "(2.0 % higher)"
    assert words("no interval", 3) == words("absent", 3) == "not known"


def test_a_node_fails_for_a_round_of_bursts_after_two() -> None:
    for engine, of in (("gluster", "server0"), ("ceph", "osd0")):
        script = lab._failure_commands(Situation("bursts", 1, 20, engine=engine, fails="server"))
        assert f"sleep 7.6; kill -STOP $(cat /run/cluster/{of}.pid)" in script
        assert f"sleep 0.3; kill -CONT $(cat /run/cluster/{of}.pid)" in script
    for cell, begins, ends in (
        ("stuck", "kill -STOP", "kill -CONT"), ("cut", " loss 100%", "delay 20us"),
        ("gone", "-KILL $(cat /run/cluster/server0.pid /run/cluster/agent0.pid)", "glusterfsd"),
    ):  # fmt: skip
        script = lab._failure_commands(CELLS[cell])
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)
        first, *then = script.splitlines()
        assert begins in first and ends in "".join(then) and begins not in "".join(then), cell
    assert lab._failure_commands(CELLS["20us"]) == "failing=\n"


def test_reads_of_clients_are_merged_in_order() -> None:
    clients = []
    for first_ns in (0, 5):
        reads = np.zeros(3, READ)
        reads["due_ns"] = first_ns + 10 * np.arange(3)
        clients.append(Measured(reads, (3, first_ns, 0), {"asked": 2, "strayed": first_ns}))
    both = merge_clients(clients)
    assert both.reads["due_ns"].tolist() == [0, 5, 10, 15, 20, 25]
    assert both.disk_reads == (3, 0, 0) and both.counted == {"asked": 4, "strayed": 5}
