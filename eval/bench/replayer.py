# SPDX-License-Identifier: MIT
"""Speed of the replayer compared with fio, on a loop device over a tmpfs file, in real time.

Pacing: both replay one trace of Poisson arrivals, 20,000 a second, fio by `read_iolog`. The lag of
submissions behind the trace is the replayer's own report; for fio, a preloaded io_submit()
(submit_times.c) records the times, counted from its first submission.

Saturation: random 4 KiB reads at one depth a thread, both with io_uring, from one thread and from
two. fio does not check contents, so the replayer runs twice: over blocks that have not been
written, which it does not check either, and over written blocks, of which it checks every byte.

The runs alternate and medians are reported, because other programs on the machine disturb both.
Needs root, for the loop device.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from eval.bench import OUT, BenchError
from eval.programs import REPLAYER
from linnapp.lab.work import write_json

HERE = Path(__file__).resolve().parent
BLOCK = 4096
DRIVE_BYTES = 1 << 30
TMPFS = Path("/dev/shm")
THREADS = (1, 2)


#: Arrival rate and length of the paced trace; reads in flight of each thread; rounds.
IOPS, SECONDS, DEPTH, REPEATS = 20_000, 5, 32, 3


@contextmanager
def filled_drive() -> Iterator[str]:
    """Yield a loop device over a filled tmpfs file."""
    with tempfile.TemporaryDirectory(dir=TMPFS) as folder:
        file = Path(folder) / "drive"
        with file.open("wb") as stream:
            for _ in range(DRIVE_BYTES >> 20):
                stream.write(os.urandom(1 << 20))
        made = subprocess.run(
            ["losetup", "--find", "--show", str(file)], capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise BenchError(
                f"losetup: {made.stderr.strip()} (root and a free loop device are needed)"
            )
        device = made.stdout.strip()
        try:
            yield device
        finally:
            subprocess.run(["losetup", "--detach", device], check=False)


def write_trace(
    path: Path, device: str, iops: int, seconds: float, seed: int
) -> np.ndarray[Any, Any]:
    """Write Poisson arrivals of random 4 KiB reads; return their times in microseconds."""
    rng = np.random.default_rng(seed)
    n = int(iops * seconds)
    at_us = np.cumsum(rng.exponential(1e6 / iops, n)).astype(np.int64)
    offset = rng.integers(0, DRIVE_BYTES // BLOCK, n) * BLOCK
    with path.open("w") as file:
        file.write(f"fio version 3 iolog\n0 {device} add\n0 {device} open\n")
        file.writelines(
            f"{t} {device} read {o} {BLOCK}\n"
            for t, o in zip(at_us.tolist(), offset.tolist(), strict=True)
        )
        file.write(f"{at_us[-1]} {device} close\n")
    return at_us


def replayer(device: str, trace: Path, folder: Path, *options: str) -> dict[str, Any]:
    """Run the replayer's baseline once; return its JSON."""
    out = folder / "replayer.json"
    command = [str(REPLAYER), "--devices", device, "--trace", str(trace)]
    command += ["--policy", "baseline", "--settle-ms", "0", "--quiet"]
    command += ["--json", str(out), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    result: dict[str, Any] = json.loads(out.read_text())
    if result["data_errors"]:
        raise BenchError("the replayer found data errors; its speed means nothing")
    return result


def fio(*options: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """Run fio once; return the JSON of its first job."""
    ran = subprocess.run(
        ["fio", "--name=bench", "--direct=1", "--output-format=json", *options],
        check=True, capture_output=True, text=True, env={**os.environ, **(env or {})},
    )  # fmt: skip
    job: dict[str, Any] = json.loads(ran.stdout[ran.stdout.index("{") :])["jobs"][0]
    return job


def build_preload(folder: Path) -> Path:
    """Compile the shared object that records fio's submissions."""
    library = folder / "submit_times.so"
    command = [os.environ.get("CC", "gcc"), "-O2", "-shared", "-fPIC", "-o", str(library)]
    subprocess.run([*command, str(HERE / "submit_times.c"), "-ldl"], check=True)
    return library


def fio_paced(
    trace: Path, at_us: np.ndarray[Any, Any], preload: Path, folder: Path
) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """Replay with fio; return the lag of each submission behind the trace, in us, and the JSON."""
    times = folder / "times"
    times.unlink(missing_ok=True)
    job = fio(
        f"--read_iolog={trace}", "--ioengine=libaio", "--iodepth=256", "--thread=0",
        env={"LD_PRELOAD": str(preload), "SUBMIT_TIMES": str(times)},
    )  # fmt: skip
    submitted = np.fromfile(times, "<u8").astype(np.int64)
    if len(submitted) != len(at_us):
        raise BenchError(f"fio submitted {len(submitted)} I/Os of the trace's {len(at_us)}")
    lag: np.ndarray[Any, Any] = (submitted - submitted[0]) / 1000 - (at_us - at_us[0])
    return lag, job


def paced_round(
    device: str, trace: Path, at_us: np.ndarray[Any, Any], preload: Path, folder: Path
) -> dict[str, float]:
    """Replay the trace with both programs, one after the other."""
    # The prefill writes every block that is read, so that each read is checked in full.
    ours = replayer(device, trace, folder)
    lag, job = fio_paced(trace, at_us, preload, folder)
    return {
        "trace_s": float(at_us[-1]) / 1e6,
        "ours_s": ours["elapsed_s"],
        "fio_s": job["read"]["runtime"] / 1e3,
        "ours_lag_p50_us": ours["lag_p50_us"],
        "fio_lag_p50_us": float(np.percentile(lag, 50)),
        "ours_lag_p99_us": ours["lag_p99_us"],
        "fio_lag_p99_us": float(np.percentile(lag, 99)),
        "ours_mean_us": ours["response_mean_us"],
        "fio_mean_us": job["read"]["lat_ns"]["mean"] / 1e3,
    }


def saturated_round(device: str, trace: Path, folder: Path, threads: int) -> dict[str, float]:
    """Return the reads per second of both programs, one after the other."""
    saturate = [
        "--saturate", f"--depth={DEPTH * threads}", f"--threads={threads}", "--loops=1000",
        f"--duration={SECONDS}",
    ]  # fmt: skip
    ours = replayer(device, trace, folder, *saturate)
    if ours["blocks_checked"] != ours["reads"] or ours["unverified_blocks"]:
        raise BenchError("the replayer did not check every block")
    unchecked = replayer(device, trace, folder, "--prefill=none", "--unwritten=any", *saturate)
    job = fio(
        f"--filename={device}", "--rw=randread", f"--bs={BLOCK}", "--ioengine=io_uring",
        f"--iodepth={DEPTH}", f"--numjobs={threads}", "--group_reporting", "--time_based",
        f"--runtime={SECONDS}",
    )  # fmt: skip
    rate = {
        "checked_iops": ours["reads"] / ours["elapsed_s"],
        "unchecked_iops": unchecked["reads"] / unchecked["elapsed_s"],
        "fio_iops": job["read"]["iops"],
    }
    rate["checked_ratio"] = rate["checked_iops"] / rate["fio_iops"]
    rate["unchecked_ratio"] = rate["unchecked_iops"] / rate["fio_iops"]
    return rate


def spreads(rounds: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return median, smallest and largest value of each measurement of the rounds."""
    values = {key: [each[key] for each in rounds] for key in rounds[0]}
    return {
        key: {"median": statistics.median(v), "min": min(v), "max": max(v)}
        for key, v in values.items()
    }


#: The printed rows of the paced replay: key, description, digits.
PACED = (
    ("s", "elapsed time, s", 2), ("lag_p50_us", "submission lag p50, us", 1),
    ("lag_p99_us", "submission lag p99, us", 1), ("mean_us", "reported mean latency, us", 1),
)  # fmt: skip
SATURATED = (
    ("fio_iops", "fio", 0), ("unchecked_iops", "replayer", 0),
    ("checked_iops", "replayer, every byte checked", 0),
    ("unchecked_ratio", "replayer / fio", 2), ("checked_ratio", "checked / fio", 2),
)  # fmt: skip


def table(result: dict[str, Any]) -> str:
    """Format the result."""

    def line(title: str, value: dict[str, float], digits: int) -> str:
        median, low, high = (f"{value[key]:,.{digits}f}" for key in ("median", "min", "max"))
        return f"  {title:<38}{median:>12}  ({low} to {high})"

    paced = result["paced"]
    lines = [
        f"a loop device over tmpfs, {result['cpus']} CPUs; median (range) of {REPEATS}",
        f"replay at {IOPS:,} IOPS, a trace of {paced['trace_s']['median']:.2f} s:",
    ]
    for key, title, digits in PACED:
        lines.append(line(f"{title}, replayer", paced[f"ours_{key}"], digits))
        lines.append(line(f"{title}, fio", paced[f"fio_{key}"], digits))
    for threads, rate in result["saturated"].items():
        lines.append(f"saturated, threads {threads}, each with {DEPTH} in flight, IOPS:")
        lines += [line(title, rate[key], digits) for key, title, digits in SATURATED]
    lines.append(f"load average at the end: {result['load_average']:.1f}")
    return "\n".join(lines)


def compare(path: Path = OUT / "replayer.json") -> None:
    """The replayer's pacing and throughput compared with fio's."""
    if not REPLAYER.exists():
        raise BenchError(f"{REPLAYER}: not built; `make replayer`")
    if not shutil.which("fio"):
        raise BenchError("fio: not installed (Debian package fio)")
    paced: list[dict[str, float]] = []
    saturated: dict[int, list[dict[str, float]]] = {threads: [] for threads in THREADS}
    with tempfile.TemporaryDirectory() as name, filled_drive() as device:
        folder = Path(name)
        preload = build_preload(folder)
        trace, saturating = folder / "paced.iolog", folder / "saturating.iolog"
        at_us = write_trace(trace, device, IOPS, SECONDS, 1)
        write_trace(saturating, device, 250_000, 2, 2)
        for _ in range(REPEATS):
            paced.append(paced_round(device, trace, at_us, preload, folder))
            for threads, rounds in saturated.items():
                rounds.append(saturated_round(device, saturating, folder, threads))
    result = {
        "iops": IOPS, "seconds": SECONDS, "depth": DEPTH, "repeats": REPEATS,
        "cpus": os.cpu_count(), "load_average": os.getloadavg()[0], "paced": spreads(paced),
        "saturated": {threads: spreads(rounds) for threads, rounds in saturated.items()},
    }  # fmt: skip
    print(table(result))
    write_json(path, result)
