# SPDX-License-Identifier: MIT
"""The windows: how they are drawn, and every policy replayed on each."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from eval import grid, seeds
from eval.cells import POLICIES, RATES, WORKLOADS, Replay, replayed, trained, training_records
from eval.experiment import Context
from eval.experiments.windows.comparison import OURS, REFERENCES
from eval.experiments.windows.explanation import explain
from eval.metrics import improvement

#: As many as there are to be.
WINDOWS = 100
PARAMETERS: dict[str, Any] = {
    # Fewer, the first of them, where time is short: the results say how many.
    "windows": int(os.environ.get("LINNOS_WINDOWS", WINDOWS)),
    "workloads": WORKLOADS,
    "arrays": grid.ARRAYS,
    "policies": POLICIES,
    "cell_train_s": grid.PARTS["train_s"],
    "cell_replay_s": grid.PARTS["replay_s"],
    "window_s": 0.5,
    "explained": 5,
}


def draw_window(seed: int, cell_seeds: tuple[int, ...]) -> dict[str, Any]:
    """Draw what a window is made of.

    Half of the windows have the drives' own slowness only; the others get, on
    all drives, one of the three patterns, from mild to severe.
    """
    rng = np.random.default_rng(seed)
    window: dict[str, Any] = {
        "seed": seed,
        "workload": str(rng.choice(PARAMETERS["workloads"])),
        "array": str(rng.choice(PARAMETERS["arrays"])),
        "cell_seed": int(rng.choice(cell_seeds)),
        "inject": None,
    }
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
    windows = [draw_window(base + i, context.seeds) for i in range(PARAMETERS["windows"])]
    replays = []
    for window in windows:
        models_of = grid.cell(window["workload"], window["array"], window["cell_seed"])
        window_s = PARAMETERS["window_s"] / RATES[window["array"]]
        for policy in PARAMETERS["policies"]:
            replays.append(
                Replay(
                    models_of, policy, window["inject"], workload_seed=window["seed"],
                    options=("--duration", str(window_s)),
                    keep_log=policy in (*OURS, "baseline", "hedge"),
                )
            )  # fmt: skip
    cells = list(dict.fromkeys(replay.cell for replay in replays))
    context.map(lambda cell: trained(context.cache, cell), cells, "recording and training")
    done = context.map(lambda replay: replayed(context.cache, replay), replays, "replaying")
    n = len(PARAMETERS["policies"])
    results = [done[i : i + n] for i in range(0, len(done), n)]
    rows = []
    for window, result in zip(windows, results, strict=True):
        summaries = {r.replay.policy: r.summary for r in result}
        rows.append(
            {
                **window,
                "reads": summaries["baseline"]["reads"],
                "mean_us": {p: s["mean_us"] for p, s in summaries.items()},
                "p99_us": {p: s["p99_us"] for p, s in summaries.items()},
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
        models = trained(context.cache, results[i][0].replay.cell)
        thresholds = np.array([r["threshold_us"] for r in training_records(models)], float)
        why = explain({r.replay.policy: r for r in results[i]}, thresholds)
        explained.append({"window": i, **why})
    return {
        "windows": rows,
        "explained": explained,
        "runs": [result.summary for result in done],
    }
