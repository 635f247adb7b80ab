# SPDX-License-Identifier: MIT
"""Replay public and user-supplied traces under all policies, and on md raid1.

    make eval-traces LINNOS_TRACES=DIR

Without the variable the traces are the applications recorded in traces/recorded. The first half of
a trace is recorded on the demo's array and trains the models. The second is replayed as in the
demo, calm and with the demo's bursts, then on an md raid1 of the three drives whose mirrors have
models of latencies, with `linnos` off, on and unguarded, and with md's read policy `latency`. Only
the name of a trace and the measurements are kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eval import contenders, demo, heimdall, trace_counts, trace_files, workers
from eval.cache import RESULTS, ROOT, code_version
from eval.cells import LATENCY_TRAINING, N_DRIVES, READS, train_heimdall, write_reads
from eval.experiment import Context
from eval.scores import Reads
from eval.study import Study, load_study_texts
from eval.trace_counts import BURSTS, CALM, MD_UNGUARDED, OFF, ON, UNGUARDED
from linnapp.lab import guests
from linnapp.lab.array import CONFIGFS, WAIT_FOR_FULL_SECOND, Array
from linnapp.lab.demo import INJECT, Row, slice_traces
from linnapp.lab.work import StepError, write_json
from linnapp.trace.reads import digest as file_digest

#: The seed of the demo.
SEED = 1

ROWS = {
    row.name: row
    for row in contenders.rows(
        (
            "baseline", "random", "fastest", "fastest with duplicates",
            "fastest with duplicates (limit 5 %)", "linnos", "linnos-hl, 5% cap", "shortest-queue",
            "shortest-queue-h95, 5% cap", "shortest-queue-h95", "fewest", "ewma-inflight",
            "heuristic", "heuristic-adv", "c3", "prequal", "heimdall", "hedge, 5% cap", "hedge",
            "hedge-ip", "clone", "oracle",
        )
    )
}  # fmt: skip

#: Multiples of the demo's rate. A trace that is faster is not slowed down, and multiples that give
#: the same rate are replayed once.
RATES = (0.5, 1.0, 2.0)

#: Each half of a longer trace is cut to this length.
HALF_S = 30.0

#: Fewer reads in a half are not enough to learn from, or to draw conclusions from.
MIN_READS = 300


def burst_script(n_drives: int) -> str:
    """Return shell commands for the demo's bursts, if the replayer sees md and not its mirrors.

    They begin at a full second, as replays do, so at the same moments of a replay as the demo's;
    the first drive may differ.
    """
    lines = [
        f"cd {CONFIGFS}/flash{k}/inject\n"
        "echo all >pattern; echo read >op; echo 2000 >latency_us\n"
        "echo 100000 >window_us; echo 500000 >window_every_us\n"
        f"echo {n_drives} >window_turns; echo {1 << k} >window_turn_mask\n"
        for k in range(n_drives)
    ]
    lines.append(WAIT_FOR_FULL_SECOND)
    lines += [f"echo 1 >{CONFIGFS}/flash{k}/inject/arm\n" for k in range(n_drives)]
    return "".join(lines) + "cd /\n"


#: md's settings under each name in the tables: its number of mirrors, and what is written to which
#: attribute of the array.
MD = {
    OFF: (N_DRIVES, "off", "linnos"),
    ON: (N_DRIVES, "on", "linnos"),
    MD_UNGUARDED: (N_DRIVES, "unguarded", "linnos"),
    trace_counts.MD_LATENCY: (N_DRIVES, "latency", "read_policy"),
    trace_counts.OFF_TWO_MIRRORS: (2, "off", "linnos"),
    trace_counts.ON_TWO_MIRRORS: (2, "on", "linnos"),
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
class TraceAtRate:
    """A trace at the rate of its replays."""

    name: str
    path: Path
    iops: float

    @property
    def made_from(self) -> dict[str, Any]:
        """Key of its models and replays in the cache."""
        recipe = code_version("eval/demo.py", "eval/heimdall.py", "eval/experiments/traces.py")
        return {"file": file_digest([self.path])[:16], "iops": self.iops, "recipe": recipe}


def inspect(path: Path, name: str) -> dict[str, Any]:
    """Return the output of `linnapp inspect` for a trace; raise StepError if it has no reads."""
    try:
        facts = demo.inspect_trace(path)
    except StepError as error:
        # The message has the trace's name instead of its path on this machine.
        why = str(error).split("error: ")[-1].removeprefix(f"{path}: ")
        raise StepError(why.replace(str(path), name)) from None
    if not facts["reads"]:
        raise StepError("the trace has no reads")
    return facts


def at_rate(trace: str, rate: float) -> TraceAtRate | None:
    """Return a trace at a multiple of the demo's rate, or None if a smaller one gives the same."""
    path = trace_files.files(trace_files.GIVEN_OR_RECORDED)[trace]
    own = inspect(path, trace)["iops_mean"]
    iops = {of: max(own, of * demo.TARGET_IOPS) for of in RATES}
    if any(iops[of] == iops[rate] for of in RATES if of < rate):
        return None
    return TraceAtRate(trace, path, iops[rate])


def learn(context: Context, trace: TraceAtRate) -> Path:
    """Record a trace's first half as the demo does, and train on it."""

    def make(folder: Path) -> None:
        array = Array(seed=SEED)
        sources, half_s = demo.convert_trace(trace.path, array, folder / "workload", trace.iops)
        half_s = min(half_s, HALF_S)
        train_slice = slice_traces(sources, folder / "train", 0, half_s)
        replay_slice = slice_traces(sources, folder / "replay", half_s, 2 * half_s)
        for which, (half,) in (("first", train_slice), ("second", replay_slice)):
            reads = demo.inspect_trace(half)["reads"]
            if reads < MIN_READS:
                raise StepError(
                    f"the {which} half has {reads} reads; at least {MIN_READS} are needed"
                )
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


#: The reason for each omitted combination of a trace and a rate.
_left_out: dict[tuple[str, float], str] = {}


def prepare(context: Context, *, trace: str, rate: float, slowness: str, seed: int) -> None:
    """Train on a trace. If the trace cannot be used, print the reason and omit it."""
    if (trace, rate) in _left_out:
        return
    try:
        found = at_rate(trace, rate)
        if found is not None:
            learn(context, found)
    except StepError as error:
        _left_out[trace, rate] = (str(error).splitlines() or ["failed"])[0]
        print(f"  {trace}, rate {rate:g}: left out: {_left_out[trace, rate]}", flush=True)


def measure(
    context: Context, *, trace: str, rate: float, slowness: str, policy: str, seed: int
) -> Reads | None:
    """Replay a trace's second half under a policy, or on md raid1."""
    if (trace, rate) in _left_out or (found := at_rate(trace, rate)) is None:
        return None
    if policy in MD:
        return on_md(context, found, policy, slowness)
    base, but = policy, ""
    if policy == UNGUARDED:
        base, but = policy.split(", ")
    return under_policy(context, found, ROWS[base], slowness, but=but)


def _models(folder: Path, kind: str) -> list[Path]:
    suffix = heimdall.SUFFIX if kind == "heimdall" else ".linnos"
    return [folder / kind / f"flash{k}{suffix}" for k in range(N_DRIVES)]


def _kind_for(policy: str) -> str:
    """Return the kind of models that a policy needs."""
    if policy in guests.NEEDS_HEIMDALL:
        return "heimdall"
    return "latency" if policy in guests.NEEDS_LATENCY_MODEL else "networks"


def _replayed(
    context: Context, trace: TraceAtRate, what: str, slowness: str,
    replay: Callable[[Path], dict[str, Any]],
) -> Reads:  # fmt: skip
    """Return a replay's reads, from the cache if it is there."""

    def make(folder: Path) -> None:
        summary = replay(folder)
        (log,) = folder.glob("*.log")
        write_reads(log, folder / READS)
        write_json(folder / "run.json", summary)

    parameters = {**trace.made_from, "what": what, "slowness": slowness}
    folder = context.cache.get("own-trace-replay", parameters, make)
    with np.load(folder / READS) as reads:
        due_us, latency_us = reads["due_us"], reads["latency_us"]
    summary = json.loads((folder / "run.json").read_text())
    return Reads(due_us, latency_us, (due_us.max() + 1) / 1e6, {**summary, "iops": trace.iops})


def under_policy(
    context: Context, trace: TraceAtRate, row: Row, slowness: str, *, but: str = ""
) -> Reads:
    """Replay a trace's second half under a policy, as the demo does it except for an option."""
    source = learn(context, trace)

    def replay(folder: Path) -> dict[str, Any]:
        recorded = source / "record" / "baseline.log"
        scenario = guests.Scenario(
            f"{trace.name}, {slowness}", Array(seed=SEED), (source / "replay" / "volume.iolog",),
            SEED, INJECT if slowness == BURSTS else None,
            (*demo.VOLUME, *row.options(recorded), *((f"--{but}",) if but else ())),
        )  # fmt: skip
        p95_us = float(np.percentile(guests.read_latency_us(recorded), 95))
        return guests.replay(
            scenario, row.policy, folder, models=_models(source, _kind_for(row.policy)),
            hedge_us=p95_us if row.hedges else None,
        )  # fmt: skip

    return _replayed(context, trace, f"{row.name}, {but}" if but else row.name, slowness, replay)


def models_of_mirrors(source: Path) -> list[Path]:
    """Return the latency models of the mirrors; none if `linnapp enable` would load none.

    If there are too few reads, training makes the prior, which `enable` does not load.
    """
    found = _models(source, "latency")
    records = [json.loads(model.with_suffix(".json").read_text()) for model in found]
    return [] if any(record.get("prior") for record in records) else found


def on_md(context: Context, trace: TraceAtRate, what: str, slowness: str) -> Reads:
    """Replay a trace's second half on md raid1, with models of latencies in its mirrors.

    Two mirrors have the models of the first two drives of three.
    """
    source = learn(context, trace)
    n_mirrors, value, attribute = MD[what]
    loaded = models_of_mirrors(source)[:n_mirrors]

    def replay(folder: Path) -> dict[str, Any]:
        array = Mirrored(n_drives=n_mirrors, seed=SEED)
        for model in loaded:
            (folder / model.name).write_bytes(model.read_bytes())
        places = guests.places_of(folder)
        models = [places.of(folder / model.name) for model in loaded]
        prepare = (
            f"mdadm --create {array.devices[0]} --run --metadata=1.2 --assume-clean "
            f"--bitmap=internal --level=1 --raid-devices={n_mirrors} {' '.join(array.drives)}\n"
            + (guests.upload(array.drives, models, "observe") if models else "")
            + f"echo {value} >/sys/block/md0/md/{attribute}\n"
            + (burst_script(n_mirrors) if slowness == BURSTS else "")
        )
        scenario = guests.Scenario(
            f"{trace.name}, {what}, {slowness}", array, (source / "replay" / "volume.iolog",),
            SEED, options=("--fit",),
        )  # fmt: skip
        return guests.replay(scenario, "baseline", folder, prepare=prepare)

    return _replayed(context, trace, what, slowness, replay)


EXPERIMENT = Study(
    **load_study_texts("traces"),
    factors={
        "trace": trace_files.names(trace_files.GIVEN_OR_RECORDED),
        "rate": RATES,
        "slowness": (CALM, BURSTS),
    },
    policies=(*ROWS, UNGUARDED, *MD),
    cell=measure,
    prepare=prepare,
    reads=True,
    seeds=lambda seeds, **place: seeds[:1],
    seed_fields=("iops", "reads", "mean_us", "p99_us", "elapsed_s", "extra_io_ratio"),
    compared=trace_counts.COMPARED,
    page_data=trace_counts.page_data,
    inputs={"traces": trace_files.digests(trace_files.GIVEN_OR_RECORDED)},
    pages={
        "traces_front.md.j2": ROOT / "README.md",
        "traces_summed.md.j2": ROOT / "docs" / "results.md",
        "traces_all.md.j2": RESULTS / "tables.md",
    },
)
