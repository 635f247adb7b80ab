# SPDX-License-Identifier: MIT
"""`make bench`, `python -m eval.bench`: run benchmarks, all or some of them; `--list` shows which.

Times are measured on this machine, so they vary from run to run: most results are medians, ratios
to a reference, or instruction counts. Each benchmark writes its results into out/bench/.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

from eval.bench import (
    OUT,
    BenchError,
    agent,
    bypass,
    fault_cost,
    in_kernel,
    kernel,
    library,
    module_cost,
    off_cost,
    store_pauses,
    tracers,
    training,
    ublk_cost,
    watching,
)
from linnapp.errors import LinnappError


class Benchmark(NamedTuple):
    """One entry of the table of measurements."""

    #: The function that measures, prints, and writes results into ``OUT``. The first line of its
    #: docstring is the title.
    run: Callable[[], None]
    #: Requirements in addition to `make build`.
    needs: str = ""
    #: Run it only if it is named.
    when_named: bool = False

    @property
    def title(self) -> str:
        """Return the title."""
        return (self.run.__doc__ or "").strip().splitlines()[0]


_DEBIAN, _WATCHING = "`make kernel-debian`, and its headers", "root, and a kernel with BTF"

BENCHMARKS = {
    "ask": Benchmark(in_kernel.ask, "the lab kernel"),
    "in-kernel": Benchmark(in_kernel.in_kernel, "the lab kernel"),
    "shared-lines": Benchmark(kernel.shared_lines),
    "off-cost": Benchmark(off_cost.off_cost, "a kernel without the patch, and builds it"),
    "module-cost": Benchmark(module_cost.module_cost, _DEBIAN, when_named=True),
    "fault-cost": Benchmark(fault_cost.fault_cost, _DEBIAN, when_named=True),
    "bypass": Benchmark(bypass.bypass, _DEBIAN, when_named=True),
    "ublk-cost": Benchmark(ublk_cost.ublk_cost, "`make kernel-debian`"),
    "library": Benchmark(library.library),
    "agent": Benchmark(agent.agent),
    "train": Benchmark(training.train),
    "watch-rate": Benchmark(watching.rate, _WATCHING),
    "watch-loss": Benchmark(watching.losses, _WATCHING, when_named=True),
    "watch-tracers": Benchmark(
        tracers.tracers, f"packaging/apt/tracers.txt, {_WATCHING}", when_named=True
    ),
    "watch-redis": Benchmark(
        watching.redis, f"packaging/apt/redis.txt, {_WATCHING}", when_named=True
    ),
    "watch-rocksdb": Benchmark(
        store_pauses.store_pauses, f"packaging/apt/apps.txt, {_WATCHING}", when_named=True
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks; default: all")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in BENCHMARKS:
            parser.error(f"{name}: no such benchmark; there are {', '.join(BENCHMARKS)}")
    if arguments.list:
        for name, benchmark in BENCHMARKS.items():
            needs = f" Needs {benchmark.needs}." if benchmark.needs else ""
            named = " Only when named." if benchmark.when_named else ""
            print(f"{name:13} {benchmark.title}{needs}{named}")
        return
    names = arguments.names or [n for n, b in BENCHMARKS.items() if not b.when_named]
    OUT.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in names:
        print(f"--- {name}: {BENCHMARKS[name].title}", flush=True)
        try:
            BENCHMARKS[name].run()
        except (subprocess.CalledProcessError, BenchError, LinnappError) as error:
            failed.append(f"{name}: {error}")
    if failed:
        sys.exit("make bench: " + "; ".join(failed))


if __name__ == "__main__":
    main()
