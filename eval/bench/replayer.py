# SPDX-License-Identifier: MIT
"""Speed of the replayer beside fio's, on loop devices over tmpfs files, in real time.

Pacing, of one drive: both replay one trace of Poisson arrivals (20,000 a second by
default), fio by `read_iolog`; the lag of a submission behind the trace is the
replayer's own report, and for fio what a preloaded io_submit() notes
(submit_times.c), counted from its first submission. How long each took, and the mean
latency that each reports, stand beside it. (fio falls behind the trace for good; why
was not looked into.)

Saturation: random 4 KiB reads at one depth a thread, both with io_uring, from one
thread and from two, of one drive or of several in turn. fio checks no content, so the
replayer runs twice: over blocks that nobody has written, which it does not check
either, and over blocks that it has, every byte of which it checks.

The runs alternate and medians are reported, because another program on the machine
disturbs both. Needs root, for the loop devices.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from eval.bench import OUT, BenchError
from eval.programs import REPLAYER
from eval.work import write_json

HERE = Path(__file__).resolve().parent
BLOCK = 4096
DRIVE_BYTES = 1 << 30
TMPFS = Path("/dev/shm")
THREADS = (1, 2)


@contextmanager
def filled_drive(*, plain: bool) -> Iterator[str]:
    """A filled tmpfs file, or a loop device over one."""
    with tempfile.TemporaryDirectory(dir=TMPFS) as folder:
        file = Path(folder) / "drive"
        with file.open("wb") as stream:
            for _ in range(DRIVE_BYTES >> 20):
                stream.write(os.urandom(1 << 20))
        if plain:
            yield str(file)
            return
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
    """Poisson arrivals of random 4 KiB reads; their times in microseconds."""
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


def replayer(devices: Sequence[str], trace: Path, folder: Path, *options: str) -> dict[str, Any]:
    """One baseline run of the replayer, reads from the drives in turn; its JSON."""
    out = folder / "replayer.json"
    command = [str(REPLAYER), "--devices", ",".join(devices), "--trace", str(trace)]
    command += ["--policy", "baseline", "--spread", "--settle-ms", "0", "--quiet"]
    command += ["--json", str(out), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    result: dict[str, Any] = json.loads(out.read_text())
    if result["data_errors"]:
        raise BenchError("the replayer found data errors; its speed means nothing")
    return result


def fio(*options: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """One run of fio; its first job's JSON."""
    ran = subprocess.run(
        ["fio", "--name=bench", "--direct=1", "--output-format=json", *options],
        check=True, capture_output=True, text=True, env={**os.environ, **(env or {})},
    )  # fmt: skip
    job: dict[str, Any] = json.loads(ran.stdout[ran.stdout.index("{") :])["jobs"][0]
    return job


def build_preload(folder: Path) -> Path:
    """Compile the shared object that notes fio's submissions."""
    library = folder / "submit_times.so"
    source = HERE / "submit_times.c"
    subprocess.run(
        [
            os.environ.get("CC", "gcc"),
            "-O2",
            "-shared",
            "-fPIC",
            "-o",
            str(library),
            str(source),
            "-ldl",
        ],
        check=True,
    )
    return library


def fio_paced(
    trace: Path, at_us: np.ndarray[Any, Any], preload: Path, folder: Path
) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """Lag of every submission of fio's replay behind the trace, in microseconds; its JSON."""
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
    """What both make of the trace, one after the other."""
    # The prefill writes every block that is read, so that each read is checked in full.
    ours = replayer([device], trace, folder)
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


def saturated_round(
    devices: Sequence[str],
    trace: Path,
    folder: Path,
    *,
    depth: int,
    threads: int,
    seconds: float,
) -> dict[str, float]:
    """Reads a second of both, one after the other, with so many in flight a thread."""
    saturate = [
        "--saturate", f"--depth={depth * threads}", f"--threads={threads}", "--loops=1000",
        f"--duration={seconds}",
    ]  # fmt: skip
    ours = replayer(devices, trace, folder, *saturate)
    if ours["blocks_checked"] != ours["reads"] or ours["unverified_blocks"]:
        raise BenchError("the replayer did not check every block")
    unchecked = replayer(devices, trace, folder, "--prefill=none", "--unwritten=any", *saturate)
    job = fio(
        f"--filename={':'.join(devices)}", "--rw=randread", f"--bs={BLOCK}", "--ioengine=io_uring",
        f"--iodepth={depth}", f"--numjobs={threads}", "--group_reporting", "--time_based",
        f"--runtime={seconds}",
    )  # fmt: skip
    rate = {
        "checked_iops": ours["reads"] / ours["elapsed_s"],
        "unchecked_iops": unchecked["reads"] / unchecked["elapsed_s"],
        "fio_iops": job["read"]["iops"],
    }
    rate["checked_ratio"] = rate["checked_iops"] / rate["fio_iops"]
    rate["unchecked_ratio"] = rate["unchecked_iops"] / rate["fio_iops"]
    return rate


def spread(values: list[float]) -> dict[str, float]:
    """Median, smallest and largest of repeated measurements."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def spreads(rounds: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """The same of each measurement of a round."""
    return {key: spread([each[key] for each in rounds]) for key in rounds[0]}


def run(
    *,
    iops: int = 20_000,
    seconds: float = 5,
    depth: int = 32,
    repeats: int = 3,
    seed: int = 1,
    drives: int = 1,
    plain: bool = False,
) -> dict[str, Any]:
    """Run both comparisons; of several drives the saturated one.

    Parameters
    ----------
    iops : int
        Arrival rate of the paced trace.
    depth : int
        Reads in flight in the saturated comparison, of each thread.
    plain : bool
        Read the file itself, without a loop device: it answers faster.

    Returns
    -------
    dict
        ``paced``, of one drive, and ``saturated`` by the number of threads; each measurement
        as median, min and max.
    """
    if not REPLAYER.exists():
        raise BenchError(f"{REPLAYER}: not built; `make replayer`")
    if not shutil.which("fio"):
        raise BenchError("fio: not installed (Debian package fio)")
    paced: list[dict[str, float]] = []
    saturated: dict[int, list[dict[str, float]]] = {threads: [] for threads in THREADS}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        devices = [stack.enter_context(filled_drive(plain=plain)) for _ in range(drives)]
        preload = build_preload(folder)
        trace, saturating = folder / "paced.iolog", folder / "saturating.iolog"
        at_us = write_trace(trace, devices[0], iops, seconds, seed)
        write_trace(saturating, devices[0], 250_000, 2, seed + 1)
        for _ in range(repeats):
            if drives == 1:
                paced.append(paced_round(devices[0], trace, at_us, preload, folder))
            for threads, rounds in saturated.items():
                rounds.append(
                    saturated_round(
                        devices, saturating, folder, depth=depth, threads=threads, seconds=seconds
                    )
                )
    return {
        "iops": iops,
        "seconds": seconds,
        "depth": depth,
        "repeats": repeats,
        "drives": drives,
        "drive": "a file on tmpfs" if plain else "a loop device over tmpfs",
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "paced": spreads(paced) if paced else None,
        "saturated": {threads: spreads(rounds) for threads, rounds in saturated.items()},
    }


def table(result: dict[str, Any]) -> str:
    """The result as lines to read."""

    def cell(value: dict[str, float], digits: int = 1) -> str:
        median, low, high = (f"{value[key]:,.{digits}f}" for key in ("median", "min", "max"))
        return f"{median:>12}  ({low} to {high})"

    lines = [
        f"{result['drives']} x {result['drive']}, {result['cpus']} CPUs; "
        f"median (range) of {result['repeats']}"
    ]
    paced = result["paced"]
    if paced:
        length_s = paced["trace_s"]["median"]
        lines.append(f"replay at {result['iops']:,} IOPS, a trace of {length_s:.2f} s:")
    for key, what in (
        ("s", "it took, s"), ("lag_p50_us", "submission lag p50, us"),
        ("lag_p99_us", "submission lag p99, us"), ("mean_us", "mean latency it reports, us"),
    ) if paced else ():  # fmt: skip
        digits = 2 if key == "s" else 1
        lines.append(f"  {what:<28} replayer {cell(paced[f'ours_{key}'], digits)}")
        lines.append(f"  {'':<28}      fio {cell(paced[f'fio_{key}'], digits)}")
    for threads, rate in result["saturated"].items():
        lines.append(f"saturated, threads {threads}, each with {result['depth']} in flight, IOPS:")
        for key, what in (
            ("fio", "fio"), ("unchecked", "replayer"), ("checked", "replayer, every byte checked"),
        ):  # fmt: skip
            lines.append(f"  {what:<28}          {cell(rate[f'{key}_iops'], 0)}")
        for key in ("unchecked", "checked"):
            lines.append(
                f"  {key + ' / fio, same round':<28}          {cell(rate[f'{key}_ratio'], 2)}"
            )
    lines.append(f"load average at the end: {result['load_average']:.1f}")
    return "\n".join(lines)


def compare(path: Path = OUT / "replayer.json", **changes: Any) -> None:
    """The replayer's pacing and throughput beside fio's."""
    result = run(**changes)
    print(table(result))
    write_json(path, result)


def main() -> int:
    """Command line, for other rates and lengths."""
    parser = argparse.ArgumentParser(
        prog="python -m eval.bench.replayer",
        description="Compare the replayer with fio, in real time.",
    )
    parser.add_argument("--iops", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--depth", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--drives", type=int, default=1, help="read in turn (1)")
    parser.add_argument("--plain", action="store_true", help="files, and no loop devices over them")
    parser.add_argument(
        "--json",
        dest="path",
        type=Path,
        default=OUT / "replayer.json",
        help="where the result goes",
    )
    options = parser.parse_args()
    try:
        compare(**vars(options))
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
