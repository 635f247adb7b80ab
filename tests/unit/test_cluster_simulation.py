# SPDX-License-Identifier: MIT
"""liblinnos-cluster in linnos-simulation: no herds, slow drives, dead and lying agents."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval.experiments.simulation.cells import CELLS, RULES, Cell
from eval.experiments.simulation.runs import (
    SOURCE,
    Run,
    add_reads,
    add_slow_drive,
    simulated,
)
from eval.long_table import LongTable

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build" / "simulation"
#: Seeds that the evaluation does not use.
SEEDS = (7, 8)
BURSTS = {"burst_us": 2000, "clients": 16, "reads_per_s": 6000, "seconds": 2}
CALM = {**BURSTS, "burst_us": 0}


def made(*arguments: object) -> Path:
    subprocess.run(
        ["make", "-s", "-C", SOURCE, *map(str, arguments)], check=True, capture_output=True
    )
    return BUILT / "linnos-simulation"


@pytest.fixture(scope="module")
def program() -> Path:
    return made(f"OUT={BUILT}")


def mean_us(program: Path, rule: str, **options: Any) -> float:
    runs = [simulated(program, Run(rule, seed, options)) for seed in SEEDS]
    return sum(run["mean_us"] for run in runs) / len(runs)


def test_simulation_refuses_invalid_options(program: Path) -> None:
    for wrong in ("rule=best", "nodes=2", "speed=3", "agents=asleep", "clients=0", "seconds"):
        ran = subprocess.run([program, f"--{wrong}"], capture_output=True, text=True, check=False)
        assert ran.returncode == 2 and wrong.split("=")[0] in ran.stderr


def test_equal_arguments_give_equal_reads(program: Path, tmp_path: Path) -> None:
    logs = []
    for name in ("a", "b"):
        simulated(program, Run("library-hedge", 7, BURSTS), tmp_path / name)
        logs.append((tmp_path / name).read_bytes())
    assert logs[0] == logs[1]


@pytest.mark.parametrize("rule", RULES)
def test_all_rules_get_the_same_reads_and_answer_each_once(
    program: Path, tmp_path: Path, rule: str
) -> None:
    due = []
    for name in ("primary", rule):
        run = simulated(program, Run(name, 7, BURSTS), tmp_path / "log")
        assert run["answered"] == run["reads"] > 10_000
        if "sent" in run:
            assert run["sent"] == run["ended"]
        due.append(np.fromfile(tmp_path / "log", "<u8")[::2])
    assert np.array_equal(*due)


def test_cell_has_the_statistics_of_its_rules(program: Path, tmp_path: Path) -> None:
    cell = Cell("small", {"burst_us": 2000}, ("primary", "library", "oracle"))
    table, place = LongTable(("situation", "clients_of_slow_drive")), ("small", "")
    add_reads(table, program, cell, SEEDS, tmp_path)
    assert table.policies() == list(cell.rules)
    # two seeds are too few for an interval
    assert table.interval(place, "oracle", "share_of_oracle").to_json() == [1, None, None]
    assert 0.8 < table.interval(place, "library", "mean_us", "primary").value < 0.85
    assert 0.9 < table.value(place, "library", "share_of_oracle") < 1
    assert table.value(place, "library", "extra_io_ratio") <= 0.01
    assert table.value(place, "library", "asked") <= 1
    assert not list(tmp_path.iterdir())


def test_with_equal_drives_there_is_no_herd(program: Path) -> None:
    for agents in ("on", "dead", "fast"):
        for seed in SEEDS:
            run = simulated(program, Run("library", seed, {**CALM, "agents": agents}))
            assert run["worst_share"] < 0.4, agents
    # if one of three is slow, each of the others gets no more than an equal part of its share
    for seed in SEEDS:
        assert simulated(program, Run("library", seed, BURSTS))["worst_share"] < 0.45


def test_reads_leave_a_slow_drive_and_return_after_its_recovery(
    program: Path,
) -> None:
    for n_clients in (1, 16):
        table, place = LongTable(("situation", "clients_of_slow_drive")), ("", str(n_clients))
        add_slow_drive(table, program, "library", n_clients, SEEDS)
        assert table.value(place, "library", "after_100_ms") < 0.012
        assert table.value(place, "library", "first_100_ms") < 0.04
        assert table.value(place, "library", "back_ms") <= 1000


def test_library_without_reports_is_no_slower_than_the_engine(
    program: Path,
) -> None:
    calm = {**CALM, "agents": "dead"}
    assert mean_us(program, "library", **calm) < 1.01 * mean_us(program, "primary", **calm)
    dead = {**BURSTS, "agents": "dead"}
    asks_nobody = mean_us(program, "library-deaf", **BURSTS)
    assert mean_us(program, "library", **dead) < 1.02 * asks_nobody
    assert asks_nobody < 0.5 * mean_us(program, "primary", **BURSTS)


@pytest.mark.parametrize("lie", ["fast", "slow"])
def test_lying_agent_costs_hardly_more_than_no_agent(program: Path, lie: str) -> None:
    without = mean_us(program, "library-deaf", **BURSTS)
    assert mean_us(program, "library", **BURSTS, agents=lie) < 1.01 * without
    calm = mean_us(program, "primary", **CALM)
    assert mean_us(program, "library", **CALM, agents=lie) < 1.01 * calm


def test_late_reports_are_no_worse_than_none(program: Path) -> None:
    without = mean_us(program, "library-deaf", **BURSTS)
    for late_us in (1000, 10_000, 30_000):
        assert mean_us(program, "library", **BURSTS, news_delay_us=late_us) < 1.02 * without


def test_library_under_load_is_no_slower_than_the_engine(program: Path) -> None:
    busy = {**CALM, "profile": "consumer", "reads_per_s": 300_000, "seconds": 0.3}
    primary = mean_us(program, "primary", **busy)
    for rule in ("library", "library-deaf", "library-hedge"):
        assert mean_us(program, rule, **busy) < 1.015 * primary


def test_library_queries_the_default_replica_first_with_many_nodes(program: Path) -> None:
    many = {
        "burst_us": 2000, "burst_one_in": 10, "nodes": 300, "clients": 100,
        "reads_per_s": 100_000, "seconds": 1,
    }  # fmt: skip
    first = simulated(program, Run("library", 7, many))
    never = simulated(program, Run("library", 7, {**many, "first": 0}))
    assert first["asked_first"] > first["reads"] / 2 and not never["asked_first"]
    assert first["asked"] <= 1 and first["mean_us"] < 0.9 * never["mean_us"]


def test_observe_mode_estimates_the_gain_of_choosing(program: Path) -> None:
    observed = simulated(program, Run("observe", 7, BURSTS))
    chosen = simulated(program, Run("library", 7, BURSTS))
    assert observed["redirected"] == observed["copies"] == 0
    said_us = observed["would_save_us"] / observed["reads"]
    won_us = observed["mean_us"] - chosen["mean_us"]
    assert 0.8 * won_us < said_us < 1.2 * won_us


def test_simulation_is_clean_under_sanitizers() -> None:
    out = BUILT / "asan"
    made(
        f"OUT={out}", "CFLAGS=-O1 -g",
        "SANITIZE=-fsanitize=address,undefined -fno-sanitize-recover=all",
    )  # fmt: skip
    for rule in ("library-hedge", "prequal", "clone", "hedge-capped", "elasticsearch"):
        for agents in ("on", "dead"):
            options = {**BURSTS, "seconds": 0.5, "agents": agents, "nodes": 30}
            json.dumps(simulated(out / "linnos-simulation", Run(rule, 7, options)))


def test_cells_have_unique_names_and_existing_rules() -> None:
    assert len({cell.name for cell in CELLS}) == len(CELLS)
    assert all(set(cell.rules) <= set(RULES) and "library" in cell.rules for cell in CELLS)
