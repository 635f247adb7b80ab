# SPDX-License-Identifier: MIT
"""Latency of the drive profiles, under a read-write workload and with its reads only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from eval import figures, guests, scores
from eval.cache import Cache, code_version
from eval.cells import read_log
from eval.experiment import Context, Experiment, Table
from eval.intervals import Blocks, Pooled
from linnapp.lab.array import Array
from linnapp.trace.formats import iolog
from linnapp.trace.workloads.generation import generate, load_profile

QUANTILES = {"p50_us": 50.0, "p90_us": 90.0, "p95_us": 95.0, "p99_us": 99.0}

PARAMETERS: dict[str, Any] = {
    "workload": "az-c",
    "profiles": ("consumer", "consumer-nvme", "enterprise-a", "enterprise-b", "enterprise-c"),
    "mixes": ("read-write", "read-only"),
    "seconds": 60.0,
    "points": 500,
}


def measured(cache: Cache, profile: str, mix: str, seed: int) -> Path:
    """The per-I/O log of one drive under one mix."""

    def make(folder: Path) -> None:
        child, shared = np.random.SeedSequence([seed, 3]).spawn(2)
        chunks = generate(
            load_profile(PARAMETERS["workload"]),
            PARAMETERS["seconds"],
            child,
            Array.size_mb << 20,
            shared,
        )
        if mix == "read-only":
            chunks = (chunk.take(~chunk.is_write) for chunk in chunks)
        iolog.write(folder / "flash0.iolog", chunks, "/dev/flash0")
        scenario = guests.Scenario(
            f"{profile}, {mix}",
            Array(n_drives=1, profile=profile, seed=seed),
            (folder / "flash0.iolog",),
            seed,
            options=("--quiet", "--prefill", "none", "--settle-ms", "0"),
        )
        guests.replay(scenario, "baseline", folder)

    recipe = code_version("eval/experiments/fig01.py")
    parameters = {"profile": profile, "mix": mix, "seed": seed, "recipe": recipe, **PARAMETERS}
    return cache.get("drive", parameters, make) / "baseline.log"


def run(context: Context) -> dict[str, Any]:
    """Each profile under each mix."""
    pairs = [(p, m) for p in PARAMETERS["profiles"] for m in PARAMETERS["mixes"]]
    jobs = [(profile, mix, seed) for seed in context.seeds for profile, mix in pairs]
    logs = context.map(lambda job: measured(context.cache, *job), jobs, "measuring")
    by_job = dict(zip(jobs, logs, strict=True))
    rows = []
    # Dense in the tail: a decade of 1 - p a step.
    for profile, mix in pairs:
        of_seeds, latencies = [], []
        for seed in context.seeds:
            reads = read_log(by_job[profile, mix, seed])
            blocks = Blocks(reads["start_us"], PARAMETERS["seconds"] * 1e6)
            blocks.add("all", reads["latency_us"])
            of_seeds.append(blocks)
            latencies.append(reads["latency_us"])
        drawn = Pooled(of_seeds, tuple(QUANTILES.values()))
        latency_us = np.sort(np.concatenate(latencies))
        nines = np.linspace(0, np.log10(len(latency_us)), PARAMETERS["points"])
        share = np.minimum(1 - 10.0**-nines, 1 - 1 / len(latency_us))
        rows.append(
            {
                "profile": profile, "mix": mix, "reads": len(latency_us),
                "mean_us": drawn.mean("all").to_json(),
                "share": share.tolist(),
                "latency_us": latency_us[(share * len(latency_us)).astype(int)].tolist(),
                **{
                    name: drawn.percentile("all", q, float(np.percentile(latency_us, q))).to_json()
                    for name, q in QUANTILES.items()
                },
            }
        )  # fmt: skip
    return {"rows": rows, "runs": []}


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Percentiles of each profile and mix."""
    keys = ("mean_us", "p50_us", "p90_us", "p95_us", "p99_us")
    return {
        "Read latency (us)": Table(
            ("profile", "mix", "reads", "mean", "p50", "p90", "p95", "p99"),
            tuple(
                (r["profile"], r["mix"], str(r["reads"]), *(scores.number(r[k]) for k in keys))
                for r in data["rows"]
            ),
        )
    }


def reading(data: dict[str, Any]) -> str:
    """What writes do to reads."""
    said = []
    for mix in PARAMETERS["mixes"]:
        tails = [r["p99_us"][0] / r["p50_us"][0] for r in data["rows"] if r["mix"] == mix]
        said.append(f"{min(tails):.1f} to {max(tails):.1f} times the median, {mix}")
    return f"p99 is {'; '.join(said)}: writes bring buffer flushes and garbage collection along."


def draw(data: dict[str, Any], path: Path) -> None:
    """Latency CDFs of the drives, the tail stretched."""
    rows = data["rows"]
    figure, axes = plt.subplots(figsize=(8, 5))
    profiles = list(dict.fromkeys(row["profile"] for row in rows))
    for row in rows:
        axes.plot(
            row["latency_us"], -np.log10(1 - np.array(row["share"])),
            color=f"C{profiles.index(row['profile'])}",
            linestyle="-" if row["mix"] == "read-write" else ":",
            label=f"{row['profile']}, {row['mix']}",
        )  # fmt: skip
    axes.set_yticks([0, 0.30103, 1, 2, 3, 4], ["p0", "p50", "p90", "p99", "p99.9", "p99.99"])
    axes.set(xscale="log", xlabel="read latency (us)")
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3, which="both")
    figures.save(figure, path)


EXPERIMENT = Experiment(
    name="fig01",
    title="Latency of the drives, with writes and without",
    source="LinnOS Fig. 1",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper="Read latencies have a tail from p75, p90 or p98 on, by model of drive, and hardly any "
    "without writes; its axis has no numbers.",
    differs="Emulated drives; their parameters come from published ranges "
    "(kernel/flashsim/profile.c). One drive and one minute a seed.",
    sources=("eval/intervals.py", "eval/scores.py"),
)
