# SPDX-License-Identifier: MIT
"""The experiment runner: finished experiments are not repeated, and times are recorded."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval import __main__ as command
from eval import demo
from eval.cache import Cache, read_record
from eval.experiment import Context, Experiment, Table
from eval.page_tables import Shown
from linnapp.lab.work import StepError


def _arguments(**changes: Any) -> argparse.Namespace:
    options: dict[str, Any] = dict.fromkeys(
        ("force", "any_version", "redraw", "dev", "commit"), False
    )
    return argparse.Namespace(**{**options, "jobs": 1, "seeds": None, **changes})


@pytest.fixture
def counted() -> tuple[Experiment, list[str]]:
    """An experiment that counts its runs and draws nothing."""
    runs: list[str] = []

    def run(context: Context) -> dict[str, Any]:
        context.cache.get("thing", {}, lambda folder: runs.append(context.name))
        runs.append("run")
        return {"runs": []}

    def draw(data: dict[str, Any], path: Path) -> None:
        path.write_bytes(b"png")

    experiment = Experiment(
        "cpu", "A test", {}, run, lambda data: {}, lambda data: "In words.", draw
    )
    return experiment, runs


def test_finished_experiment_is_not_run_again(
    counted: tuple[Experiment, list[str]], tmp_path: Path
) -> None:
    experiment, runs = counted
    command.run(experiment, tmp_path, _arguments())
    assert runs == ["cpu", "run"]
    command.run(experiment, tmp_path, _arguments())
    assert runs == ["cpu", "run"]
    command.run(experiment, tmp_path, _arguments(force=True))
    assert runs == ["cpu", "run", "run"]
    assert "In words." in (tmp_path / "cpu" / "reading.md").read_text()


def test_other_seeds_or_input_data_are_run_again(
    counted: tuple[Experiment, list[str]], tmp_path: Path
) -> None:
    experiment, runs = counted
    based = replace(experiment, uses=("fig08",))
    (tmp_path / "fig08").mkdir()
    data = tmp_path / "fig08" / "data.json"
    data.write_text("{}")
    command.run(based, tmp_path, _arguments())
    command.run(based, tmp_path, _arguments())
    assert runs.count("run") == 1
    data.write_text('{"cells": []}')
    command.run(based, tmp_path, _arguments())
    assert runs.count("run") == 2
    command.run(based, tmp_path, _arguments(seeds=1))
    assert runs.count("run") == 3
    record = read_record(tmp_path / "cpu")
    assert record is not None and len(record["seeds"]) == 1


def test_data_of_names_the_target_that_makes_missing_data(tmp_path: Path) -> None:
    context = Context("claims", Cache(tmp_path), 1, True, tmp_path / "claims")
    with pytest.raises(StepError, match=r"fig08/data.json: not there; `make eval-fig08` makes it"):
        context.data_of("fig08")
    assert len(Context("x", Cache(tmp_path), 1, True, tmp_path, n_seeds=2).seeds) == 2


def test_time_includes_the_work_taken_from_the_cache(
    counted: tuple[Experiment, list[str]], tmp_path: Path
) -> None:
    experiment, _ = counted

    def recorded(**changes: Any) -> dict[str, Any]:
        command.run(experiment, tmp_path, _arguments(**changes))
        record = read_record(tmp_path / "cpu")
        assert record is not None
        return record

    first = recorded()
    assert first["alone_seconds"] == first["seconds"] > 0  # it made all that it needed
    (thing,) = (tmp_path / "cache").glob("thing-*/record.json")
    thing.write_text(json.dumps({**json.loads(thing.read_text()), "seconds": 1e6}))
    again = recorded(force=True, jobs=4)
    assert again["alone_seconds"] == 250_000 > again["seconds"]


def test_pages_are_written_when_results_are_committed_or_when_asked_for(
    counted: tuple[Experiment, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bool] = []
    results = tmp_path / "results"
    page = tmp_path / "page.md"
    page.write_text("| a |\n|---|\n")

    def pages() -> dict[Path, list[Shown]]:
        written.append((results / "cpu.json").exists())
        return {page: [Shown(("a",), [(str(len(written)),)])]}

    experiment = replace(counted[0], pages=pages)
    monkeypatch.setattr(command, "RESULTS", results)
    command.run(experiment, tmp_path, _arguments())
    assert written == []
    command.run(experiment, tmp_path, _arguments(commit=True))
    assert written == [True] and "| 1 |" in page.read_text()
    monkeypatch.setattr(command, "load", lambda name: experiment)
    monkeypatch.setattr("sys.argv", ["eval", "--pages", "cpu"])
    command.main()
    assert written == [True, True] and "| 2 |" in page.read_text()


def test_commit_keeps_other_cells_with_their_code(
    counted: tuple[Experiment, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "RESULTS", tmp_path)

    def commit(code: str, *cells: str, figure: bytes) -> dict[str, Any]:
        (tmp_path / "figure.png").write_bytes(figure)
        experiment = replace(
            counted[0],
            adds=True,
            table=lambda _: {cell: Table(("of",), ((code,),)) for cell in cells},
            reading=lambda _: "\n".join(f"{cell}: of {code}." for cell in cells),
        )
        parameters = {"cells": {cell: code for cell in cells}}
        record = {"made_from": {"code": code}, "parameters": parameters}
        command.commit(experiment, {}, record, tmp_path / "figure.png")
        return json.loads((tmp_path / "cpu.json").read_text())  # type: ignore[no-any-return]

    assert "codes" not in commit("old", "a", "b", figure=b"both")
    found = commit("new", "b", "c", figure=b"some")
    expected = {"a": "old", "b": "new", "c": "new"}
    assert found["codes"] == found["parameters"]["cells"] == expected
    assert {cell: of["rows"][0][0] for cell, of in found["tables"].items()} == expected
    assert found["reading"].splitlines() == ["a: of old.", "b: of new.", "c: of new."]
    assert (tmp_path / "cpu.png").read_bytes() == b"both"
    assert commit("newest", "a", figure=b"some")["codes"] == {**expected, "a": "newest"}


def test_results_of_development_runs_are_not_committed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "run", pytest.fail)
    monkeypatch.setattr("sys.argv", ["eval", "--dev", "--commit"])
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert "--commit with --dev" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([(i, 0) for i in range(999)], "d.csv: 0 reads; 768 are the least"),
        ([(1, 1)], "d.csv: 1 reads; 768 are the least"),
        ([(1, 1)] * 999, "d.csv: its I/Os lie over 0 s"),
        ([(i * 10**9, 1) for i in range(999)], "d.csv: its first lines are not flashnet"),
    ],
)
def test_demo_refuses_traces_without_enough_reads(
    tmp_path: Path, lines: list[tuple[int, int]], message: str
) -> None:
    trace = tmp_path / "d.csv"
    trace.write_text("".join(f"{ms},100,{read},4096,0,{ms},4096\n" for ms, read in lines))
    with pytest.raises(StepError, match=message):
        demo.check_teaches(trace, demo.inspected(trace))


def test_demo_refuses_a_file_as_output_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("kept")
    monkeypatch.setattr("sys.argv", ["demo", "--out", str(tmp_path / "file")])
    with pytest.raises(SystemExit, match="make demo: .*Not a directory"):
        demo.main()
