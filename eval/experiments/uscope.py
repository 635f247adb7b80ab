# SPDX-License-Identifier: MIT
"""Random, continuous and interval slow I/Os, and their effect on latency over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from eval.cells import Cell, Replay, read_log, replayed, trained
from eval.experiment import NOT_AVAILABLE, Context, Experiment, Table
from eval.gain import improvement, oracle_share, percent

RATIOS = (10, 20)
ADDED_US = (10, 100, 1000)
POLICIES = ("baseline", "hedge", "heuristic-adv", "linnos", "linnos-hl", "oracle")
PATTERNS = ("random", "continuous", "interval")

#: uScope's continuous pattern has 1000 slow I/Os in a row at 1 % of 100 000;
#: here the run is as long, and so is the share, in a shorter cycle.
PERIOD_IOS = 5000

PARAMETERS: dict[str, Any] = {
    "workload": "azure",
    "array": "enterprise",
    "train_s": 8.0,
    "replay_s": 2.0,
    "ratios_percent": RATIOS,
    "added_us": ADDED_US,
    "patterns": PATTERNS,
    "period_ios": PERIOD_IOS,
    "policies": POLICIES,
    "series_added_us": 1000,
    "series_ratio_percent": 20,
    "series_bin_ms": 20,
}


def inject_spec(pattern: str, ratio_percent: int, added_us: int) -> str:
    """The replayer's injection; on the first drive only, as a drive that begins to fail."""
    how = {
        "random": f"ratio={ratio_percent}%",
        "continuous": f"ratio={ratio_percent}%,period_ios={PERIOD_IOS}",
        "interval": f"interval={100 // ratio_percent}",
    }[pattern]
    return f"{pattern}:{how},op=read,latency_us={added_us},drive=0"


def run(context: Context) -> dict[str, Any]:
    """Every pattern, ratio and latency under every policy; series of some of them."""
    p = PARAMETERS
    cell = Cell(p["workload"], p["array"], context.seeds[0], p["train_s"], p["replay_s"])
    trained(context.cache, cell)
    points = [("none", 0, 0)] + [
        (pattern, ratio, added) for pattern in PATTERNS for ratio in RATIOS for added in ADDED_US
    ]
    replays = [
        (pattern, ratio, added, policy, Replay(
            cell, policy, inject_spec(pattern, ratio, added) if added else None,
            keep_log=(added, ratio) == (p["series_added_us"], p["series_ratio_percent"]),
        ))
        for pattern, ratio, added in points
        for policy in POLICIES
    ]  # fmt: skip
    done = context.map(lambda r: replayed(context.cache, r[4]), replays, "replaying")
    rows, series = [], []
    for (pattern, ratio, added, policy, replay), result in zip(replays, done, strict=True):
        summary = result.summary
        rows.append(
            {
                "pattern": pattern, "ratio_percent": ratio, "added_us": added, "policy": policy,
                **{key: summary[key] for key in ("mean_us", "p95_us", "p99_us", "p999_us",
                   "revoked", "reads", "false_submit_ratio", "extra_io_ratio", "data_errors")},
            }
        )  # fmt: skip
        if replay.keep_log:
            log = read_log(result.log)
            bins = (log["start_us"] / (1000 * p["series_bin_ms"])).astype(int)
            # What the first drive's readers see; the others hardly notice.
            at_home = log["home"] == 0
            total = np.bincount(bins[at_home], log["latency_us"][at_home])
            count = np.bincount(bins[at_home])
            series.append(
                {
                    "pattern": pattern,
                    "policy": policy,
                    "mean_us": [
                        None if n == 0 else float(t / n) for t, n in zip(total, count, strict=True)
                    ],
                }
            )
    return {"points": rows, "series": series, "bin_ms": p["series_bin_ms"],
            "runs": [result.summary for result in done]}  # fmt: skip


def _grid(data: dict[str, Any], key: str) -> dict[tuple[str, int, int], dict[str, float]]:
    grid: dict[tuple[str, int, int], dict[str, float]] = {}
    for row in data["points"]:
        point = (row["pattern"], row["ratio_percent"], row["added_us"])
        grid.setdefault(point, {})[row["policy"]] = row[key]
    return grid


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Mean and p99 at every point."""
    tables = {}
    for key, name in (("mean_us", "Mean"), ("p99_us", "p99")):
        tables[f"{name} read latency (us)"] = Table(
            ("pattern", "share", "added us", *POLICIES),
            tuple(
                (pattern, f"{ratio} %", str(added), *(f"{values[p]:.1f}" for p in POLICIES))
                for (pattern, ratio, added), values in _grid(data, key).items()
            ),
        )
    return tables


def reading(data: dict[str, Any]) -> str:
    """What each pattern does to each policy."""
    grid = _grid(data, "mean_us")
    calm = grid["none", 0, 0]
    parts = ["Without injection: " + ", ".join(f"`{p}` {calm[p]:.1f} us" for p in POLICIES) + "."]
    for pattern in PATTERNS:
        for ratio in RATIOS:
            lines = []
            for added in ADDED_US:
                values = grid[pattern, ratio, added]
                share = oracle_share(values["linnos"], values["baseline"], values["oracle"])
                lines.append(
                    f"{added} us: baseline {values['baseline']:.1f}, linnos {values['linnos']:.1f} "
                    f"({percent(improvement(values['linnos'], values['baseline']))} below "
                    f"baseline, {percent(share, 0)} of the oracle's gain), hedge "
                    f"{values['hedge']:.1f}"
                )
            parts.append(f"{pattern}, {ratio} %: " + "; ".join(lines) + ".")
    return "\n\n".join(parts)


EXPERIMENT = Experiment(
    name="uscope",
    title="Slow I/Os by pattern, and latency over time",
    source="uScope Fig. 10, 11",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    paper=f"LinnOS predicts single slow I/Os, and loses accuracy on continuous ones; numbers: "
    f"{NOT_AVAILABLE}.",
    differs="Slow I/Os on one drive of the three; the cycle of the continuous pattern is "
    f"{PERIOD_IOS} reads, not 100 000, so that several fit into a replay.",
)
