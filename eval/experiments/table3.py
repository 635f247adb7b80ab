# SPDX-License-Identifier: MIT
"""Five models from small to large: accuracy against measured inference time."""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from eval import figures, grid, workers
from eval.cache import ROOT, code_version
from eval.cells import N_DRIVES, WORKLOADS, Cell, recorded
from eval.experiment import Context, Experiment, Table
from eval.files import write_json
from eval.metrics import percent

#: name: (past reads, hidden neurons); C is the paper's network, 31-256-2.
MODELS = {"A": (1, 16), "B": (2, 64), "C": (4, 256), "D": (8, 512), "E": (16, 1024)}

PARAMETERS: dict[str, Any] = {
    "workloads": WORKLOADS,
    **grid.PARTS,
    "array": "enterprise",
    "models": MODELS,
    "inferences": 20_000,
    "repeats": 7,
}


def run(context: Context) -> dict[str, Any]:
    """Train each shape on every drive of each workload; time its arithmetic."""
    cells = [grid.cell(w, PARAMETERS["array"], context.seeds[0]) for w in PARAMETERS["workloads"]]
    folders = context.map(lambda cell: recorded(context.cache, cell), cells, "recording")
    # Before both cores are busy with training.
    time_ns = measure({name: shape_of(*model) for name, model in MODELS.items()})
    jobs = [
        (name, cell, folder) for name in MODELS for cell, folder in zip(cells, folders, strict=True)
    ]

    def judged(job: tuple[str, Cell, Path]) -> list[dict[str, Any]]:
        name, cell, recording = job

        def make(folder: Path) -> None:
            rows = workers.call(train_shape, name, cell.workload, cell.seed, recording)
            write_json(folder / "rows.json", rows)

        made_from = {
            "model": name,
            "shape": MODELS[name],
            "cell": asdict(cell),
            "recipe": code_version("eval/experiments/table3.py"),
        }
        folder = context.cache.get("shape", made_from, make)
        rows: list[dict[str, Any]] = json.loads((folder / "rows.json").read_text())
        return rows

    trained = context.map(judged, jobs, "training")
    return {
        "rows": [row for rows in trained for row in rows],
        "time_ns": time_ns,
        "shape": {name: shape_of(*model) for name, model in MODELS.items()},
        "runs": [],
    }


def train_shape(name: str, workload: str, seed: int, folder: Path) -> list[dict[str, Any]]:
    """Train a model of one shape for each drive of a recording, and judge it on held-out reads."""
    # Imported here: it takes seconds, and only the workers need it.
    from linnapp.learn.dataset import load_reads
    from linnapp.learn.features import FeatureLayout
    from linnapp.learn.inflection import LatencyDistribution, find_inflection_points
    from linnapp.learn.training import TrainingOptions, split, train

    history, n_hidden = MODELS[name]
    layout = FeatureLayout(history=history)
    sets = [load_reads(folder / "record" / f"flash{k}.blk", layout) for k in range(N_DRIVES)]
    options = TrainingOptions(seed=seed, n_hidden=n_hidden)
    points = find_inflection_points(
        [LatencyDistribution(s.latency_us[split(len(s), options).training]) for s in sets]
    )
    rows = []
    for drive, (reads, point) in enumerate(zip(sets, points, strict=True)):
        slow = reads.latency_us > point.threshold_us
        network = train(reads.digits(), slow, options)
        rows.append(
            {
                "model": name,
                "workload": workload,
                "drive": drive,
                **network.test.to_json(),
            }
        )
    return rows


def shape_of(history: int, n_hidden: int) -> tuple[int, int]:
    """Inputs and hidden neurons of a model."""
    from linnapp.learn.features import FeatureLayout

    return FeatureLayout(history=history).n_inputs, n_hidden


def measure(shapes: dict[str, tuple[int, int]]) -> dict[str, float]:
    """Measured time of one inference of each shape, in ns, plain C on this machine."""
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "inference_time"
        source = ROOT / "eval" / "inference_time.c"
        subprocess.run(["cc", "-O2", "-o", str(program), str(source)], check=True)
        times = {}
        for model, (n_inputs, n_hidden) in shapes.items():
            command = [
                str(program), str(n_inputs), str(n_hidden),
                str(PARAMETERS["inferences"]), str(PARAMETERS["repeats"]),
            ]  # fmt: skip
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            times[model] = float(output)
    return times


def averages(data: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Ratios of each model, averaged over workloads and drives that have them."""
    return {
        model: {
            field: _mean(r[field] for r in data["rows"] if r["model"] == model)
            for field in ("accuracy", "slow_recall", "false_submit_ratio", "false_revoke_ratio")
        }
        for model in data["shape"]
    }


def _mean(ratios: Iterable[float | None]) -> float:
    """Mean of those that are there: without slow reads, none can be found."""
    known = [ratio for ratio in ratios if ratio is not None]
    return float(np.mean(known)) if known else math.nan


def table(data: dict[str, Any]) -> dict[str, Table]:
    """One row a model."""
    mean = averages(data)
    return {
        "Held-out reads, average over workloads and drives": Table(
            (
                "model", "past reads", "network", "weights", "accuracy", "slow reads found",
                "false submits", "false revokes", "ns per inference",
            ),
            tuple(
                (
                    model, str(MODELS[model][0]), f"{n_in}-{n_hidden}-2",
                    str(n_in * n_hidden + n_hidden + 2 * n_hidden + 2),
                    percent(mean[model]["accuracy"], 2), percent(mean[model]["slow_recall"]),
                    percent(mean[model]["false_submit_ratio"], 2),
                    percent(mean[model]["false_revoke_ratio"], 2),
                    f"{data['time_ns'][model]:.0f}",
                )
                for model, (n_in, n_hidden) in data["shape"].items()
            ),
        )
    }  # fmt: skip


def reading(data: dict[str, Any]) -> str:
    """What more inputs and neurons buy."""
    mean = averages(data)
    low, paper, high = mean["A"], mean["C"], mean["E"]
    times = data["time_ns"]
    best = max(mean, key=lambda model: mean[model]["accuracy"])
    return (
        f"The most accurate is {best}. From A to C accuracy goes from "
        f"{percent(low['accuracy'], 2)} to {percent(paper['accuracy'], 2)} and slow reads found "
        f"from {percent(low['slow_recall'])} to {percent(paper['slow_recall'])}, at "
        f"{times['A']:.0f} and {times['C']:.0f} ns an inference; E reaches "
        f"{percent(high['accuracy'], 2)} and {percent(high['slow_recall'])} at {times['E']:.0f} "
        "ns. Times are wall-clock times of plain C on the machine that ran the evaluation, the "
        "fastest of several repeats, and differ from machine to machine."
    )


def draw(data: dict[str, Any], path: Path) -> None:
    """Accuracy and recall against inference time."""
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for field, marker in (("accuracy", "o"), ("slow_recall", "^")):
        for i, model in enumerate(data["shape"]):
            values = [row[field] for row in data["rows"] if row["model"] == model]
            axes.plot(
                data["time_ns"][model], 100 * float(np.mean(values)), marker, color=f"C{i}",
                label=f"{model}: {field.replace('_', ' ')}",
            )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlabel("time of one inference (ns)")
    axes.set_ylabel("share (%)")
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)
    figures.save(figure, path)


EXPERIMENT = Experiment(
    name="table3",
    title="Models A to E: accuracy against inference time",
    source="LinnOS Table 3",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper="Inference takes 4 to 6 us, accuracy is 87 to 97 % (abstract). The shapes of the paper's "
    "models A to E: not available here.",
    differs="Five shapes of our own choice around the paper's network, which is C. All but C exist "
    "for this table only: the kernel runs 31-256-2.",
    sources=("eval/grid.py", "eval/inference_time.c"),
)
