# SPDX-License-Identifier: MIT
"""Public traces: any file in a format that `linnapp convert` knows, one volume on an array.

    make eval-fig12 LINNOS_TRACES=a.csv:b.blk

A folder stands for all traces in it. The first half of a trace is recorded and
trains the models, the second is replayed. Reads have their home drive in turn,
writes go to all drives.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt

from eval import contenders, figures, guests, heimdall, scores, trace_files, workers
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
from eval.contenders import Contender
from eval.experiment import Context, Experiment, Table
from eval.experiments.fig08 import cell_table
from eval.host import linnapp
from eval.work import Step, Work, write_json
from linnapp.lab.array import Array
from linnapp.trace.recorded import digest as file_digest

PARAMETERS: dict[str, Any] = {
    "traces": trace_files.digests(trace_files.GIVEN),
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


@dataclass(frozen=True)
class Source:
    """A trace on an array, recorded and learnt from."""

    #: The trace's.
    name: str
    #: Of the drives, the training and the replays.
    seed: int
    #: What is in the keys of its replays.
    made_from: dict[str, Any]
    #: Its models, and the part to be replayed.
    folder: Path

    @property
    def facts(self) -> dict[str, float]:
        """Of the trace, and how many reads a drive's models learnt from."""
        facts: dict[str, float] = json.loads((self.folder / "facts.json").read_text())
        return facts

    @property
    def cell(self) -> Cell:
        """What the replays are a cell of."""
        part_s = self.facts["part_s"]
        return Cell(self.name, PARAMETERS["array"], self.seed, part_s, part_s)


def drives(seed: int) -> Array:
    """A seed's array."""
    return Array(profile=ARRAYS[PARAMETERS["array"]], seed=seed)


def learnt(context: Context, path: Path, seed: int) -> Source:
    """Record the first half of a trace on a seed's drives, and train on it."""
    shared = {key: PARAMETERS[key] for key in ("array", "target_iops", "part_s")}
    recipe = code_version("eval/heimdall.py", "eval/experiments/fig12.py")
    made_from = {"file": file_digest([path])[:16], "seed": seed, "recipe": recipe, **shared}

    def learn(folder: Path) -> None:
        facts = prepare(path, folder)
        guests.record(
            guests.Scenario(
                path.name, drives(seed), (folder / "train.iolog",), seed, options=OPTIONS
            ),
            folder / "record",
        )
        blks = [folder / "record" / f"flash{k}.blk" for k in range(N_DRIVES)]
        for kind, options in (("models", NETWORK_TRAINING), ("latency", LATENCY_TRAINING)):
            workers.train(
                blks, folder / kind, folder / f"{kind}.txt", "--seed", str(seed), *options
            )
        log = folder / "record" / "baseline.log"
        train_heimdall(log, folder / "heimdall", seed, replicate_writes=True)
        learnt = [record["training_reads"] for record in training_records(folder / "models")]
        write_json(folder / "facts.json", {**facts, "training_reads": sum(learnt) / N_DRIVES})

    return Source(path.name, seed, made_from, context.cache.get("trace", made_from, learn))


def replay_under(context: Context, source: Source, contender: Contender) -> Replayed:
    """Replay the second half under a policy."""
    models_of = source.folder / "models"

    def make(folder: Path) -> None:
        profile = source.folder / "record" / "baseline.log"
        options: tuple[str | Path, ...] = (*OPTIONS, "--profile", profile, *contender.options)
        if contender.policy == "linnos-hl":
            ratios = [record["false_submit_ratio"] for record in training_records(models_of)]
            options += ("--false-submit-ratio", f"{sum(ratios) / N_DRIVES:.6f}")
        scenario = guests.Scenario(
            source.name, drives(source.seed), (source.folder / "replay.iolog",), source.seed,
            options=options,
        )  # fmt: skip
        needs_latency = contender.policy in guests.NEEDS_LATENCY_MODEL
        kind = source.folder / "latency" if needs_latency else models_of
        models = [kind / f"flash{k}.linnos" for k in range(N_DRIVES)]
        if contender.policy in guests.NEEDS_HEIMDALL:
            kind = source.folder / "heimdall"
            models = [kind / f"flash{k}{heimdall.SUFFIX}" for k in range(N_DRIVES)]
        run_ = guests.replay(scenario, contender.policy, folder, models=models)
        write_reads(folder / f"{contender.policy}.log", folder / READS)
        write_json(folder / "run.json", run_)

    parameters = {**source.made_from, "contender": contender.name}
    folder = context.cache.get("trace-replay", parameters, make)
    summary: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return Replayed(
        Replay(source.cell, contender.policy), {**summary, "policy": contender.name}, folder
    )


class Steps(NamedTuple):
    """Of one seed's drives."""

    source: Step[Source]
    replays: dict[str, Step[Replayed]]


def replaying(work: Work, context: Context, path: Path) -> list[Steps]:
    """Add the steps of one trace under every policy, on each seed's drives."""
    added = []
    for seed in context.seeds:
        source = work.add(f"{path.name}, learning", partial(learnt, context, path, seed))
        replays = {
            contender.name: work.add(
                f"{path.name}, replaying", partial(_replay, context, source, contender), [source]
            )
            for contender in contenders.CONTENDERS
        }
        added.append(Steps(source, replays))
    return added


def _replay(context: Context, source: Step[Source], contender: Contender) -> Replayed:
    return replay_under(context, source.result, contender)


def told(name: str, done: Sequence[Steps]) -> dict[str, Any]:
    """What there is to tell of a trace."""
    sources = [steps.source.result for steps in done]
    repeats = [
        {contender: step.result for contender, step in steps.replays.items()} for steps in done
    ]
    training_reads = [source.facts["training_reads"] for source in sources]
    return {
        "trace": name, **sources[0].facts, "training_reads": sum(training_reads) / len(sources),
        **scores.of_repeats(repeats, sources[0].cell.replay_s),
        "runs": [one.summary for by_name in repeats for one in by_name.values()],
    }  # fmt: skip


def run(context: Context) -> dict[str, Any]:
    """Every trace that was named."""
    work = context.work()
    steps = [
        (name, replaying(work, context, path))
        for name, path in trace_files.files(trace_files.GIVEN).items()
    ]
    work.do()
    traces = [told(name, done) for name, done in steps]
    return {"runs": [run_ for trace in traces for run_ in trace.pop("runs")], "traces": traces}


def table(data: dict[str, Any]) -> dict[str, Table]:
    """A table a trace, as Fig. 8 has one a cell."""
    return {f"{trace['trace']}: {trace['reads']} reads": cell_table(trace)
            for trace in data["traces"]}  # fmt: skip


def reading(data: dict[str, Any]) -> str:
    """Where ours stand against the best rival of each trace."""
    if not data["traces"]:
        return (
            "No public trace was given, so nothing was measured. Name files or "
            f"folders in {trace_files.VARIABLE}, separated by colons: `{EXPERIMENT.command}`."
        )
    parts = [
        f"`{name}` against the best rival of each trace: "
        + scores.by_verdict(
            (trace["trace"], scores.below(trace, name, scores.best_rival(trace)))
            for trace in data["traces"]
        )
        + "."
        for name in ("linnos", "linnos-hl", "lowest")
    ]
    parts += [
        f"{trace['trace']}: {trace['iops']:.0f} I/Os a second, replayed {trace['rerate']:.1f} "
        f"times as fast for {trace['part_s']:.1f} s; trained on {trace['training_reads']:.0f} "
        f"reads a drive, where training asks for some {ENOUGH_READS}."
        for trace in data["traces"]
    ]
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
    differs="Public traces are not part of this repository; they are given by path. They were "
    "recorded on disks, so they are sped up until they load the array. The heuristics have the "
    "replayer's own thresholds. A seed has drives of its own, the stretch of the trace is the "
    "same.",
    sources=(
        "eval/contenders.py",
        "eval/heimdall.py",
        "eval/intervals.py",
        "eval/scores.py",
        "eval/trace_files.py",
    ),
    command=f"make eval-fig12 {trace_files.VARIABLE}=FILE:FILE",
)
