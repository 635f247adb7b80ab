# SPDX-License-Identifier: MIT
"""`linnapp` itself: its reader beside blkparse, and its commands on made-up recordings.

Every command runs as a user would run it, in a process of its own, whose time and largest memory
(of it and of every process it started) are taken from the kernel.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from eval.bench import OUT
from eval.bench.recordings import write_recording
from eval.cache import ROOT
from eval.work import write_json
from linnapp.trace.blktrace import BlktraceReader

#: `make demo` leaves it.
RECORDING = ROOT / "out" / "demo" / "record" / "flash0.blk"

TRAIN_IOS = 2_000_000
FLEET_TRACES = 12
#: by each number of workers in turn, so that what else a machine does meets all of them
FLEET_ROUNDS = 2
FLEET_IOS = 20_000


def measured(*arguments: str) -> dict[str, float]:
    """Run `linnapp`; its time, processor time and the largest memory of any of its processes."""
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "linnapp", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stderr is not None
    words = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.stderr.buffer.write(words)
        raise subprocess.CalledProcessError(process.returncode, ["linnapp", *arguments])
    return {
        "seconds": time.monotonic() - begin,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "max_rss_mb": usage.ru_maxrss / 1024,
    }


def _directory() -> tempfile.TemporaryDirectory[str]:
    """For recordings: beside the results, where a large one has room."""
    OUT.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix=".linnapp.", dir=OUT)


def reader() -> None:
    """Parsing and features of a recording, beside blkparse on the same file."""
    if not RECORDING.exists():
        print(f"{RECORDING}: not there; `make demo` records it. Skipped.")
        return
    best_s = blkparse_s = float("inf")
    events = 0
    for _ in range(5):
        begin = time.perf_counter()
        trace = BlktraceReader(RECORDING)
        for _chunk in trace:
            pass
        best_s = min(best_s, time.perf_counter() - begin)
        events = trace.stats["events"]
        begin = time.perf_counter()
        with RECORDING.open("rb") as recording:
            subprocess.run(
                ["blkparse", "-q", "-i", "-"],
                check=True,
                stdin=recording,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        blkparse_s = min(blkparse_s, time.perf_counter() - begin)
    result = {
        "events": events,
        "events_per_s": events / best_s,
        "blkparse_events_per_s": events / blkparse_s,
        "ratio": blkparse_s / best_s,
    }
    write_json(OUT / "reader.json", result)
    print(
        f"parsed with features: {events / best_s / 1e6:.1f} million events/s on one core; "
        f"blkparse, no features: {events / blkparse_s / 1e6:.1f}; ratio {blkparse_s / best_s:.1f}"
    )


def train() -> None:
    """From a recording of 2 million I/Os to an uploadable model (the paper: 15 to 20 minutes)."""
    with _directory() as name:
        trace, models = Path(name) / "az.blk", Path(name) / "models"
        write_recording(trace, TRAIN_IOS, 1)
        result = measured("train", "--trace", str(trace), "-o", str(models))
        record = json.loads((models / "az.json").read_text())
    result |= {
        "ios": TRAIN_IOS,
        "reads": record["reads"],
        "epochs": len(record["epochs"]),
        "training_seconds": record["training_seconds"],
        "accuracy": record["accuracy"],
        "false_submit_ratio": record["false_submit_ratio"],
    }
    write_json(OUT / "train.json", result)
    print(
        f"{TRAIN_IOS / 1e6:g} million I/Os, {record['reads']} reads, {len(record['epochs'])} "
        f"epochs: {result['seconds']:.0f} s, of the processor {result['processor_seconds']:.0f} s; "
        f"at most {result['max_rss_mb']:.0f} MB"
    )


def labelling() -> None:
    """Inflection points of three drives: the closed form, and the simulation it stands for."""
    from linnapp.learn.labelling.inflection import LabellingOptions, find_inflection_points
    from linnapp.learn.options import Recipe as Defaults
    from linnapp.learn.recipe import read_latencies

    with _directory() as name:
        distributions = []
        for drive in range(3):
            trace = Path(name) / f"drive{drive}.blk"
            write_recording(trace, TRAIN_IOS // 4, drive)
            distributions.append(read_latencies(trace, Defaults()))
    result: dict[str, Any] = {}
    for method in ("exact", "simulate"):
        # Of the processor: both run on one core.
        begin = time.process_time()
        points = find_inflection_points(distributions, LabellingOptions(method), 1)
        result[method] = {
            "seconds": time.process_time() - begin,
            "threshold_us": [point.threshold_us for point in points],
            "percentile": [round(point.percentile, 2) for point in points],
            "boost_area_us": [round(point.boost_area_us, 2) for point in points],
        }
        print(
            f"{method:9} {result[method]['seconds']:7.2f} s: "
            + ", ".join(
                f"{point.threshold_us} us (p{point.percentile:.1f}, {point.boost_area_us:.1f} us)"
                for point in points
            )
        )
    result["ratio"] = result["simulate"]["seconds"] / result["exact"]["seconds"]
    print(f"the closed form takes {result['ratio']:.0f} times less")
    write_json(OUT / "labelling.json", result)


def fleet() -> None:
    """A fleet's time over the number of workers, and its memory over the number of traces."""
    cpus = len(os.sched_getaffinity(0))
    # Twice as many workers as CPUs say what a worker costs that has none of its own.
    counts = sorted({1, cpus} | {1 << bit for bit in range(cpus.bit_length() + 1)})
    rows = []
    with _directory() as name:
        traces = Path(name) / "traces"
        for number in range(FLEET_TRACES):
            array = traces / f"array{number // 3}"
            array.mkdir(parents=True, exist_ok=True)
            write_recording(array / f"drive{number % 3}.blk", FLEET_IOS, number)
        runs = [(FLEET_TRACES, n) for n in counts] * FLEET_ROUNDS
        # A quarter of the fleet: were traces kept, memory would be less.
        runs.append((FLEET_TRACES // 4, counts[-1]))
        for number, (n_traces, workers) in enumerate(runs):
            arrays = [str(traces / f"array{n}") for n in range(n_traces // 3)]
            used = measured(
                *("fleet", *arrays, "-o", f"{name}/models-{number}"),
                *("--workers", str(workers), "--bias", "2"),
            )
            rows.append({"traces": n_traces, "workers": workers, **used})
            print(
                f"{n_traces:4d} traces of {FLEET_IOS} I/Os, {workers:2d} workers: "
                f"{used['seconds']:6.1f} s, {used['seconds'] / n_traces:5.2f} s a trace, "
                f"of {used['processor_seconds'] / n_traces:5.2f} s of a processor; "
                f"largest process {used['max_rss_mb']:.0f} MB",
                flush=True,
            )
    write_json(OUT / "fleet.json", {"ios_per_trace": FLEET_IOS, "runs": rows})
    whole = [row for row in rows if row["traces"] == FLEET_TRACES]
    seconds = {n: statistics.mean(r["seconds"] for r in whole if r["workers"] == n) for n in counts}
    for workers in counts[1:]:
        print(
            f"{workers:2d} workers take 1 / {seconds[counts[0]] / seconds[workers]:.2f} of the time"
        )
    _draw_fleet(seconds)


def _draw_fleet(mean_s: dict[int, float]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    workers, seconds = list(mean_s), list(mean_s.values())
    figure, axes = plt.subplots(figsize=(4.5, 3.2))
    axes.plot(workers, seconds, "o-", label="measured")
    axes.plot(workers, [seconds[0] / n for n in workers], "--", color="grey", label="ideal")
    axes.set(xlabel="workers", ylabel="time (s)", ylim=(0, None), title=f"{FLEET_TRACES} traces")
    axes.set_xticks(workers)
    axes.legend()
    figure.tight_layout()
    figure.savefig(OUT / "fleet.png", dpi=150)
    plt.close(figure)
