# SPDX-License-Identifier: MIT
"""A fleet on Dask makes the same models as local training, and continues after an interruption."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from test_training import array_trace

from linnapp.cli import cli
from linnapp.errors import LinnappError
from linnapp.learn import fleet
from linnapp.learn.fit import train_array
from linnapp.learn.fleet import group_by_directory, train_fleet
from linnapp.learn.options import Recipe

pytest.importorskip("distributed")

GIVE_UP_S = 600
#: Trained without TensorFlow, which each process would import.
RECIPE = Recipe(kind="latency")


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Raise Dask's limits for busy machines: 10 s for the start of a thread, and 30 s for processes
    and connections.
    """
    import dask
    import distributed.utils

    class Event(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            return super().wait(GIVE_UP_S if timeout == 10 else timeout)

    patient = SimpleNamespace(**{**vars(threading), "Event": Event})
    monkeypatch.setattr(distributed.utils, "threading", patient)
    monkeypatch.setattr(fleet, "CONNECT_TIMEOUT_S", GIVE_UP_S)
    timeouts = {f"distributed.comm.timeouts.{what}": f"{GIVE_UP_S}s" for what in ("connect", "tcp")}
    with dask.config.set(timeouts):
        yield


def test_fleet_trains_each_array_on_a_local_and_an_existing_cluster(
    tmp_path: Path, patience: None, capfd: pytest.CaptureFixture[str]
) -> None:
    """The local cluster is used first, then the existing one."""
    from distributed import LocalCluster

    traces = []
    for i, array in enumerate(("one", "two")):
        (tmp_path / array).mkdir()
        for j in range(2):
            traces.append(array_trace(tmp_path / array / f"d{j}.blk", 10 * i + j, 1500))
    arrays = group_by_directory(traces)
    broken = tmp_path / "two" / "d1.blk"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-5])
    out = tmp_path / "models"
    results = list(train_fleet(arrays, out, RECIPE, workers=2))
    errors = {(r.array, r.drive): r.error for r in results if r.failed}
    # The inflection points of an array depend on all of its drives.
    assert sorted(errors) == [("two", "d0"), ("two", "d1")]
    assert all(f"{broken}: truncated" in str(error) for error in errors.values())
    assert "Traceback" not in capfd.readouterr().err
    assert sorted(p.name for p in (out / "one").glob("*.linnos")) == ["d0.linnos", "d1.linnos"]

    broken.write_bytes(whole)
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        again = list(train_fleet(arrays, out, RECIPE, scheduler=cluster.scheduler_address))
        assert cluster.scheduler_info["workers"], "it is not ours to end"
    assert {(r.array, r.drive) for r in again} == {("two", "d0"), ("two", "d1")}
    assert not any(r.error for r in again)
    for name, found in arrays.items():
        train_array(found, tmp_path / "home" / name, RECIPE, processes=1)
        for model in (tmp_path / "home" / name).glob("*.linnos"):
            assert model.read_bytes() == (out / name / model.name).read_bytes()
    assert list(train_fleet(arrays, out, RECIPE, workers=1)) == []


def test_fleet_trains_latency_models_of_usable_traces(
    tmp_path: Path, patience: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both kinds are trained; a drive without a network, because none has a gain, is no failure."""
    recorded = Path(__file__).parents[2] / "traces" / "recorded" / "fio.blk.xz"
    for array in ("one", "two"):
        (tmp_path / array).mkdir()
        (tmp_path / array / recorded.name).symlink_to(recorded)
    command = ["fleet", str(tmp_path), "--workers", "1", "--seed", "3", "-o"]
    cli.main([*command, str(tmp_path / "t")], standalone_mode=False)
    assert sorted(p.parent.name for p in tmp_path.glob("t/*/fio.linnos")) == ["one", "two"]
    assert "2 of 2 drives trained" in capsys.readouterr().out
    none_refused = ["--max-refused", "1e-9", "--epochs", "1", "--bias", "2"]
    refused = [*command, str(tmp_path / "n"), *none_refused]
    cli.main([*refused, "--kind", "network"], standalone_mode=False)
    captured = capsys.readouterr()
    assert (
        "0 of 2 drives trained" in captured.out
        and "for 2 no model is better, 0 failed" in captured.out
    )
    assert captured.err.count("no model: ") == 2

    with pytest.raises(click.UsageError, match="--(epochs|bias) applies to networks only"):
        cli.main(refused, standalone_mode=False)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tcp://127.0.0.1:{port}", "Dask scheduler answers"),
        ("nonsense", r"tcp://10\.0\.0\.5:8786"),
        ("tcp://here:port", r"tcp://10\.0\.0\.5:8786"),
        ("tcp://[1", r"tcp://10\.0\.0\.5:8786"),
    ],
)
def test_missing_scheduler_and_wrong_address_are_errors(
    tmp_path: Path, patience: None, monkeypatch: pytest.MonkeyPatch, address: str, reason: str
) -> None:
    monkeypatch.setattr(fleet, "CONNECT_TIMEOUT_S", 0.5)
    trace = array_trace(tmp_path / "d.blk", 1, 10)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = address.format(port=bound.getsockname()[1])
        with pytest.raises(LinnappError, match=f"^{re.escape(address)}: no .*{reason}"):
            list(train_fleet({"a": [trace]}, tmp_path / "m", RECIPE, scheduler=address))


def test_workers_option_is_refused_with_a_scheduler(tmp_path: Path) -> None:
    command = ["fleet", str(tmp_path), "-o", "m", "--scheduler", "tcp://127.0.0.1:1"]
    with pytest.raises(click.UsageError, match="--workers applies to a local cluster"):
        cli.main([*command, "--workers", "2"], standalone_mode=False)
