# SPDX-License-Identifier: MIT
"""`make demo`: the whole loop once, on three emulated drives in the lab.

Records a read/write workload with blktrace, trains the paper's network and a
model of latencies for each drive, then replays a later slice of the workload
under each policy while slow bursts wander through the array, and prints one
table.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from eval import contenders, workers
from eval.cells import LATENCY_TRAINING, train_heimdall
from eval.intervals import percentile
from linnapp.commands._training import latency_quality
from linnapp.lab.array import Array
from linnapp.lab.demo import (
    COLUMNS,
    HALF_S,
    Demo,
    Row,
    parallel_guests,
    result_sentence,
    slice_traces,
    table,
)
from linnapp.lab.guests import NEEDS_HEIMDALL, NEEDS_LATENCY_MODEL
from linnapp.lab.host import linnapp, train
from linnapp.lab.work import Step, StepError, Steps, Work, write_json

#: The minimum number of reads of a user-supplied trace: 128 for each drive in each half.
LEAST_READS = 3 * 128 * 2
LONGEST_S = 1e8

#: Alternatives as published and as operators would run them, then LinnOS, its successors, and the
#: bound.
ROWS = contenders.rows(
    (
        "baseline", "clone", "shortest-queue", "shortest-queue-h95", "shortest-queue-h95, 5% cap",
        "fewest", "ewma-inflight", "prequal", "c3", "heimdall", "hedge", "hedge, 5% cap",
        "heuristic-adv", "linnos", "linnos-hl", "linnos-hl, 5% cap", "fastest",
        "fastest with duplicates", "fastest with duplicates (limit 5 %)", "oracle",
    )
)  # fmt: skip

#: The policies in the figure; all of them would hide each other.
DRAWN = (
    "baseline", "clone", "hedge", "linnos", "fastest", "fastest with duplicates", "oracle",
)  # fmt: skip

#: The rate in I/Os per second to which a slower user-supplied trace is sped up. The public traces
#: were recorded on disks a hundred times slower than flash.
TARGET_IOPS = 2000

#: A user-supplied trace is one volume on the array: the default replica of reads is assigned round
#: robin, and each write goes to all drives.
VOLUME = ("--spread", "--replicate-writes")


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
        parser.error(f"--seconds is {arguments.seconds}; it must be at least 1")
    record_s = arguments.record_seconds
    if record_s is not None and record_s <= 0:
        parser.error(f"--record-seconds is {record_s:g}; it must be greater than 0")
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
    """Run the demo and write its results into ``out``.

    Only the first `record_s` seconds of the first half are recorded, if given.
    """
    from eval.figures import draw_latency_cdf

    steps = Steps(3)
    run = Demo(out, Array(seed=seed), seed, () if trace is None else VOLUME)
    with steps.step("preparing the workload"):
        if trace is None:
            sources, train_s = run.generate(half_s), float(half_s)
        else:
            check_has_enough_reads(trace, inspect_trace(trace))
            sources, train_s = convert_trace(trace, run.array, out / "workload")
        recorded_s = train_s if record_s is None else min(record_s, train_s)
        train_slice = slice_traces(sources, out / "train", 0, recorded_s)
        replay_slice = slice_traces(sources, out / "replay", train_s, 2 * train_s)
    blks = run.record(steps, train_slice)

    def learn(kind: Path, name: str, *options_of_kind: str) -> list[Path]:
        return train(blks, kind, out / name, "--seed", str(seed), *options_of_kind)

    # Guests and trainings run in parallel: a guest takes one CPU, and most need one kind of model.
    work = Work(parallel_guests())
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
            train_heimdall, run.recorded_log, out / "heimdall", seed,
            replicate_writes=trace is not None,
        ),
    )  # fmt: skip

    def models(row: Row) -> Step[list[Path]]:
        if row.policy in NEEDS_HEIMDALL:
            return rival
        return trees if row.policy in NEEDS_LATENCY_MODEL else networks

    replays = run.add_replays(work, ROWS, replay_slice, models)
    try:
        work.do()
    finally:
        workers.stop()

    with steps.step("drawing"):
        latencies_us = {row.name: run.latencies_us(row) for row in ROWS}
        runs = [
            # The highest percentile with a hundred slower reads in the generated workload.
            {"name": row.name, **step.result, "p998_us": percentile(latencies_us[row.name], 99.8)}
            for row, step in zip(ROWS, replays, strict=True)
        ]
        write_json(out / "summary.json", {"runs": runs})
        draw_latency_cdf(
            {row.name: latencies_us[row.name] for row in ROWS if row.name in DRAWN},
            out / "cdf.png",
            title="Read latency, slow bursts wandering over three drives",
        )
    after_p99 = [name for name, *_ in COLUMNS].index("p99_us") + 1
    columns = (*COLUMNS[:after_p99], ("p998_us", "p99.8", "{:.0f}"), *COLUMNS[after_p99:])
    print(f"\nRead latency in us; {runs[0]['reads']} reads, a burst on one drive at a time:\n")
    print(table(runs, columns))
    print(f"\nData errors: {runs[0]['data_check']}.")
    print("\nModels of latencies, on reads that they did not learn from:")
    for model in trees.result:
        trained = json.loads(model.with_suffix(".json").read_text())
        print(f"{model.stem}: {latency_quality(trained)}")
    print(f"\n{out}/summary.json, {out}/cdf.png; models in {models_dir}/")
    print(f"\n{result_sentence(runs)}")
    print("Next: `make tour`, a minute in this terminal: bursts as `linnapp top` shows them.")


@functools.cache
def inspect_trace(trace: Path) -> dict[str, Any]:
    """Return the output of `linnapp inspect` for a trace."""
    facts: dict[str, Any] = json.loads(linnapp("inspect", str(trace), "--json"))
    return facts


def check_has_enough_reads(trace: Path, facts: dict[str, Any]) -> None:
    """Raise StepError if a trace has too few reads or an impossible duration."""
    if facts["reads"] < LEAST_READS:
        raise StepError(
            f"{trace} has {facts['reads']} reads; at least {LEAST_READS} are needed to train three "
            "models and to replay the rest: name a longer trace"
        )
    if not 0 < facts["duration_s"] < LONGEST_S:
        raise StepError(
            f"{trace} lasts {facts['duration_s']:g} s, which must be greater than 0 and less than "
            f"{LONGEST_S:g} s: a time in it is wrong"
        )


def convert_trace(
    trace: Path, array: Array, out: Path, target_iops: float = TARGET_IOPS
) -> tuple[list[Path], float]:
    """Convert a given trace to an iolog; return it and the length in seconds of its halves."""
    out.mkdir(parents=True, exist_ok=True)
    volume = out / "volume.iolog"
    facts = inspect_trace(trace)
    rerate = max(1.0, target_iops / facts["iops_mean"])
    linnapp(
        "convert", str(trace), str(volume),
        "--rerate", str(rerate), "--fit", str(array.size_mb << 20),
    )  # fmt: skip
    return [volume], facts["duration_s"] / rerate / 2


if __name__ == "__main__":
    main()
