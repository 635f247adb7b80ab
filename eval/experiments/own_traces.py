# SPDX-License-Identifier: MIT
"""A trace that a user brings: what `make demo TRACE=` shows of it, with and without bursts, and md.

    make eval-own_traces LINNOS_TRACES=a.csv:b.blk

The first half of a trace is recorded on the demo's array and trains the models, the second is
replayed as the demo does it; then once more without its bursts; and both at half and at twice the
rate. The same half is replayed on an md raid1 of the three drives, with `linnos` off and on and
models of latencies. Nothing of a trace is kept but its name and what was measured.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from eval import demo, figures, guests, heimdall, workers
from eval.cache import code_version
from eval.cells import LATENCY_TRAINING, N_DRIVES, brief, train_heimdall, training_records
from eval.errors import StepError
from eval.experiment import NOT_AVAILABLE, Context, Experiment, Table
from eval.experiments import fig12
from eval.experiments.fig12 import TRACES, VARIABLE
from eval.files import write_json
from eval.host import linnapp
from linnapp.lab.array import CONFIGFS, WAIT_FOR_FULL_SECOND, Array
from linnapp.model.latency_model import TREES_TO_CHOOSE
from linnapp.trace.recorded import digest as file_digest

#: The demo's.
SEED = 1

ROWS = tuple(row for row in demo.ROWS if row.policy != "heuristic-adv")

UNGUARDED = "lowest, unguarded"

#: Those that are held against doing nothing.
OURS = ("linnos", "linnos-hl", "lowest", UNGUARDED, "lowest-h95, 5% cap")

#: Of the demo's rate. A trace that is faster by itself is not slowed down: at a rate that changes
#: nothing it is not replayed again.
RATES = (0.5, 1.0, 2.0)

CALM, BURSTS = "calm", "bursts"
OFF, ON = "md, off", "md, on"

#: Below that a difference of two means of one replay says nothing.
LEVEL = 0.01

#: The demo's bursts, for a replayer that sees the md array and not its mirrors. They begin at a
#: full second, as replays do, so at the same moments of a replay as the demo's; whose turn is first
#: may differ.
_BURSTS = (
    "".join(
        f"cd {CONFIGFS}/flash{k}/inject\n"
        "echo all >pattern; echo read >op; echo 2000 >latency_us\n"
        "echo 100000 >window_us; echo 500000 >window_every_us\n"
        f"echo {N_DRIVES} >window_turns; echo {1 << k} >window_turn_mask\n"
        for k in range(N_DRIVES)
    )
    + WAIT_FOR_FULL_SECOND
    + "".join(f"echo 1 >{CONFIGFS}/flash{k}/inject/arm\n" for k in range(N_DRIVES))
    + "cd /\n"
)

PARAMETERS: dict[str, Any] = {
    "traces": fig12.PARAMETERS["traces"],
    "rows": [row.name for row in ROWS],
    "inject": demo.INJECT,
    "target_iops": [rate * demo.TARGET_IOPS for rate in RATES],
    "seed": SEED,
}


@dataclass(frozen=True)
class Mirrored(Array):
    """An array that is read and written as one md raid1."""

    @property
    def devices(self) -> list[str]:
        """The md array's path in the guest."""
        return ["/dev/md0"]

    @property
    def drives(self) -> list[str]:
        """Paths of its mirrors."""
        return super().devices


@dataclass(frozen=True)
class Brought:
    """A trace at a rate, in the demo's."""

    path: Path
    rate: float = 1.0

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.path.name if self.rate == 1 else f"{self.path.name} x {self.rate:g}"

    @property
    def made_from(self) -> dict[str, Any]:
        """What decides all that is made of it."""
        recipe = code_version("eval/demo.py", "eval/heimdall.py", "eval/experiments/own_traces.py")
        return {"file": file_digest([self.path])[:16], "rate": self.rate, "recipe": recipe}


def learnt(context: Context, trace: Brought) -> Path:
    """Record a trace's first half as the demo does, and train on it; the folder that holds it."""

    def make(folder: Path) -> None:
        array = Array(seed=SEED)
        sources, train_s, replay_s = demo.workload(
            trace.path, array, folder / "workload", SEED,
            target_iops=trace.rate * demo.TARGET_IOPS,
        )  # fmt: skip
        train_slice = demo.slice_traces(sources, folder / "train", 0, train_s)
        demo.slice_traces(sources, folder / "replay", train_s, train_s + replay_s)
        recording = guests.Scenario("record", array, train_slice, SEED, options=demo.VOLUME)
        blks = guests.record(recording, folder / "record")
        for kind, options in (("networks", ()), ("latency", LATENCY_TRAINING)):
            workers.train(
                blks, folder / kind, folder / f"{kind}.txt", "--seed", str(SEED),
                "--even-if-worse", *options,
            )  # fmt: skip
        log = folder / "record" / "baseline.log"
        train_heimdall(log, folder / "heimdall", SEED, replicate_writes=True)

    return context.cache.get("own-trace", trace.made_from, make)


def _models(folder: Path, kind: str) -> list[Path]:
    suffix = heimdall.SUFFIX if kind == "heimdall" else ".linnos"
    return [folder / kind / f"flash{k}{suffix}" for k in range(N_DRIVES)]


def _kind_for(policy: str) -> str:
    """Which of the models a policy has."""
    if policy in guests.NEEDS_HEIMDALL:
        return "heimdall"
    return "latency" if policy in guests.NEEDS_LATENCY_MODEL else "networks"


def _kept(context: Context, trace: Brought, what: str, slowness: str, make: Any) -> dict[str, Any]:
    """A run's record, made now unless it is there."""

    def making(folder: Path) -> None:
        write_json(folder / "run.json", brief(make(folder)))

    parameters = {**trace.made_from, "what": what, "slowness": slowness}
    folder = context.cache.get("own-trace-replay", parameters, making)
    run_: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return {**run_, "policy": what, "trace": trace.name, "slowness": slowness}


def under_policy(
    context: Context, trace: Brought, row: demo.Row, slowness: str, *, unguarded: bool = False
) -> dict[str, Any]:
    """Replay a trace's second half under a policy, as the demo does it."""
    source = learnt(context, trace)

    def make(folder: Path) -> dict[str, Any]:
        recorded = source / "record" / "baseline.log"
        scenario = guests.Scenario(
            f"{trace.name}, {slowness}", Array(seed=SEED), (source / "replay" / "volume.iolog",),
            SEED, demo.INJECT if slowness == BURSTS else None,
            (*demo.VOLUME, *row.options(recorded), *(("--unguarded",) if unguarded else ())),
        )  # fmt: skip
        p95_us = float(np.percentile(guests.read_latency_us(recorded), 95))
        return guests.replay(
            scenario, row.policy, folder, models=_models(source, _kind_for(row.policy)),
            hedge_us=p95_us if row.hedges else None,
        )  # fmt: skip

    return _kept(context, trace, UNGUARDED if unguarded else row.name, slowness, make)


def on_md(context: Context, trace: Brought, what: str, slowness: str) -> dict[str, Any]:
    """Replay a trace's second half on md raid1, models of latencies in its mirrors."""
    source = learnt(context, trace)

    def make(folder: Path) -> dict[str, Any]:
        array = Mirrored(seed=SEED)
        for model in _models(source, "latency"):
            (folder / model.name).write_bytes(model.read_bytes())
        places = guests.places_of(folder)
        models = [places.of(folder / model.name) for model in _models(source, "latency")]
        prepare = (
            f"mdadm --create {array.devices[0]} --run --metadata=1.2 --assume-clean "
            f"--bitmap=internal --level=1 --raid-devices={N_DRIVES} {' '.join(array.drives)}\n"
            + guests.upload(array.drives, models, "observe")
            + f"echo {'on' if what == ON else 'off'} >/sys/block/md0/md/linnos\n"
            + (_BURSTS if slowness == BURSTS else "")
        )
        scenario = guests.Scenario(
            f"{trace.name}, {what}, {slowness}", array, (source / "replay" / "volume.iolog",),
            SEED, options=("--fit",),
        )  # fmt: skip
        return guests.replay(scenario, "baseline", folder, prepare=prepare)

    return _kept(context, trace, what, slowness, make)


def _brought(path: Path) -> list[Brought]:
    """A trace at all rates that differ."""
    if not path.is_file():
        raise StepError(f"{path}: no such file (named in {VARIABLE})")
    iops = json.loads(linnapp("inspect", str(path), "--json"))["iops_mean"]
    # At twice the rate the one that is as fast by itself would be at any.
    changed = [rate for rate in RATES if rate * demo.TARGET_IOPS > iops] or [1.0]
    return [Brought(path, rate) for rate in changed]


def run(context: Context) -> dict[str, Any]:
    """Every trace that was named."""
    work = context.work()
    runs = []
    traces = [trace for path in TRACES for trace in _brought(path)]
    for trace in traces:
        source = work.add("learning", partial(learnt, context, trace))
        for slowness in (CALM, BURSTS):
            for row in ROWS:
                replaying = partial(under_policy, context, trace, row, slowness)
                runs.append(work.add("replaying", replaying, [source]))
            freely = partial(
                under_policy, context, trace, demo.Row("lowest"), slowness, unguarded=True
            )
            runs.append(work.add("replaying", freely, [source]))
            for what in (OFF, ON):
                replaying = partial(on_md, context, trace, what, slowness)
                runs.append(work.add("replaying on md", replaying, [source]))
    work.do()
    return {
        "traces": [_facts(context, trace) for trace in traces],
        "runs": [step.result for step in runs],
    }


def _facts(context: Context, trace: Brought) -> dict[str, Any]:
    """Of each drive how many reads its models learnt from, and how many trees came of it."""
    records = training_records(learnt(context, trace) / "latency")
    facts: dict[str, Any] = {"trace": trace.name}
    for name in ("training_reads", "n_trees"):
        facts[name] = [record[name] for record in records]
    return facts


def _by_policy(data: dict[str, Any], trace: str, slowness: str) -> dict[str, dict[str, Any]]:
    return {
        run_["policy"]: run_
        for run_ in data["runs"]
        if (run_["trace"], run_["slowness"]) == (trace, slowness)
    }


def _each(data: dict[str, Any]) -> list[tuple[dict[str, Any], str, dict[str, dict[str, Any]]]]:
    """Each trace, calm and with bursts, with its runs."""
    return [
        (fact, slowness, _by_policy(data, fact["trace"], slowness))
        for slowness in (CALM, BURSTS)
        for fact in data["traces"]
    ]


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Mean and p99 under each policy, then on md."""

    def rows(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        return tuple(
            (
                fact["trace"], slowness, _learnt_from(fact),
                *(_told(runs.get(name)) for name in names),
            )
            for fact, slowness, runs in _each(data)
        )  # fmt: skip

    policies = (*(row.name for row in ROWS), UNGUARDED)
    head = ("trace", "slowness", "reads to learn from")
    return {
        "Read latency (us), mean / p99": Table((*head, *policies), rows(policies)),
        "On md raid1, with models of latencies (us), mean / p99": Table(
            (*head, OFF, ON), rows((OFF, ON))
        ),
    }


def _learnt_from(fact: dict[str, Any]) -> str:
    def less(trees: int) -> str:
        if trees >= TREES_TO_CHOOSE:
            return ""
        return " (bursts alone)" if trees else " (no trees)"

    return ", ".join(
        f"{reads}{less(trees)}"
        for reads, trees in zip(fact["training_reads"], fact["n_trees"], strict=True)
    )


def _told(run_: dict[str, Any] | None) -> str:
    if run_ is None:
        return "-"
    p99 = "-" if run_["p99_us"] is None else f"{run_['p99_us']:.0f}"
    return f"{run_['mean_us']:.0f} / {p99}"


def above(runs: dict[str, dict[str, Any]], policy: str, reference: str) -> float:
    """By what share a policy's mean is above another's; negative below it."""
    return float(runs[policy]["mean_us"] / runs[reference]["mean_us"] - 1)


def reading(data: dict[str, Any]) -> str:
    """Where each of ours takes longer than doing nothing, and md with the attribute on than off."""
    if not data["traces"]:
        return (
            f"No trace was given, so nothing was measured. Name files in {VARIABLE}, separated by "
            f"colons: `{EXPERIMENT.command}`."
        )
    parts = []
    for policy, reference in (*((policy, "baseline") for policy in OURS), (ON, OFF)):
        said: dict[str, list[str]] = {"above": [], "below": [], "level with": []}
        for fact, slowness, runs in _each(data):
            share = above(runs, policy, reference)
            word = "above" if share > LEVEL else "below" if share < -LEVEL else "level with"
            said[word].append(f"{fact['trace']} {slowness} ({share:+.0%})")
        parts.append(
            f"`{policy}` against `{reference}`, by the mean: "
            + "; ".join(
                f"{word} it in {', '.join(where) or 'none'}" for word, where in said.items()
            )
            + "."
        )
    errors = sum(run_["data_errors"] + run_["io_errors"] for run_ in data["runs"])
    parts.append(f"One stretch of each trace, without intervals. Data and I/O errors: {errors}.")
    return "\n\n".join(parts)


def draw(data: dict[str, Any], path: Path) -> None:
    """Means of ours relative to doing nothing, a row a trace."""
    each = _each(data)
    if not each:
        figures.nothing(path, "no trace was given")
        return
    figure, axes = plt.subplots(figsize=(8, 0.4 * len(each) + 1.5))
    for i, (_, _, runs) in enumerate(each):
        for policy, reference in (*((policy, "baseline") for policy in OURS), (ON, OFF)):
            marker = "s" if policy == ON else "o"
            style = {"color": "black"} if policy == ON else figures.style(policy)
            axes.plot(
                100 * above(runs, policy, reference), i, marker, color=style.get("color", "grey"),
                label=None if i else policy,
            )  # fmt: skip
    axes.axvline(0, color="black", linewidth=0.5)
    labels = [f"{fact['trace'][:40]}, {slowness}" for fact, slowness, _ in each]
    axes.set_yticks(range(len(each)), labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("mean above doing nothing (%)")
    axes.legend(fontsize=7)
    figure.tight_layout()
    figures.save(figure, path)


EXPERIMENT = Experiment(
    name="own_traces",
    title="A trace that a user brings",
    source="not in the papers",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper=NOT_AVAILABLE,
    differs="Traces are given by path and are not part of this repository. They are replayed as "
    "`make demo TRACE=` does, sped up to 2000 I/Os a second if they were slower, and to half and "
    "twice that, writes on all drives; without its bursts (calm) and with them.",
    sources=("eval/demo.py", "eval/heimdall.py", "eval/experiments/fig12.py"),
    command=f"make eval-own_traces {VARIABLE}=FILE:FILE",
    numbers=lambda data: [
        {key: run_[key] for key in ("trace", "slowness", "policy", "mean_us", "p99_us", "reads")}
        for run_ in data["runs"]
    ],
)
