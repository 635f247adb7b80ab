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

from eval import contenders, figures, guests, scores, workers
from eval.cache import code_version
from eval.cells import (
    ARRAYS,
    LATENCY_TRAINING,
    N_DRIVES,
    READS,
    Cell,
    Replay,
    Replayed,
    training_records,
    write_reads,
)
from eval.contenders import Contender
from eval.errors import StepError
from eval.experiment import NOT_AVAILABLE, Context, Experiment, Table
from eval.experiments.fig08 import cell_table
from eval.files import write_json
from eval.host import linnapp
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


def replay_trace(context: Context, path: Path) -> dict[str, Any]:
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
        for kind, options in (("models", ()), ("latency", LATENCY_TRAINING)):
            workers.train(
                blks, folder / kind, folder / f"{kind}.txt", "--seed", str(seed), *options
            )
        learnt = [record["training_reads"] for record in training_records(folder / "models")]
        write_json(folder / "facts.json", {**facts, "training_reads": sum(learnt) / N_DRIVES})

    source = context.cache.get("trace", made_from, learn)
    facts = json.loads((source / "facts.json").read_text())
    records = training_records(source / "models")
    ratio = sum(record["false_submit_ratio"] for record in records) / N_DRIVES
    options = (*OPTIONS, "--profile", source / "record" / "baseline.log")
    scenario = guests.Scenario(name, array, (source / "replay.iolog",), seed, options=options)

    cell = Cell(name, PARAMETERS["array"], seed, facts["part_s"], facts["part_s"])

    def one(contender: Contender) -> Replayed:
        def make(folder: Path) -> None:
            extra = contender.options
            if contender.policy == "linnos-hl":
                extra += ("--false-submit-ratio", f"{ratio:.6f}")
            chosen = replace(scenario, options=(*scenario.options, *extra))
            kind = "latency" if contender.policy in guests.NEEDS_LATENCY_MODEL else "models"
            models = [source / kind / f"flash{k}.linnos" for k in range(N_DRIVES)]
            run_ = guests.replay(chosen, contender.policy, folder, models=models)
            write_reads(folder / f"{contender.policy}.log", folder / READS)
            write_json(folder / "run.json", run_)

        parameters = {**made_from, "contender": contender.name}
        folder = context.cache.get("trace-replay", parameters, make)
        summary: dict[str, Any] = json.loads((folder / "run.json").read_text())
        return Replayed(
            Replay(cell, contender.policy), {**summary, "policy": contender.name}, folder
        )

    done = context.map(one, contenders.CONTENDERS, name)
    results = dict(zip(contenders.NAMES, done, strict=True))
    return {
        "trace": name, **facts, **scores.of_one_seed(results, cell.replay_s),
        "runs": [one.summary for one in done],
    }  # fmt: skip


def run(context: Context) -> dict[str, Any]:
    """Every trace that was named."""
    traces = [replay_trace(context, path) for path in TRACES]
    return {"runs": [run_ for trace in traces for run_ in trace.pop("runs")], "traces": traces}


def table(data: dict[str, Any]) -> dict[str, Table]:
    """A table a trace, as Fig. 8 has one a cell."""
    return {f"{trace['trace']}: {trace['reads']} reads": cell_table(trace)
            for trace in data["traces"]}  # fmt: skip


def reading(data: dict[str, Any]) -> str:
    """One paragraph a trace."""
    if not data["traces"]:
        return (
            f"No public trace was given, so nothing was measured. Name files in {VARIABLE}, "
            "separated by colons: `make eval-fig12 LINNOS_TRACES=a.csv:b.blk`."
        )
    parts = []
    for trace in data["traces"]:
        rival = scores.best_rival(trace)
        mean = {name: scores.number(p["mean_us"], 1) for name, p in trace["policies"].items()}
        parts.append(
            f"{trace['trace']} ({trace['iops']:.0f} I/Os a second, replayed {trace['rerate']:.1f} "
            f"times as fast for {trace['part_s']:.1f} s, {trace['reads']} reads; trained on "
            f"{trace['training_reads']:.0f} reads a drive): baseline {mean['baseline']} us, best "
            f"rival `{rival}` {mean[rival]}; "
            + "; ".join(
                f"`{name}` {mean[name]}, against the best rival "
                f"{scores.verdict(scores.below(trace, name, rival))}, against baseline "
                f"{scores.verdict(scores.below(trace, name, 'baseline'))}"
                for name in ("linnos", "linnos-hl", "lowest")
            )
            + "."
        )
    if min(trace["training_reads"] for trace in data["traces"]) < ENOUGH_READS:
        parts.append(
            f"Training asks for some {ENOUGH_READS} reads; what models learnt from fewer says "
            "little."
        )
    return "\n\n".join(parts)


def draw(data: dict[str, Any], path: Path) -> None:
    """Mean by policy of each public trace, with its interval."""
    traces = data["traces"]
    if not traces:
        figures.nothing(path, "no public trace was given")
        return
    figure, panels = plt.subplots(1, len(traces), squeeze=False, figsize=(4.5 * len(traces), 3.5))
    for axes, trace in zip(panels[0], traces, strict=True):
        for i, (name, fields) in enumerate(trace["policies"].items()):
            value, low, high = fields["mean_us"]
            axes.bar(
                i, value, yerr=[[value - low], [high - value]],
                color=figures.style(name).get("color", "grey"), capsize=2,
            )  # fmt: skip
        axes.set_xticks(
            range(len(trace["policies"])), list(trace["policies"]), rotation=60, ha="right",
            fontsize=7,
        )  # fmt: skip
        axes.set_title(trace["trace"], fontsize=9)
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
    "replayer's own thresholds. Intervals are of these drives and this stretch of the trace.",
    sources=("eval/contenders.py", "eval/scores.py", "eval/intervals.py"),
    command=f"make eval-fig12 {VARIABLE}=FILE:FILE",
)
