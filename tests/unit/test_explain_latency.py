# SPDX-License-Identifier: MIT
"""`linnapp explain` with a latency model: parts add up, and no nearer value turns the verdict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from blktrace_builder import TraceBuilder
from test_cli import run
from test_explain import COMPLETE, ISSUE, Explain, decision, explain, recorded  # noqa: F401
from test_latency_model import one_by_one, random_features, random_trees

from linnapp.errors import LinnappError
from linnapp.learn.attribution import attribute, smallest_changes, whole
from linnapp.learn.latency_explanation import (
    LOG_UNIT,
    LatencyPredictor,
    attribute_latency,
    tree_total,
    turning_values,
)
from linnapp.model import LatencyModel
from linnapp.model.latency_engine import power, predict_us
from linnapp.model.latency_model import CAP, FEATURES, LATENCIES, N_FEATURES, NEVER
from linnapp.trace import decisions


class Totals:
    """A latency model by what its trees add up to, as the general attribution takes it."""

    def __init__(self, model: LatencyModel) -> None:
        self._model = model

    def margins(self, numbers: npt.NDArray[np.uint32]) -> list[int]:
        return [tree_total(self._model, row) for row in numbers.tolist()]

    def slow(self, numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        raise NotImplementedError


@pytest.mark.parametrize("seed", range(3))
def test_parts_add_up_to_what_the_engine_says(seed: int) -> None:
    model = random_trees(seed, overdue_us=CAP)
    # Reads that many features tell apart.
    x, reference = random_features(2, seed + 53).tolist()
    parts = attribute_latency(model, x, reference)
    total, reference_total = tree_total(model, x), tree_total(model, reference)
    assert sum(parts) == total - reference_total
    assert reference_total + sum(whole(parts)) == total
    assert sum(part != 0 for part in parts) > 15
    # The C engine's answer is the total's.
    (us,) = predict_us(model, np.array([x], np.uint32), "c").tolist()
    assert us == power(np.array([total]))[0] == one_by_one(model, x)


@pytest.mark.parametrize("seed", range(3))
def test_parts_are_those_of_the_general_way(seed: int) -> None:
    model = random_trees(seed, n_trees=12)
    x, reference = random_features(2, seed).tolist()
    rng = np.random.default_rng(seed)
    for i in rng.permutation(N_FEATURES)[7:].tolist():
        reference[i] = x[i]
    assert attribute_latency(model, x, reference) == attribute(Totals(model), x, reference)


def test_without_trees_parts_are_us() -> None:
    model = LatencyModel.mean_of_last(100, 200, overdue_us=CAP)
    x, reference = random_features(2).tolist()
    for ago, (us, before) in enumerate(((403, 3), (104, 104), (11, 1), (2, 2)), 1):
        i = FEATURES.index(f"latency_us_{ago}")
        x[i], reference[i] = us, before
    parts = attribute_latency(model, x, reference)
    predictor = LatencyPredictor(model)
    now, before = predictor.margins(np.array([x, reference], np.uint32))
    assert sum(parts) == now - before
    assert {i for i, part in enumerate(parts) if part} <= set(LATENCIES)
    assert parts[FEATURES.index("latency_us_2")] == 0


@pytest.mark.parametrize("n_trees", [0, 20])
@pytest.mark.parametrize("seed", range(3))
def test_no_nearer_value_turns_the_verdict(seed: int, n_trees: int) -> None:
    model = random_trees(seed, n_trees=n_trees, refuse_us=130, overdue_us=900)
    if not n_trees:
        model = LatencyModel.mean_of_last(100, 130, overdue_us=900)
    rows = np.minimum(random_features(200, seed), 1100)
    us = predict_us(model, rows)
    x = rows[np.abs(us.astype(int) - model.refuse_us).argmin()].tolist()
    lowest = [1 if name == "pages" else 0 for name in FEATURES]
    x[FEATURES.index("pages")] = max(1, x[FEATURES.index("pages")])
    most = 2500
    brute = smallest_changes(LatencyPredictor(model), x, lowest, [most] * N_FEATURES)
    found = turning_values(model, x)
    assert any(value is not None for value in found)
    for value, by_trying, now in zip(found, brute, x, strict=True):
        if value is None or value > most:
            assert by_trying is None
        else:
            assert by_trying is not None
            assert abs(value - now) == abs(by_trying - now)


def test_a_recording_explained(
    explain: Explain,  # noqa: F811
    recorded: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    random_trees(1, threshold_us=200, overdue_us=CAP).save(tmp_path / "trees.linnos")
    arguments = ("--trace", recorded, "--model", tmp_path / "trees.linnos")
    shown = explain(*arguments, "--last", 3)
    assert shown["unit"] == LOG_UNIT
    assert shown["decisions_seen"] == 230  # not the one that was revoked
    reference = shown["reference"]["total"]
    for each in shown["decisions"]:
        assert reference + sum(each["parts"].values()) == each["total"]
        assert each["predicted_us"] == power(np.array([each["total"]]))[0]
        assert set(each["saw"]) == set(each["would_turn"]) == set(FEATURES)
    assert shown["decisions"][-1]["saw"]["reads_in_flight"] == 29
    slowest = explain(*arguments, "--slow", "--last", 1)["decisions"]
    assert [each["latency_us"] for each in slowest] == [4131]
    never = random_trees(1, threshold_us=200, overdue_us=CAP, refuse_us=NEVER)
    never.save(tmp_path / "never.linnos")
    words = "\n".join(explain(*arguments[:-1], tmp_path / "never.linnos", as_json=False))
    assert "slow above 200 us, refuses nothing;" in words and "4294967295" not in words
    assert "wrongly" not in words  # nothing was said of fast and slow
    with pytest.raises(LinnappError, match="all decisions are of another model"):
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
    assert any("took 1000 us, slow: let through" in words for words in outcomes)
    assert "\n  happened  revoked; how long" in "\n".join(explain(*arguments, as_json=False))


PEER = (
    "  w-1 [00{}] ..... 1.000000: linnos_peer: dev=251:0 sector={} peer=251:{} pending=1 "
    "expected={} latency_us={}{}\n"
)


def test_what_peers_told_is_said(
    explain: Explain,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Each with the next decision about its sector, whatever another CPU has put between."""
    model = LatencyModel.mean_of_last(200, 500, overdue_us=CAP)
    model.save(tmp_path / "mean.linnos")
    row = [1] * N_FEATURES
    for i in LATENCIES:
        row[i] = 900
    seen = " features={" + ",".join(f"{value:#x}" for value in row) + "}\n"

    def slow(sector: int, reason: str) -> str:
        told = {"fast": 500, "slow": 900, "revoked": int(reason == "slow"), "reason": reason}
        line = decision(1.0, sector, **told).rstrip("\n") + seen
        if reason == "slow":
            return line
        return line + ISSUE.format(1.0, 0, "R", 8, 8) + COMPLETE.format(1.001, 0, 8, 8, 0)

    (tmp_path / "events.txt").write_text(
        PEER.format(0, 8, 1, "slow", 1200, seen.rstrip("\n"))
        + PEER.format(1, 16, 2, "fast", 300, "")
        + PEER.format(0, 8, 2, "slow", 950, "")
        + slow(16, "slow")
        + slow(8, "kept")
        + PEER.format(0, 8, 1, "unknown", 0, "")
        + slow(8, "kept")
        + PEER.format(0, 8, 1, "unknown", 0, "")
        + PEER.format(0, 8, 2, "slow", 0xFFFFFF, "")
        + slow(8, "kept")
        + slow(8, "probe")
        + PEER.format(0, 8, 1, "unknown", 0, "")
        + PEER.format(0, 8, 2, "unknown", 0, "")
        + slow(8, "kept")
        + slow(8, "no-choice")
        + PEER.format(0, 24, 2, "fast", 1, "")
    )
    found = explain("--events", tmp_path / "events.txt", "--model", tmp_path / "mean.linnos")
    kept = "predicted slow and kept, since no peer was sooner"
    assert [(each["peers"] or {}).get("soonest_us") for each in found["decisions"]] == [
        *(300, 950, None, 0xFFFFFF, None, None, None),
    ]
    assert found["decisions"][1]["peers"] == {"asked": 2, "soonest": "251:2", "soonest_us": 950}
    assert [each["outcome"].rpartition("; ")[0] for each in found["decisions"]] == [
        "revoked (its peer 251:2 would take 300 us)",
        f"{kept} (of 2 peers the soonest, 251:2, would take 950 us)",
        f"{kept} (its peer could not tell)",
        f"{kept} (of 2 peers the soonest, 251:2, stalls)",
        "admitted all the same, as a probe",
        f"{kept} (of 2 peers none could tell)",
        "admitted, by a model that does not choose",
    ]
    assert found["decisions"][-1]["outcome"].endswith("took 1000 us, slow")


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
    LatencyModel.mean_of_last(200, 500, overdue_us=10).save(tmp_path / "mean.linnos")
    arguments = ("--trace", trace, "--model", tmp_path / "mean.linnos", "--last", 1)
    (last,) = explain(*arguments)["decisions"]
    assert last["saw"]["oldest_us"] == 5000
    assert (last["predicted_us"], last["least_us"]) == (4990, 4990)
    assert last["would_turn"]["oldest_us"] == 510
    assert last["would_turn"]["latency_us_1"] is None
    assert explain(*arguments[:-1], 2)["decisions"][0]["would_turn"]["latency_us_1"] == 1704
    ran = run("explain", *arguments)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-8:] == [
        "0.008000 s, read of 4 KiB at sector 808",
        "  saw       pages 1, read_pages 1, write_pages 0, reads_in_flight 1, oldest_us 5000, "
        "overdue 1, in_region 1; last reads 100 us at 1, 100 us at 1, 100 us at 1, 100 us at 1",
        "  said      4,990 us: slow, by the oldest read in flight",
        "  happened  took 150 us, fast: wrongly",
        "  because        +100  the reference  100 us",
        "            +4,890 us  oldest_us      5000, not 0",
        "  =            +4,990  the sum        4,990 us",
        "  fast with oldest_us 510, not 5000",
    ]


def test_the_event_has_a_number_for_every_feature() -> None:
    assert decisions.N_FEATURES == N_FEATURES
