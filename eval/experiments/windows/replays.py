# SPDX-License-Identifier: MIT
"""The windows: how they are drawn, and every policy replayed on each."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from eval import contenders, grid, scores, seeds
from eval.cells import ARRAY_OF, WORKLOADS, replayed, trained, training_records
from eval.experiment import Context
from eval.experiments.windows.comparison import OURS, REFERENCES
from eval.experiments.windows.explanation import explain
from eval.metrics import improvement

#: As many as there are to be; with fewer seeds than five a fifth for each.
WINDOWS = 40
A_SEED = 8

POLICIES = (
    "baseline", "clone", "shortest-queue", "shortest-queue-h95", "prequal", "c3", "heimdall",
    "hedge", "hedge-ip", "heuristic", "heuristic-adv", "linnos", "linnos-hl", "lowest", "oracle",
    "verdict",
)  # fmt: skip

PARAMETERS: dict[str, Any] = {
    # Fewer, the first of them, where time is short: the results say how many.
    "windows": int(os.environ.get("LINNOS_WINDOWS", WINDOWS)),
    "workloads": WORKLOADS,
    "policies": POLICIES,
    **grid.PARTS,
    # Of a cell's second part.
    "share_of_replay": 0.125,
    "explained": 5,
}


def window_s(workload: str) -> float:
    """Length of a window; some two thousand reads or more."""
    return float(PARAMETERS["share_of_replay"]) * grid.LENGTHS[workload].replay_s


def draw_window(seed: int, cell_seeds: tuple[int, ...]) -> dict[str, Any]:
    """Draw what a window is made of.

    Half of the windows have the drives' own slowness only; the others get, on
    all drives, one of the three patterns, from mild to severe.
    """
    rng = np.random.default_rng(seed)
    window: dict[str, Any] = {
        "seed": seed,
        "workload": str(rng.choice(PARAMETERS["workloads"])),
        "cell_seed": int(rng.choice(cell_seeds)),
        "start": float(rng.uniform(0, 1 - PARAMETERS["share_of_replay"])),
        "inject": None,
    }
    window["array"] = ARRAY_OF[window["workload"]]
    kind = rng.choice(["none", "continuous", "random", "interval"], p=[0.5, 0.3, 0.1, 0.1])
    latency_us = round(float(np.exp(rng.uniform(np.log(50), np.log(10_000)))))
    if kind == "continuous":
        every_ms = int(rng.integers(50, 401))
        slot_ms = max(5, round(every_ms * rng.uniform(0.1, 0.8)))
        window["inject"] = (
            f"continuous:ratio=100%,op=read,latency_us={latency_us},"
            f"slot_ms={slot_ms},every_ms={every_ms},rotate"
        )
    elif kind == "random":
        ratio = round(float(rng.uniform(1, 20)), 1)
        window["inject"] = f"random:ratio={ratio}%,op=read,latency_us={latency_us}"
    elif kind == "interval":
        window["inject"] = (
            f"interval:interval={int(rng.integers(5, 101))},op=read,latency_us={latency_us}"
        )
    return window


def run(context: Context) -> dict[str, Any]:
    """Draw the windows, replay each under every policy, explain the worst."""
    base = seeds.window_base(context.development)
    n_windows = min(PARAMETERS["windows"], A_SEED * len(context.seeds))
    windows = [draw_window(base + i, context.seeds) for i in range(n_windows)]
    cells = [grid.cell(window["workload"], window["cell_seed"]) for window in windows]
    grid.prepare(context, list(dict.fromkeys(cells)))
    who = contenders.named(PARAMETERS["policies"])
    replays = []
    for window, cell in zip(windows, cells, strict=True):
        # Whole milliseconds: that is what the replayer is told.
        start_s = round(window["start"] * cell.replay_s, 3)
        for contender in who:
            replays.append(
                grid.replay_of(
                    context.cache, cell, contender, inject=window["inject"],
                    workload_seed=window["seed"],
                    options=("--skip", f"{start_s:g}",
                             "--duration", f"{window_s(cell.workload):g}"),
                    keep_log=contender.name in (*OURS, "baseline", "hedge"),
                )
            )  # fmt: skip
    done = context.map(lambda replay: replayed(context.cache, replay), replays, "replaying")
    n = len(who)
    results = [
        dict(zip((c.name for c in who), done[i : i + n], strict=True))
        for i in range(0, len(done), n)
    ]
    rows = []
    for window, result in zip(windows, results, strict=True):
        summaries = {name: r.summary for name, r in result.items()}
        rows.append(
            {
                **window,
                "reads": summaries["baseline"]["reads"],
                "mean_us": {p: s["response_mean_us"] for p, s in summaries.items()},
                "compared": scores.compared(
                    result,
                    window_s(window["workload"]),
                    [
                        *((ours, rival) for ours in OURS for rival in contenders.rivals(result)),
                        ("lowest", "linnos"),
                        ("lowest", "linnos-hl"),
                    ],
                ),
                "revoked": {p: s["revoked"] for p, s in summaries.items()},
                "extra_io_ratio": {p: s["extra_io_ratio"] for p, s in summaries.items()},
                "errors": sum(s["data_errors"] + s["io_errors"] for s in summaries.values()),
            }
        )
    worst = sorted(
        range(len(rows)),
        key=lambda i: max(
            improvement(rows[i]["mean_us"][r], rows[i]["mean_us"]["linnos"]) for r in REFERENCES
        ),
        reverse=True,
    )[: PARAMETERS["explained"]]
    explained = []
    for i in worst:
        models = trained(context.cache, results[i]["baseline"].replay.cell)
        thresholds = np.array([r["threshold_us"] for r in training_records(models)], float)
        why = explain(results[i], thresholds)
        explained.append({"window": i, **why})
    return {
        "windows": rows,
        "explained": explained,
        "runs": [result.summary for result in done],
    }
