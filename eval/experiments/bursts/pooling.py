# SPDX-License-Identifier: MIT
"""The cells put together: one row a pattern or length of burst, policy and training."""

from __future__ import annotations

from typing import Any

import numpy as np

from eval.experiments.bursts.observed import CAUSES
from linnapp.stats import ratio_interval


def pool_observed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add up the cells: one row a pattern, added latency and training."""
    pooled = []
    for key, same in _grouped(rows, ("pattern", "added_us", "trained_on")):
        total = {
            name: sum(row[name] for row in same)
            for name in ("reads", "injected_and_slow", "found", "right", "false_revokes", "missed")
        }
        at: dict[str, dict[str, Any]] = {}
        for row in same:
            for p in row["by_position"]:
                into = at.setdefault(p["position"], {"reads": 0, "slow": 0, "found": 0})
                for name in into:
                    into[name] += p[name]
        names = sorted(at, key=lambda name: int(name.split("-")[0]))
        pooled.append(
            {
                **key,
                **total,
                "recall": quotient(total["found"], total["injected_and_slow"]),
                "recall_interval": recall_interval(same),
                "accuracy": total["right"] / total["reads"],
                "false_revoke_ratio": total["false_revokes"] / total["reads"],
                "missed_causes": {
                    name: sum(row["missed_causes"][name] for row in same) for name in CAUSES
                },
                "by_position": [
                    {
                        "position": name,
                        **at[name],
                        "recall": quotient(at[name]["found"], at[name]["slow"]),
                        "false_submit_ratio": quotient(
                            at[name]["slow"] - at[name]["found"], at[name]["reads"]
                        ),
                    }
                    for name in names
                ],
            }
        )
    return pooled


def recall_interval(rows: list[dict[str, Any]]) -> list[float | None]:
    """Recall with its interval, over the stretches of all of these cells' reads."""
    found, slow = ([n for row in rows for n in row["by_block"][name]] for name in ("found", "slow"))
    return ratio_interval(found, slow).to_json()


def pool_enforced(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Average the cells: one row a length of burst, added latency, policy and setting.

    Latencies are averages of the cells' own, so that a cell with more reads counts no more;
    numbers of bursts, refusals and probes are sums.
    """
    pooled = []
    for key, same in _grouped(rows, ("slot_ms", "added_us", "policy", "probing")):
        at: dict[str, list[float]] = {}
        for row in same:
            for p in row["by_position"]:
                at.setdefault(p["position"], []).append(p["excess_us"])
        row = {
            **key,
            **{
                name: float(np.mean([row[name] for row in same]))
                for name in ("mean_us", "burst_mean_us", "calm_us")
            },
            "by_position": [
                {"position": name, "excess_us": float(np.mean(at[name]))}
                for name in sorted(at, key=lambda name: int(name.split("-")[0]))
            ],
        }
        if all("probes" in one for one in same):
            for name in ("bursts", "never_trusted", "revoked_after_burst", "probes",
                         "probes_in_burst", "answered_probes", "answered_probes_us"):  # fmt: skip
                row[name] = sum(one[name] for one in same)
            recovery = [value for one in same for value in one["recovery_us"]]
            row["recovery_us"] = {
                name: float(np.percentile(recovery, q)) if recovery else None
                for name, q in (("p50", 50), ("p90", 90))
            }
            row["probe_mean_us"] = quotient(row["answered_probes_us"], row["answered_probes"])
        pooled.append(row)
    return pooled


def _grouped(
    rows: list[dict[str, Any]], names: tuple[str, ...]
) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return [(dict(zip(names, key, strict=True)), same) for key, same in groups.items()]


def quotient(part: float, of: float) -> float | None:
    """A share; None of nothing."""
    return part / of if of else None


def pooled(data: dict[str, Any]) -> dict[str, Any]:
    """The data with its cells put together."""
    return {
        "observed": pool_observed(data["observed"]),
        "enforced": pool_enforced(data["enforced"]),
        "probing": pool_enforced(data["probing"]),
    }
