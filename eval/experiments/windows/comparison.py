# SPDX-License-Identifier: MIT
"""What the policies gained and lost, window by window."""

from __future__ import annotations

import math
from typing import Any

from eval import contenders, scores
from eval.metrics import improvement, oracle_share, ranked_share
from linnapp.stats import Interval

#: The policies whose losses are listed, and what they are held against.
OURS = ("linnos", "linnos-hl", "lowest")
REFERENCES = ("baseline", "hedge")


def gains(data: dict[str, Any], policy: str, reference: str) -> list[float]:
    """Improvement of a policy's mean over a reference's, window by window."""
    return [improvement(w["mean_us"][policy], w["mean_us"][reference]) for w in data["windows"]]


def shares(data: dict[str, Any], policy: str) -> list[float]:
    """Share of the oracle's gain, window by window; a tie or a loss where there was none."""
    return [
        ranked_share(w["mean_us"][policy], w["mean_us"]["baseline"], w["mean_us"]["oracle"])
        for w in data["windows"]
    ]


def without_share(data: dict[str, Any], policy: str) -> list[int]:
    """Windows in which the oracle gains too little for a share of it to be told."""
    return [
        i
        for i, w in enumerate(data["windows"])
        if math.isnan(
            oracle_share(w["mean_us"][policy], w["mean_us"]["baseline"], w["mean_us"]["oracle"])
        )
    ]


def said(window: dict[str, Any], policy: str, reference: str) -> str:
    """What may be said of a policy's mean against a reference's in a window."""
    (found,) = (
        pair["below"]
        for pair in window["compared"]
        if (pair["policy"], pair["reference"]) == (policy, reference)
    )
    return scores.verdict(Interval.from_json(found))


def counts(data: dict[str, Any]) -> dict[tuple[str, str], dict[str, int]]:
    """In how many windows what may be said of each pair's means."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for window in data["windows"]:
        for pair in window["compared"]:
            words = found.setdefault(
                (pair["policy"], pair["reference"]), {"below": 0, "above": 0, "undecided": 0}
            )
            words[scores.verdict(Interval.from_json(pair["below"]))] += 1
    return found


def losses(data: dict[str, Any]) -> list[tuple[int, dict[str, float]]]:
    """Windows in which linnos has a higher mean than a reference."""
    lost = []
    for i, window in enumerate(data["windows"]):
        worse = {
            r: improvement(window["mean_us"]["linnos"], window["mean_us"][r])
            for r in REFERENCES
            if window["mean_us"]["linnos"] > window["mean_us"][r]
        }
        if worse:
            lost.append((i, worse))
    return lost


def kind(window: dict[str, Any]) -> str:
    """The pattern of a window's injection."""
    return str(window["inject"] or "none").split(":")[0]


def wins(data: dict[str, Any]) -> dict[str, dict[str, int]]:
    """How many windows linnos and others win, by array and by injection."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for window in data["windows"]:
        for name in (f"{window['array']} drives", f"injection: {kind(window)}"):
            groups.setdefault(name, []).append(window)
    return {
        name: {
            "windows": len(groups[name]),
            **{
                f"{policy} {what} {reference}": sum(
                    said(w, policy, reference) == what for w in groups[name]
                )
                for policy, reference in (
                    ("linnos", "baseline"),
                    ("linnos", "hedge"),
                    ("linnos-hl", "hedge"),
                )
                for what in ("below", "above")
            },
            "linnos the lowest": sum(
                w["mean_us"]["linnos"]
                < min(w["mean_us"][rival] for rival in contenders.rivals(w["mean_us"]))
                for w in groups[name]
            ),
            "any but clone below oracle": sum(
                min(v for p, v in w["mean_us"].items() if p not in ("clone", "oracle", "verdict"))
                < w["mean_us"]["oracle"]
                for w in groups[name]
            ),
        }
        for name in sorted(groups)
    }
