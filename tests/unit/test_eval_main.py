# SPDX-License-Identifier: MIT
"""The runner of experiments: results are cached, run by copies of programs, and not repeated."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval import __main__ as command
from eval import cache as cache_module
from eval import demo
from eval.cache import Cache, read_record
from eval.experiment import Context
from eval.long_table import LongTable
from eval.study import Study
from linnapp.lab.work import StepError


def _arguments(**changes: Any) -> argparse.Namespace:
    options: dict[str, Any] = dict.fromkeys(
        ("force", "any_version", "redraw", "dev", "commit"), False
    )
    return argparse.Namespace(**{**options, "jobs": 1, "seeds": None, **changes})


@pytest.fixture
def counted() -> tuple[Study, list[str]]:
    """Return an experiment that counts its runs and draws nothing."""
    runs: list[str] = []

    def run(context: Context) -> LongTable:
        context.cache.get("thing", {}, lambda folder: runs.append(context.name))
        runs.append("run")
        table = LongTable(("of",))
        table.add(("a",), "", "mean_us", len(runs))
        return table

    def draw(table: LongTable, path: Path) -> None:
        path.write_bytes(b"png")

    return Study(name="cpu", title="A test", measure_all=run, figure=draw, notes="In words."), runs


def test_finished_experiment_is_not_run_again(
    counted: tuple[Study, list[str]], tmp_path: Path
) -> None:
    experiment, runs = counted
    command.run(experiment, tmp_path, _arguments())
    assert runs == ["cpu", "run"]
    command.run(experiment, tmp_path, _arguments())
    assert runs == ["cpu", "run"]
    command.run(experiment, tmp_path, _arguments(force=True))
    assert runs == ["cpu", "run", "run"]
    assert "In words." in (tmp_path / "report" / "cpu.md").read_text()


def test_experiment_is_run_again_with_other_seeds_or_input_data(
    counted: tuple[Study, list[str]], tmp_path: Path
) -> None:
    experiment, runs = counted
    command.run(experiment, tmp_path, _arguments(seeds=2))
    command.run(experiment, tmp_path, _arguments(seeds=1))
    assert runs.count("run") == 2
    view = replace(experiment, name="fig09", view_of="cpu")
    command.run(view, tmp_path, _arguments())
    (seen,) = LongTable.load(tmp_path / "fig09" / "table.csv").items()
    command.run(experiment, tmp_path, _arguments(seeds=2))
    command.run(view, tmp_path, _arguments())
    (now,) = LongTable.load(tmp_path / "fig09" / "table.csv").items()
    assert now[1].value == seen[1].value + 1
    command.run(experiment, tmp_path, _arguments(seeds=1))
    record = read_record(tmp_path / "cpu")
    assert record is not None and len(record["seeds"]) == 1


def test_missing_table_is_reported_with_the_target_that_makes_it(tmp_path: Path) -> None:
    context = Context("claims", Cache(tmp_path), 1, True, tmp_path / "claims", n_seeds=2)
    with pytest.raises(StepError, match=r"fig08/table.csv .*`make eval-fig08` makes it"):
        context.table_of("fig08")
    assert len(context.seeds) == 2


def test_results_of_development_runs_are_not_committed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "run", pytest.fail)
    monkeypatch.setattr("sys.argv", ["eval", "--dev", "--commit"])
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert "--commit and --dev exclude each other" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([(1, 1)], "d.csv has 1 reads; at least 768 are needed"),
        ([(1, 1)] * 999, "d.csv lasts 0 s"),
        ([(i * 10**9, 1) for i in range(999)], "d.csv: its first lines are not flashnet"),
    ],
)
def test_demo_refuses_traces_without_enough_reads(
    tmp_path: Path, lines: list[tuple[int, int]], message: str
) -> None:
    trace = tmp_path / "d.csv"
    trace.write_text("".join(f"{ms},100,{read},4096,0,{ms},4096\n" for ms, read in lines))
    with pytest.raises(StepError, match=message):
        demo.check_has_enough_reads(trace, demo.inspect_trace(trace))


def test_interrupted_work_is_repeated(tmp_path: Path) -> None:
    cache, folders = Cache(tmp_path), list[Path]()

    def fails(folder: Path) -> None:
        (folder / "half").write_text("")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError):
        cache.get("x", {"a": 1}, fails)
    folder = cache.get("x", {"a": 1}, folders.append)
    assert folders == [folder] and not (folder / "half").exists()


def test_new_code_repeats_the_work_unless_any_version_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []
    Cache(tmp_path).get("x", {}, folders.append)
    monkeypatch.setattr(cache_module, "code_version", lambda *_: "other")
    Cache(tmp_path, any_version=True).get("x", {}, folders.append)
    assert len(folders) == 1
    folder = Cache(tmp_path).get("x", {}, folders.append)
    assert len(folders) == 2
    record = read_record(folder)
    assert record is not None and record["code"] == "other"
