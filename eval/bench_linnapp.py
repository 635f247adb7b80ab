# SPDX-License-Identifier: MIT
"""The parts of `make bench` that time `linnapp` itself, on recordings made up for it.

A made-up recording has the events and the size of a real one, and a drive that is slow in bursts,
so that there is something to learn; nothing about the policy's gain can be read from it. Every
command runs as a user would run it, in a process of its own, whose time and largest memory (of it
and of every process it started) are taken from the kernel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eval.cache import ROOT
from eval.files import write_json
from linnapp.iolog import Workload

OUT = ROOT / "out" / "bench"

TRAIN_IOS = 2_000_000
LARGE_IOS = 50_000_000
TEXT_IOS = 4_000_000
FLEET_TRACES = 24
FLEET_IOS = 20_000

EVENT = np.dtype(
    [
        ("magic", "<u4"),
        ("sequence", "<u4"),
        ("time", "<u8"),
        ("sector", "<u8"),
        ("bytes", "<u4"),
        ("action", "<u4"),
        ("pid", "<u4"),
        ("device", "<u4"),
        ("cpu", "<u4"),
        ("error", "<u2"),
        ("pdu_len", "<u2"),
    ]
)
_MAGIC = 0x65617407
_QUEUE, _ISSUE, _COMPLETE = 1, 7, 8
_READ, _WRITE = 1 << 16, 1 << 17

#: of the made-up drive: one queue, slow now and then for some milliseconds
_MEAN_IOPS = 3000
_SERVICE_NS = 70_000
_SLOW_SERVICE_NS = 900_000
_SLOW_EVERY_NS = 200_000_000
_SLOW_NS = 4_000_000
_BLOCK_IOS = 1 << 20


def workload(n_ios: int, seed: int) -> Iterator[Workload]:
    """Reads and writes at random times and places, in blocks."""
    rng = np.random.default_rng(seed)
    now = 0.0
    for start in range(0, n_ios, _BLOCK_IOS):
        n = min(_BLOCK_IOS, n_ios - start)
        time_us = now + np.cumsum(rng.exponential(1e6 / _MEAN_IOPS, n))
        now = float(time_us[-1])
        yield Workload(
            time_us.astype(np.int64),
            rng.integers(0, 1 << 18, n) * 4096,
            4096 << rng.integers(0, 4, n),
            rng.random(n) < 0.4,
        )


def write_recording(path: Path, n_ios: int, seed: int) -> None:
    """Write a merged blktrace file of `n_ios` I/Os; memory does not grow with it."""
    rng = np.random.default_rng([seed, 1])
    busy_until = 0
    sequence = 0
    waiting = np.empty(0, EVENT)
    with path.open("wb") as stream:
        for chunk in workload(n_ios, seed):
            arrival = chunk.time_us * 1000
            done = _completions(arrival, busy_until, rng)
            busy_until = int(done[-1])
            events = np.concatenate(
                (
                    waiting,
                    _events(chunk, arrival, _QUEUE),
                    _events(chunk, arrival, _ISSUE),
                    _events(chunk, done, _COMPLETE),
                )
            )
            events = events[np.argsort(events["time"], kind="stable")]
            ready = int(np.searchsorted(events["time"], arrival[-1], "right"))
            waiting = events[ready:].copy()
            sequence = _put(stream, events[:ready], sequence)
        _put(stream, waiting, sequence)


def _completions(
    arrival: npt.NDArray[np.int64], busy_until: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """When a drive that serves one I/O after the other is done with each."""
    span = int(arrival[-1] - arrival[0]) + 1
    slow_at = np.sort(arrival[0] + rng.integers(0, span, max(1, span // _SLOW_EVERY_NS)))
    before = np.searchsorted(slow_at, arrival, "right") - 1
    is_slow = (before >= 0) & (arrival - slow_at[np.maximum(before, 0)] < _SLOW_NS)
    service = np.where(is_slow, _SLOW_SERVICE_NS, _SERVICE_NS)
    service = (service * rng.uniform(0.8, 1.25, len(arrival))).astype(np.int64)
    total = np.cumsum(service)
    # done[i] = max(arrival[i], done[i - 1]) + service[i], without a loop
    starts = np.maximum(arrival, busy_until) - (total - service)
    return np.asarray(total + np.maximum.accumulate(starts))


def _events(chunk: Workload, at: npt.NDArray[np.int64], action: int) -> npt.NDArray[Any]:
    events = np.zeros(len(chunk), EVENT)
    events["magic"] = _MAGIC
    events["time"] = at
    events["sector"] = chunk.offset_bytes // 512
    events["bytes"] = chunk.size_bytes
    events["action"] = action | np.where(chunk.is_write, _WRITE, _READ)
    events["pid"] = 1
    events["device"] = 8 << 20
    return events


def _put(stream: Any, events: npt.NDArray[Any], sequence: int) -> int:
    events["sequence"] = np.arange(sequence + 1, sequence + 1 + len(events), dtype=np.uint32)
    stream.write(events.tobytes())
    return sequence + len(events)


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


def large() -> None:
    """A recording of 50 million I/Os through the reader and through training, in under 2 GB."""
    result: dict[str, Any] = {"ios": LARGE_IOS}
    with _directory() as name:
        trace = Path(name) / "az.blk"
        write_recording(trace, LARGE_IOS, 1)
        result["bytes"] = trace.stat().st_size
        result["inspect"] = measured("inspect", str(trace))
        # One epoch: what is shown is memory, which the number of epochs does not change.
        result["train"] = measured(
            *("train", "--trace", str(trace), "-o", f"{name}/models"),
            *("--epochs", "1", "--bias", "2"),
        )
    write_json(OUT / "large.json", result)
    for what in ("inspect", "train"):
        print(
            f"{LARGE_IOS / 1e6:g} million I/Os, linnapp {what}: {result[what]['seconds']:.0f} s, "
            f"at most {result[what]['max_rss_mb']:.0f} MB"
        )


def labelling() -> None:
    """Inflection points of three drives: the closed form, and the simulation it stands for."""
    from linnapp.array_training import LabellingOptions, label_array, read_latencies
    from linnapp.array_training import Recipe as Defaults

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
        points = label_array(distributions, LabellingOptions(method), 1)
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


def text() -> None:
    """Text traces: I/Os and bytes a second of `convert`, beside the same lines split in Python."""
    from linnapp.conversion import TEXT_FORMATS, convert, output_formats, read_workload

    result: dict[str, Any] = {"ios": TEXT_IOS, "formats": {}}
    with _directory() as name:
        source, target = Path(name) / "source", Path(name) / "target"
        iolog = Path(name) / "w.iolog"
        from linnapp.iolog import write

        write(iolog, workload(TEXT_IOS, 1), "/dev/flash0")
        for kind in output_formats():
            convert(iolog, source, target_format=kind)
            size = source.stat().st_size

            def read(kind: str = kind) -> None:
                for _chunk in read_workload(source, kind):
                    pass

            def split(kind: str = kind) -> None:
                delimiter = TEXT_FORMATS[kind].delimiter if kind in TEXT_FORMATS else None
                with source.open() as stream:
                    for line in stream:
                        line.split(delimiter)

            read_s = _best(read)
            whole_s = _best(lambda kind=kind: convert(source, target, source_format=kind))  # type: ignore[misc]
            split_s = _best(split, 1)
            result["formats"][kind] = {
                "bytes": size,
                "read_ios_per_s": TEXT_IOS / read_s,
                "read_mb_per_s": size / read_s / 1e6,
                "convert_ios_per_s": TEXT_IOS / whole_s,
                "convert_mb_per_s": size / whole_s / 1e6,
                "python_split_ios_per_s": TEXT_IOS / split_s,
            }
            print(
                f"{kind:9} read {TEXT_IOS / read_s / 1e6:5.2f} million I/Os/s "
                f"({size / read_s / 1e6:4.0f} MB/s), to an iolog {TEXT_IOS / whole_s / 1e6:5.2f} "
                f"({size / whole_s / 1e6:4.0f} MB/s); split() alone "
                f"{TEXT_IOS / split_s / 1e6:5.2f}: ratio {split_s / read_s:.1f}"
            )
    write_json(OUT / "text.json", result)


def _best(function: Callable[[], object], times: int = 3) -> float:
    best = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - begin)
    return best


def fleet() -> None:
    """A fleet's time over the number of workers, and its memory over the number of traces."""
    cpus = len(os.sched_getaffinity(0))
    counts = sorted({1, cpus} | {1 << bit for bit in range(cpus.bit_length()) if 1 << bit <= cpus})
    rows = []
    with _directory() as name:
        traces = Path(name) / "traces"
        for number in range(FLEET_TRACES):
            array = traces / f"array{number // 3}"
            array.mkdir(parents=True, exist_ok=True)
            write_recording(array / f"drive{number % 3}.blk", FLEET_IOS, number)
        runs = [(FLEET_TRACES, n) for n in counts]
        # A quarter of the fleet: were traces kept, memory would be less.
        runs.append((FLEET_TRACES // 4, counts[-1]))
        for n_traces, workers in runs:
            arrays = [str(traces / f"array{n}") for n in range(n_traces // 3)]
            used = measured(
                *("fleet", *arrays, "-o", f"{name}/models-{n_traces}-{workers}"),
                *("--workers", str(workers), "--bias", "2"),
            )
            rows.append({"traces": n_traces, "workers": workers, **used})
            print(
                f"{n_traces:4d} traces of {FLEET_IOS} I/Os, {workers:2d} workers: "
                f"{used['seconds']:6.1f} s, {used['seconds'] / n_traces:5.2f} s a trace; "
                f"largest process {used['max_rss_mb']:.0f} MB"
            )
    write_json(OUT / "fleet.json", {"ios_per_trace": FLEET_IOS, "runs": rows})
    _draw_fleet([row for row in rows if row["traces"] == FLEET_TRACES])


def _draw_fleet(rows: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    workers = [row["workers"] for row in rows]
    seconds = [row["seconds"] for row in rows]
    figure, axes = plt.subplots(figsize=(4.5, 3.2))
    axes.plot(workers, seconds, "o-", label="measured")
    axes.plot(workers, [seconds[0] / n for n in workers], "--", color="grey", label="ideal")
    axes.set(xlabel="workers", ylabel="time (s)", ylim=(0, None), title=f"{FLEET_TRACES} traces")
    axes.set_xticks(workers)
    axes.legend()
    figure.tight_layout()
    figure.savefig(OUT / "fleet.png", dpi=150)
    plt.close(figure)


PARTS = {"train": train, "labelling": labelling, "text": text, "fleet": fleet, "large": large}
