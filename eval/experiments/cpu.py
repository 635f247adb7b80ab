# SPDX-License-Identifier: MIT
"""CPU share of inference per drive: measured inference time times the rate of reads."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from eval.cells import N_DRIVES, recorded, trained
from eval.experiment import NOT_AVAILABLE, Context, Experiment, Table
from eval.experiments import fig08
from eval.gain import percent
from linnapp import engine, iolog
from linnapp.model import Model

PARAMETERS: dict[str, Any] = {
    **{key: fig08.PARAMETERS[key] for key in ("workloads", "train_s", "replay_s")},
    "array": "enterprise",
    "inferences": 50_000,
    "repeats": 7,
    "busy_iops": 100_000,
}


def inference_ns(model: Model) -> float:
    """Measured time of one inference with the kernel's engine, built for user space."""
    rng = np.random.default_rng(1)
    digits = rng.integers(0, 10, (PARAMETERS["inferences"], model.n_inputs)).astype(np.uint8)
    times = []
    for _ in range(PARAMETERS["repeats"]):
        start = time.perf_counter_ns()
        engine.infer(model, digits, "c")
        times.append((time.perf_counter_ns() - start) / len(digits))
    return float(min(times))


def run(context: Context) -> dict[str, Any]:
    """Time the engine once, count the reads of each workload."""
    cells = [fig08.cell(w, PARAMETERS["array"], context.seeds[0]) for w in PARAMETERS["workloads"]]
    models = context.map(lambda cell: trained(context.cache, cell), cells, "training")
    ns = inference_ns(Model.load(models[0] / "flash0.linnos"))
    rows = []
    for cell in cells:
        folder = recorded(context.cache, cell)
        for drive in range(N_DRIVES):
            reads = sum(
                int((~chunk.is_write).sum())
                for chunk in iolog.read(folder / "replay" / f"flash{drive}.iolog")
            )
            per_s = reads / cell.replay_s
            rows.append(
                {
                    "workload": cell.workload, "drive": drive, "reads_per_s": per_s,
                    "cpu_share": per_s * ns * 1e-9,
                }
            )  # fmt: skip
    return {
        "inference_ns": ns,
        "rows": rows,
        "busy_share": PARAMETERS["busy_iops"] * ns * 1e-9,
        "runs": [],
    }


def table(data: dict[str, Any]) -> dict[str, Table]:
    """One row a drive."""
    rows = [
        (r["workload"], str(r["drive"]), f"{r['reads_per_s']:.0f}", percent(r["cpu_share"], 3))
        for r in data["rows"]
    ]
    rows.append(("a busy drive", "-", str(PARAMETERS["busy_iops"]), percent(data["busy_share"], 1)))
    return {
        f"One core, {data['inference_ns']:.0f} ns an inference": Table(
            ("workload", "drive", "reads/s", "CPU share"), tuple(rows)
        )
    }


def reading(data: dict[str, Any]) -> str:
    """The share at these rates and at a busy drive's."""
    shares = [r["cpu_share"] for r in data["rows"]]
    return (
        f"One inference takes {data['inference_ns']:.0f} ns of one core (the fastest of "
        f"{PARAMETERS['repeats']} measurements; encoding of the features and reading of the "
        f"history not included). If every read is latency-critical, that is "
        f"{percent(min(shares), 3)} to "
        f"{percent(max(shares), 3)} of a core per drive at the workloads' rates, and "
        f"{percent(data['busy_share'], 1)} at {PARAMETERS['busy_iops']} reads a second."
    )


EXPERIMENT = Experiment(
    name="cpu",
    title="CPU share of inference",
    source="LinnOS 5.6.4",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    paper=f"Inference takes 4 to 6 us (abstract); the CPU share: {NOT_AVAILABLE}.",
    differs="Measured in user space on the machine that ran the evaluation, with the reference "
    "engine; the kernel's own paths take a fraction of it (`make bench`).",
    sources=("eval/experiments/fig08.py",),
)
