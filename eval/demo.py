# SPDX-License-Identifier: MIT
"""`make demo`: the whole loop once, on three emulated drives in the lab.

Records a read/write workload with blktrace, trains the paper's network and a
model of latencies for each drive, then replays a later slice of the workload
under each policy while slow bursts wander through the array, and prints one
table.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from eval import workers
from eval.cells import LATENCY_TRAINING, train_heimdall
from eval.contenders import with_duplicates
from eval.intervals import percentile
from linnapp.commands._training import latency_quality
from linnapp.lab.array import Array
from linnapp.lab.guest import Guest
from linnapp.lab.guests import (
    NEEDS_HEIMDALL,
    NEEDS_LATENCY_MODEL,
    Scenario,
    read_latency_us,
    record,
    replay,
)
from linnapp.lab.host import linnapp, train
from linnapp.lab.work import Step, StepError, Steps, Work, aligned, write_json

#: of a trace that is given: 128 for each of three drives, twice
LEAST_READS = 3 * 128 * 2
LONGEST_S = 1e8

#: Extra I/O that the capped rows may cause: in an outage hedging would otherwise double the load.
CAP = "5%"


class Row(NamedTuple):
    """A line of the table: a policy of the replayer, its hedges capped or as published."""

    policy: str
    capped: bool = False
    duplicates: bool = False

    @property
    def name(self) -> str:
        """Its name in the table and the figure."""
        if self.duplicates:
            return with_duplicates(self.policy, CAP if self.capped else "")
        return f"{self.policy}, {CAP} cap" if self.capped else self.policy

    def options(self, profile: Path) -> tuple[str | Path, ...]:
        """Options of the replayer. The heuristics need the recording's log."""
        options: tuple[str | Path, ...] = ("--hedge-budget", CAP if self.capped else "none")
        if self.duplicates:
            options = ("--duplicates", *(("--max-duplicates", CAP) if self.capped else ()))
        if self.policy.startswith("heuristic"):
            options += ("--profile", profile)
        return options

    @property
    def hedges(self) -> bool:
        """Return true if the policy needs a hedging time."""
        return self.policy == "hedge" or self.policy.endswith(("-hl", "-h95"))


#: Alternatives as published and as operators would run them, then LinnOS, its successors, and the
#: bound.
ROWS = (
    Row("baseline"),
    Row("clone"),
    Row("shortest-queue"),
    Row("shortest-queue-h95"),
    Row("shortest-queue-h95", capped=True),
    Row("prequal"),
    Row("c3"),
    Row("heimdall"),
    Row("hedge"),
    Row("hedge", capped=True),
    Row("heuristic-adv"),
    Row("linnos"),
    Row("linnos-hl"),
    Row("linnos-hl", capped=True),
    Row("fastest"),
    Row("fastest", duplicates=True),
    Row("fastest", capped=True, duplicates=True),
    Row("oracle"),
)

#: Drawn; all of them would hide each other.
DRAWN = (
    "baseline", "clone", "hedge", "linnos", "fastest", "fastest with duplicates", "oracle",
)  # fmt: skip

#: A burst of continuous slowness on one drive at a time: every read of the
#: drive takes 2 ms longer for 100 ms, every 500 ms, then the next drive's turn.
BURSTS_EVERY_S = 0.5
INJECT = (
    "continuous:latency_us=2000,op=read,ratio=100%,slot_ms=100,"
    f"every_ms={BURSTS_EVERY_S * 1000:.0f},rotate"
)

#: Seconds of the workload in each of its halves: what the models learn from, and what they face.
HALF_S = 10

#: The rate in I/Os a second to which a given trace is sped up if it is slower: the public traces
#: were recorded on disks a hundred times slower than flash.
TARGET_IOPS = 2000

#: A given trace is one volume on the array: each read has one drive as its
#: home, in turn, and each write goes to all drives.
VOLUME = ("--spread", "--replicate-writes")

COLUMNS = (
    ("name", "policy", "{}"),
    ("mean_us", "mean", "{:.1f}"),
    ("p50_us", "p50", "{:.0f}"),
    ("p95_us", "p95", "{:.0f}"),
    ("p99_us", "p99", "{:.0f}"),
    ("p998_us", "p99.8", "{:.0f}"),
    ("revoked", "revoked", "{}"),
    ("hedged", "hedged", "{}"),
    ("extra_io_ratio", "extra I/O", "{:.2%}"),
    ("data_errors", "data errors", "{}"),
)


def slice_traces(
    sources: list[Path], out_dir: Path, first_s: float, last_s: float
) -> tuple[Path, ...]:
    """Cut the same time slice out of each drive's trace."""
    out_dir.mkdir(parents=True, exist_ok=True)
    slices = []
    for source in sources:
        target = out_dir / source.name
        linnapp("convert", str(source), str(target), "--slice", f"{first_s}:{last_s}")
        slices.append(target)
    return tuple(slices)


def table(runs: list[dict[str, Any]]) -> str:
    """The runs as a text table, latencies in us."""
    rows = [[title for _, title, _ in COLUMNS]]
    rows += [
        ["-" if run[key] is None else form.format(run[key]) for key, _, form in COLUMNS]
        for run in runs
    ]
    return aligned(rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--trace", type=Path, help="a trace in any format linnapp convert knows")
    parser.add_argument("--out", type=Path, default=Path("out/demo"))
    parser.add_argument("--models", type=Path, default=Path("models/demo"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--seconds",
        type=int,
        default=HALF_S,
        help=f"of the generated workload to learn from, and as many again to replay ({HALF_S})",
    )
    parser.add_argument(
        "--record-seconds",
        type=float,
        help="record only the first part of these seconds, and learn from it",
    )
    arguments = parser.parse_args()
    if arguments.seconds < 1:
        parser.error(f"--seconds {arguments.seconds}: at least 1")
    record_s = arguments.record_seconds
    if record_s is not None and record_s <= 0:
        parser.error(f"--record-seconds {record_s:g}: above 0")
    try:
        demo(
            arguments.trace, arguments.out, arguments.models, arguments.seed, arguments.seconds,
            record_s,
        )  # fmt: skip
    except (StepError, OSError) as error:
        sys.exit(f"\nmake demo: {error}")
    except KeyboardInterrupt:
        sys.exit("\nmake demo: stopped; the guests are gone, what was finished is in out/")


def demo(
    trace: Path | None,
    out: Path,
    models_dir: Path,
    seed: int,
    half_s: int,
    record_s: float | None = None,
) -> None:
    """Run the demo and leave its results in ``out``; `record_s`: of the first half."""
    from eval.figures import latency_cdf

    steps = Steps(3)
    array = Array(seed=seed)
    options = () if trace is None else VOLUME
    with steps.step("preparing the workload"):
        sources, train_s, replay_s = workload(
            trace, array, out / "workload", seed, half_s, check=check_teaches
        )
        recorded_s = train_s if record_s is None else min(record_s, train_s)
        train_slice = slice_traces(sources, out / "train", 0, recorded_s)
        replay_slice = slice_traces(sources, out / "replay", train_s, train_s + replay_s)

    with steps.step("recording with blktrace"):
        recording = Scenario("record", array, train_slice, seed, options=options)
        blks = record(recording, out / "record")
    recorded = out / "record" / "baseline.log"

    def learn(kind: Path, name: str, *options_of_kind: str) -> list[Path]:
        return train(blks, kind, out / name, "--seed", str(seed), *options_of_kind)

    # Guests and trainings side by side: a guest takes one CPU, and most need one kind of model.
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    work = Work(max(1, min(len(os.sched_getaffinity(0)), memory_mb // Guest.memory_mb)))
    networks = work.add(
        "training with TensorFlow",
        # The table shows what a model gains even if training found no gain.
        partial(learn, models_dir, "train.txt", "--even-if-worse"),
    )
    trees = work.add(
        "training models of latencies",
        partial(learn, models_dir / "latency", "train-latency.txt", *LATENCY_TRAINING),
    )
    rival = work.add(
        "training heimdall's networks",
        partial(
            train_heimdall, recorded, out / "heimdall", seed, replicate_writes=trace is not None
        ),
    )

    # The timeout is what an operator would know beforehand: the 95th
    # percentile of the recording, without the bursts to come.
    p95_us = float(np.percentile(read_latency_us(recorded), 95))
    scenario = Scenario("bursts", array, replay_slice, seed, INJECT, options)

    def replayed(row: Row, models: Step[list[Path]]) -> dict[str, Any]:
        return replay(
            replace(scenario, options=(*scenario.options, *row.options(recorded))),
            row.policy,
            folder(out, row),
            models=models.result,
            hedge_us=p95_us if row.hedges else None,
        )

    replays = []
    for row in ROWS:
        models = networks
        if row.policy in NEEDS_HEIMDALL:
            models = rival
        elif row.policy in NEEDS_LATENCY_MODEL:
            models = trees
        replays.append(work.add("replaying", partial(replayed, row, models), after=(models,)))
    try:
        work.do()
    finally:
        workers.stop()

    with steps.step("drawing"):
        latencies_us = {
            row.name: read_latency_us(folder(out, row) / f"{row.policy}.log") for row in ROWS
        }
        runs = [
            # The furthest that rests on a hundred reads of the workload that is generated.
            {"name": row.name, **step.result, "p998_us": percentile(latencies_us[row.name], 99.8)}
            for row, step in zip(ROWS, replays, strict=True)
        ]
        write_json(out / "summary.json", {"runs": runs})
        latency_cdf(
            {row.name: latencies_us[row.name] for row in ROWS if row.name in DRAWN},
            out / "cdf.png",
            title="Read latency, slow bursts wandering over three drives",
        )
    print(f"\nRead latency in us; {runs[0]['reads']} reads, a burst on one drive at a time:\n")
    print(table(runs))
    print(f"\nData errors: {runs[0]['data_check']}.")
    print("\nModels of latencies, on reads that they did not learn from:")
    for model in trees.result:
        trained = json.loads(model.with_suffix(".json").read_text())
        print(f"{model.stem}: {latency_quality(trained)}")
    print(f"\n{out}/summary.json, {out}/cdf.png; models in {models_dir}/")
    print("Next: `make tour`, a minute in this terminal: bursts as `linnapp top` shows them.")


def folder(out: Path, row: Row) -> Path:
    """Return the folder of a replay's summary and log."""
    return out / "replays" / ("capped" if row.capped else "")


def inspected(trace: Path) -> dict[str, Any]:
    """Return the output of `linnapp inspect` for a trace."""
    facts: dict[str, Any] = json.loads(linnapp("inspect", str(trace), "--json"))
    return facts


def check_teaches(trace: Path, given: dict[str, Any]) -> None:
    """Refuse a trace of which there is too little, or whose times cannot be."""
    if given["reads"] < LEAST_READS:
        raise StepError(
            f"{trace}: {given['reads']} reads; {LEAST_READS} are the least that three drives learn "
            "from and are replayed: name a longer trace"
        )
    check_times(trace, given)


def check_times(trace: Path, given: dict[str, Any]) -> None:
    """Refuse a trace whose times cannot be."""
    if not 0 < given["duration_s"] < LONGEST_S:
        raise StepError(
            f"{trace}: its I/Os lie over {given['duration_s']:g} s; above 0 and below "
            f"{LONGEST_S:g} are accepted: a time in it is wrong"
        )


def workload(
    trace: Path | None,
    array: Array,
    out: Path,
    seed: int,
    half_s: int = HALF_S,
    target_iops: float = TARGET_IOPS,
    check: Callable[[Path, dict[str, Any]], None] | None = None,
) -> tuple[list[Path], float, float]:
    """The workload as iologs, and the lengths in seconds of its two slices.

    `check` may refuse a trace that is given, by what :func:`inspected` says of it.
    """
    out.mkdir(parents=True, exist_ok=True)
    if trace is None:
        linnapp(
            "generate", "demo", "-o", str(out), "--drives", str(array.n_drives),
            "--duration", str(2 * half_s), "--seed", str(seed),
        )  # fmt: skip
        return [out / f"flash{k}.iolog" for k in range(array.n_drives)], half_s, half_s
    volume = out / "volume.iolog"
    given = inspected(trace)
    if check:
        check(trace, given)
    rerate = max(1.0, target_iops / given["iops_mean"])
    linnapp(
        "convert", str(trace), str(volume),
        "--rerate", str(rerate), "--fit", str(array.size_mb << 20),
    )  # fmt: skip
    given_s = given["duration_s"] / rerate / 2
    return [volume], given_s, given_s


if __name__ == "__main__":
    main()
