# SPDX-License-Identifier: MIT
"""The numbers of rules for clusters, computed from synthetic reads; and the lab's scripts."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import numpy as np
import pytest

from eval.cache import Cache
from eval.cells import ARRAYS, N_DRIVES
from eval.experiment import Context
from eval.experiments import ceph
from eval.experiments.cluster import (
    CELLS,
    EXPERIMENT,
    N_SEEDS,
    UNNAMED,
    VARIABLE,
    cells,
    lab,
    rules,
)
from eval.experiments.cluster.cells import N_BLOCKS
from eval.experiments.cluster.lab import (
    MEASURED_MS,
    READ,
    ROUNDS,
    TURN_US,
    Measured,
    Situation,
)
from eval.experiments.cluster.rules import RULES
from eval.long_table import LongTable
from linnapp.lab.places import Places
from linnapp.lab.work import StepError
from linnapp.stats import Interval

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
    with pytest.raises(ValueError, match="not the reads of the others"):
        cells.add_reads(LongTable(("situation",)), "20us", [mixed])


def test_best_rule_and_significant_differences_come_from_the_table() -> None:
    table = table_of(TAKES)
    # a rule that sends two reads is no alternative to one that sends a single read
    assert rules.best(table, PLACE, rules.OTHERS) == "prediction"
    assert rules.best(table, PLACE, RULES) == "oracle"
    assert [rules.side(table, PLACE, "prediction", of) for of in ("c3", "clone")] == [1, -1]
    assert rules.n_below_and_above(table, PLACE, "prediction", ("c3", "clone", "oracle")) == "1; 2"
    # an end that was rounded to zero has the sign of the number
    table.add(PLACE, "library", "mean_us", Interval(0.1, 0.0, 0.2), "c3")
    table.add(PLACE, "library", "mean_us", Interval(0.1, -0.0, 0.2), "clone")
    assert [rules.side(table, PLACE, "library", of) for of in ("c3", "clone")] == [1, 0]


def test_cells_have_distinct_headings_and_are_chosen_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for of in (CELLS, ceph.CELLS):
        assert len({rules.heading(cell) for cell in of.values()}) == len(of)
    assert rules.heading(CELLS["half-lost"]).endswith(", 50 % of questions lost")
    assert rules.short_heading(ceph.CELLS["stuck"]) == "a server stands still"
    monkeypatch.delenv(VARIABLE, raising=False)
    assert cells.chosen(VARIABLE, UNNAMED) == UNNAMED
    monkeypatch.setenv(VARIABLE, "bi-e,4-clients")
    assert cells.chosen(VARIABLE, UNNAMED) == ("bi-e", "4-clients")
    # a workload has the drives of its row
    drives = [CELLS[load].cluster().drives.profile for load in ("az-c", "az-e", "20us")]
    assert drives == [ARRAYS[name] for name in ("consumer", "enterprise", "enterprise")]


def test_each_cell_is_measured_separately_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replace the guests; check which are started, with which models, and what remains."""
    trained, met = [], []

    def one(
        cache: Cache, client: Path, situation: Situation, rules: tuple[str, ...]
    ) -> dict[str, Measured]:
        met.append(situation)
        return made_up(situation.seed, TAKES)

    monkeypatch.setattr(cells, "recorded_and_trained", lambda *of: trained.append(of[2]))
    monkeypatch.setattr(cells, "measured", one)
    monkeypatch.setattr("linnapp.lab.guests.on_kernel", lambda *_: contextlib.nullcontext())
    context = Context("cluster", Cache(tmp_path / "cache"), 2, True, tmp_path)

    def measure(*names: str) -> LongTable:
        return cells.measure(
            context, tmp_path, CELLS, names, tuple(RULES), n_seeds=N_SEEDS, variable=VARIABLE
        )

    table = measure("50us", "stuck", "20us")
    seeds = list(context.seeds[: N_SEEDS["20us"]])
    assert [(one.one_way_us, one.seed) for one in met] == [
        (50, seeds[0]), (20, seeds[0]), *((20, seed) for seed in seeds)
    ]  # fmt: skip
    # models of one load are used in every configuration with it
    assert [one.seed for one in trained] == seeds
    n_reads = [table.value(place, "library", "reads") for place in table.places]
    assert n_reads == [4000, 4000, 4000 * len(seeds)]
    EXPERIMENT.draw(table, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
    all_numbers = EXPERIMENT.tables(table)["All numbers"]
    assert [row[1] for row in all_numbers.rows] == 3 * list(RULES.values())
    with pytest.raises(StepError, match=f"{VARIABLE}: 51us: no such cell; known are 20us, 5us"):
        measure("51us")


def test_a_node_fails_for_a_round_of_bursts_after_two() -> None:
    for engine, of in (("gluster", "server0"), ("ceph", "osd0")):
        script = lab._failing(Situation("bursts", 1, 20, engine=engine, fails="server"))
        assert f"sleep 7.6; kill -STOP $(cat /run/cluster/{of}.pid)" in script
        assert f"sleep 0.3; kill -CONT $(cat /run/cluster/{of}.pid)" in script
    cut, mended = lab._failing(CELLS["cut"]).splitlines()
    assert cut.count(" loss 100%") == 2 and "loss" not in mended and "delay 20us" in mended
    for cell in ("stuck", "cut", "gone"):
        subprocess.run(["sh", "-n"], input=lab._failing(CELLS[cell]), text=True, check=True)
    killed, *back = lab._failing(CELLS["gone"]).splitlines()
    assert "kill -KILL $(cat /run/cluster/server0.pid /run/cluster/agent0.pid)" in killed
    assert ["linnos-agent" in back[0], "glusterfsd" in back[1]] == [True, True]
    assert lab._failing(CELLS["20us"]) == "failing=\n"


def test_nine_nodes_are_three_times_three_and_have_a_burst_in_their_turn() -> None:
    nine = CELLS["nine"]
    cluster = nine.cluster()
    assert cluster.drives.profile.split(",") == 3 * ARRAYS["enterprise"].split(",")
    assert cluster.setup_script().count("option read-subvolume-index 2\n") == 3
    injected = lab._beside(nine, Places(Path("/out"), None), [])
    assert "echo 9 >/sys/kernel/config/flashsim/flash8/inject/window_turns" in injected
    assert "echo 256 >/sys/kernel/config/flashsim/flash8/inject/window_turn_mask" in injected
    # whole rounds
    assert nine.measured_ms * 1000 % (nine.nodes * TURN_US) == 0


def test_measured_time_consists_of_whole_rounds_and_turns() -> None:
    assert MEASURED_MS * 1000 == ROUNDS * N_DRIVES * TURN_US
    assert N_BLOCKS * TURN_US == MEASURED_MS * 1000


def test_compiled_names_missing_programs_and_their_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, absent = tmp_path / "there", tmp_path / "absent"
    there.touch()
    monkeypatch.setattr(lab, "AGENT", there)
    monkeypatch.setattr(lab, "_BUILT", {"gluster": {"cluster": there}})
    monkeypatch.setattr(lab, "missing", lambda *_: ["glusterfsd"])
    with pytest.raises(StepError, match="installed: glusterfsd; `make deps-gluster` installs"):
        lab.compiled(tmp_path)
    monkeypatch.setattr(lab, "_BUILT", {"gluster": {"cluster": absent}})
    with pytest.raises(StepError, match="absent: not there; `make cluster` builds it"):
        lab.compiled(tmp_path)
    monkeypatch.setattr(lab, "AGENT", absent)
    with pytest.raises(StepError, match="absent: not there; `make agent` builds it"):
        lab.compiled(tmp_path)
