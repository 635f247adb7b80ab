# SPDX-License-Identifier: MIT
"""Compare the emulated drives with published numbers of real ones.

`python -m eval.validate_flashsim` runs each flashsim profile, in steady state,
under one read-only and three read-write loads in the lab, and leaves in
out/eval/validate/ the latencies (`<profile>-<load>.npy`, us), `data.json`,
`figure.png` (latency CDFs) and `reading.md`: each measure with its published
range, and whether the profile lies in it. Nothing is adjusted to make it lie
there; the profiles' sources are in kernel/flashsim/profile.c. `--commit` also leaves
all but the latencies in eval/results/validate/; docs/emulated-drives.md has some of the measures.

The measures:

- Read latency with reads alone: data sheets say 80 to 110 us for 4 KiB; real drives
  are stable then (four nines within about 2.5 times the mean at queue depth 1 in
  published reviews).
- Latency CDFs with writes: tails begin between p75 and p98 (Hao et al., OSDI '20,
  Figure 1). Here a tail begins at the first percentile that takes twice the median.
- Inflection points between p72 and p98 (the same, Table 2), found by
  `linnapp.learn.labelling.inflection` as for an array of three such drives.
- p99 and p99.9 over the mean: 2.5 x and 20 x (Hao et al., FAST '16).
- Slack: how far the mean latency of 100 ms windows departs from the whole run's, the
  median departure, with reads alone; under 5 %.
- Burstiness: share of slow reads (beyond the inflection point) whose predecessor was
  slow as well; 5 to 30 %. For the last two the ranges are published; the definitions are
  this module's own.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from eval import figures
from eval.cache import RESULTS
from eval.places import Places
from eval.work import map_parallel, write_json, write_text
from linnapp.lab.array import Array
from linnapp.lab.guest import Guest
from linnapp.lab.uml import DEFAULT_KERNEL, run
from linnapp.learn.labelling.inflection import LatencyDistribution, find_inflection_points

FloatArray = NDArray[np.float64]

VALIDATION = RESULTS / "validate"
PROFILES = ("consumer", "enterprise-a", "enterprise-b", "enterprise-c")
PERCENTILES = (50, 75, 90, 95, 98, 99, 99.9)

#: Shares of request sizes with which production traces are usually summarised: half are small.
SIZES = "4k/50:8k/15:16k/15:32k/10:64k/10"


@dataclass(frozen=True)
class Load:
    """A load; Poisson arrivals."""

    name: str
    #: Reads per second.
    read_iops: dict[str, int]
    #: Writes per second, by class of drive.
    write_iops: dict[str, int]
    #: fio's `bssplit`.
    sizes: str = SIZES


#: Reads to writes 70 to 30. Writes amount to about 2, 8 and 20 MB/s on the consumer drive, which
#: is rated for tens of MB/s of sustained random writes, and to about 10, 50 and 150 MB/s on the
#: others, rated for hundreds.
LOADS = (
    Load(
        "reads", {"consumer": 2000, "enterprise": 5000}, {"consumer": 0, "enterprise": 0}, "4k/100"
    ),
    Load("light", {"consumer": 320, "enterprise": 1700}, {"consumer": 140, "enterprise": 720}),
    Load("medium", {"consumer": 1300, "enterprise": 8300}, {"consumer": 560, "enterprise": 3600}),
    Load("heavy", {"consumer": 3300, "enterprise": 25000}, {"consumer": 1400, "enterprise": 10700}),
)


@dataclass(frozen=True)
class Range:
    """A published range."""

    #: As it is written.
    text: str
    low: float
    high: float


PUBLISHED = {
    "median_us": Range("80 to 110", 80, 110),
    "p9999_over_mean": Range("at most 2.5", 0, 2.5),
    "slack_pct": Range("under 5", 0, 5),
    "tail_from_percentile": Range("75 to 98", 75, 98),
    "inflection_percentile": Range("72 to 98", 72, 98),
    "p99_over_mean": Range("about 2.5", 2.5 / 2, 2.5 * 2),
    "p999_over_mean": Range("up to 20", 2.5, 20),
    "burstiness_pct": Range("5 to 30", 5, 30),
}


def _class(profile: str) -> str:
    return profile.split("-")[0]


def _fio(load: Load, profile: str, reads: int, seed: int) -> str:
    kind = _class(profile)
    read_iops, write_iops = load.read_iops[kind], load.write_iops[kind]
    runtime_ms = max(1, 1000 * reads // read_iops)
    # Two jobs, so that reads and writes arrive independently of each other.
    common = (
        f"--filename=/dev/flash0 --direct=1 --ioengine=io_uring --iodepth=1024 --thread"
        f" --clocksource=clock_gettime --bssplit={load.sizes} --rate_process=poisson"
        f" --time_based --runtime={runtime_ms}ms --randrepeat=1 --norandommap=1"
    )
    jobs = (
        f" --name=reads --rw=randread --rate_iops={read_iops} --randseed={seed}"
        f" --write_lat_log=/run/tmp/r --log_offset=0"
    )
    if write_iops:
        jobs += f" --name=writes --rw=randwrite --rate_iops={write_iops} --randseed={seed + 1}"
        jobs += f" {common}"
    return f"fio {common}{jobs} --output=/run/tmp/fio.txt"


def measure(profile: str, load: Load, reads: int, seed: int, kernel: Path, out: Path) -> FloatArray:
    """Run a load on a drive: of each read when it ended (ms from the start), what it took (us)."""
    target = out / f"{profile}-{load.name}.npy"
    log = target.with_suffix(".log")
    places = Places(out)
    script = f"""
cd /run/tmp
{_fio(load, profile, reads, seed)}
cp r_clat.1.log {places.of(log)}
cp /sys/kernel/debug/flashsim/flash0/counters {places.of(target.with_suffix(".counters"))}
"""
    array = Array(n_drives=1, profile=profile, seed=seed)
    sink = io.BytesIO()
    guest = Guest(
        kernel=kernel,
        folders=places.folders,
        setup=array.setup_script() + places.setup(),
        environment=places.environment(array),
    )
    result = run(["sh", "-ec", script], guest, cwd=places.cwd, stdout=sink, stderr=sink)
    if result.status:
        raise SystemExit(
            f"{profile} {load.name}: status {result.status}\n{sink.getvalue().decode()}"
        )
    rows = np.loadtxt(log, delimiter=",", usecols=(0, 1))
    log.unlink()
    rows[:, 1] /= 1000
    np.save(target, rows)
    return rows


def describe(rows: FloatArray, alone: bool) -> dict[str, float]:
    """The measures of what `measure` returns; of reads `alone` nothing is said about a tail."""
    time_ms, latency_us = rows.T
    mean = float(latency_us.mean())
    levels = np.percentile(latency_us, np.arange(1000) / 10)
    found = {
        f"p{p:g}_us".replace(".", ""): float(np.percentile(latency_us, p)) for p in PERCENTILES
    }
    found |= {
        "reads": float(len(latency_us)),
        "mean_us": mean,
        "max_us": float(latency_us.max()),
        "median_us": found["p50_us"],
        "p99_over_mean": found["p99_us"] / mean,
        "p999_over_mean": found["p999_us"] / mean,
        "p9999_over_mean": float(np.percentile(latency_us, 99.99)) / mean,
    }
    if alone:
        window = (time_ms // 100).astype(np.int64)
        sums, counts = np.bincount(window, latency_us), np.bincount(window)
        means = sums[counts > 20] / counts[counts > 20]
        found["slack_pct"] = 100 * float(np.median(np.abs(means / mean - 1)))
        return found
    beyond = np.flatnonzero(levels > 2 * found["median_us"])
    found["tail_from_percentile"] = float(beyond[0] / 10) if len(beyond) else 100.0
    # Whole microseconds, as the kernel sees them; many reads share one, so what counts is the
    # share beyond the point, not the percentile that was tried.
    whole_us = latency_us.astype(np.int64)
    point = find_inflection_points([LatencyDistribution(whole_us)] * 3)[0]
    slow = whole_us > point.threshold_us
    found["inflection_percentile"] = 100 * (1 - float(slow.mean()))
    found["burstiness_pct"] = 100 * float(slow[:-1][slow[1:]].mean()) if slow[1:].any() else 0.0
    return found


#: Measures by kind of load, in the order of the table.
WITH_READS = ("median_us", "p9999_over_mean", "slack_pct")
WITH_WRITES = (
    "tail_from_percentile",
    "inflection_percentile",
    "p99_over_mean",
    "p999_over_mean",
    "burstiness_pct",
)


def reading(data: dict[str, dict[str, dict[str, float]]]) -> str:
    """Say in a table where each profile lies, and name what lies outside."""
    lines = ["# Emulated drives beside published figures", ""]
    lines += [
        "| profile | load | measure | found | published | inside |",
        "|---|---|---|---|---|---|",
    ]
    outside = []
    for profile, loads in data.items():
        for load, found in loads.items():
            for name in WITH_READS if load == "reads" else WITH_WRITES:
                published = PUBLISHED[name]
                inside = published.low <= found[name] <= published.high
                if not inside:
                    outside.append(f"{profile} {load}: {name} {found[name]:.1f} ({published.text})")
                lines.append(
                    f"| {profile} | {load} | {name} | {found[name]:.2f} | {published.text} |"
                    f" {'yes' if inside else 'no'} |"
                )
    lines += ["", f"{len(outside)} measures lie outside:" if outside else "All lie inside.", ""]
    lines += [f"- {line}" for line in outside]
    return "\n".join(lines) + "\n"


def draw(latency_us: dict[tuple[str, str], FloatArray], path: Path) -> None:
    """Draw the latency CDFs, a panel a profile."""
    figure, axes = plt.subplots(1, len(PROFILES), figsize=(16, 3.8), sharey=True)
    for axis, profile in zip(axes, PROFILES, strict=True):
        for load in LOADS:
            values = np.sort(latency_us[profile, load.name])
            axis.plot(values, np.arange(1, len(values) + 1) / len(values), label=load.name)
        axis.axhspan(0.75, 0.98, color="0.9", zorder=0)
        axis.set(title=profile, xscale="log", ylim=(0.5, 1), xlabel="read latency (us)")
    axes[0].set_ylabel("CDF")
    axes[-1].legend(title="load", loc="lower right")
    figures.save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m eval.validate_flashsim")
    parser.add_argument("--out", type=Path, default=Path("out/eval/validate"))
    parser.add_argument("--reads", type=int, default=40_000, help="reads of each run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kernel", type=Path, default=DEFAULT_KERNEL)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="guests at a time")
    parser.add_argument("--commit", action="store_true", help="also write eval/results/validate/")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)

    cells = [(profile, load) for profile in PROFILES for load in LOADS]

    def one(cell: tuple[str, Load]) -> FloatArray:
        return measure(*cell, arguments.reads, arguments.seed, arguments.kernel, out)

    runs = map_parallel(one, cells, jobs=arguments.jobs, what="measuring")
    data: dict[str, dict[str, dict[str, float]]] = {profile: {} for profile in PROFILES}
    latency_us: dict[tuple[str, str], FloatArray] = {}
    for (profile, load), rows in zip(cells, runs, strict=True):
        data[profile][load.name] = describe(rows, alone=load.name == "reads")
        latency_us[profile, load.name] = rows[:, 1]
    record: dict[str, Any] = {
        "seed": arguments.seed,
        "reads": arguments.reads,
        "loads": [load.__dict__ for load in LOADS],
        "published": {name: published.text for name, published in PUBLISHED.items()},
        "measures": data,
    }
    write_json(out / "data.json", record)
    text = reading(data)
    write_text(out / "reading.md", text)
    draw(latency_us, out / "figure.png")
    if arguments.commit:
        VALIDATION.mkdir(exist_ok=True)
        for name in ("data.json", "reading.md", "figure.png"):
            shutil.copyfile(out / name, VALIDATION / name)
    print(text)


if __name__ == "__main__":
    main()
