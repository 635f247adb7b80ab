# SPDX-License-Identifier: MIT
"""`linnapp train` trains a latency model and a network, and says which predicts better."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from running import run
from test_training import array_trace

from linnapp import engine
from linnapp.errors import NoGainError
from linnapp.learn import fit
from linnapp.learn.examples import load_reads, split
from linnapp.learn.judge import area_under_roc
from linnapp.model import LatencyModel, Model, find_model, load_model

QUICK = ("--epochs", 2, "--bias", 2, "--even-if-worse", "--processes", 1)


def test_train_compares_both_kinds_on_the_test_slice(tmp_path: Path) -> None:
    trace, out = array_trace(tmp_path / "az.blk", 1), tmp_path / "m"
    result = run("train", "--trace", trace, "-o", out, *QUICK)
    assert result.exit_code == 0, result.output
    assert result.stdout.split() == [str(out / "az.latency.linnos"), str(out / "az.linnos")]
    assert result.stderr.count("az: 3000 reads to train on") <= 1
    assert result.stderr.count("inflection point") == 1
    records = {
        kind: json.loads((out / f"az{end}.json").read_text())
        for kind, end in (("latency", ".latency"), ("network", ""))
    }
    assert records["latency"]["kind"] == "latency"
    network = load_model(out / "az.linnos")
    assert isinstance(network, Model)
    reads = load_reads(trace)
    rows = split(len(reads), fit.Recipe().training).test
    outputs = engine.infer(network, reads.digits())[rows].astype(np.int64)
    slow = reads.latency_us[rows] > network.threshold_us
    expected = area_under_roc(outputs[:, 1] - outputs[:, 0], slow)
    assert expected is not None
    assert records["network"]["auc"] == pytest.approx(expected) and 0.5 < expected < 1
    better = max(records, key=lambda kind: records[kind]["auc"])
    name = {"latency": "latency model", "network": "network"}
    assert (
        "az: area under ROC of slow reads in the test slice: latency model "
        f"{records['latency']['auc']:.3f}, network {records['network']['auc']:.3f}; "
        f"the {name[better]} predicts better"
    ) in result.stderr

    again = run("train", "--trace", trace, "-o", out, *QUICK, "--json")
    [drive] = json.loads(again.stdout)["drives"]
    assert drive == {
        "drive": "az",
        "better": better,
        "latency": {"path": str(out / "az.latency.linnos"), "auc": records["latency"]["auc"]},
        "network": {"path": str(out / "az.linnos"), "auc": records["network"]["auc"]},
    }
    assert isinstance(load_model(find_model(out)), LatencyModel)


@pytest.mark.parametrize("kind", ["latency", "network"])
def test_train_with_kind_removes_the_older_model_of_the_other_kind(
    tmp_path: Path, kind: str
) -> None:
    trace, out = array_trace(tmp_path / "az.blk", 1, 1000), tmp_path / "m"
    out.mkdir()
    for name in ("az.latency.linnos", "az.latency.json", "az.linnos", "other.latency.linnos"):
        (out / name).write_text("old")
    options = QUICK if kind == "network" else QUICK[-2:]
    result = run("train", "--kind", kind, "--trace", trace, "-o", out, *options)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == [
        *("az.json", "az.linnos", "other.latency.linnos")
    ]
    assert isinstance(load_model(find_model(out, "az")), LatencyModel) == (kind == "latency")


def test_train_without_tensorflow_makes_a_latency_model_and_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name == "tensorflow" else real(name, *more),
    )
    trace, out = array_trace(tmp_path / "az.blk", 1, 1000), tmp_path / "m"
    result = run("train", "--trace", trace, "-o", out)
    assert result.exit_code == 0, result.output
    assert "TensorFlow is not installed, so only the latency model is trained" in result.stderr
    assert "install 'linnapp[train]'" in result.stderr
    assert [path.name for path in sorted(out.iterdir())] == ["az.latency.json", "az.latency.linnos"]


@pytest.mark.parametrize("failing", ["network", "latency", "both"])
def test_train_fails_only_if_a_drive_gets_no_model_of_any_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    real = fit.train_drive

    def train_drive(trace, point, recipe, observer=None):  # type: ignore[no-untyped-def]
        if failing in ("both", recipe.kind):
            raise NoGainError("nothing learnt")
        return real(trace, point, recipe, observer)

    monkeypatch.setattr(fit, "train_drive", train_drive)
    trace, out = array_trace(tmp_path / "az.blk", 1, 1000), tmp_path / "m"
    result = run("train", "--trace", trace, "-o", out, *QUICK)
    assert ("az: NO NETWORK: nothing learnt" in result.stderr) == (failing != "latency")
    assert ("az: NO LATENCY MODEL: nothing learnt" in result.stderr) == (failing != "network")
    if failing == "both":
        assert str(result.exception) == "no model for az: see above"
        assert not out.exists()
    else:
        assert result.exit_code == 0, result.output
        names = {"network": "az.latency", "latency": "az"}
        assert result.stdout.split() == [str(out / f"{names[failing]}.linnos")]
        assert "predicts better" not in result.stderr
