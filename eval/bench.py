# SPDX-License-Identifier: MIT
"""`make bench`: speed of our own code, as ratios to a reference measured in the same run.

Real time on this machine, so not repeatable to the digit: medians, ratios, and for the engine
instruction counts too. Leaves out/bench/*.json.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from eval import bench_linnapp, bench_off_cost, kernel_bench
from eval.cache import ROOT
from eval.files import write_json
from linnapp.blktrace import BlktraceReader
from linnapp.lab.guest import LabError

OUT = ROOT / "out" / "bench"
MODEL = ROOT / "models" / "example" / "flash0.linnos"
RECORDING = ROOT / "out" / "demo" / "record" / "flash0.blk"


def engine() -> None:
    """The admission path against the plain scalar engine."""
    kernel_bench.run("bench_engine", "--json", str(OUT / "engine.json"), "--model", str(MODEL))


def two_cores() -> None:
    """The admission path on two cores that read from one drive."""
    kernel_bench.run("two_cores", "--json", str(OUT / "two_cores.json"), str(MODEL))


def replayer() -> None:
    """The replayer's pacing and throughput beside fio's."""
    script = ROOT / "replayer" / "bench" / "bench.py"
    subprocess.run([sys.executable, str(script), "--json", str(OUT / "replayer.json")], check=True)


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


PARTS = {
    "engine": engine,
    "two-cores": two_cores,
    **bench_off_cost.PARTS,
    "replayer": replayer,
    "reader": reader,
    **bench_linnapp.PARTS,
}

#: minutes, and gigabytes of disk
ONLY_WHEN_NAMED = {"large"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    all_but = f"all but {', '.join(ONLY_WHEN_NAMED)} unless named"
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; {all_but}")
    parts = parser.parse_args().parts or [name for name in PARTS if name not in ONLY_WHEN_NAMED]
    OUT.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in parts:
        if name not in PARTS:
            parser.error(f"{name}: no such benchmark; there are {', '.join(PARTS)}")
        print(f"--- {name}: {(PARTS[name].__doc__ or '').strip()}", flush=True)
        try:
            PARTS[name]()
        except (subprocess.CalledProcessError, LabError) as error:
            failed.append(f"{name}: {error}")
    if failed:
        sys.exit("make bench: " + "; ".join(failed))


if __name__ == "__main__":
    main()
