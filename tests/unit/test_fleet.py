# SPDX-License-Identifier: MIT
"""A fleet on Dask makes the same models as local training, and continues after an interruption."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner
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


def test_arrays_are_directories() -> None:
    traces = [Path("/t/a/x.blk"), Path("/t/a/y.blk"), Path("/t/b/x.blk"), Path("/t/c/a/x.blk")]
    grouped = {name: [t.name for t in found] for name, found in group_by_directory(traces).items()}
    assert grouped == {"a": ["x.blk", "y.blk"], "b": ["x.blk"], "c/a": ["x.blk"]}


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


def test_fleet(tmp_path: Path, patience: None, capfd: pytest.CaptureFixture[str]) -> None:
    """First on a local cluster, then on an existing one."""
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
    results = train_fleet(arrays, out, RECIPE, workers=2)
    errors = {(r.array, r.drive): r.error for r in results if r.failed}
    # The inflection points of an array depend on all of its drives.
    assert sorted(errors) == [("two", "d0"), ("two", "d1")]
    assert all(f"{broken}: truncated" in str(error) for error in errors.values())
    assert "Traceback" not in capfd.readouterr().err
    assert sorted(p.name for p in (out / "one").glob("*.linnos")) == ["d0.linnos", "d1.linnos"]

    broken.write_bytes(whole)
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        again = train_fleet(arrays, out, RECIPE, scheduler=cluster.scheduler_address)
        assert cluster.scheduler_info["workers"], "it is not ours to end"
    assert {(r.array, r.drive) for r in again} == {("two", "d0"), ("two", "d1")}
    assert not any(r.error for r in again)
    for name, found in arrays.items():
        train_array(found, tmp_path / "home" / name, RECIPE, processes=1)
        for model in (tmp_path / "home" / name).glob("*.linnos"):
            assert model.read_bytes() == (out / name / model.name).read_bytes()
    assert train_fleet(arrays, out, RECIPE, workers=1) == []


def test_fleet_continues_when_a_worker_is_killed(tmp_path: Path, patience: None) -> None:
    """Another worker trains its drive; the only effect is the time."""
    from distributed import LocalCluster

    (tmp_path / "a").mkdir()
    traces = [array_trace(tmp_path / "a" / f"d{i}.blk", i, 1500) for i in range(2)]
    killed: list[int] = []
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:

        def kill() -> None:
            while not killed:
                for worker in list(cluster.scheduler.workers.values()):
                    if worker.processing:
                        pid = cluster.workers[worker.name].process.pid
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)
                        return
                time.sleep(0.01)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            address = cluster.scheduler_address
            results = train_fleet({"a": traces}, tmp_path / "m", RECIPE, scheduler=address)
        finally:
            killed.append(0)
            killer.join()
    assert killed[0], "no worker was at work"
    assert sorted(r.drive for r in results if r.model_id) == ["d0", "d1"]
    assert not any(r.error for r in results)


def test_fleet_trains_latency_models_of_usable_traces(
    tmp_path: Path, patience: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both kinds are trained; a drive without a network, because none has a gain, is no failure."""
    recorded = Path(__file__).parents[2] / "traces" / "recorded" / "fio.blk.xz"
    for array in ("one", "two"):
        (tmp_path / array).mkdir()
        (tmp_path / array / recorded.name).symlink_to(recorded)
    command = ["fleet", str(tmp_path), "--workers", "1", "--seed", "3", "-o"]
    cli.main([*command, str(tmp_path / "t"), "--kind", "latency"], standalone_mode=False)
    assert sorted(p.parent.name for p in tmp_path.glob("t/*/fio.linnos")) == ["one", "two"]
    assert "2 of 2 drives trained" in capsys.readouterr().out
    none_refused = ["--max-refused", "1e-9", "--epochs", "1", "--bias", "2"]
    refused = [*command, str(tmp_path / "n"), *none_refused]
    cli.main(refused, standalone_mode=False)
    said = capsys.readouterr()
    assert "0 of 2 drives trained" in said.out and "of 2 none is better, 0 failed" in said.out
    assert said.err.count("no model: ") == 2

    with pytest.raises(click.UsageError, match="--(epochs|bias) is of networks"):
        cli.main([*refused, "--kind", "latency"], standalone_mode=False)


def test_missing_scheduler_is_an_error(
    tmp_path: Path, patience: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "CONNECT_TIMEOUT_S", 0.5)
    trace = array_trace(tmp_path / "d.blk", 1, 10)
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{nobody_listens.getsockname()[1]}"
        with pytest.raises(LinnappError, match=f"^{address}: no Dask scheduler answers"):
            train_fleet({"a": [trace]}, tmp_path / "m", RECIPE, scheduler=address)


@pytest.mark.parametrize("address", ["nonsense", "tcp://here:port", "http://here:8786", "tcp://[1"])
def test_train_fleet_says_what_addresses_look_like_when_one_is_wrong(
    tmp_path: Path, address: str
) -> None:
    trace = array_trace(tmp_path / "d.blk", 1, 10)
    with pytest.raises(LinnappError, match=rf"^{re.escape(address)}: no .* tcp://10\.0\.0\.5:8786"):
        train_fleet({"a": [trace]}, tmp_path / "m", RECIPE, scheduler=address)


def test_an_interrupt_ends_the_local_cluster_soon(tmp_path: Path, patience: None) -> None:
    (tmp_path / "a").mkdir()
    traces = [array_trace(tmp_path / "a" / f"d{i}.blk", i, 1500) for i in range(2)]

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        train_fleet({"a": traces}, tmp_path / "m", RECIPE, workers=2, on_progress=interrupt)
    print(f"{time.monotonic() - begun:.1f} s")
    assert len([*(tmp_path / "m" / "a").glob("*.linnos")]) == 1
    assert not multiprocessing.active_children()


def test_fleet_warns_of_points_below_the_median(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.blk").touch()

    def train(*_: object, on_progress: Callable[[fleet.Progress], None], **__: object) -> list:
        found = [
            fleet.Progress("x", "low", "1234abcd", threshold_percentile=49.9),
            fleet.Progress("x", "high", "1234abcd", threshold_percentile=50.0),
            fleet.Progress("x", "none", None, "no gain"),
        ]
        for each in found:
            on_progress(each)
        return found

    monkeypatch.setattr(fleet, "train_fleet", train)
    ran = CliRunner().invoke(cli, ["fleet", str(tmp_path / "a.blk"), "-o", str(tmp_path / "o")])
    assert ran.exit_code == 0, ran.output
    warned = [line for line in ran.stderr.splitlines() if "WARNING" in line]
    assert len(warned) == 1 and "x/low: model 1234abcd" in warned[0] and "p49.9" in warned[0]


def test_workers_option_is_refused_with_a_scheduler(tmp_path: Path) -> None:
    command = ["fleet", str(tmp_path), "-o", "m", "--scheduler", "tcp://127.0.0.1:1"]
    with pytest.raises(click.UsageError, match="--workers are those of a local cluster"):
        cli.main([*command, "--workers", "2"], standalone_mode=False)
