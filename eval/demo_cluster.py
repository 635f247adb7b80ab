# SPDX-License-Identifier: MIT
"""`make demo-cluster`: one seed and one network of `make eval-cluster`, as a table and a picture.

Three nodes keep a file three times with GlusterFS, while a burst wanders over their drives. A
client reads the file once under each rule for which node to read from.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from eval import figures, workers
from eval.cache import Cache
from eval.cells import N_DRIVES
from eval.experiments.cluster.cells import add_reads
from eval.experiments.cluster.lab import (
    BURST_US,
    BURSTS,
    MEAN_US,
    ROUNDS,
    TURN_US,
    Measured,
    Situation,
    compile_client,
    measure_rules,
    record_and_train,
)
from eval.experiments.cluster.rules import AGENT_RULES, LIBRARY, RIVALS, RULES, best
from eval.long_table import LongTable
from linnapp.lab import guests
from linnapp.lab.cluster import CLUSTER_KERNEL
from linnapp.lab.work import StepError, Steps, aligned

COMMAND = "make demo-cluster"

#: The network of the tables in docs/cluster.md.
ONE_WAY_US = 20

#: The rules that are measured, in this order. They take five minutes and include the best rival.
ORDER = (
    "round-robin", "own-queue", "own-latency", "engine-3", *AGENT_RULES, *LIBRARY, "oracle",
)  # fmt: skip

#: Folders in the output that each run makes again.
WORK = ("cluster", "cluster-models")

EXPLAINED = (
    '"Own" is what the client measures itself; "agents\' reports" come from the nodes; the oracle '
    "knows\nthe future. GlusterFS 3 is the engine's own read-hash-mode 3."
)


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/demo-cluster"))
    parser.add_argument("--seed", type=int, default=1, help="of drives, reads and models (1)")
    parser.add_argument(
        "--rounds",
        type=int,
        default=ROUNDS,
        help=f"of bursts over all drives that are read through; {_seconds(1):g} s each ({ROUNDS})",
    )
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds is {arguments.rounds}; it must be at least 1")
    try:
        table = demo(arguments.out, arguments.seed, arguments.rounds)
    except (StepError, OSError) as error:
        sys.exit(f"\n{COMMAND}: {error}")
    except KeyboardInterrupt:
        sys.exit(f"\n{COMMAND}: stopped, no guest is left; `{COMMAND}` begins from the start")
    finally:
        workers.stop()
    print(f"\n{result_text(table)}")
    print(f"\n{arguments.out}/figure.png, {arguments.out}/table.csv.")
    print("Next: docs/cluster.md; `make eval-cluster`, three seeds, other networks and loads.")


def demo(out: Path, seed: int, rounds: int) -> LongTable:
    """Measure each rule into table.csv and figure.png, and return the table."""
    steps = Steps(len(ORDER) + 3)
    print(announcement(rounds))
    situation = Situation(BURSTS, seed, ONE_WAY_US, measured_ms=rounds * N_DRIVES * TURN_US // 1000)
    folder = out.resolve()
    cache = Cache(folder / "cache")
    # The demo measures everything again.
    for old in (path for kind in WORK for path in cache.folder.glob(f"{kind}-*")):
        shutil.rmtree(old)
    with steps.step("compiling the client"):
        client = compile_client(folder / "bin")
    with guests.on_kernel(CLUSTER_KERNEL, "kernel-cluster", client.parent):
        with steps.step("recording the drives, and training a model of each"):
            record_and_train(cache, client, situation)
            workers.stop()
        done: dict[str, Measured] = {}
        for rule in ORDER:
            with steps.step(f"reading: {RULES[rule]}"):
                # Each rule runs in a new guest, so that drives start in the same state.
                done |= measure_rules(cache, client, situation, (rule,))
    with steps.step("drawing"):
        table = LongTable(("situation",))
        add_reads(table, situation.load, [done], situation.measured_ms)
        table.save(out / "table.csv")
        draw(table, out / "figure.png")
    return table


def announcement(rounds: int) -> str:
    """Describe what the demo will do, and how long it takes."""
    slow_ms, longer_ms = TURN_US // 1000, BURST_US / 1000
    return (
        f"Three nodes, each with GlusterFS on a drive of its own, {ONE_WAY_US} us away. One drive "
        f"at a time is slow:\nfor {slow_ms} ms its reads take {longer_ms:g} ms longer, then it is "
        f"the next one's turn. A client reads\n4 KiB every {MEAN_US} us for {_seconds(rounds):g} "
        f"s, once under each of {len(ORDER)} rules for which node to read from.\n"
        "It takes one to ten minutes, 2 GB of memory, and 20 MB on disk.\n"
    )


def _seconds(rounds: int) -> float:
    """Return the length of a number of rounds in seconds."""
    return rounds * N_DRIVES * TURN_US / 1e6


def result_text(table: LongTable) -> str:
    """Return a line for each rule, an explanation of the words, and the result in a sentence."""
    (place,) = table.places
    rows = [("rule", "mean us", "p99 us", "extra reads")]
    numbers = {}
    for rule in table.policies():
        mean, p99, extra = (
            table.value(place, rule, name) for name in ("mean_us", "p99_us", "extra_io_ratio")
        )
        numbers[rule] = f"{mean:.1f} us in the mean and {p99:.0f} us at p99"
        rows.append((RULES[rule], f"{mean:.1f}", f"{p99:.0f}", f"{100 * extra:.1f} %"))
    reads = table.value(place, ORDER[0], "reads")
    rival = best(table, place, (rule for rule in RIVALS if rule in numbers))
    reduction = table.interval(place, LIBRARY[0], "mean_us", rival)
    note = "" if reduction.excludes_zero else "\nThe means do not differ significantly."
    return (
        f"Read latency; {reads:.0f} reads a rule:\n\n{aligned(rows)}\n\n{EXPLAINED}\n\n"
        f"{RULES[LIBRARY[0]]} takes {numbers[LIBRARY[0]]}.\n"
        f"The best rival, {RULES[rival]}, takes {numbers[rival]}.{note}"
    )


def draw(table: LongTable, path: Path) -> None:
    """Draw the means of the rules, and their p99."""
    (place,) = table.places
    rows = {rule: RULES[rule] for rule in table.policies()}
    panels = [
        figures.Panel("", place, rows, measure, f"{name} of the read latency, us")
        for measure, name in (("mean_us", "mean"), ("p99_us", "p99"))
    ]
    figures.draw_ranked(table, panels, path, ours=LIBRARY)


if __name__ == "__main__":
    main()
