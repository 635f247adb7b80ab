# SPDX-License-Identifier: MIT
"""The emulated drives compared with published measurements of real ones.

Each flashsim profile, in steady state, serves one read-only and three mixed loads of fio in the
lab. Nothing is adjusted to make a profile lie in a published range; the profiles' sources are in
kernel/flashsim/profile.c. The measures:

- Read latency with reads alone: 80 to 110 us for 4 KiB in data sheets, and stable on real drives
  (four nines within about 2.5 times the mean at queue depth 1 in published reviews).
- Latency CDFs with writes: tails begin between p75 and p98 (Hao et al., OSDI '20, Figure 1). Here a
  tail begins at the first percentile that is twice the median.
- Inflection points between p72 and p98 (the same, Table 2), found by `linnapp label`'s algorithm as
  for an array of three such drives.
- p99 and p99.9 over the mean: 2.5 x and 20 x (Hao et al., FAST '16).
- Slack: the median deviation of the mean latency of 100 ms windows from the whole run's, with reads
  alone; under 5 %.
- Burstiness: the share of slow reads (beyond the inflection point) whose predecessor was slow as
  well; 5 to 30 %. For the last two the ranges are published; the definitions are this module's own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eval.experiment import Context, Table
from eval.long_table import LongTable
from eval.study import Study, load_study_texts
from linnapp.lab import guests
from linnapp.lab.array import Array
from linnapp.lab.places import Places
from linnapp.learn.labels import LatencyDistribution, find_inflection_points

FloatArray = NDArray[np.float64]

PERCENTILES = (50, 75, 90, 95, 98, 99, 99.9)

#: Reads of each run.
N_READS = 40_000

#: The seed of the drive and of fio.
SEED = 1

#: The load without writes.
ALONE = "reads"

#: Request sizes as in usual summaries of production traces: half are small.
SIZES = "4k/50:8k/15:16k/15:32k/10:64k/10"


class Load(NamedTuple):
    """A load with Poisson arrivals."""

    #: Reads per second.
    read_iops: dict[str, int]
    #: Writes per second, by class of drive.
    write_iops: dict[str, int]
    #: fio's `bssplit`.
    sizes: str = SIZES


#: Reads to writes 70 to 30. Writes amount to about 2, 8 and 20 MB/s on the consumer drive, which
#: is rated for tens of MB/s of sustained random writes, and to about 10, 50 and 150 MB/s on the
#: others, rated for hundreds.
LOADS = {
    ALONE: Load({"consumer": 2000, "enterprise": 5000}, {"consumer": 0, "enterprise": 0}, "4k/100"),
    "light": Load({"consumer": 320, "enterprise": 1700}, {"consumer": 140, "enterprise": 720}),
    "medium": Load({"consumer": 1300, "enterprise": 8300}, {"consumer": 560, "enterprise": 3600}),
    "heavy": Load({"consumer": 3300, "enterprise": 25000}, {"consumer": 1400, "enterprise": 10700}),
}


class Range(NamedTuple):
    """A published range of a measure."""

    text: str
    low: float
    high: float
    #: The range applies to the load without writes.
    alone: bool = False


PUBLISHED = {
    "median_us": Range("80 to 110", 80, 110, alone=True),
    "p9999_over_mean": Range("at most 2.5", 0, 2.5, alone=True),
    "slack_pct": Range("under 5", 0, 5, alone=True),
    "tail_from_percentile": Range("75 to 98", 75, 98),
    "inflection_percentile": Range("72 to 98", 72, 98),
    "p99_over_mean": Range("about 2.5", 2.5 / 2, 2.5 * 2),
    "p999_over_mean": Range("up to 20", 2.5, 20),
    "burstiness_pct": Range("5 to 30", 5, 30),
}


def _fio(load: Load, profile: str, seed: int) -> str:
    """Return the fio command of a load."""
    kind = profile.split("-")[0]
    read_iops, write_iops = load.read_iops[kind], load.write_iops[kind]
    runtime_ms = max(1, 1000 * N_READS // read_iops)
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


def measure(
    context: Context, *, profile: str, load: str, policy: str, seed: int
) -> dict[str, float]:
    """Run a load on a drive, and return the measures of its reads."""
    out = context.folder / f"{profile}-{load}"
    out.mkdir(parents=True, exist_ok=True)
    places = Places(out)
    script = f"""
cd /run/tmp
{_fio(LOADS[load], profile, SEED)}
cp r_clat.1.log {places.of(out / "reads.log")}
"""
    array = Array(n_drives=1, profile=profile, seed=SEED)
    guests.run_in_guest(["sh", "-ec", script], places, out / "log.txt", array=array)
    rows = np.loadtxt(out / "reads.log", delimiter=",", usecols=(0, 1))
    rows[:, 1] /= 1000
    return describe(rows, alone=load == ALONE)


def describe(rows: FloatArray, alone: bool) -> dict[str, float]:
    """Return the measures of reads: the end in ms and the latency in us of each.

    Reads that are `alone` have no tail to describe.
    """
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
    # Whole microseconds, as in the kernel. Many reads share one, so the result is the share of
    # reads beyond the point, not the percentile that was tried.
    whole_us = latency_us.astype(np.int64)
    point = find_inflection_points([LatencyDistribution(whole_us)] * 3)[0]
    slow = whole_us > point.threshold_us
    found["inflection_percentile"] = 100 * (1 - float(slow.mean()))
    found["burstiness_pct"] = 100 * float(slow[:-1][slow[1:]].mean()) if slow[1:].any() else 0.0
    return found


def compare(table: LongTable) -> dict[str, Table]:
    """Compare each measure with its published range."""
    rows = []
    for profile, load in table.places:
        for name, published in PUBLISHED.items():
            if published.alone == (load == ALONE):
                found = table.value((profile, load), "", name)
                inside = published.low <= found <= published.high
                row = (f"{found:.2f}", published.text, "yes" if inside else "**no**")
                rows.append((profile, load, EXPERIMENT.measures[name].title, *row))
    header = ("profile", "load", "measure", "found", "published", "inside")
    return {"Measures and published ranges": Table(header, tuple(rows))}


EXPERIMENT = Study(
    **load_study_texts("validate"),
    factors={
        "profile": ("consumer", "enterprise-a", "enterprise-b", "enterprise-c"),
        "load": tuple(LOADS),
    },
    cell=measure,
    seeds=lambda seeds, **place: seeds[:1],
    more_tables=compare,
)
