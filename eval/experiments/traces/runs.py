# SPDX-License-Identifier: MIT
"""Which traces there are, at which rates, and the steps of all that is made of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval import demo, trace_files
from eval.cells import training_records
from eval.experiment import Context
from eval.experiments.traces.replays import (
    BURSTS,
    CALM,
    GUARDED,
    HALF_S,
    MD_UNGUARDED,
    OFF,
    ON,
    ROWS,
    SEED,
    UNGUARDED,
    Brought,
    learnt,
    on_md,
    under_policy,
)
from eval.work import Step, StepError, Work

GIVEN = trace_files.GIVEN_OR_RECORDED

#: Of the demo's rate. A trace that is faster by itself is not slowed down, and what comes to the
#: same rate is replayed once.
RATES = (1.0, 0.5, 2.0)

PARAMETERS: dict[str, Any] = {
    "traces": trace_files.digests(GIVEN),
    "rows": [row.name for row in ROWS],
    "inject": demo.INJECT,
    "target_iops": [rate * demo.TARGET_IOPS for rate in RATES],
    "half_s": HALF_S,
    "seed": SEED,
}


def brought(name: str, path: Path) -> list[Brought]:
    """A trace at all rates that differ; StepError if it cannot be read, or has no reads."""
    try:
        facts = demo.inspected(path)
    except StepError as error:
        # By its name: where it lies is nobody else's concern.
        why = str(error).split("error: ")[-1].removeprefix(f"{path}: ")
        raise StepError(why.replace(str(path), name)) from None
    if not facts["reads"]:
        raise StepError("no reads")
    rates = dict.fromkeys(max(facts["iops_mean"], rate * demo.TARGET_IOPS) for rate in RATES)
    return [Brought(name, path, iops) for iops in rates]


@dataclass(frozen=True)
class Replays:
    """Steps of a trace at a rate."""

    trace: Brought
    source: Step[str | None]
    runs: list[Step[dict[str, Any] | None]]


def _replaying(work: Work, context: Context, trace: Brought) -> Replays:
    """Add all that is made of a trace; where nothing could be learnt the replays are None."""

    def learning() -> str | None:
        try:
            learnt(context, trace)
        except StepError as error:
            return str(error)
        return None

    source = work.add("learning", learning)
    runs: list[Step[dict[str, Any] | None]] = []

    def add(what: str, replay: Any, *given: Any, **more: Any) -> None:
        def replaying() -> dict[str, Any] | None:
            if source.result is not None:
                return None
            made: dict[str, Any] = replay(context, trace, *given, **more)
            return made

        runs.append(work.add(what, replaying, [source]))

    for slowness in (CALM, BURSTS):
        for row in ROWS:
            add("replaying", under_policy, row, slowness)
        for what in (UNGUARDED, GUARDED):
            policy, but = what.split(", ")
            add("replaying", under_policy, demo.Row(policy), slowness, but=but)
        for what in (OFF, ON, MD_UNGUARDED):
            add("replaying on md", on_md, what, slowness)
    return Replays(trace, source, runs)


def _left_out(name: str, error: str) -> dict[str, str]:
    """Why there is nothing of a trace, in a line."""
    why = error.splitlines()[0] if error else "failed"
    print(f"  {name}: left out: {why}", flush=True)
    return {"trace": name, "why": why}


def run(context: Context) -> dict[str, Any]:
    """Every trace that was named, one rate after the other."""
    left_out = []
    traces: list[tuple[int, Brought]] = []
    for name, path in trace_files.files(GIVEN).items():
        try:
            traces += enumerate(brought(name, path))
        except StepError as error:
            left_out.append(_left_out(name, str(error)))
    work = context.work()
    # The demo's rate of all of them first.
    steps = [
        _replaying(work, context, trace) for _, trace in sorted(traces, key=lambda item: item[0])
    ]
    work.do()
    done = [step for step in steps if step.source.result is None]
    for step in steps:
        if step.source.result is not None:
            left_out.append(
                _left_out(f"{step.trace.name}, {step.trace.iops:.0f}/s", step.source.result)
            )
    if not done:
        raise StepError("; ".join(f"{row['trace']}: {row['why']}" for row in left_out))
    return {
        "traces": [_facts(context, step.trace) for step in done],
        "left_out": left_out,
        "runs": [run_.result for step in done for run_ in step.runs],
    }


def _facts(context: Context, trace: Brought) -> dict[str, Any]:
    """Of each drive how many reads its models learnt from, and how many trees came of it."""
    records = training_records(learnt(context, trace) / "latency")
    return {
        **trace.told,
        **{
            name: [record[name] for record in records] for name in ("training_reads", "n_trees")
        },
    }  # fmt: skip
