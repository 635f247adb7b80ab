# SPDX-License-Identifier: MIT
"""Analysis of a lost window: every read counts once, by what the policy did with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval.cells import Cell, Replay, Replayed
from eval.experiments.windows import comparison, text
from eval.experiments.windows.explanation import explain
from linnapp.trace.formats import replay_log


def _replayed(
    folder: Path, policy: str, latency_us: list[int], revocations: list[int] | None = None
) -> Replayed:
    folder.mkdir()
    header = np.zeros(1, replay_log.HEADER)
    header["magic"], header["version"] = replay_log.MAGIC, replay_log.VERSION
    header["record_bytes"], header["n_drives"] = replay_log.RECORD.itemsize, 3
    records = np.zeros(len(latency_us), replay_log.RECORD)
    records["due_ns"] = np.arange(len(latency_us)) * 1000
    records["offset_bytes"] = np.arange(len(latency_us)) * 4096
    records["latency_ns"] = np.array(latency_us) * 1000
    if revocations:
        records["revocations"] = revocations
        records["served_by"] = revocations
    # In the order of completion, as the replayer writes them.
    order = np.argsort(records["due_ns"] + records["latency_ns"])
    with (folder / f"{policy}.log").open("wb") as file:
        file.write(header.tobytes() + records[order].tobytes())
    cell = Cell("az-e", "enterprise", 1, 1.0, 1.0)
    return Replayed(Replay(cell, policy), {"mean_us": float(np.mean(latency_us))}, folder)


def test_each_read_has_one_cause(tmp_path: Path) -> None:
    results = {
        "baseline": _replayed(tmp_path / "b", "baseline", [100, 500, 500, 100, 100]),
        "hedge": _replayed(tmp_path / "h", "hedge", [100, 300, 500, 100, 100]),
        "linnos": _replayed(
            tmp_path / "l", "linnos", [150, 120, 520, 110, 400], revocations=[1, 1, 0, 0, 2]
        ),
    }
    why = explain(results, np.array([200.0, 0.0, 0.0]))
    assert why["reference"] == "hedge"
    assert {name: cause["reads"] for name, cause in why["causes"].items()} == {
        "revoked wrongly": 2,
        "revoked rightly": 1,
        "admitted wrongly": 1,
        "admitted rightly": 1,
    }
    assert why["causes"]["revoked wrongly"]["delta_ms"] == pytest.approx(0.35)
    assert why["causes"]["revoked rightly"]["delta_ms"] == pytest.approx(-0.18)
    total_ms = (150 + 120 + 520 + 110 + 400 - 1100) / 1000
    for split in ("groups", "causes"):
        parts = [part["delta_ms"] for part in why[split].values()]
        assert sum(parts) == pytest.approx(total_ms)


def _window(mean_us: dict[str, float], below: tuple[float, float, float]) -> dict[str, Any]:
    pairs = [
        {"policy": ours, "reference": reference, "below": list(below)}
        for ours in comparison.OURS
        for reference in comparison.REFERENCES
    ]
    return {
        "array": "enterprise", "workload": "az-e", "seed": 1, "inject": None, "errors": 0,
        "mean_us": {
            "hedge-ip": 100.0, "heuristic": 100.0, "heuristic-adv": 100.0, "clone": 150.0,
            **mean_us,
        },
        "compared": pairs,
    }  # fmt: skip


@pytest.fixture
def windows() -> dict[str, Any]:
    """A gain, a tie where no gain is possible, and losses there."""

    def means(base: float, linnos: float, oracle: float) -> dict[str, float]:
        return {
            "baseline": base,
            "hedge": base,
            "linnos": linnos,
            "linnos-hl": base,
            "lowest": base,
            "oracle": oracle,
        }

    return {
        "windows": [
            _window(means(100, 80, 60), (0.2, 0.1, 0.3)),
            _window(means(100, 100.5, 99.9), (-0.005, -0.01, 0.01)),
            _window(means(100, 130, 99.9), (-0.3, -0.4, -0.2)),
            _window(means(100, 140, 99.9), (-0.4, -0.5, -0.3)),
        ],
        "explained": [],
    }


def test_windows_without_a_share_are_named_and_counted(windows: dict[str, Any]) -> None:
    assert comparison.without_share(windows, "linnos") == [1, 2, 3]
    assert comparison.shares(windows, "linnos") == [pytest.approx(0.5), 0, -np.inf, -np.inf]
    words = text.reading(windows)
    assert "In 3 of 4 windows (1, 2, 3) the oracle gains less than 1 %" in words
    assert "`linnos`: 1 ties, 2 losses, 0 below baseline" in words
    # Dropped, they would have left a median of 50 %.
    assert "share of the oracle's gain: median 0 %, p10 a loss" in words
    text.table(windows)


def test_window_is_won_if_the_intervals_do_not_overlap(windows: dict[str, Any]) -> None:
    assert comparison.said(windows["windows"][0], "linnos", "hedge") == "below"
    assert comparison.said(windows["windows"][1], "linnos", "hedge") == "undecided"
    row = comparison.wins(windows)["enterprise drives"]
    assert (row["linnos below hedge"], row["linnos above hedge"]) == (1, 2)


def test_windows_are_counted_for_every_pair(windows: dict[str, Any]) -> None:
    windows["windows"][0]["compared"].append(
        {"policy": "lowest", "reference": "clone", "below": [-0.1, -0.2, -0.05]}
    )
    assert comparison.counts(windows)["linnos", "hedge"] == {
        "below": 1, "above": 2, "undecided": 1,
    }  # fmt: skip
    assert comparison.counts(windows)["lowest", "clone"] == {
        "below": 0, "above": 1, "undecided": 0,
    }  # fmt: skip
    (counted,) = (t for h, t in text.table(windows).items() if h.startswith("In how many windows"))
    assert counted.rows[-1] == ("lowest", "clone", "0", "1", "0")
