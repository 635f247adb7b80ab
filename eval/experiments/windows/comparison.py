# SPDX-License-Identifier: MIT
"""What the policies gained and lost, window by window."""

from __future__ import annotations

from typing import Any

from eval.metrics import improvement, oracle_share

#: The policies whose losses are listed, and what they are held against.
OURS = ("linnos", "linnos-hl")
REFERENCES = ("baseline", "hedge")


def gains(data: dict[str, Any], policy: str, reference: str) -> list[float]:
    """Improvement of a policy's mean over a reference's, window by window."""
    return [improvement(w["mean_us"][policy], w["mean_us"][reference]) for w in data["windows"]]


def shares(data: dict[str, Any], policy: str) -> list[float]:
    """Share of the oracle's gain, window by window."""
    return [
        oracle_share(w["mean_us"][policy], w["mean_us"]["baseline"], w["mean_us"]["oracle"])
        for w in data["windows"]
    ]


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
                f"linnos below {r}": sum(
                    w["mean_us"]["linnos"] < w["mean_us"][r] for w in groups[name]
                )
                for r in REFERENCES
            },
            "linnos-hl below hedge": sum(
                w["mean_us"]["linnos-hl"] < w["mean_us"]["hedge"] for w in groups[name]
            ),
            "any but clone below oracle": sum(
                min(v for p, v in w["mean_us"].items() if p not in ("clone", "oracle"))
                < w["mean_us"]["oracle"]
                for w in groups[name]
            ),
        }
        for name in sorted(groups)
    }
