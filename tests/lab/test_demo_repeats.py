# SPDX-License-Identifier: MIT
"""The demos can be run again in the same clone, and give the same results."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from eval import demo, demo_cluster
from eval.long_table import LongTable
from linnapp.lab.cluster import AGENT, CLUSTER_KERNEL, missing
from linnapp.lab.guest import DEFAULT_PATH
from linnapp.lab.host import train


@pytest.mark.lab
@pytest.mark.long
def test_demo_repeats_exactly_after_a_run_on_another_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use one folder for all runs: a second of workload, one epoch and few policies."""
    rows = ("baseline", "c3", "heimdall", "linnos", "fastest")
    monkeypatch.setattr(demo, "ROWS", tuple(row for row in demo.ROWS if row.name in rows))

    def train_briefly(traces: list[Path], models: Path, log: Path, *options: str) -> list[Path]:
        brief = () if "latency" in options else ("--epochs", "1", "--bias", "2")
        return train(traces, models, log, *options, *brief)

    monkeypatch.setattr(demo, "train", train_briefly)
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "own.iolog"

    def run(*arguments: str) -> list[float]:
        monkeypatch.setattr(sys, "argv", ["demo", "--seconds", "1", *arguments])
        demo.main()
        runs = json.loads(Path("out/demo/summary.json").read_text())["runs"]
        assert [each["name"] for each in runs] == list(rows)
        assert not any(each["data_errors"] for each in runs)
        return [each["mean_us"] for each in runs]

    first = run()
    shutil.copy(tmp_path / "out" / "demo" / "workload" / "flash0.iolog", own)
    own_trace = run("--trace", str(own))
    assert own_trace != first
    # Earlier output has no effect: all digits are as in a new clone.
    assert run() == first


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.skipif(
    not (CLUSTER_KERNEL.exists() and AGENT.exists()) or bool(missing("gluster", DEFAULT_PATH)),
    reason="what it needs is not there: `make kernel-cluster agent cluster deps-gluster`",
)
def test_cluster_demo_runs_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo has one round of bursts and few rules."""
    rules = ("round-robin", "own-latency", "library", "library-hedge", "oracle")
    monkeypatch.setattr(demo_cluster, "ORDER", rules)
    monkeypatch.setattr(sys, "argv", ["demo-cluster", "--rounds", "1"])
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out" / "demo-cluster"
    taken = []
    for _ in range(2):
        demo_cluster.main()
        assert "liblinnos-cluster takes " in capsys.readouterr().out
        table = LongTable.load(out / "table.csv")
        assert table.policies() == list(rules)
        taken.append({rule: table.value(("bursts",), rule, "mean_us") for rule in rules})
        assert (out / "figure.png").stat().st_size > 10_000
        (out / "figure.png").unlink()
    # The second run measures everything again. The timing of GlusterFS's threads varies by some
    # clock steps.
    assert taken[0] == pytest.approx(taken[1], rel=0.01)
    assert taken[0]["oracle"] < taken[0]["library"] < taken[0]["round-robin"]
