# SPDX-License-Identifier: MIT
"""Studies run from factors to tables, figures and pages, on synthetic cells and a fake lab."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_up_lab
import numpy as np
import pytest
from test_bursts import busy_trace

from eval import __main__ as command
from eval import cells, pages
from eval.cache import RESULTS, Cache
from eval.experiment import Context
from eval.experiments import (
    NAMES,
    ON_REQUEST,
    fig07,
    fig08,
    fig09,
    fig11,
    guarded,
    load,
    probing,
    replicated,
    stock,
    table3,
    unseen,
    uscope,
)
from eval.long_table import LongTable
from eval.study import Measure, Study, against_best
from linnapp.lab.work import StepError
from linnapp.learn.examples import load_reads
from linnapp.stats import Interval, mean_interval


def _context(tmp_path: Path, name: str = "made", n_seeds: int = 3) -> Context:
    return Context(name, Cache(tmp_path / "cache"), 1, True, tmp_path / name, n_seeds=n_seeds)


@pytest.fixture
def study() -> tuple[Study, list[tuple[str, str, int]]]:
    """A study of 2 x 2 cells with two drives each, and the cells that it has run."""
    ran: list[tuple[str, str, int]] = []

    def cell(context: Context, *, load: str, policy: str, seed: int) -> list[dict[str, Any]]:
        ran.append((load, policy, seed))
        us = 100.0 * (1 + (load == "high")) * (0.5 if policy == "ours" else 1.0) + seed % 7
        return [{"drive": drive, "us": us + drive, "share": 0.1 * drive} for drive in range(2)]

    made = Study(
        name="cpu", title="Two policies", factors={"load": ("low", "high")},
        policies=("theirs", "ours"), cell=cell, reference="theirs",
        measures={"us": Measure("mean us", 1, positive=True), "share": Measure("share %", 0, 100)},
        paper_values={"ours": {"us": "40"}},
    )  # fmt: skip
    return made, ran


def test_study_averages_drives_within_seeds(
    study: tuple[Study, list[tuple[str, str, int]]], tmp_path: Path
) -> None:
    context = _context(tmp_path)
    table = study[0].run(context)
    seeds = context.seeds
    assert sorted(study[1]) == sorted(itertools.product(("low", "high"), ("theirs", "ours"), seeds))
    share = table.get(("low",), "ours", "share")
    assert share is not None and share.value == pytest.approx(0.05)
    # The three seeds count, not the six drives.
    us = [50.0 + seed % 7 + 0.5 for seed in seeds]
    found = table.get(("low",), "ours", "us")
    assert found is not None and found.value == pytest.approx(mean_interval(us).value)
    assert [table.value(("low",), "ours", "us", seed) for seed in seeds] == us
    # A time is compared as a relative reduction, a share as a difference.
    reduction = table.reduction(("low",), "ours", "theirs", "us")
    assert reduction is not None and reduction.value == pytest.approx(0.5, abs=0.03)
    difference = table.reduction(("low",), "ours", "theirs", "share")
    assert difference is not None and difference.value == 0


def test_study_takes_finished_cells_from_the_cache(
    study: tuple[Study, list[tuple[str, str, int]]], tmp_path: Path
) -> None:
    first = study[0].run(_context(tmp_path))
    n = len(study[1])
    assert study[0].run(_context(tmp_path)).to_csv() == first.to_csv()
    assert len(study[1]) == n
    replace(study[0], settings={"other": 1}).run(_context(tmp_path))
    assert len(study[1]) == 2 * n


def test_study_has_a_table_for_each_group_and_a_column_for_the_paper(
    study: tuple[Study, list[tuple[str, str, int]]], tmp_path: Path
) -> None:
    grouped = replace(study[0], groups=((), ("load", "drive")))
    tables = grouped.tables(grouped.run(_context(tmp_path)))
    first, second = tables.values()
    assert [row[0] for row in first.rows] == ["theirs", "ours"]
    assert first.header[:4] == ("policy", "mean us", "the paper's", "% lower than theirs")
    assert [row[2] for row in first.rows] == ["-", "40"]
    assert len(second.rows) == 2 * 2 * 2
    # Some policies or places can have no numbers.
    alone = replace(study[0], seeds=lambda seeds, load: seeds[:1] if load == "low" else [])
    assert alone.run(_context(tmp_path)).places == [("low",)]


def test_run_writes_table_figure_and_page(
    study: tuple[Study, list[tuple[str, str, int]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, page = tmp_path / "results", tmp_path / "page.md"
    page.write_text("# Page\n\n| load | mean |\n|---|---|\n\nText.\n")
    (tmp_path / "made.md.j2").write_text(
        "| load | mean |\n|---|\n{% for w in t.places %}\n"
        '| {{ w[0] }} | {{ "%.0f" | format(t.value(w, "ours", "us")) }} |\n{% endfor %}\n'
    )
    for module in (command, pages):
        monkeypatch.setattr(module, "RESULTS", results)
    monkeypatch.setattr(pages, "TEMPLATES", tmp_path)
    monkeypatch.setattr(command, "section", lambda study, tables: f"# {study.title}\n")
    options = dict.fromkeys(("force", "any_version", "redraw", "dev"), False)
    arguments = command.argparse.Namespace(**options, commit=True, jobs=1, seeds=None)
    made = replace(study[0], pages={"made.md.j2": page})
    command.run(made, tmp_path / "out", arguments)
    assert (tmp_path / "out" / "cpu" / "figure.png").stat().st_size > 1000
    assert LongTable.load(results / "cpu.csv").places == [("low",), ("high",)]
    assert "tables" not in (results / "cpu.json").read_text()
    low, high = (round(LongTable.load(results / "cpu.csv").value((load,), "ours", "us"))
                 for load in ("low", "high"))  # fmt: skip
    assert page.read_text() == (
        f"# Page\n\n| load | mean |\n|---|---|\n| low | {low} |\n| high | {high} |\n\nText.\n"
    )
    # A run of some places keeps the numbers of the others.
    n = len(study[1])
    command.run(replace(made, adds=True, factors={"load": ("low",)}), tmp_path / "out", arguments)
    assert len(study[1]) == n
    assert LongTable.load(results / "cpu.csv").places == [("low",), ("high",)]


def test_section_has_the_tables_of_a_study(
    study: tuple[Study, list[tuple[str, str, int]]], tmp_path: Path
) -> None:
    made = replace(study[0], notes="Read this.")
    text = pages.section(made, made.tables(made.run(_context(tmp_path))))
    assert text.startswith("# Two policies\n") and "Read this." in text
    assert text.count("\n| low |") == 2 and "## All numbers" in text


def test_long_table_survives_its_file(tmp_path: Path) -> None:
    table = LongTable(("trace", "rate"))
    table.add(("a, b", 1), "hedge, 5% cap", "mean_us", Interval(0.1, 0.05, 0.2))
    table.add(("a, b", 1), "hedge, 5% cap", "mean_us", Interval.unknown(-0.25), "baseline", 7)
    table.save(tmp_path / "table.csv")
    again = LongTable.load(tmp_path / "table.csv")
    assert again.to_csv() == table.to_csv() and again.factors == ("trace", "rate")
    place = ("a, b", "1")
    assert again.get(place, "hedge, 5% cap", "mean_us") == Interval(0.1, 0.05, 0.2)
    assert again.value(place, "hedge, 5% cap", "mean_us", 7) != -0.25
    with pytest.raises(ValueError, match="not those of a long table"):
        LongTable.from_csv("policy,value\n")


def test_best_rival_respects_the_limit_of_extra_io() -> None:
    table = LongTable(("workload",))
    for policy, us, extra in (
        ("baseline", 9, 0), ("clone", 1, 1), ("hedge", 3, 0.2), ("prequal", 5, 0),
        ("fastest", 0.5, 0), ("oracle", 0.1, 0),
    ):  # fmt: skip
        table.add(("az-e",), policy, "mean_us", us)
        table.add(("az-e",), policy, "extra_io_ratio", extra)
        table.add(("az-e",), "fastest", "mean_us", Interval(0.1, 0.05, 0.2), policy)
    best = [table.best_rival(("az-e",), most_extra=most) for most in (1.0, 0.2, 0.05)]
    assert best == ["clone", "hedge", "prequal"]
    (row,) = against_best(table, ["fastest"], 0.05).rows
    assert row == ("az-e", "prequal", "5.0", "fastest", "0.5", "10.0 [5.0, 20.0]", "**faster**")


@pytest.mark.parametrize("name", [*NAMES, *ON_REQUEST])
def test_committed_results_have_tables_and_a_figure(name: str, tmp_path: Path) -> None:
    study = load(name)
    path = RESULTS / f"{study.table_name}.csv"
    if not path.exists():
        # `published` has not been run.
        assert name == "published" or '"tables"' in (RESULTS / f"{name}.json").read_text()
        return
    table = LongTable.load(path)
    tables = study.tables(table)
    assert tables and all(made.rows for made in tables.values())
    for made in tables.values():
        assert {len(row) for row in made.rows} == {len(made.header)}
    study.draw(table, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> LongTable:
    """The long table of Fig. 8 with three seeds of one workload in the fake lab."""
    with pytest.MonkeyPatch.context() as patch:
        made_up_lab.install(patch)
        study = replace(fig08.EXPERIMENT, factors={"workload": ("bs-c",)})
        return study.run(_context(tmp_path_factory.mktemp("eval"), "fig08"))


def test_every_policy_reaches_its_known_latency(lab: LongTable) -> None:
    (place,) = lab.places
    mean = {name: lab.value(place, name, "mean_us") for name in lab.policies()}
    assert set(mean) == set(fig08.EXPERIMENT.policies)
    assert mean["oracle"] < mean["linnos"] < mean["hedge"] < mean["baseline"]
    assert mean["oracle"] == pytest.approx(made_up_lab.FAST_US, rel=0.1)
    assert mean["linnos"] < made_up_lab.FAST_US * 1.1 + made_up_lab.FAILOVER_US
    assert lab.value(place, "hedge, 5% cap", "extra_io_ratio") == pytest.approx(0.05)
    assert lab.best_rival(place) == "clone"
    fig08.EXPERIMENT.tables(lab)


def test_views_of_fig08_show_its_policies(lab: LongTable, tmp_path: Path) -> None:
    context = _context(tmp_path, "fig09")
    lab.save(tmp_path / "fig08" / "table.csv")
    for module in (fig09, fig11):
        study = module.EXPERIMENT
        table = study.run(context)
        tables = study.tables(table)
        assert all(of.rows for of in tables.values())
        study.draw(table, tmp_path / "figure.png")
    assert {row[1] for row in tables["All numbers"].rows} == {*fig11.POLICIES}


def _run(
    study: Study, tmp_path: Path, patch: pytest.MonkeyPatch, **factors: tuple[str, ...]
) -> tuple[LongTable, list[tuple[Any, str, dict[str, Any]]]]:
    """Run a study in the fake lab; return its table and the replays."""
    made_up_lab.install(patch)
    replays: list[tuple[Any, str, dict[str, Any]]] = []
    replay = cells.guests.replay

    def noting(scenario: Any, policy: str, *given: Any, **more: Any) -> dict[str, Any]:
        replays.append((scenario, policy, more))
        return replay(scenario, policy, *given, **more)

    patch.setattr(cells.guests, "replay", noting)
    made = replace(study, factors={**study.factors, **factors})
    return made.run(_context(tmp_path, study.name, 1)), replays


def test_replicated_writes_go_to_all_drives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = replace(replicated.EXPERIMENT, policies=("baseline", "fastest"), pairs=())
    table, replays = _run(study, tmp_path, monkeypatch, workload=("bs-c",))
    assert replays and all("--replicate-writes" in scenario.options for scenario, _, _ in replays)
    assert table.reduction(("bs-c",), "fastest", "baseline") is not None


def test_guarded_and_unguarded_policies_are_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, replays = _run(guarded.EXPERIMENT, tmp_path, monkeypatch, workload=("bs-c",))
    for policy, flag in (("linnos", "--guarded"), ("fastest", "--unguarded")):
        flags = [flag in scenario.options for scenario, name, _ in replays if name == policy]
        assert sorted(flags) == [False, True]
    tables = pages.render("guarded.md.j2", table)
    assert len(tables) == len(guarded.WITHOUT)
    reduction = table.reduction(("bs-c",), "fastest, unguarded", "baseline")
    assert reduction is not None
    shown = float(tables[2].rows[0][1].replace("*", "").split()[0])
    assert shown == round(-100 * reduction.value, 1)


def test_variants_are_replayed_with_their_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, replays = _run(probing.EXPERIMENT, tmp_path, monkeypatch, workload=("bs-c",))
    assert set(table.policies()) == set(probing.EXPERIMENT.policies)
    for variant in probing.VARIANTS.values():
        policy = variant.of.split(",")[0]
        commands = [more["prepare"] for _, name, more in replays if name == policy]
        assert any(
            f"echo {variant.after_us} >$drive/linnos/probe_after_us;" in text
            and f"echo {variant.after_revokes} >$drive/linnos/probe_after_revokes;" in text
            for text in commands
        )


@pytest.mark.parametrize(("module", "factor"), [(unseen, "kind"), (uscope, "injection")])
def test_injected_slowness_is_replayed_and_drawn(
    module: Any, factor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REPLAYED_S", {"az-e": 0.4, "az-c": 0.4})
    table, replays = _run(module.EXPERIMENT, tmp_path, monkeypatch)
    # Each workload has a seed of its own, and one seed was asked for.
    assert {place[0] for place in table.places} == {"az-e"}
    assert len(table.places) == len(module.EXPERIMENT.factors[factor])
    injected = {scenario.inject for scenario, policy, _ in replays if policy == "oracle"}
    assert len(injected) == len(table.places) and None in injected
    assert table.reduction(table.places[0], "fastest", "clone") is not None
    module.EXPERIMENT.draw(table, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_stability_is_the_largest_deviation_within_fifteen_hours() -> None:
    hour = np.arange(fig07.HOURS)
    moved = fig07.stability(85.0 + 7.0 * (hour >= 10), 60)
    # The windows before the tenth hour that have fifteen hours after them all see the change.
    assert (moved["largest"], moved["within_bound"]) == (7.0, 0.0)
    assert fig07.stability(85.0 + 4.9 * (hour >= 10), 60)["within_bound"] == 1.0
    # A window without a point is skipped and counted.
    gone = np.where((hour == 2) | (hour >= 10), np.nan, 85.0)
    found = fig07.stability(gone, 60)
    assert (found["largest"], found["left_out"]) == (0.0, pytest.approx(11 / 20))
    assert fig07.stability(np.full(20, np.nan), 60)["largest"] is None


def test_digits_of_integers_are_capped() -> None:
    largest = (16 << 30) - 4096
    digits = table3._digits(np.array([[largest, 0], [5, 123]]), table3.OFFSET_DIGITS)
    assert ["".join(map(str, row)) for row in digits.tolist()] == [
        f"{largest}{0:011d}", f"{5:011d}{123:011d}",
    ]  # fmt: skip
    assert table3._digits(np.array([[12_345]]), 4).tolist() == [[9, 9, 9, 9]]


def test_features_with_four_past_reads_equal_the_kernels(tmp_path: Path) -> None:
    path = busy_trace(tmp_path / "a.blk")
    reads = load_reads(path)
    digits, latency_us = table3._features(path, table3.Shape(4, ()))
    assert np.array_equal(digits, reads.digits())
    assert np.array_equal(latency_us, reads.latency_us)
    more, _ = table3._features(path, table3.Shape(7, (), offsets=True))
    assert more.shape == (len(reads), table3.Shape(7, (), offsets=True).n_inputs)
    # Pending counts, offsets and latencies: the last four reads have the same digits as in the
    # kernel.
    n = table3.OFFSET_DIGITS
    assert np.array_equal(more[:, 9:24], digits[:, :15])
    assert np.array_equal(more[:, 24 + 8 * n + 12 :], digits[:, 15:])


def test_stock_kernel_must_give_equal_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fake lab has no kernels; a read of one of them takes longer."""
    ran: list[tuple[str, str]] = []
    longer: dict[str, float] = {}

    def replayed(context: Context, workload: str, policy: str, seed: int, kernel: str) -> Any:
        folder = tmp_path / f"{policy}{kernel}"
        folder.mkdir(exist_ok=True)
        ran.append((policy, kernel))
        latency_us = np.full(2000, 100.0)
        latency_us[7] += longer.get(policy, 0.0) if kernel else 0.0
        due_us = np.linspace(0, 1e6, 2000, endpoint=False)
        np.savez(folder / cells.READS, due_us=due_us, latency_us=latency_us)
        replay = cells.Replay(cells.Cell(workload, "enterprise", seed, 1.0, 1.0), policy)
        return cells.Replayed(replay, {"reads": 2000, "extra_io_ratio": 0.0}, folder)

    monkeypatch.setattr(stock, "_measured", replayed)
    monkeypatch.setattr(stock, "compiled", lambda folder: folder)
    monkeypatch.setattr(stock.guests, "on_kernel", lambda *given: nullcontext())
    study = replace(stock.EXPERIMENT, prepare=None)
    longer["liblinnos"] = 5.0
    table = study.run(_context(tmp_path, "stock", 1))
    assert table.places == [("az-e",)]
    (seed,) = table.seeds()
    different = [table.value(("az-e",), name, "n_different", seed) for name in stock.STOCK]
    assert different == [float(name == stock.MINE) for name in stock.STOCK]
    # The kernel with LinnOS comes first.
    assert [kernel for _, kernel in ran[: len(stock.PATCHED)]] == [""] * len(stock.PATCHED)
    longer["hedge"] = 5.0
    with pytest.raises(StepError, match="az-e: under hedge 1 reads have another latency"):
        study.run(_context(tmp_path, "stock", 1))
