# SPDX-License-Identifier: MIT
"""What is recorded and replayed of a trace: each policy calm and with bursts, then md.

The first half of a trace is recorded on the demo's array and trains the models, the second is
replayed as the demo does it, and once more without its bursts. The same half is replayed on an md
raid1 of the three drives, with `linnos` off, on and unguarded and models of latencies. Nothing of a
trace is kept but its name and what was measured.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eval import demo, guests, heimdall, workers
from eval.cache import code_version
from eval.cells import LATENCY_TRAINING, N_DRIVES, brief, read_log, train_heimdall
from eval.experiment import Context
from eval.intervals import BLOCKS, Blocks
from eval.work import StepError, write_json
from linnapp.lab.array import CONFIGFS, WAIT_FOR_FULL_SECOND, Array
from linnapp.trace.recorded import digest as file_digest

#: The demo's.
SEED = 1

#: Each of them is in a table; the demo has more.
ROWS = (
    demo.Row("baseline"),
    demo.Row("random"),
    demo.Row("lowest"),
    demo.Row("lowest-two", capped=True),
    demo.Row("lowest-h95", capped=True),
    demo.Row("linnos"),
    demo.Row("linnos-hl", capped=True),
    demo.Row("shortest-queue"),
    demo.Row("shortest-queue-h95", capped=True),
    demo.Row("shortest-queue-h95"),
    demo.Row("heuristic"),
    demo.Row("heuristic-adv"),
    demo.Row("c3"),
    demo.Row("prequal"),
    demo.Row("heimdall"),
    demo.Row("hedge", capped=True),
    demo.Row("hedge"),
    demo.Row("hedge-ip"),
    demo.Row("clone"),
    demo.Row("oracle"),
)

#: A row's policy the other way: predictions followed whatever comes of it, refusals not.
UNGUARDED, GUARDED = "lowest, unguarded", "linnos, guarded"

#: Of a longer trace each half is cut to so many seconds.
HALF_S = 30.0

#: With fewer reads in a half nothing can be learnt from it, or said of it.
MIN_READS = 300

CALM, BURSTS = "calm", "bursts"
OFF, ON, MD_UNGUARDED = "md, off", "md, on", "md, unguarded"

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
    """A trace at a rate."""

    #: What tables call it.
    name: str
    path: Path
    #: Of its replays.
    iops: float

    @property
    def made_from(self) -> dict[str, Any]:
        """What decides all that is made of it."""
        recipe = code_version(
            "eval/demo.py", "eval/heimdall.py", "eval/experiments/traces/replays.py"
        )
        return {"file": file_digest([self.path])[:16], "iops": self.iops, "recipe": recipe}

    @property
    def told(self) -> dict[str, Any]:
        """What records of its runs begin with."""
        return {"trace": self.name, "iops": self.iops}


def learnt(context: Context, trace: Brought) -> Path:
    """Record a trace's first half as the demo does, and train on it; the folder that holds it."""

    def make(folder: Path) -> None:
        array = Array(seed=SEED)
        sources, half_s, _ = demo.workload(
            trace.path, array, folder / "workload", SEED, target_iops=trace.iops
        )
        half_s = min(half_s, HALF_S)
        train_slice = demo.slice_traces(sources, folder / "train", 0, half_s)
        replay_slice = demo.slice_traces(sources, folder / "replay", half_s, 2 * half_s)
        for which, (half,) in (("first", train_slice), ("second", replay_slice)):
            reads = demo.inspected(half)["reads"]
            if reads < MIN_READS:
                raise StepError(f"{reads} reads in its {which} half, {MIN_READS} are needed")
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


def _by_block(log: Path) -> list[list[float]]:
    """Reads of a replay by block of time: how many, and the sum of their latencies in us."""
    reads = read_log(log)
    due_us = reads["due_ns"] / 1000
    blocks = Blocks(due_us, float(due_us.max()), BLOCKS)
    blocks.add("it", reads["latency_us"])
    return [blocks.count["it"].tolist(), blocks.total_us["it"].round(1).tolist()]


def _kept(context: Context, trace: Brought, what: str, slowness: str, make: Any) -> dict[str, Any]:
    """A run's record, made now unless it is there."""

    def making(folder: Path) -> None:
        summary = make(folder)
        (log,) = folder.glob("*.log")
        write_json(folder / "run.json", {**brief(summary), "blocks": _by_block(log)})

    parameters = {**trace.made_from, "what": what, "slowness": slowness}
    folder = context.cache.get("own-trace-replay", parameters, making)
    run_: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return {**run_, **trace.told, "policy": what, "slowness": slowness}


def under_policy(
    context: Context, trace: Brought, row: demo.Row, slowness: str, *, but: str = ""
) -> dict[str, Any]:
    """Replay a trace's second half under a policy, as the demo does it, but for an option."""
    source = learnt(context, trace)

    def make(folder: Path) -> dict[str, Any]:
        recorded = source / "record" / "baseline.log"
        scenario = guests.Scenario(
            f"{trace.name}, {slowness}", Array(seed=SEED), (source / "replay" / "volume.iolog",),
            SEED, demo.INJECT if slowness == BURSTS else None,
            (*demo.VOLUME, *row.options(recorded), *((f"--{but}",) if but else ())),
        )  # fmt: skip
        p95_us = float(np.percentile(guests.read_latency_us(recorded), 95))
        return guests.replay(
            scenario, row.policy, folder, models=_models(source, _kind_for(row.policy)),
            hedge_us=p95_us if row.hedges else None,
        )  # fmt: skip

    return _kept(context, trace, f"{row.name}, {but}" if but else row.name, slowness, make)


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
            + f"echo {what.removeprefix('md, ')} >/sys/block/md0/md/linnos\n"
            + (_BURSTS if slowness == BURSTS else "")
        )
        scenario = guests.Scenario(
            f"{trace.name}, {what}, {slowness}", array, (source / "replay" / "volume.iolog",),
            SEED, options=("--fit",),
        )  # fmt: skip
        return guests.replay(scenario, "baseline", folder, prepare=prepare)

    return _kept(context, trace, what, slowness, make)
