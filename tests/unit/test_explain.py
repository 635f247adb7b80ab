# SPDX-License-Identifier: MIT
"""`linnapp explain` on recordings and printed trace events, and its refusals."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from blktrace_builder import EBUSY, C, Q, TraceBuilder
from fake_sysfs import make_tree
from test_cli import fails, run
from test_eval_bursts import EVENT, HEAD
from test_model_format import random_model

from linnapp.cli import cli
from linnapp.errors import LinnappError, TraceError
from linnapp.insight.explain import Choice, Selection, View, from_events, typical_inputs
from linnapp.insight.explain import explain as explained
from linnapp.learn.examples import digits
from linnapp.model import Model, engine, load_model
from linnapp.model.file import N_FEATURES, N_FEATURES_MIN
from linnapp.trace import decisions
from linnapp.trace.blktrace import BlktraceReader

DEV = 251 << 20
ISSUE = "  w-1 [000] ..... {:.6f}: block_rq_issue: 251,{} {} 4096 () {} + {} be,0,4 [a b]\n"
COMPLETE = "  w-1 [000] ..... {:.6f}: block_rq_complete: 251,{} R () {} + {} be,0,4 [{}]\n"


Explain = Callable[..., Any]


@pytest.fixture
def explain(capsys: pytest.CaptureFixture[str]) -> Explain:
    """Run the command in this process; return its JSON, or a list of lines."""

    def explain(*arguments: object, as_json: bool = True) -> Any:
        words = ["explain", *map(str, arguments), *(["--json"] if as_json else [])]
        cli.main(words, standalone_mode=False)
        text = capsys.readouterr().out
        return json.loads(text) if as_json else text.splitlines()

    return explain


def decision(
    time: float, sector: int, n_sectors: int = 8, *, minor: int = 0, revoked: int = 0, **kw: Any
) -> str:
    values = {"pending": 7, "fast": 5, "slow": -9, "reason": "fast", **kw}
    line = EVENT.format(time=time, minor=minor, sector=sector, revoked=revoked, **values)
    return line.replace("nr_sector=8", f"nr_sector={n_sectors}")


def answers(*lines: str) -> list[tuple[int, bool]]:
    text = "".join(lines).encode()
    table = decisions.parse_decisions(text)
    decisions.add_answers(text, table)
    return [(int(row["latency_us"]), bool(row["failed"])) for row in table]


def test_answers_are_found_by_sector_and_drive() -> None:
    assert answers(
        decision(1.0, 16),
        decision(1.0, 16, minor=1),
        decision(1.000001, 64),
        decision(1.000002, 800, revoked=1, fast=-9, slow=5, reason="slow"),
        ISSUE.format(1.00001, 0, "R", 16, 8),
        ISSUE.format(1.00002, 0, "RA", 64, 8),
        ISSUE.format(1.00003, 1, "R", 16, 8),
        ISSUE.format(1.00003, 0, "R", 800, 8),  # of another process
        ISSUE.format(1.00003, 1, "WS", 16, 8),
        COMPLETE.format(1.00011, 0, 16, 8, 0),
        COMPLETE.format(1.00523, 1, 16, 8, 0),
        COMPLETE.format(1.0006, 0, 800, 8, 0),
        COMPLETE.format(1.0007, 0, 64, 8, -5),
    ) == [(100, False), (5200, False), (680, True), (-1, False)]


def test_answers_of_reads_that_were_merged_split_or_repeated() -> None:
    assert answers(
        decision(1.0, 0),
        decision(1.0, 8),
        ISSUE.format(1.0001, 0, "R", 0, 16),
        COMPLETE.format(1.0002, 0, 0, 8, 0),
        COMPLETE.format(1.0003, 0, 8, 8, 0),
    ) == [(100, False), (200, False)]
    assert answers(
        decision(1.0, 0, 16),
        ISSUE.format(1.0001, 0, "R", 0, 8),
        ISSUE.format(1.0002, 0, "R", 8, 8),
        COMPLETE.format(1.0009, 0, 8, 8, 0),
        COMPLETE.format(1.0010, 0, 0, 8, 0),
    ) == [(900, False)]
    # The same block twice, and a third read that is still in the drive.
    assert answers(
        decision(1.0, 0),
        decision(1.0, 0),
        decision(1.0, 0),
        ISSUE.format(1.0001, 0, "R", 0, 8),
        ISSUE.format(1.0002, 0, "R", 0, 8),
        COMPLETE.format(1.0003, 0, 0, 8, 0),
        COMPLETE.format(1.0005, 0, 0, 8, 0),
    ) == [(200, False), (300, False), (-1, False)]


def test_events_as_trace_cmd_and_older_kernels_print_them() -> None:
    padded = [
        line.replace("decision: ", "decision:      ").replace("issue: ", "issue:        ")
        for line in (decision(1.0, 16), ISSUE.format(1.00001, 0, "R", 16, 8))
    ]
    assert answers(*padded, COMPLETE.format(1.00011, 0, 16, 8, 0)) == [(100, False)]
    # Before Linux 6.11 there was no I/O priority.
    older = [
        line.replace(" be,0,4", "")
        for line in (ISSUE.format(1.00001, 0, "R", 16, 8), COMPLETE.format(1.00011, 0, 16, 8, 0))
    ]
    assert answers(decision(1.0, 16), *older) == [(100, False)]


def test_lost_events_are_counted() -> None:
    assert decisions.lost_events(HEAD.format(3, 5).encode()) == 2
    assert decisions.lost_events(b"") == 0


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Record reads of 100 us, 30 simultaneous reads of 3 to 4 ms, and a revoked one."""
    t = TraceBuilder()
    for i in range(200):
        t.io(i * 200, i * 200 + 100, 8 * i)
    for i in range(30):
        t.io(50_000 + i, 53_000 + 40 * i, 8 * (300 + i))
    t.add(Q, 60_000, 4000).add(C, 60_001, 4000, error=EBUSY)
    return t.sort().write(tmp_path / "az.blk")


def test_a_recording_explained(explain: Explain, recorded: Path, queue_model: Path) -> None:
    shown = explain("--trace", recorded, "--model", queue_model, "--last", 4)
    assert shown["decisions_seen"] == 231
    usual = shown["usual"]
    assert usual["numbers"]["pending"] == 1
    assert usual["numbers"]["hist_latency_us"] == [100] * 4
    model = Model.load(queue_model)
    (chunk,) = BlktraceReader(recorded)
    reads = chunk.take(slice(-4, None))
    outputs = engine.infer(
        model, digits(reads.pending, reads.hist_pending, reads.hist_latency_us), "c"
    )
    for each, (fast, slow) in zip(shown["decisions"], outputs.tolist(), strict=True):
        assert (each["out_fast"], each["out_slow"]) == (fast, slow)
    burst, revoked = shown["decisions"][-2:]
    assert burst["predicted"] == "slow"
    assert burst["saw"]["pending"] == 30
    assert burst["would_turn"]["pending"] == 12  # slow above 12
    margin = burst["out_slow"] - burst["out_fast"]
    assert burst["mattered"]["pending"] == margin - (usual["out_slow"] - usual["out_fast"])
    assert burst["mattered"]["hist_latency_us"] == [0] * 4
    assert burst["would_turn"]["hist_latency_us"] == [None] * 4
    assert burst["latency_us"] == 4131
    assert burst["outcome"] == "predicted slow and admitted; took 4131 us, slow: correct"
    assert revoked["revoked"] and revoked["latency_us"] is None
    assert "revoked; its latency on this drive is unknown" in revoked["outcome"]
    assert revoked["would_turn"]["pending"] == 13


def test_slow_ones_come_slowest_first(explain: Explain, recorded: Path, queue_model: Path) -> None:
    slow = explain("--trace", recorded, "--model", queue_model, "--slow", "--last", 2)["decisions"]
    assert [each["latency_us"] for each in slow] == [4131, 4092]
    few = explain("--events", _one_slow(recorded), "--model", queue_model, "--slow")["decisions"]
    assert [each["outcome"] for each in few] == [
        "admitted; took 3000 us, slow: a slow read admitted"
    ]


def _one_slow(neighbour: Path) -> Path:
    path = neighbour.with_name("events.txt")
    few = {"fast": 12_000, "slow": 7_000}
    path.write_text(
        decision(1.0, 16, **few)
        + ISSUE.format(1.001, 0, "R", 16, 8)
        + COMPLETE.format(1.004, 0, 16, 8, 0)
        + decision(2.0, 16, **few)
        + ISSUE.format(2.0, 0, "R", 16, 8)
        + COMPLETE.format(2.0002, 0, 16, 8, 0)  # no longer than the model's point
    )
    return path


def test_explain_prints_decisions_as_text(recorded: Path, queue_model: Path) -> None:
    ran = run("explain", "--trace", recorded, "--model", queue_model, "--slow", "--last", 1)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        f"az.blk: model {Model.load(queue_model).model_id}, slow above 200 us; 1 of 231 decisions",
        "note: recordings do not show which reads were latency-critical; all reads are "
        "treated as such",
        "typical is the medians of 213 reads predicted fast: 1 page pending; last reads "
        "100 us at 1, 100 us at 1, 100 us at 1, 100 us at 1; margin -11,000",
        "",
        "0.050029 s, read of 4 KiB at sector 2632",
        "  saw       30 pages pending; last reads 100 us at 1, 100 us at 1, 100 us at 1, "
        "100 us at 1",
        "  said      fast 12,000, slow 30,000: margin +18,000, slow",
        "  happened  predicted slow and admitted; took 4131 us, slow: correct",
        "  mattered  +29,000  pages pending now 30, not 1",
        "  fast with pages pending now 12, not 30",
    ]


def events(*lines: str) -> str:
    return HEAD.format(9, 9) + "".join(lines)


def test_printed_events_explained(explain: Explain, tmp_path: Path, queue_model: Path) -> None:
    path = tmp_path / "events.txt"
    told = {"fast": 12_000, "slow": 13_000, "pending": 13}
    few = {"fast": 12_000, "slow": 7_000}
    path.write_text(
        events(
            decision(1.0, 16, **few),
            ISSUE.format(1.00001, 0, "R", 16, 8),
            decision(1.1, 8, revoked=1, reason="slow", **told),
            decision(1.2, 8, reason="probe", **told),
            ISSUE.format(1.20001, 0, "R", 8, 8),
            decision(1.35, 40, reason="slow", **told),
            ISSUE.format(1.35001, 0, "R", 40, 8),
            decision(1.4, 24, reason="no-model", fast=0, slow=0),
            decision(1.5, 24, fast=1, slow=2),
            decision(1.6, 24, **few),
            COMPLETE.format(2.5, 0, 16, 8, 0),
            COMPLETE.format(1.2001, 0, 8, 8, 0),
            COMPLETE.format(1.36001, 0, 40, 8, 0),
        )
    )
    arguments = ("--events", path, "--model", queue_model)
    shown = explain(*arguments)
    assert shown["notes"] == [
        "1 decisions without a model left out",
        "1 decisions of another model left out",
        "1 reads without a recorded completion left out",
    ]
    assert [each["outcome"] for each in shown["decisions"]] == [
        "admitted; took 1499990 us, slow: a slow read admitted",
        "revoked; its latency on this drive is unknown",
        "admitted as a probe; took 90 us, fast: refusing it would have been a false revoke",
        "predicted slow and admitted; took 10000 us, slow: correct",
    ]
    with path.open("a") as more:
        more.write(decision(3.0, 8, minor=1, **few))
    with pytest.raises(LinnappError, match=r"several drives \(251:0, 251:1\); choose .* `device=`"):
        explain(*arguments)
    (other,) = explain(*arguments, "--dev", "251:1")["decisions"]
    assert other["time_us"] == 3_000_000
    path.write_text(events(decision(1.5, 24, fast=1, slow=2)))
    with pytest.raises(LinnappError, match="no decision was made by model"):
        explain(*arguments)
    path.write_text("nothing\n")
    with pytest.raises(
        LinnappError, match="contains no decision; decisions are made only for reads with the hint"
    ):
        explain(*arguments)


def test_typical_inputs_are_empty_without_fast_reads(
    explain: Explain, tmp_path: Path, queue_model: Path
) -> None:
    path = tmp_path / "events.txt"
    told = {"fast": 12_000, "slow": 13_000, "pending": 13}
    path.write_text(events(decision(1.1, 8, revoked=1, reason="slow", **told)))
    shown = explain("--events", path, "--model", queue_model)
    assert shown["usual"]["name"] == "an empty history"
    assert shown["usual"]["numbers"]["hist_latency_us"] == [0] * 4


def test_explain_refuses_invalid_sources(
    explain: Explain, tmp_path: Path, queue_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails("give exactly one of DEV, --trace FILE and --events FILE", "explain")
    for message, *arguments in (
        ("need --model", "--trace", tmp_path / "x"),
        ("omit it with DEV", "sda", "--dev", "8:0"),
    ):
        with pytest.raises(click.UsageError, match=message):
            explain(*arguments)
    with pytest.raises(FileNotFoundError):
        explain("--events", tmp_path / "x", "--model", queue_model)
    tree = make_tree(tmp_path, monkeypatch)
    with pytest.raises(LinnappError, match="sda: mode observe, no model: .*`linnapp upload"):
        explain("sda")
    (tree / "model").write_bytes(queue_model.read_bytes())
    (tree.parent / "dev").write_text("8:0\n")
    with pytest.raises(LinnappError, match="tracefs is not mounted"):
        explain("sda")
    (tmp_path / "kernel" / "tracing" / "events").mkdir(parents=True)
    with pytest.raises(LinnappError, match="linnos_decision is missing: this kernel has no such"):
        explain("sda")


def test_features_of_a_latency_model_are_read_from_the_event() -> None:
    seen = ",".join(f"{n:#x}" for n in range(N_FEATURES))
    text = decision(1.0, 16)
    text += decision(2.0, 16, fast=300, slow=512).rstrip("\n") + f" features={{{seen}}}\n"
    text += decision(3.0, 16)
    table = decisions.parse_decisions(text.encode())
    assert table["of_latency"].tolist() == [False, True, False]
    assert table["features"][1].tolist() == list(range(N_FEATURES))
    assert not table["features"][[0, 2]].any()
    assert (table["out_fast"][1], table["out_slow"][1]) == (300, 512)


def test_features_of_an_older_kernel_are_fewer() -> None:
    text = ""
    for n in (N_FEATURES_MIN - 1, N_FEATURES_MIN, N_FEATURES, N_FEATURES + 1):
        seen = ",".join(f"{k + 1:#x}" for k in range(n))
        text += decision(1.0, 16).rstrip("\n") + f" features={{{seen}}}\n"
    table = decisions.parse_decisions(text.encode())
    assert table["of_latency"].tolist() == [False, True, True, False]
    assert table["features"][1].tolist() == [*range(1, N_FEATURES_MIN + 1), 0]
    assert table["features"][2].tolist() == list(range(1, N_FEATURES + 1))


BIG = "9" * 30


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sector=16", f"sector={BIG}"),
        ("dev=251:0", f"dev={BIG}:0"),
        ("dev=251:0", "dev=4096:0"),
        ("reason=fast", "reason=blue"),
        ("\n", f" features={{{'0x1,' * (N_FEATURES - 1)}0xz}}\n"),
        ("\n", f"\n  a-1 [0] 2.000001: block_rq_complete: 8,0 R () 16 + {BIG} none,0,0 [x]\n"),
    ],
)
def test_an_event_that_is_damaged_is_an_error(queue_model: Path, old: str, new: str) -> None:
    text = decision(1.5, 16)
    assert old in text
    model = load_model(queue_model)
    with pytest.raises(
        TraceError, match=r"^events.txt: an event is damaged or from an unsupported kernel"
    ):
        from_events(text.replace(old, new, 1).encode(), model, Choice(1, False), "events.txt")


def test_events_and_recordings_agree_on_the_numbers(queue_model: Path) -> None:
    table = decisions.parse_decisions(decision(1.5, 16, 24, pending=9).encode())
    (row,) = table
    assert (row["time_us"], row["device"], row["sector"], row["n_sectors"]) == (
        *(1_500_000, DEV, 16, 24),
    )
    np.testing.assert_array_equal(row["hist_pending"], [1, 2, 3, 4])
    np.testing.assert_array_equal(row["hist_latency_us"], [100, 90, 3000, 80])


#: The largest value that the digits of each number can represent.
LIMITS = [999] * 5 + [9999] * 4


def outputs(model: Model, rows: np.ndarray) -> np.ndarray:
    """Compute outputs with NumPy, independently of the tested code."""
    return engine.infer(model, digits(rows[:, 4], rows[:, :4], rows[:, 5:]), "numpy")


@pytest.mark.parametrize("seed", range(2))
def test_the_nearest_change_is_the_nearest_and_what_mattered_is_a_difference(seed: int) -> None:
    model = random_model(seed)
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, np.array(LIMITS) + 1, (400, 9)).astype(np.uint32)
    # both predictions are possible for the middle one
    middle = np.median(np.subtract(*outputs(model, rows).T)).astype(np.int64)
    model = dataclasses.replace(model, output_bias=model.output_bias + np.array([0, middle]))
    margins = np.diff(outputs(model, rows))[:, 0]
    x = rows[np.abs(margins).argmin()]  # one that a change can reverse
    table = np.zeros(2, decisions.DECISION)
    table["n_sectors"] = 24
    usual_row = rows[margins.argmin()]  # the only one that is predicted fast
    for row, numbers in zip(table, (usual_row, x), strict=True):
        row["pending"], row["hist_pending"] = max(3, numbers[4]), numbers[:4]
        row["hist_latency_us"] = numbers[5:]
        numbers[4] = row["pending"]
    table["out_fast"], table["out_slow"] = outputs(model, np.array([usual_row, x])).T
    view = View(model)
    selection = Selection("az", view, table[1:], table[:1], 2, [])
    usual = typical_inputs(selection)
    assert usual.numbers == usual_row.tolist()
    (found,) = explained(selection, usual)
    assert any(value is not None for value in found.turns)

    def verdicts(i: int, values: range) -> set[bool]:
        rows = np.array([[*x[:i], value, *x[i + 1 :]] for value in values], np.uint32)
        out = outputs(model, rows.reshape(-1, 9))
        return set((out[:, 1] > out[:, 0]).tolist())

    for i, value in enumerate(found.turns):
        low, now = 3 if i == 4 else 0, int(x[i])
        away = LIMITS[i] + 1 if value is None else abs(value - now)
        near = range(max(low, now - away + 1), min(LIMITS[i] + 1, now + away))
        assert verdicts(i, near) == {found.slow}
        if value is not None:
            assert value >= low and verdicts(i, range(value, value + 1)) == {not found.slow}
        without = np.array([[*x[:i], usual_row[i], *x[i + 1 :]], x], np.uint32)
        (before,), (after,) = np.diff(outputs(model, without)).tolist()
        assert found.matters[i] == after - before
