# SPDX-License-Identifier: MIT
"""`linnapp explain` on recordings and printed trace events, and its refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import pytest
from blktrace_builder import EBUSY, C, Q, TraceBuilder
from fake_sysfs import make_tree
from test_cli import fails, run
from test_engines_agree import one_by_one
from trees_by_hand import last_read, random_features, random_trees

from linnapp import engine
from linnapp.cli import cli
from linnapp.engine import digits, predict_us
from linnapp.errors import LinnappError, TraceError
from linnapp.insight.explain import Choice, Selection, View, from_events, typical_inputs
from linnapp.insight.explain import explain as explained
from linnapp.model import (
    CAP,
    FEATURES,
    N_FEATURES,
    N_FEATURES_MIN,
    NEVER,
    LatencyModel,
    Model,
    load_model,
)
from linnapp.trace import decisions
from linnapp.trace.blktrace import BlktraceReader

#: The head of the kernel's trace file, and the event of a decision by a network.
HEAD = "# tracer: nop\n#\n# entries-in-buffer/entries-written: {0}/{1}   #P:1\n#\n"
EVENT = (
    "        replayer-51      [000] .....     {time:.6f}: linnos_decision: dev=251:{minor} "
    "sector={sector} nr_sector=8 pending={pending} hist_pending=1,2,3,4 "
    "hist_latency_us=100,90,3000,80 out_fast={fast} out_slow={slow} revoked={revoked} "
    "reason={reason}\n"
)

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


def test_explain_shows_inputs_outputs_and_outcomes_of_a_recording(
    explain: Explain, recorded: Path, queue_model: Path
) -> None:
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
    margin = burst["out_slow"] - burst["out_fast"]
    assert burst["mattered"]["pending"] == margin - (usual["out_slow"] - usual["out_fast"])
    assert burst["mattered"]["hist_latency_us"] == [0] * 4
    assert burst["latency_us"] == 4131
    assert burst["outcome"] == "predicted slow and admitted; took 4131 us, slow: correct"
    assert revoked["revoked"] and revoked["latency_us"] is None
    assert "revoked; its latency on this drive is unknown" in revoked["outcome"]


def test_explain_slow_lists_the_slowest_reads_first(
    explain: Explain, recorded: Path, queue_model: Path
) -> None:
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


def events(*lines: str) -> str:
    return HEAD.format(9, 9) + "".join(lines)


def test_explain_shows_the_outcome_of_each_printed_event(
    explain: Explain, tmp_path: Path, queue_model: Path
) -> None:
    path = tmp_path / "events.txt"
    fields = {"fast": 12_000, "slow": 13_000, "pending": 13}
    few = {"fast": 12_000, "slow": 7_000}
    path.write_text(
        events(
            decision(1.0, 16, **few),
            ISSUE.format(1.00001, 0, "R", 16, 8),
            decision(1.1, 8, revoked=1, reason="slow", **fields),
            decision(1.2, 8, reason="probe", **fields),
            ISSUE.format(1.20001, 0, "R", 8, 8),
            decision(1.35, 40, reason="slow", **fields),
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
    path.write_text(events(decision(1.1, 8, revoked=1, reason="slow", **fields)))
    usual = explain(*arguments)["usual"]  # no read was fast
    assert usual["name"] == "an empty history" and usual["numbers"]["hist_latency_us"] == [0] * 4
    path.write_text(events(decision(1.5, 24, fast=1, slow=2)))
    with pytest.raises(LinnappError, match="no decision was made by model"):
        explain(*arguments)
    path.write_text("nothing\n")
    with pytest.raises(
        LinnappError, match="contains no decision; decisions are made only for reads with the hint"
    ):
        explain(*arguments)


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


@pytest.mark.parametrize("n", [N_FEATURES_MIN - 1, N_FEATURES_MIN, N_FEATURES, N_FEATURES + 1])
def test_features_of_a_latency_model_are_read_from_the_event(n: int) -> None:
    """An older kernel has fewer features."""
    seen = ",".join(f"{k + 1:#x}" for k in range(n))
    event = decision(2.0, 16, fast=300, slow=512).rstrip("\n") + f" features={{{seen}}}\n"
    table = decisions.parse_decisions((decision(1.0, 16) + event + decision(3.0, 16)).encode())
    known = N_FEATURES_MIN <= n <= N_FEATURES
    assert table["of_latency"].tolist() == [False, known, False]
    assert (table["out_fast"][1], table["out_slow"][1]) == (300, 512)
    if known:
        expected = [*range(1, n + 1), *[0] * (N_FEATURES - n)]
        assert table["features"].tolist() == [[0] * N_FEATURES, expected, [0] * N_FEATURES]


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


def selection_at(model: LatencyModel, rows: npt.NDArray[np.uint32]) -> Selection:
    """Return reads with these features, the last of which is to be explained."""
    table = np.zeros(len(rows), decisions.DECISION)
    table["of_latency"], table["features"] = True, rows
    table["out_fast"], table["out_slow"] = model.refuse_us, predict_us(model, rows)
    return Selection("az", View(model), table[-1:], table, len(table), [])


@pytest.mark.parametrize("seed", range(3))
def test_importance_equals_the_output_change_of_the_engine(seed: int) -> None:
    model = random_trees(seed, overdue_us=CAP, refuse_us=2000)
    selection = selection_at(model, random_features(40, seed + 53))
    usual = typical_inputs(selection)
    (found,) = explained(selection, usual)
    us = one_by_one(model, found.numbers)
    for i, matters in enumerate(found.matters):
        without = [*found.numbers[:i], usual.numbers[i], *found.numbers[i + 1 :]]
        assert matters == us - one_by_one(model, without)
    assert sum(part != 0 for part in found.matters) > 5


def test_decisions_of_a_latency_model_are_explained(
    explain: Explain, recorded: Path, tmp_path: Path
) -> None:
    random_trees(1, threshold_us=200, overdue_us=CAP).save(tmp_path / "trees.linnos")
    arguments = ("--trace", recorded, "--model", tmp_path / "trees.linnos")
    shown = explain(*arguments, "--last", 3)
    assert shown["decisions_seen"] == 230  # not the one that was revoked
    model = random_trees(1, threshold_us=200, overdue_us=CAP)
    for each in shown["decisions"]:
        assert each["out_slow"] == one_by_one(model, list(each["saw"].values()))
        assert each["out_fast"] == model.refuse_us
        assert set(each["saw"]) == set(each["mattered"]) == set(FEATURES)
    assert shown["decisions"][-1]["saw"]["reads_in_flight"] == 29
    slowest = explain(*arguments, "--slow", "--last", 1)["decisions"]
    assert [each["latency_us"] for each in slowest] == [4131]
    never = random_trees(1, threshold_us=200, overdue_us=CAP, refuse_us=NEVER)
    never.save(tmp_path / "never.linnos")
    words = "\n".join(explain(*arguments[:-1], tmp_path / "never.linnos", as_json=False))
    assert "slow above 200 us, refuses nothing;" in words and "4294967295" not in words
    # Nothing was predicted fast or slow, so no decision is right or wrong.
    assert not re.search("correct|a slow read admitted", words)
    with pytest.raises(LinnappError, match="no decision was made by model"):
        (tmp_path / "events.txt").write_text(decision(1.0, 8))
        explain("--events", tmp_path / "events.txt", "--model", tmp_path / "trees.linnos")


def test_the_kernels_decisions_are_explained_from_their_features(
    explain: Explain, tmp_path: Path
) -> None:
    model = random_trees(5, refuse_us=300)
    model.save(tmp_path / "trees.linnos")
    rows = np.minimum(random_features(6, 5), 2000)
    lines = [decision(0.5, 8)]  # of the network that was active before
    for i, (row, us) in enumerate(zip(rows, predict_us(model, rows).tolist(), strict=True)):
        slow = us > model.refuse_us
        seen = ",".join(f"{value:#x}" for value in row)
        sector = 800 * (i + 1)
        event = decision(
            *(1.0 + i, sector),
            revoked=int(slow), fast=model.refuse_us, slow=us, reason="slow" if slow else "fast",
        )  # fmt: skip
        lines.append(event.rstrip("\n") + f" features={{{seen}}}\n")
        if not slow:
            lines.append(ISSUE.format(1.0 + i, 0, "R", sector, 8))
            lines.append(COMPLETE.format(1.001 + i, 0, sector, 8, 0))
    (tmp_path / "events.txt").write_text("".join(lines))
    arguments = ("--events", tmp_path / "events.txt", "--model", tmp_path / "trees.linnos")
    shown = explain(*arguments)
    assert any("decisions of another model" in note for note in shown["notes"])
    assert [list(each["saw"].values()) for each in shown["decisions"]] == rows.tolist()
    outcomes = [each["outcome"] for each in shown["decisions"]]
    assert any(words.startswith("revoked; ") for words in outcomes)
    assert any("took 1000 us, slow: a slow read admitted" in words for words in outcomes)
    assert "\n  happened  revoked; its latency" in "\n".join(explain(*arguments, as_json=False))


def test_explain_names_an_overdue_read_as_the_reason(explain: Explain, tmp_path: Path) -> None:
    t = TraceBuilder()
    for i in range(10):
        t.io(i * 200, i * 200 + 100, 8 * i)
    t.io(3000, 63_000, 800)
    t.io(8000, 8150, 808)
    trace = t.sort().write(tmp_path / "az.blk")
    last_read(threshold_us=200, refuse_us=500, overdue_us=10).save(tmp_path / "last.linnos")
    arguments = ("--trace", trace, "--model", tmp_path / "last.linnos", "--last", 1)
    (last,) = explain(*arguments)["decisions"]
    assert last["saw"]["oldest_us"] == 5000
    assert last["out_slow"] == 4990 == last["saw"]["oldest_us"] - 10
    result = run("explain", *arguments)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-5:] == [
        "0.008000 s, read of 4 KiB at sector 808",
        "  saw       pages 1, read_pages 1, write_pages 0, reads_in_flight 1, oldest_us 5000, "
        "overdue 1, in_region 16777215; last reads 100 us at 1, 100 us at 1, 100 us at 1, "
        "100 us at 1",
        "  said      4,990 us: slow, by the oldest read in flight",
        "  happened  predicted slow and admitted; took 150 us, fast: refusing it would have been "
        "a false revoke",
        "  mattered  +4,890 us  oldest_us 5000, not 0",
    ]
