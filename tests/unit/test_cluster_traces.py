# SPDX-License-Identifier: MIT
"""Traces as background load of a cluster: how configurations are named, refused, written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval import demo, trace_files
from eval.cache import Cache
from eval.cells import WORKLOADS
from eval.experiment import Context
from eval.experiments import cluster
from eval.experiments.cluster import CELLS, VARIABLE, brought, cells, lab
from linnapp.lab.places import Places
from linnapp.lab.work import StepError
from linnapp.trace.reads import digest

NAME = "msr.cut.per_10k.rw_40_60.1370.trace"

#: An I/O each 10 ms, reads in its first half and writes in its second.
N = 4000
LINES = "".join(f"{10 * k} 0 {4096 * k} 4096 {int(k < N / 2)}\n" for k in range(N))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with user-supplied traces, one of which has a known name."""
    given = tmp_path / "given"
    for name in (NAME, "deep/My trace.trace"):
        (given / name).parent.mkdir(parents=True, exist_ok=True)
        (given / name).write_text(LINES)
    monkeypatch.setattr(trace_files, "GIVEN_OR_RECORDED", (given,))
    return given


def test_cell_is_named_by_its_trace_and_identified_by_content(folder: Path) -> None:
    found = cells.of_traces(50)
    assert sorted(found) == ["deep-my-trace.trace", "msr-1370"]
    one = found["msr-1370"]
    assert one.load == "msr-1370" and one.trace == digest([folder / NAME])[:16]
    # the saved data do not contain its path
    told = cells.told(found, ["msr-1370"])
    assert told["msr-1370"]["trace"] == one.trace and str(folder) not in str(told)
    # other loads have no trace, whatever is named
    assert not [name for name in WORKLOADS if CELLS[name].trace]


def test_without_the_variable_there_are_the_recorded_applications() -> None:
    if trace_files.GIVEN:
        pytest.skip(f"{trace_files.VARIABLE} is set")
    assert {"fio-recorded", "pgbench-recorded"} <= CELLS.keys()
    assert "msr-1370" not in CELLS


def test_run_names_unknown_cells_and_missing_traces(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "compiled", lambda _: tmp_path)
    monkeypatch.setattr(cluster, "CHOSEN", ("msr-1",))
    context = Context("cluster", Cache(tmp_path / "cache"), 1, True, tmp_path)
    says = f"{VARIABLE}: msr-1: no such cell; known are 20us, .*LINNOS_TRACES=DIR"
    with pytest.raises(StepError, match=says):
        cluster.run(context)
    monkeypatch.setattr(trace_files, "GIVEN_OR_RECORDED", (tmp_path / "gone",))
    assert not cells.of_traces(50)
    with pytest.raises(StepError, match=r"gone: no such file or folder \(named in LINNOS_TRACES"):
        cluster.run(context)


def test_two_traces_of_one_name_are_refused(folder: Path) -> None:
    (folder / "deep-my trace.trace").write_text(LINES)
    with pytest.raises(StepError, match=r"another trace is deep-my-trace\.trace, too"):
        brought.files()


@pytest.mark.parametrize("name", ["az-e", "bursts"])
def test_trace_named_like_a_cell_or_load_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(cluster, "compiled", lambda _: tmp_path)
    (folder / name).write_text(LINES)
    with pytest.raises(StepError, match=f"{name} is a cell or a load already"):
        cluster.run(Context("cluster", Cache(tmp_path / "cache"), 1, True, tmp_path))


@pytest.mark.parametrize("lines", ["0 0 0 4096 1\n", "0 0 0 4096 1\n1e12 0 0 4096 1\n"])
def test_trace_with_impossible_times_is_refused(tmp_path: Path, lines: str) -> None:
    (tmp_path / NAME).write_text(lines)
    with pytest.raises(StepError, match="its I/Os lie over|its first lines could be"):
        brought.written(tmp_path / NAME, tmp_path, 0, 9.0, 0.5, 1 << 20)


def _read(volume: Path) -> list[tuple[float, str]]:
    words = (line.split() for line in volume.read_text().splitlines())
    return [(int(w[0]) / 1e6, w[2]) for w in words if len(w) > 2 and w[2] in ("read", "write")]


def test_half_of_a_trace_is_scaled_to_the_required_length(folder: Path, tmp_path: Path) -> None:
    """At :data:`demo.TARGET_IOPS`, 4,000 I/Os take 2 s, and half of them one."""
    trace = folder / NAME
    for half, kind in enumerate(("read", "write")):
        whole = _read(brought.written(trace, tmp_path / kind, half, 9.0, 0.5, 1 << 20))
        assert len(whole) == pytest.approx(N / 2, abs=1) and {what for _, what in whole} == {kind}
        assert whole[-1][0] == pytest.approx(N / 2 / demo.TARGET_IOPS, rel=0.01)
    cut = _read(brought.written(trace, tmp_path / "cut", 1, 0.25, 0.5, 1 << 20))
    assert len(cut) == pytest.approx(demo.TARGET_IOPS * 0.25, rel=0.01)
    slowed = _read(brought.written(trace, tmp_path / "slowed", 1, 9.0, 4.0, 1 << 20))
    assert len(slowed) == pytest.approx(N / 2, abs=1)
    assert slowed[-1][0] == pytest.approx(4.0, rel=0.01)


def test_only_trace_cells_replay_one_volume_on_all_drives(folder: Path) -> None:
    one, places = cells.of_traces(50)["msr-1370"], Places(Path("/out"), None)
    begins = lab._beside(one, places, [Path("/out/volume.iolog")])
    assert "--spread --replicate-writes" in begins and "volume.iolog" in begins
    assert "--spread" not in lab._beside(CELLS["az-e"], places, [Path("/out/flash0.iolog")])


def test_models_are_cached_by_the_content_of_the_trace(folder: Path, tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []

    class Kept(Cache):
        def get(self, kind: str, parameters: Any, make: Any) -> Path:
            asked.append(dict(parameters))
            return tmp_path

    one = cells.of_traces(50)["msr-1370"]
    for situation in (one, replace(one, trace="other")):
        lab.recorded_and_trained(Kept(tmp_path), tmp_path, situation)
    assert [given.pop("trace") for given in asked] == [one.trace, "other"]
    assert asked[0] == asked[1]
