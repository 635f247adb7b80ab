# SPDX-License-Identifier: MIT
"""Public traces: any file in a format that `linnapp convert` knows, one volume on an array.

    make eval-fig12 LINNOS_TRACES=a.csv:b.blk

A folder stands for all traces in it. The first half of a trace is recorded and trains the models,
the second is replayed. The reads' default replica is each drive in turn; writes go to all drives.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eval import contenders, heimdall, trace_files, workers
from eval.cache import code_version
from eval.cells import (
    ARRAYS,
    LATENCY_TRAINING,
    N_DRIVES,
    NETWORK_TRAINING,
    READS,
    Cell,
    Replay,
    Replayed,
    train_heimdall,
    training_records,
    write_reads,
)
from eval.experiment import Context
from eval.study import Study
from linnapp.lab import guests
from linnapp.lab.array import Array
from linnapp.lab.host import linnapp
from linnapp.lab.work import write_json
from linnapp.trace.reads import digest as file_digest

SETTINGS: dict[str, Any] = {"array": "enterprise", "target_iops": 6000, "part_s": 8.0}

#: Options of the replayer: one volume's trace for the whole array.
OPTIONS = (
    "--quiet", "--prefill", "none", "--settle-ms", "0", "--spread", "--replicate-writes", "--fit",
)  # fmt: skip


def prepare(source: Path, folder: Path) -> dict[str, float]:
    """Convert a trace and cut it in two, sped up until it loads the array.

    The public traces were recorded on disks; at their own rate flash would idle.
    """
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder / "whole.iolog"
    fit = str(Array().size_mb << 20)
    linnapp("convert", str(source), str(whole), "--fit", fit, "--device-name", "/dev/flash0")
    facts = json.loads(linnapp("inspect", str(whole), "--json"))
    iops = (facts["reads"] + facts["writes"]) / facts["duration_s"]
    rerate = max(1.0, SETTINGS["target_iops"] / iops)
    part_s = min(SETTINGS["part_s"] * rerate, facts["duration_s"] / 2)
    for name, first_s in (("train", 0.0), ("replay", part_s)):
        linnapp(
            "convert", str(whole), str(folder / f"{name}.iolog"),
            "--slice", f"{first_s}:{first_s + part_s}", "--rerate", f"{rerate}",
            "--device-name", "/dev/flash0",
        )  # fmt: skip
    return {"iops": iops, "rerate": rerate, "part_s": part_s / rerate}


def made_from(trace: str, seed: int) -> dict[str, Any]:
    """Return all that decides the replays of a trace, for the keys of the cache."""
    recipe = code_version("eval/heimdall.py", "eval/experiments/fig12.py")
    file = file_digest([trace_files.files(trace_files.GIVEN)[trace]])[:16]
    return {"file": file, "seed": seed, "recipe": recipe, **SETTINGS}


def scenario(trace: str, seed: int, workload: Path, *options: str | Path) -> guests.Scenario:
    """Return the replay of a part of a trace on a seed's array."""
    array = Array(profile=ARRAYS[SETTINGS["array"]], seed=seed)
    return guests.Scenario(trace, array, (workload,), seed, options=(*OPTIONS, *options))


def learn(context: Context, *, trace: str, seed: int) -> Path:
    """Record the first half of a trace on a seed's drives, and train on it."""

    def make(folder: Path) -> None:
        facts = prepare(trace_files.files(trace_files.GIVEN)[trace], folder)
        guests.record(scenario(trace, seed, folder / "train.iolog"), folder / "record")
        blks = [folder / "record" / f"flash{k}.blk" for k in range(N_DRIVES)]
        for kind, options in (("models", NETWORK_TRAINING), ("latency", LATENCY_TRAINING)):
            workers.train(
                blks, folder / kind, folder / f"{kind}.txt", "--seed", str(seed), *options
            )
        log = folder / "record" / "baseline.log"
        train_heimdall(log, folder / "heimdall", seed, replicate_writes=True)
        write_json(folder / "facts.json", facts)

    return context.cache.get("trace", made_from(trace, seed), make)


def measure(context: Context, *, trace: str, policy: str, seed: int) -> Replayed:
    """Replay the second half of a trace under a policy."""
    source = learn(context, trace=trace, seed=seed)
    (contender,) = contenders.named([policy])
    records = training_records(source / "models")

    def make(folder: Path) -> None:
        options = ["--profile", str(source / "record" / "baseline.log"), *contender.options]
        if contender.policy == "linnos-hl":
            ratio = sum(record["false_submit_ratio"] for record in records) / N_DRIVES
            options += ["--false-submit-ratio", f"{ratio:.6f}"]
        kind, suffix = "models", ".linnos"
        if contender.policy in guests.NEEDS_LATENCY_MODEL:
            kind = "latency"
        elif contender.policy in guests.NEEDS_HEIMDALL:
            kind, suffix = "heimdall", heimdall.SUFFIX
        models = [source / kind / f"flash{k}{suffix}" for k in range(N_DRIVES)]
        replay = scenario(trace, seed, source / "replay.iolog", *options)
        summary = guests.replay(replay, contender.policy, folder, models=models)
        write_reads(folder / f"{contender.policy}.log", folder / READS)
        write_json(folder / "run.json", summary)

    folder = context.cache.get("trace-replay", {**made_from(trace, seed), "policy": policy}, make)
    summary = json.loads((folder / "run.json").read_text())
    part_s = json.loads((source / "facts.json").read_text())["part_s"]
    n_reads = min(record["training_reads"] for record in records)
    cell = Cell(trace, SETTINGS["array"], seed, part_s, part_s)
    return Replayed(Replay(cell, contender.policy), {**summary, "training_reads": n_reads}, folder)


EXPERIMENT = Study(
    name="fig12",
    title="Public traces",
    source="LinnOS Fig. 12",
    factors={"trace": trace_files.names(trace_files.GIVEN)},
    policies=contenders.NAMES,
    cell=measure,
    prepare=learn,
    reads=True,
    settings={**SETTINGS, "files": trace_files.digests(trace_files.GIVEN)},
    differs="Public traces are not part of this repository; they are given by path. They were "
    "recorded on disks, so they are sped up until they load the array. The heuristics have the "
    "replayer's own thresholds. A seed has drives of its own, the stretch of the trace is the "
    "same.",
    notes="If no trace was named, nothing was measured. Training needs some 10,000 reads of a "
    "drive; `training_reads` in the long table is the number that there were.",
    sources=("eval/contenders.py", "eval/heimdall.py", "eval/intervals.py", "eval/scores.py",
             "eval/trace_files.py"),
    command=f"make eval-fig12 {trace_files.VARIABLE}=FILE:FILE",
)  # fmt: skip
