# SPDX-License-Identifier: MIT
"""`make demo-cluster`: one seed and one network of `make eval-cluster`, as a table and a picture.

Three nodes keep a file three times with GlusterFS, while a burst wanders over their drives. A
client reads the file once under each rule for which node to read from.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from eval import figures, workers
from eval.cache import Cache
from eval.cells import N_DRIVES
from eval.experiments.cluster.cells import add_reads
from eval.experiments.cluster.lab import (
    BURST_US,
    BURSTS,
    FILE_MB,
    MEAN_US,
    MEMORY_MB,
    RECORDED_MS,
    ROUNDS,
    TURN_US,
    Measured,
    Situation,
    compiled,
    measured,
    recorded_and_trained,
)
from eval.experiments.cluster.rules import EXTRA, LIBRARY, OTHERS, RULES, SHIPPED
from eval.long_table import LongTable
from eval.metrics import percent
from linnapp.lab import guests
from linnapp.lab.cluster import CLUSTER_KERNEL
from linnapp.lab.work import StepError, Steps, aligned, write_json
from linnapp.stats import Interval

COMMAND = "make demo-cluster"

#: The network of the tables in docs/cluster.md.
ONE_WAY_US = 20

#: Those that fit into five minutes. The best rival is among them; the others are --all's.
ORDER = (
    "round-robin", "own-queue", "own-latency", "engine-3", *SHIPPED, *LIBRARY, "oracle",
)  # fmt: skip

#: Folders in the output that each run makes again.
WORK = ("cluster", "cluster-models")

EXPLAINED = (
    "own: what the client knows itself; shipped: what the node's agent tells it; oracle: what "
    "nobody\ncan know. GlusterFS 3 is the engine's own read-hash-mode 3."
)

_TICKS_US = (50, 100, 200, 500, 1000, 2000, 5000)

COLUMNS = ("rule", "mean us", "p99 us", "extra reads")

_COLOURS = {
    **dict.fromkeys(RULES, "#666666"), **dict.fromkeys(LIBRARY, "#aa3377"), "oracle": "black",
}  # fmt: skip


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
    parser.add_argument(
        "--all", action="store_true", help=f"all {len(RULES)} rules, instead of {len(ORDER)}"
    )
    parser.add_argument("--json", action="store_true", help="the numbers, instead of the table")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: at least 1")
    try:
        rules = tuple(RULES) if arguments.all else ORDER
        result = demo(arguments.out, arguments.seed, arguments.rounds, rules, quiet=arguments.json)
    except (StepError, OSError) as error:
        sys.exit(f"\n{COMMAND}: {error}")
    except KeyboardInterrupt:
        sys.exit(f"\n{COMMAND}: stopped, no guest is left; `{COMMAND}` begins from the start")
    finally:
        workers.stop()
    if arguments.json:
        print(json.dumps(result, indent=1))
        return
    print(f"\n{result_text(result)}")
    print(f"\n{arguments.out}/figure.png, {arguments.out}/summary.json.")
    print("Next: docs/cluster.md; `make eval-cluster`, three seeds, other networks and loads.")


def demo(
    out: Path, seed: int, rounds: int, rules: Sequence[str] = ORDER, *, quiet: bool = False
) -> dict[str, Any]:
    """Measure each rule into summary.json and figure.png; tell of it on stderr if `quiet`."""
    steps = Steps(len(rules) + 3, stderr=quiet)
    steps.console.print(announcement(rounds, len(rules)))
    situation = Situation(BURSTS, seed, ONE_WAY_US, measured_ms=rounds * N_DRIVES * TURN_US // 1000)
    folder = out.resolve()
    cache = Cache(folder / "cache")
    # all of it is to be measured now
    for old in (path for kind in WORK for path in cache.folder.glob(f"{kind}-*")):
        shutil.rmtree(old)
    with steps.step("compiling the client"):
        client = compiled(folder / "bin")
    with guests.on_kernel(CLUSTER_KERNEL, "kernel-cluster", client.parent):
        with steps.step("recording the drives, and training a model of each"):
            recorded_and_trained(cache, client, situation)
            workers.stop()
        done: dict[str, Measured] = {}
        for rule in rules:
            with steps.step(f"reading: {RULES[rule]}"):
                # a guest each: every rule meets the drives as they are first
                done |= measured(cache, client, situation, (rule,))
    with steps.step("drawing"):
        table = LongTable(("situation",))
        add_reads(table, situation.load, [done], situation.measured_ms)
        result = summary(table, situation, rounds)
        write_json(out / "summary.json", result)
        draw(result, out / "figure.png")
    return result


def announcement(rounds: int, n_rules: int = len(ORDER)) -> str:
    """Describe what the demo will do, and how long it takes."""
    slow_ms, longer_ms = TURN_US // 1000, BURST_US / 1000
    return (
        f"Three nodes, each with GlusterFS on a drive of its own, {ONE_WAY_US} us away. One drive "
        f"at a time is slow:\nfor {slow_ms} ms its reads take {longer_ms:g} ms longer, then it is "
        f"the next one's turn. A client reads\n4 KiB every {MEAN_US} us for {_seconds(rounds):g} "
        f"s, once under each of {n_rules} rules for which node to read from.\nIt takes "
        f"{'two to ten' if n_rules <= len(ORDER) else 'five to forty'} minutes, 2 GB of "
        "memory, and 20 MB on disk.\n"
    )


def _seconds(rounds: int) -> float:
    """Return the length of some rounds."""
    return rounds * N_DRIVES * TURN_US / 1e6


def summary(table: LongTable, situation: Situation, rounds: int) -> dict[str, Any]:
    """Return the numbers of each rule, and the settings that repeat them."""
    (place,) = table.places
    rules = table.policies()

    def number(rule: str, measure: str) -> float:
        return table.value(place, rule, measure)

    return {
        "reads": int(number(rules[0], "reads")),
        "runs": [
            {
                "policy": rule,
                "scenario": situation.load,
                "reads": int(number(rule, "reads")),
                "mean_us": number(rule, "mean_us"),
                "mean_us_interval": table.interval(place, rule, "mean_us").to_json()[1:],
                "p99_us": number(rule, "p99_us"),
                "extra_io_ratio": number(rule, "extra_io_ratio"),
                "asked_a_read": number(rule, "asked"),
                "disk_reads": [
                    int(number(rule, f"node_{node}")) for node in range(situation.nodes)
                ],
            }
            for rule in rules
        ],
        "below": {
            rule: {
                other: table.interval(place, rule, "mean_us", other).to_json()
                for other in rules
                if other != rule
            }
            for rule in LIBRARY
            if rule in rules
        },
        "config": {
            "seed": situation.seed,
            "rounds": rounds,
            "one_way_us": situation.one_way_us,
            "burst_us": BURST_US,
            "turn_us": TURN_US,
            "mean_distance_us": MEAN_US,
            "file_mb": FILE_MB,
            "recorded_ms": RECORDED_MS,
            "questions_a_read": situation.probes,
            "memory_mb": MEMORY_MB,
        },
    }


def result_text(result: dict[str, Any]) -> str:
    """The table, what its words mean, and what came out."""
    return (
        f"Read latency; {result['reads']} reads a rule:\n\n{rule_table(result)}\n\n{EXPLAINED}\n\n"
        f"{reading(result)}"
    )


def rule_table(result: dict[str, Any]) -> str:
    """A line a rule, as text."""
    rows = [
        COLUMNS,
        *(
            (
                RULES[run["policy"]],
                f"{run['mean_us']:.1f}",
                f"{run['p99_us']:.0f}",
                percent(run["extra_io_ratio"]),
            )
            for run in result["runs"]
        ),
    ]
    return aligned(rows)


def best_rival(result: dict[str, Any]) -> str:
    """Return the policy in ``OTHERS`` that has the lowest mean."""
    rivals = [run for run in result["runs"] if run["policy"] in OTHERS]
    rival: str = min(rivals, key=lambda run: run["mean_us"])["policy"]
    return rival


def reading(result: dict[str, Any]) -> str:
    """Describe the result: the library compared with the best rival."""
    runs = {run["policy"]: run for run in result["runs"]}
    rival = best_rival(result)

    def took(rule: str) -> str:
        return f"{runs[rule]['mean_us']:.1f} us in the mean and {runs[rule]['p99_us']:.0f} at p99"

    def compared(rule: str) -> str:
        below = Interval.from_json(result["below"][rule][rival])
        if not below.excludes_zero:
            return f"{took(rule)}, a mean too near to tell apart"
        lower = "lower" if below.is_above else "higher"
        return f"{took(rule)}, a mean {percent(abs(below.value))} {lower}"

    without, hedging = LIBRARY
    of = " without extra reads" if runs.keys() & set(EXTRA) else ""
    return (
        f"The best rival{of}, {RULES[rival]}, takes {took(rival)}.\n"
        f"{RULES[without]} takes {compared(without)};\n"
        f"with hedges it takes {compared(hedging)}."
    )


def draw(result: dict[str, Any], path: Path) -> None:
    """A line a rule, the slowest first: a dot for its mean, a ring for its p99, each labelled."""
    runs = sorted(result["runs"], key=lambda run: run["mean_us"])
    figure, axes = plt.subplots(figsize=(8, 0.42 * len(runs) + 1.2))
    axes.set_xscale("log")
    for y, run in enumerate(runs):
        colour = _COLOURS[run["policy"]]
        ends = run["mean_us"], run["p99_us"]
        axes.plot(ends, (y, y), color=colour, linewidth=1, alpha=0.4, zorder=1)
        for us, what, side in zip(ends, ("mean", "p99"), (-1, 1), strict=True):
            axes.plot(us, y, "o", color=colour, markerfacecolor=colour if side < 0 else "white")
            axes.annotate(
                # the topmost says what dots and rings are
                f"{us:.0f}" if run is not runs[-1] else f"{what} {us:.0f}",
                (us, y), (7 * side, 0), textcoords="offset points", va="center",
                ha="left" if side > 0 else "right", fontsize=9, color=colour,
            )  # fmt: skip
    titles = [RULES[run["policy"]] for run in runs]
    for k, run in enumerate(runs):
        if run["extra_io_ratio"]:
            titles[k] += f"\n{percent(run['extra_io_ratio'])} more reads"
    axes.set_yticks(range(len(runs)), titles)
    for label, run in zip(axes.get_yticklabels(), runs, strict=True):
        label.set_color(_COLOURS[run["policy"]])
    axes.xaxis.set_major_locator(FixedLocator(_TICKS_US))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda us, _: f"{us:g}"))
    axes.set_xlim(
        0.75 * min(run["mean_us"] for run in runs), 1.6 * max(run["p99_us"] for run in runs)
    )
    axes.grid(alpha=0.3, axis="x")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("read latency, us")
    axes.set_title(
        f"Reads from three nodes {ONE_WAY_US} us away, while one drive at a time is slow",
        fontsize=11, loc="left", x=-0.42,
    )  # fmt: skip
    figures.save(figure, path)


if __name__ == "__main__":
    main()
