# SPDX-License-Identifier: MIT
"""One cell of the evaluation with one development seed, for whom one names.

    python -m eval.development az-e 1010 lowest "lowest-h95, 5% cap" "lowest-p99, 5% cap"

prints a table of means, tails and extra I/O with 95 % intervals over blocks of time, and by how
much each mean and p99 is below the first one's. It is for choosing: no result comes from it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from eval import contenders, grid, scores, workers
from eval.cache import Cache
from eval.cells import WORKLOADS, replayed
from eval.errors import StepError
from eval.metrics import percent
from eval.programs import keep_programs
from eval.seeds import DEVELOPMENT

OUT = Path("out") / "eval-dev"
HEADER = ("policy", "mean us", "p99", "p99.9", "extra I/O", "mean below", "p99 below")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m eval.development", description=__doc__)
    known = (*contenders.CONTENDERS, *contenders.DEVELOPED)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("seed", type=int, choices=DEVELOPMENT)
    parser.add_argument("names", nargs="+", choices=[contender.name for contender in known])
    parser.add_argument("--any-version", action="store_true", help="accept replays of older code")
    given = parser.parse_args()
    cell = grid.cell(given.workload, given.seed)
    keep_programs(OUT)
    workers.use_workers(1)
    cache = Cache((OUT / "cache").resolve(), any_version=given.any_version)
    try:
        results = {
            contender.name: replayed(cache, grid.replay_of(cache, cell, contender))
            for contender in contenders.named(given.names)
        }
    except StepError as error:
        sys.exit(f"python -m eval.development: {error}")
    finally:
        workers.stop()
    scored = scores.of_repeats([results], cell.replay_s)
    first = given.names[0]
    print(f"{cell.label}, seed {cell.seed}, {scored['reads']} reads; below {first}:\n")
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
    for name, fields in scored["policies"].items():
        row = [
            name, scores.number(fields["mean_us"], 1), scores.number(fields["p99_us"]),
            scores.number(fields["p999_us"]), percent(fields["extra_io_ratio"], 2),
        ]  # fmt: skip
        tail = scored["tail_below"]["p99_us"].get(name, {}).get(first)
        row += [
            "-" if name == first else scores.percent(scored["below"][name][first], 1),
            scores.percent(tail, 1),
        ]
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
