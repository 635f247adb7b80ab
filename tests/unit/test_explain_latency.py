# SPDX-License-Identifier: MIT
"""`linnapp explain` with a latency model: important features, and changes that reverse it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from blktrace_builder import TraceBuilder
from test_cli import run
from test_explain import COMPLETE, ISSUE, Explain, decision, explain, recorded  # noqa: F401
from test_latency_model import one_by_one, random_features, random_trees
from trees_by_hand import last_read

from linnapp.errors import LinnappError
from linnapp.insight.explain import Selection, View, typical_inputs
from linnapp.insight.explain import explain as explain_all
from linnapp.model import LatencyModel
from linnapp.model.engine import predict_us
from linnapp.model.file import CAP, FEATURES, N_FEATURES, NEVER
from linnapp.trace import decisions


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
    (found,) = explain_all(selection, usual)
    us = one_by_one(model, found.numbers)
    for i, matters in enumerate(found.matters):
        without = [*found.numbers[:i], usual.numbers[i], *found.numbers[i + 1 :]]
        assert matters == us - one_by_one(model, without)
    assert sum(part != 0 for part in found.matters) > 5


@pytest.mark.parametrize("seed", range(3))
def test_no_nearer_value_turns_the_verdict(seed: int) -> None:
    model = random_trees(seed, n_trees=20, refuse_us=130, overdue_us=900)
    rows = np.minimum(random_features(200, seed), 1100)
    us = predict_us(model, rows)
    x = rows[np.abs(us.astype(int) - model.refuse_us).argmin()]
    pages = FEATURES.index("pages")
    x[pages] = max(1, x[pages])
    selection = selection_at(model, np.array([x]))
    (found,) = explain_all(selection, typical_inputs(selection))
    assert any(value is not None for value in found.turns)
    most = 2500
    for i, value in enumerate(found.turns):
        tried = np.arange(int(i == pages), most + 1)
        all_rows = np.tile(x, (len(tried), 1))
        all_rows[:, i] = tried
        turned = tried[(predict_us(model, all_rows) > model.refuse_us) != found.slow]
        if value is None or value > most:
            assert not len(turned)
        else:
            assert value in turned and abs(value - int(x[i])) == np.abs(turned - int(x[i])).min()


def test_a_recording_explained(
    explain: Explain,  # noqa: F811
    recorded: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    random_trees(1, threshold_us=200, overdue_us=CAP).save(tmp_path / "trees.linnos")
    arguments = ("--trace", recorded, "--model", tmp_path / "trees.linnos")
    shown = explain(*arguments, "--last", 3)
    assert shown["decisions_seen"] == 230  # not the one that was revoked
    model = random_trees(1, threshold_us=200, overdue_us=CAP)
    for each in shown["decisions"]:
        assert each["out_slow"] == one_by_one(model, list(each["saw"].values()))
        assert each["out_fast"] == model.refuse_us
        assert set(each["saw"]) == set(each["would_turn"]) == set(each["mattered"]) == set(FEATURES)
    assert shown["decisions"][-1]["saw"]["reads_in_flight"] == 29
    slowest = explain(*arguments, "--slow", "--last", 1)["decisions"]
    assert [each["latency_us"] for each in slowest] == [4131]
    never = random_trees(1, threshold_us=200, overdue_us=CAP, refuse_us=NEVER)
    never.save(tmp_path / "never.linnos")
    words = "\n".join(explain(*arguments[:-1], tmp_path / "never.linnos", as_json=False))
    assert "slow above 200 us, refuses nothing;" in words and "4294967295" not in words
    # Nothing was predicted fast or slow, so no change reverses it, and none is right or wrong.
    assert not re.search("correct|a slow read admitted|fast with|slow with", words)
    with pytest.raises(LinnappError, match="no decision was made by model"):
        (tmp_path / "events.txt").write_text(decision(1.0, 8))
        explain("--events", tmp_path / "events.txt", "--model", tmp_path / "trees.linnos")


def test_the_kernels_decisions_are_explained_from_their_features(
    explain: Explain,  # noqa: F811
    tmp_path: Path,
) -> None:
    model = random_trees(5, refuse_us=300)
    model.save(tmp_path / "trees.linnos")
    rows = np.minimum(random_features(6, 5), 2000)
    lines = [decision(0.5, 8)]  # of the network that was active before
    for i, (row, us) in enumerate(zip(rows, predict_us(model, rows).tolist(), strict=True)):
        slow = us > model.refuse_us
        seen = ",".join(f"{value:#x}" for value in row)
        sector = 800 * (i + 1)
        one = decision(
            *(1.0 + i, sector),
            revoked=int(slow), fast=model.refuse_us, slow=us, reason="slow" if slow else "fast",
        )  # fmt: skip
        lines.append(one.rstrip("\n") + f" features={{{seen}}}\n")
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


def test_an_overdue_read_is_said_to_be_the_reason(
    explain: Explain,  # noqa: F811
    tmp_path: Path,
) -> None:
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
    assert last["would_turn"]["oldest_us"] == 510
    assert last["would_turn"]["latency_us_1"] is None
    assert explain(*arguments[:-1], 2)["decisions"][0]["would_turn"]["latency_us_1"] == 501
    ran = run("explain", *arguments)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-6:] == [
        "0.008000 s, read of 4 KiB at sector 808",
        "  saw       pages 1, read_pages 1, write_pages 0, reads_in_flight 1, oldest_us 5000, "
        "overdue 1, in_region 1; last reads 100 us at 1, 100 us at 1, 100 us at 1, 100 us at 1",
        "  said      4,990 us: slow, by the oldest read in flight",
        "  happened  predicted slow and admitted; took 150 us, fast: refusing it would have been "
        "a false revoke",
        "  mattered  +4,890 us  oldest_us 5000, not 0",
        "  fast with oldest_us 510, not 5000",
    ]


def test_the_event_has_a_number_for_every_feature() -> None:
    assert decisions.N_FEATURES == N_FEATURES
