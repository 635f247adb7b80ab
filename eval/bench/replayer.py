# SPDX-License-Identifier: MIT
"""Speed of the replayer beside fio's, on one loop device over a tmpfs file, in real time.

Pacing: both replay one trace of Poisson arrivals (50,000 a second by default); the
lag of a submission behind the trace is the replayer's own report, and for fio what a
preloaded io_submit() notes (submit_times.c), counted from its first submission. (At
such a rate fio falls behind the trace for good; why was not looked into.)

Saturation: random 4 KiB reads at one depth, both with io_uring. fio checks no
content, so the replayer runs twice: over blocks that nobody has written, which it
does not check either, and over blocks that it has, every byte of which it checks.

The runs alternate and medians are reported, because another program on the machine
disturbs both. Needs root, for the loop device.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from eval.bench import OUT, BenchError
from eval.files import write_json
from eval.programs import REPLAYER

HERE = Path(__file__).resolve().parent
BLOCK = 4096
DRIVE_BYTES = 1 << 30
TMPFS = Path("/dev/shm")


@contextmanager
def loop_device() -> Iterator[str]:
    """A loop device over a filled tmpfs file."""
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


def replayer(device: str, trace: Path, folder: Path, *options: str) -> dict[str, Any]:
    """One baseline run of the replayer; its JSON."""
    out = folder / "replayer.json"
    command = [str(REPLAYER), "--devices", device, "--trace", str(trace), "--policy", "baseline"]
    command += ["--settle-ms", "0", "--quiet", "--json", str(out), *options]
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


def fio_lag_us(
    trace: Path, at_us: np.ndarray[Any, Any], preload: Path, folder: Path
) -> np.ndarray[Any, Any]:
    """Lag of every submission of fio's replay behind the trace, in microseconds."""
    times = folder / "times"
    times.unlink(missing_ok=True)
    fio(
        f"--read_iolog={trace}", "--ioengine=libaio", "--iodepth=256", "--thread=0",
        env={"LD_PRELOAD": str(preload), "SUBMIT_TIMES": str(times)},
    )  # fmt: skip
    submitted = np.fromfile(times, "<u8").astype(np.int64)
    if len(submitted) != len(at_us):
        raise BenchError(f"fio submitted {len(submitted)} I/Os of the trace's {len(at_us)}")
    lag: np.ndarray[Any, Any] = (submitted - submitted[0]) / 1000 - (at_us - at_us[0])
    return lag


def spread(values: list[float]) -> dict[str, float]:
    """Median, smallest and largest of repeated measurements."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def run(
    *, iops: int = 50_000, seconds: float = 10, depth: int = 32, repeats: int = 3, seed: int = 1
) -> dict[str, Any]:
    """Run both comparisons.

    Parameters
    ----------
    iops : int
        Arrival rate of the paced trace.
    seconds : float
        Length of each run.
    depth : int
        Reads in flight in the saturated comparison.
    repeats : int
        Runs of each; medians are over these.
    seed : int
        Of the trace.

    Returns
    -------
    dict
        ``lag_us`` and ``saturated_iops``, for ``replayer`` and ``fio``, and
        the ratios, each as median, min and max.

    Raises
    ------
    BenchError
        When fio, the replayer or a loop device is missing.
    """
    if not REPLAYER.exists():
        raise BenchError(f"{REPLAYER}: not built; `make replayer`")
    if not shutil.which("fio"):
        raise BenchError("fio: not installed (Debian package fio)")
    lag: dict[str, list[float]] = {
        key: [] for key in ("ours_p50", "ours_p99", "fio_p50", "fio_p99")
    }
    rate: dict[str, list[float]] = {"unchecked": [], "ours": [], "fio": []}
    with loop_device() as device, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        preload = build_preload(folder)
        trace = folder / "paced.iolog"
        at_us = write_trace(trace, device, iops, seconds, seed)
        saturating = folder / "saturating.iolog"
        write_trace(saturating, device, 250_000, seconds, seed + 1)
        for _ in range(repeats):
            # The prefill writes every block that is read, so that each read is checked in full.
            ours = replayer(device, trace, folder)
            lag["ours_p50"].append(ours["lag_p50_us"])
            lag["ours_p99"].append(ours["lag_p99_us"])
            theirs = fio_lag_us(trace, at_us, preload, folder)
            lag["fio_p50"].append(float(np.percentile(theirs, 50)))
            lag["fio_p99"].append(float(np.percentile(theirs, 99)))
            saturate = ("--saturate", f"--depth={depth}", f"--duration={seconds}")
            ours = replayer(device, saturating, folder, *saturate)
            if ours["blocks_checked"] != ours["reads"] or ours["unverified_blocks"]:
                raise BenchError("the replayer did not check every block")
            rate["ours"].append(ours["reads"] / ours["elapsed_s"])
            ours = replayer(
                device, saturating, folder, "--prefill=none", "--unwritten=any", *saturate
            )
            rate["unchecked"].append(ours["reads"] / ours["elapsed_s"])
            job = fio(
                f"--filename={device}", "--rw=randread", f"--bs={BLOCK}", "--ioengine=io_uring",
                f"--iodepth={depth}", "--time_based", f"--runtime={seconds}",
            )  # fmt: skip
            rate["fio"].append(job["read"]["iops"])
    return {
        "iops": iops,
        "seconds": seconds,
        "depth": depth,
        "repeats": repeats,
        "load_average": os.getloadavg()[0],
        "lag_us": {key: spread(values) for key, values in lag.items()},
        "saturated_iops": {key: spread(values) for key, values in rate.items()},
        "saturated_ratio": spread([a / b for a, b in zip(rate["ours"], rate["fio"], strict=True)]),
        "unchecked_ratio": spread(
            [a / b for a, b in zip(rate["unchecked"], rate["fio"], strict=True)]
        ),
        "lag_p99_ratio": spread(
            [a / b for a, b in zip(lag["ours_p99"], lag["fio_p99"], strict=True)]
        ),
    }


def table(result: dict[str, Any]) -> str:
    """The result as lines to read."""

    def cell(value: dict[str, float]) -> str:
        return f"{value['median']:>12,.1f}  ({value['min']:,.1f} to {value['max']:,.1f})"

    def ratio(value: dict[str, float]) -> str:
        return f"{value['median']:>12.2f}  ({value['min']:.2f} to {value['max']:.2f})"

    lag, rate = result["lag_us"], result["saturated_iops"]
    return "\n".join(
        [
            f"replay at {result['iops']:,} IOPS, {result['seconds']:g} s, "
            f"{result['repeats']} runs each: median (range)",
            f"  submission lag p50, us: replayer {cell(lag['ours_p50'])}",
            f"                               fio {cell(lag['fio_p50'])}",
            f"  submission lag p99, us: replayer {cell(lag['ours_p99'])}",
            f"                               fio {cell(lag['fio_p99'])}",
            f"saturated, depth {result['depth']}, IOPS: replayer {cell(rate['ours'])}",
            f"       without the content check   {cell(rate['unchecked'])}",
            f"                               fio {cell(rate['fio'])}",
            f"  replayer / fio, same round:      {ratio(result['saturated_ratio'])}",
            f"       without the content check   {ratio(result['unchecked_ratio'])}",
            f"load average at the end: {result['load_average']:.1f}",
        ]
    )


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
    parser.add_argument("--iops", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--depth", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
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
