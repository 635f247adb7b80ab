# SPDX-License-Identifier: MIT
"""Public traces: any file in a format that `linnapp convert` knows, one volume on an array.

    make eval-fig12 LINNOS_TRACES=a.csv:b.blk

The first half of a trace is recorded and trains the models, the second is
replayed. Reads have their home drive in turn, writes go to all drives.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from eval import contenders, figures, guests, workers
from eval.cache import code_version
from eval.cells import ARRAYS, N_DRIVES, brief, training_records
from eval.contenders import Contender
from eval.errors import StepError
from eval.experiment import NOT_AVAILABLE, Context, Experiment, Table
from eval.files import write_json
from eval.host import linnapp
from eval.metrics import improvement, oracle_share, percent
from linnapp.lab.array import Array
from linnapp.trace.recorded import digest as file_digest

VARIABLE = "LINNOS_TRACES"

TRACES = tuple(Path(path) for path in os.environ.get(VARIABLE, "").split(":") if path)

PARAMETERS: dict[str, Any] = {
    # By name and content: where they lie does not matter.
    "traces": [
        [path.name, file_digest([path])[:16] if path.is_file() else "missing"] for path in TRACES
    ],
    "array": "enterprise",
    "contenders": contenders.NAMES,
    "target_iops": 6000,
    "part_s": 8.0,
}


#: What training asks for when it refuses a trace.
ENOUGH_READS = 10_000

#: Of the replayer: one volume's trace for the whole array.
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
    rerate = max(1.0, PARAMETERS["target_iops"] / iops)
    part_s = min(PARAMETERS["part_s"] * rerate, facts["duration_s"] / 2)
    for name, first_s in (("train", 0.0), ("replay", part_s)):
        linnapp(
            "convert", str(whole), str(folder / f"{name}.iolog"),
            "--slice", f"{first_s}:{first_s + part_s}", "--rerate", f"{rerate}",
            "--device-name", "/dev/flash0",
        )  # fmt: skip
    return {"iops": iops, "rerate": rerate, "part_s": part_s / rerate}


def replay_trace(context: Context, path: Path) -> list[dict[str, Any]]:
    """One trace under every policy."""
    if not path.is_file():
        raise StepError(f"{path}: no such file (named in {VARIABLE})")
    file_id = file_digest([path])[:16]
    seed = context.seeds[0]
    name = path.name
    array = Array(profile=ARRAYS[PARAMETERS["array"]], seed=seed)
    shared = {key: PARAMETERS[key] for key in ("array", "target_iops", "part_s")}
    recipe = code_version("eval/experiments/fig12.py")
    made_from = {"file": file_id, "seed": seed, "recipe": recipe, **shared}

    def learn(folder: Path) -> None:
        facts = prepare(path, folder)
        guests.record(
            guests.Scenario(name, array, (folder / "train.iolog",), seed, options=OPTIONS),
            folder / "record",
        )
        blks = [folder / "record" / f"flash{k}.blk" for k in range(N_DRIVES)]
        workers.train(blks, folder / "models", folder / "train.txt", "--seed", str(seed))
        learnt = [record["training_reads"] for record in training_records(folder / "models")]
        write_json(folder / "facts.json", {**facts, "training_reads": sum(learnt) / N_DRIVES})

    source = context.cache.get("trace", made_from, learn)
    facts = json.loads((source / "facts.json").read_text())
    records = training_records(source / "models")
    models = [source / "models" / f"flash{k}.linnos" for k in range(N_DRIVES)]
    ratio = sum(record["false_submit_ratio"] for record in records) / N_DRIVES
    options = (*OPTIONS, "--profile", source / "record" / "baseline.log")
    scenario = guests.Scenario(name, array, (source / "replay.iolog",), seed, options=options)

    def one(contender: Contender) -> dict[str, Any]:
        def make(folder: Path) -> None:
            extra = contender.options
            if contender.policy == "linnos-hl":
                extra += ("--false-submit-ratio", f"{ratio:.6f}")
            chosen = replace(scenario, options=(*scenario.options, *extra))
            run_ = guests.replay(chosen, contender.policy, folder, models=models)
            write_json(folder / "run.json", run_)

        parameters = {**made_from, "contender": contender.name}
        folder = context.cache.get("trace-replay", parameters, make)
        summary: dict[str, Any] = json.loads((folder / "run.json").read_text())
        return {**summary, "policy": contender.name}

    runs = context.map(one, contenders.CONTENDERS, name)
    return [{"trace": name, **facts, **brief(run_), "full": run_} for run_ in runs]


def run(context: Context) -> dict[str, Any]:
    """Every trace that was named."""
    rows = [row for path in TRACES for row in replay_trace(context, path)]
    return {"runs": [row.pop("full") for row in rows], "rows": rows}


def _by_trace(data: dict[str, Any], key: str) -> dict[str, dict[str, float]]:
    grid: dict[str, dict[str, float]] = {}
    for row in data["rows"]:
        grid.setdefault(row["trace"], {})[row["policy"]] = row[key]
    return grid


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Mean and p99 of each trace and policy."""
    if not data["rows"]:
        return {}
    policies = list(dict.fromkeys(row["policy"] for row in data["rows"]))
    return {
        f"{name} (us)": Table(
            ("trace", *policies),
            tuple(
                (trace, *(f"{values[p]:.1f}" for p in policies))
                for trace, values in _by_trace(data, key).items()
            ),
        )
        for key, name in (("mean_us", "Mean"), ("p99_us", "p99"))
    }


def reading(data: dict[str, Any]) -> str:
    """One line a trace."""
    if not data["rows"]:
        return (
            f"No public trace was given, so nothing was measured. Name files in {VARIABLE}, "
            "separated by colons: `make eval-fig12 LINNOS_TRACES=a.csv:b.blk`."
        )
    lines = []
    for trace, v in _by_trace(data, "mean_us").items():
        facts = next(row for row in data["rows"] if row["trace"] == trace)
        lines.append(
            f"{trace} ({facts['iops']:.0f} I/Os a second, replayed {facts['rerate']:.1f} times as "
            f"fast for {facts['part_s']:.1f} s, {facts['reads']} reads; trained on "
            f"{facts['training_reads']:.0f} reads a drive): baseline "
            f"{v['baseline']:.1f} us, hedge {v['hedge']:.1f}, linnos {v['linnos']:.1f} "
            f"({percent(improvement(v['linnos'], v['baseline']))} below baseline, "
            f"{percent(improvement(v['linnos'], v['hedge']))} below hedge, "
            f"{percent(oracle_share(v['linnos'], v['baseline'], v['oracle']), 0)} of the "
            "oracle's gain)."
        )
    lines.append(
        f"Training asks for some {ENOUGH_READS} reads; what models learnt from fewer says little."
        if min(row["training_reads"] for row in data["rows"]) < ENOUGH_READS
        else ""
    )
    return "\n\n".join(lines).strip()


def draw(data: dict[str, Any], path: Path) -> None:
    """Mean by policy of each public trace."""
    rows = data["rows"]
    if not rows:
        figures.nothing(path, "no public trace was given")
        return
    traces = list(dict.fromkeys(row["trace"] for row in rows))
    figure, panels = plt.subplots(1, len(traces), squeeze=False, figsize=(4.5 * len(traces), 3.5))
    for axes, trace in zip(panels[0], traces, strict=True):
        same = [row for row in rows if row["trace"] == trace]
        for i, row in enumerate(same):
            axes.bar(i, row["mean_us"], color=figures.style(row["policy"]).get("color", "grey"))
        axes.set_xticks(
            range(len(same)), [row["policy"] for row in same], rotation=60, ha="right", fontsize=7
        )
        axes.set_title(trace, fontsize=9)
    panels[0][0].set_ylabel("mean read latency (us)")
    figure.tight_layout()
    figures.save(figure, path)


EXPERIMENT = Experiment(
    name="fig12",
    title="Public traces",
    source="LinnOS Fig. 12",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper=NOT_AVAILABLE,
    differs="Public traces are not part of this repository; they are given by path. They were "
    "recorded on disks, so they are sped up until they load the array. The heuristics have the "
    "replayer's own thresholds; no intervals.",
    command=f"make eval-fig12 {VARIABLE}=FILE:FILE",
)
