# SPDX-License-Identifier: MIT
"""Experiments from workload to table, on a fake lab whose results are known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_up_lab
import pytest

from eval import cells, contenders, tuning
from eval.cache import Cache
from eval.experiment import Context, Experiment, Table
from eval.experiments import (
    claims,
    fig08,
    fig09,
    fig11,
    guarded,
    probing,
    replicated,
    traces,
    unseen,
    uscope,
)
from eval.experiments.traces import replays as of_traces
from eval.experiments.traces import runs as traces_runs
from eval.experiments.windows import EXPERIMENT as WINDOWS
from eval.experiments.windows import replays
from eval.work import StepError


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Context]:
    """Return the data of Fig. 8 with three seeds of one workload, and its context."""
    out = tmp_path_factory.mktemp("eval")
    with pytest.MonkeyPatch.context() as patch:
        made_up_lab.install(patch)
        patch.setitem(fig08.PARAMETERS, "workloads", ("bs-c",))
        context = Context("fig08", Cache(out / "cache"), 1, True, out / "fig08", n_seeds=3)
        data = json.loads(json.dumps(fig08.run(context)))
    (out / "fig08").mkdir()
    (out / "fig08" / "data.json").write_text(json.dumps(data))
    return data, context


def test_every_policy_reaches_its_known_latency(lab: tuple[dict[str, Any], Context]) -> None:
    (cell,) = lab[0]["cells"]
    assert (cell["workload"], cell["array"], cell["seeds"]) == ("bs-c", "consumer", 3)
    mean = {name: fields["mean_us"][0] for name, fields in cell["policies"].items()}
    assert mean["oracle"] < mean["linnos"] < mean["hedge"] < mean["baseline"]
    assert mean["oracle"] == pytest.approx(made_up_lab.FAST_US, rel=0.1)
    assert mean["linnos"] < made_up_lab.FAST_US * 1.1 + made_up_lab.FAILOVER_US
    assert set(mean) == {*contenders.NAMES, "learnt", "home, at random's load"}
    for name, fields in cell["policies"].items():
        value, low, high = fields["mean_us"]
        assert low <= value <= high, name
    assert cell["policies"]["hedge, 5% cap"]["extra_io_ratio"] == pytest.approx(0.05)


def test_black_box_bound_predicts_rotating_bursts(lab: tuple[dict[str, Any], Context]) -> None:
    (cell,) = lab[0]["cells"]
    mean = {name: fields["mean_us"][0] for name, fields in cell["policies"].items()}
    assert mean["oracle"] <= mean["learnt"] < mean["home, at random's load"]
    assert len(lab[0]["learnt"]) == 3
    assert all(0.2 < row["followed"] < 0.5 for row in lab[0]["learnt"])


def test_training_reads_and_tuned_options_are_recorded(lab: tuple[dict[str, Any], Context]) -> None:
    for row in lab[0]["prepared"]:
        assert row["training_reads"] == [900, 901, 902] and not row["enough"]
        tried = row["heuristic_adv"]["tried"]
        # Each queue limit, each latency limit at the best of them, and the default `heuristic`.
        assert len(tried) <= len(tuning.QUEUE_PERCENTS) + 1 + len(tuning.BUSY_PERCENTS) + 1
        plain = [t["options"] for t in tried if t["options"][2:] == [*tuning.NEVER_BUSY]]
        assert 1 <= len(plain) <= 2
        assert row["heuristic_adv"]["options"] in [t["options"] for t in tried]


def test_figures_tables_and_claims_are_made(
    lab: tuple[dict[str, Any], Context], tmp_path: Path
) -> None:
    data, context = lab
    summary = next(iter(fig08.table(data).values()))
    # Cloning costs only its extra I/O here, so no policy is faster.
    assert summary.rows[0][2] == "clone (100.00 %)"
    assert "`linnos` against the best rival of each cell: above: bs-c." in fig08.reading(data)
    learnt = fig08.table(data)["What the models and heuristic-adv learnt from"]
    assert learnt.rows[0][2] == "900, 901, 902 (fewer than 20000)"
    for module in (fig09, fig11):
        module.reading(made := module.run(context))
        assert module.table(made)
        module.draw(made, tmp_path / "figure.png")
    fig08.draw(data, tmp_path / "figure.png")
    assert fig08.EXPERIMENT.numbers is not None
    (kept,) = fig08.EXPERIMENT.numbers(data).values()
    assert kept["lowest"]["hedge"] == data["cells"][0]["below"]["lowest"]["hedge"]
    assert kept["verdict"]["hedge"] == data["cells"][0]["below"]["verdict"]["hedge"]
    assert fig09.EXPERIMENT.numbers is not None
    (tails,) = fig09.EXPERIMENT.numbers(fig09.run(context)).values()
    p95 = data["cells"][0]["tail_below"]["p95_us"]
    assert tails["p95_us"]["lowest-h95, 5% cap"]["hedge"] == p95["lowest-h95, 5% cap"]["hedge"]
    made = claims.run(context)
    judged = {row["claim"]: row["judged"] for row in made["claims"]}
    assert judged["mean of LinnOS+HL below hedging at p95"] != claims.UNKNOWN
    assert judged["inflection points, percentile"] == claims.UNKNOWN
    assert "Not run" in claims.reading(made)
    rows = next(iter(claims.table(made).values())).rows
    assert len(rows) == len(claims.CLAIMS)
    claims.draw(made, tmp_path / "claims.png")


def test_replicated_writes_are_compared_with_fig08(
    lab: tuple[dict[str, Any], Context], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, of_fig08 = lab
    made_up_lab.install(monkeypatch)
    monkeypatch.setitem(fig08.PARAMETERS, "workloads", ("bs-c",))
    options: list[bool] = []
    for what in ("record", "replay"):
        real = getattr(cells.guests, what)

        def noting(scenario: Any, *given: Any, real: Any = real, **more: Any) -> Any:
            options.append("--replicate-writes" in scenario.options)
            return real(scenario, *given, **more)

        monkeypatch.setattr(cells.guests, what, noting)
    context = replace(of_fig08, name="replicated", folder=of_fig08.folder.parent / "replicated")
    data = json.loads(json.dumps(replicated.run(context)))
    assert options and all(options)
    # The same reads and a third of the writes.
    ((before, *_), (after, *_)) = own["grid"], data["grid"]
    assert after["reads"] == before["reads"]
    assert after["writes"] == pytest.approx(before["writes"] / 3, rel=0.15)
    assert data["own_writes"]["where"] == "of the same run"
    ours = own["cells"][0]["below"]["lowest"]["baseline"]
    assert replicated.gains(data, data["cells"][0], "lowest")[0] == ours
    words = replicated.reading(data)
    assert "of the same run" in words and "Each write went to every drive" in words
    assert "Each drive had its own writes" in fig08.reading(own)
    beside = next(iter(replicated.table(data).values()))
    assert len(beside.rows) == 1 and len(beside.rows[0]) == len(beside.header)
    assert replicated.EXPERIMENT.numbers is not None and replicated.EXPERIMENT.numbers(data)
    replicated.draw(data, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
    # Without a run of Fig. 8 for comparison.
    alone = replace(context, folder=tmp_path / "replicated")
    assert replicated._own_writes(alone)["where"] == "not run"
    alone = replace(alone, development=False)
    assert set(replicated._own_writes(alone)["below_baseline"]) == set(cells.WORKLOADS)


def _trace(path: Path, n: int = 2000, *, writes_only: bool = False) -> Path:
    """Write a trace of 1000 I/Os per second, two thirds of them reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(
            f"{k}.000 0 {k % 50 * 8192} 4096 {int(k % 3 > 0 and not writes_only)}\n"
            for k in range(n)
        )
    )
    return path


def test_traces_are_compared_with_baseline_calm_and_with_bursts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up_lab.install(monkeypatch)
    # A trace of 1000 I/Os per second is replayed at this, the double and the fourfold rate.
    _trace(tmp_path / "brought" / "mine.trace")
    monkeypatch.setattr(traces_runs, "GIVEN", (tmp_path / "brought",))
    told: list[tuple[str, bool]] = []
    replay = cells.guests.replay

    def replaying(scenario: Any, policy: str, folder: Path, **more: Any) -> dict[str, Any]:
        on_md = scenario.array.devices == ["/dev/md0"]
        prepare = more.get("prepare", "")
        # md hides the drives from the replayer, so the guest slows them.
        bursts = "window_turn_mask" in prepare if on_md else scenario.inject is not None
        assert not (on_md and scenario.inject)
        assert ("--replicate-writes" in scenario.options) != on_md
        state = prepare.split(">/sys/block/md0/md/linnos")[0].split()[-1] if on_md else ""
        told.append((f"md, {state}" if on_md else policy, bursts))
        made = replay(scenario, policy, folder, **more)
        return {**made, "mean_us": made["mean_us"] * (1.2 if state == "on" else 1)}

    monkeypatch.setattr(cells.guests, "replay", replaying)
    context = Context("traces", Cache(tmp_path / "cache"), 1, True, tmp_path / "o", n_seeds=1)
    data = json.loads(json.dumps(traces.EXPERIMENT.run(context)))
    expected = [
        *(row.policy for row in of_traces.ROWS), of_traces.UNGUARDED,
        of_traces.GUARDED, of_traces.OFF, of_traces.ON, of_traces.MD_UNGUARDED,
    ]  # fmt: skip
    told_as = {of_traces.UNGUARDED: "lowest", of_traces.GUARDED: "linnos"}
    assert sorted(told) == sorted(
        (told_as.get(what, what).removesuffix(", 5% cap"), bursts)
        for what in expected for bursts in (False, True) for _ in range(3)
    )  # fmt: skip
    tables = traces.EXPERIMENT.table(data)
    assert all(len(row) == len(table.header) for table in tables.values() for row in table.rows)
    first, *_ = tables.values()
    assert [row[:3] for row in first.rows] == [
        ("mine.trace", iops, slowness)
        for iops in ("1001", "2000", "4000")
        for slowness in (of_traces.CALM, of_traces.BURSTS)
    ]
    assert {row[-1] for row in first.rows} == {"(+20.0)"}
    (learnt, *_) = tables["Reads that the models of each drive learnt from"].rows
    assert learnt[2] == "900, 901 (no trees), 902 (no trees)"
    assert "6 runs of 1 traces" in traces.EXPERIMENT.reading(data)
    counted = {row[0]: row[1:3] for row in _counted(data).rows}
    assert counted["md raid1, `on` against `off`"] == ("6", "6 by over 1%")
    assert counted["`linnos` against doing nothing"] == ("6", "0 by over 1%")
    traces.EXPERIMENT.draw(data, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
    assert traces.EXPERIMENT.numbers is not None
    assert len(traces.EXPERIMENT.numbers(data)) == 6 * len(expected)
    # Results from before an alternative existed are still described and drawn.
    for gone in ("hedge, 5% cap", "prequal", of_traces.ON):
        data["runs"] = [run for run in data["runs"] if run["policy"] != gone]
        first, *_ = traces.EXPERIMENT.table(data).values()
    assert {row[first.header.index("hedge, 5% cap")] for row in first.rows} == {"-"}
    assert not any("md raid1" in row[0] for row in _counted(data).rows)
    traces.EXPERIMENT.draw(data, tmp_path / "older.png")


def _counted(data: dict[str, Any]) -> Table:
    return traces.EXPERIMENT.table(data)["Counts, by the mean unless p99 is said"]


def test_unusable_trace_is_named_and_the_others_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up_lab.install(monkeypatch)
    brought = tmp_path / "brought"
    _trace(brought / "a-writes.trace", writes_only=True)
    _trace(brought / "b-mine.trace")
    _trace(brought / "c-short.trace", 60)
    damaged = _trace(brought / "d-damaged.trace")
    damaged.write_text(damaged.read_text() + "and then nothing\n")
    monkeypatch.setattr(traces_runs, "GIVEN", (brought,))
    monkeypatch.setattr(traces_runs, "ROWS", of_traces.ROWS[:1])
    monkeypatch.setattr(traces_runs, "RATES", (1.0,))
    context = Context("traces", Cache(tmp_path / "cache"), 1, True, tmp_path / "o", n_seeds=1)
    data = json.loads(json.dumps(traces.EXPERIMENT.run(context)))
    assert {run["trace"] for run in data["runs"]} == {"b-mine.trace"}
    why = {row["trace"]: row["why"] for row in data["left_out"]}
    assert why["a-writes.trace"] == "no reads"
    assert why["c-short.trace, 2000/s"] == "20 reads in its first half, 300 are needed"
    assert why["d-damaged.trace"].startswith("d-damaged.trace:2001: 'and then nothing'")
    assert "a-writes.trace: left out: no reads" in capsys.readouterr().out
    assert len(traces.EXPERIMENT.table(data)["Left out"].rows) == 3
    (brought / "b-mine.trace").unlink()
    with pytest.raises(StepError, match=r"a-writes\.trace: no reads; .*c-short"):
        traces.EXPERIMENT.run(context)


@pytest.mark.parametrize("name", ["unseen", "uscope", "windows"])
def test_injected_experiments_are_replayed_compared_and_drawn(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up_lab.install(monkeypatch)
    for module in (unseen, uscope):
        monkeypatch.setattr(module, "REPLAYED_S", {"az-e": 0.4, "az-c": 0.4})
    monkeypatch.setitem(replays.PARAMETERS, "windows", 3)
    monkeypatch.setitem(replays.PARAMETERS, "workloads", ("bs-c",))
    experiment: Experiment = {
        "unseen": unseen.EXPERIMENT, "uscope": uscope.EXPERIMENT, "windows": WINDOWS
    }[name]  # fmt: skip
    context = Context(name, Cache(tmp_path / "cache"), 1, True, tmp_path, n_seeds=1)
    data = json.loads(json.dumps(experiment.run(context)))
    words = experiment.reading(data)
    assert "Data and I/O errors" in words
    assert any(table.rows for table in experiment.table(data).values())
    experiment.draw(data, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
    if experiment.numbers is not None:
        kept = experiment.numbers(data)
        assert len(kept) == len(data["windows" if name == "windows" else "rows"])
        assert all(pair["below"] for row in kept for pair in row["compared"])
        pairs = {(pair["policy"], pair["reference"]) for pair in kept[0]["compared"]}
        assert {("linnos", "shortest-queue"), ("lowest", "linnos"), ("lowest", "clone")} <= pairs
    if name == "unseen":
        assert {row["seen"] for row in data["rows"]} == {True, False}
    if name == "uscope":
        # Results of a time before the policy `prequal` existed.
        older = {**data, "points": [row for row in data["points"] if row["policy"] != "prequal"]}
        before, after = (next(iter(uscope.table(what).values())) for what in (older, data))
        assert before.header == tuple(name for name in after.header if name != "prequal")
        assert {len(row) for row in before.rows} == {len(before.header)}
        uscope.draw(older, tmp_path / "older.png")


def test_guarded_policies_are_compared_with_unguarded_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up_lab.install(monkeypatch)
    monkeypatch.setitem(guarded.PARAMETERS, "workloads", ("bs-c",))
    options: dict[str, list[tuple[str, ...]]] = {}
    replay = cells.guests.replay

    def replaying(scenario: Any, policy: str, *given: Any, **more: Any) -> dict[str, Any]:
        options.setdefault(policy, []).append(scenario.options)
        return replay(scenario, policy, *given, **more)

    monkeypatch.setattr(cells.guests, "replay", replaying)
    context = Context("guarded", Cache(tmp_path / "cache"), 1, True, tmp_path, n_seeds=1)
    data = json.loads(json.dumps(guarded.run(context)))
    assert ["--guarded" in given for given in options["linnos"]].count(True) == 1
    assert ["--unguarded" in given for given in options["lowest"]].count(True) == 1
    (cell,) = data["cells"]
    assert set(cell["policies"]) == set(guarded.PARAMETERS["contenders"])
    assert len(guarded.table(data)) == len(guarded.WITHOUT)
    assert "`linnos, guarded` against linnos" in guarded.reading(data)
    guarded.draw(data, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
    monkeypatch.setattr(guarded, "RESULTS", tmp_path)
    (tmp_path / "guarded.json").write_text(json.dumps({"numbers": guarded.numbers(data)}))
    (tables,) = guarded.pages().values()
    assert len(tables) == len(guarded.WITHOUT)
    # Lower values there are higher ones here.
    (row,), below = tables[2].rows, cell["below"]
    for told, (one, other) in zip(
        row[1:],
        (
            ("lowest, unguarded", "baseline"),
            ("lowest", "baseline"),
            ("lowest", "lowest, unguarded"),
        ),
        strict=False,
    ):
        above = float(told.replace("*", "").split()[0])
        assert above == round(-100 * below[one][other][0], 1)
    assert row[0] == "`bs-c`" and len(row) == len(tables[2].header)


def test_significant_loss_is_bold() -> None:
    assert guarded._above([-0.1, -0.2, -0.05]) == "**+10.0** [+5.0, +20.0]"
    assert guarded._above([0.1, 0.05, 0.2]) == "-10.0 [-20.0, -5.0]"
    assert guarded._above([0.0, -0.1, 0.1]) == "0.0 [-10.0, +10.0]"
    assert guarded._above(None) == "-"


@pytest.mark.parametrize("development", [True, False])
def test_variants_are_replayed_with_their_settings(
    development: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up_lab.install(monkeypatch)
    monkeypatch.setitem(probing.PARAMETERS, "workloads", ("bs-c",))
    told: list[tuple[str, str]] = []
    trained: list[tuple[str, ...]] = []
    replay, train = cells.guests.replay, cells.workers.train

    def replaying(scenario: Any, policy: str, *given: Any, **options: Any) -> dict[str, Any]:
        told.append((policy, options["prepare"]))
        return replay(scenario, policy, *given, **options)

    def training(traces: Any, folder: Path, log: Path, *options: str) -> list[Path]:
        trained.append(options)
        return train(traces, folder, log, *options)

    monkeypatch.setattr(cells.guests, "replay", replaying)
    monkeypatch.setattr(cells.workers, "train", training)
    context = Context("probing", Cache(tmp_path / "cache"), 1, development, tmp_path, n_seeds=1)
    data = json.loads(json.dumps(probing.run(context)))
    variants = probing.TRIED if development else probing.CHOSEN
    (cell,) = data["cells"]
    assert set(cell["policies"]) == {*probing.OTHERS, *(v.name for v in variants)}
    assert len({v.name for v in variants}) == len(variants)
    for variant in variants:
        said = [what for policy, what in told if policy == variant.of.split(",")[0] and what]
        assert any(
            f"echo {variant.after_us} >$drive/linnos/probe_after_us;" in what
            and f"echo {variant.after_revokes} >$drive/linnos/probe_after_revokes;" in what
            for what in said
        ), variant
    assert [what for policy, what in told if policy == "linnos"].count("") == 1
    repaired = [set(probing.REPAIRED) <= set(options) for options in trained]
    assert any(repaired) == development and not all(repaired)
    assert all(table.rows for table in probing.table(data).values())
    assert "best rival here" in probing.reading(data)
    probing.draw(data, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
