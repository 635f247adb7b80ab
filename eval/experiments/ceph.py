# SPDX-License-Identifier: MIT
"""Reading Ceph from the OSD that is expected to answer first, beside Ceph's own rules.

    make eval-ceph

Not among what `make eval` runs: it needs a kernel of its own (`make kernel-cluster`) and Ceph
(`make deps-ceph`), which is as Debian has it. Three nodes, one client and a wandering burst are
those of `make eval-cluster`; reads go by liblinnos-ceph's handles, and where they go is told by
Ceph's own rules, by rules that ask nobody, and by liblinnos-ceph itself.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from eval import guests
from eval.experiment import Context, Experiment, Table
from eval.experiments.cluster import N_BLOCKS, score
from eval.experiments.cluster.lab import (
    BURST_US,
    BURSTS,
    FILE_MB,
    MEAN_US,
    MEASURED_MS,
    RECORDED_MS,
    TURN_US,
    Measured,
    Situation,
    check_agent,
    compiled,
    measured,
    recorded_and_trained,
)
from eval.experiments.cluster.text import bars, interval, share
from eval.intervals import LEVEL, RESAMPLES
from eval.metrics import percent
from eval.parallel import Step
from linnapp.lab.cluster import CLUSTER_KERNEL

ONE_WAY_US = 20
N_SEEDS = 3

#: As the client calls them, and what tables say.
RULES = {
    "primary": "primary: Ceph's default",
    "balance": "balance: Ceph's, at random",
    "round-robin": "in turn",
    "own-queue": "shortest own queue",
    "own-latency": "lowest own last latency",
    "ceph-library": "liblinnos-ceph, asks nobody",
    "ceph-library-agents": "liblinnos-ceph",
    "oracle": "oracle",
}

#: liblinnos-ceph's.
LIBRARY = ("ceph-library", "ceph-library-agents")

PARAMETERS: dict[str, Any] = {
    "load": BURSTS,
    "one way, us": ONE_WAY_US,
    "rules": tuple(RULES),
    "objects of 1 MB": FILE_MB,
    "reads for, ms": MEASURED_MS,
    "mean distance of reads, us": MEAN_US,
    "recorded to train on, ms": RECORDED_MS,
    "burst, us": BURST_US,
    "turn, us": TURN_US,
    "seeds": N_SEEDS,
    "level": LEVEL,
    "resamples": RESAMPLES,
    "blocks": N_BLOCKS,
}


def run(context: Context) -> dict[str, Any]:
    """The same reads under each rule, seed by seed."""
    check_agent()
    client = compiled(context.folder, "ceph")
    situations = [
        Situation(BURSTS, seed, ONE_WAY_US, engine="ceph") for seed in context.seeds[:N_SEEDS]
    ]
    work = context.work()
    for situation in situations:
        work.add("training", partial(recorded_and_trained, context.cache, client, situation))
    work.do()
    work = context.work()
    steps: list[Step[dict[str, Measured]]] = []
    with guests.on_kernel(CLUSTER_KERNEL, "kernel-cluster", context.folder.parent / "bin"):
        for situation in situations:
            do = partial(measured, context.cache, client, situation, tuple(RULES))
            steps.append(work.add("reading", do))
        work.do()
    return score([step.result for step in steps], "primary", LIBRARY)


def table(data: dict[str, Any]) -> dict[str, Table]:
    """What reads took, against whom, who served, and what was asked and sent on."""
    header = (
        "rule", "mean us", "p99 us", *(f"{RULES[rule]}: mean below its by" for rule in LIBRARY),
        "of the oracle's gain", "disk reads by node", "questions a read", "sent on by a replica",
    )  # fmt: skip
    rows = []
    for rule, title in RULES.items():
        numbers = data["rules"][rule]
        rows.append(
            (
                title,
                interval(numbers["mean_us"], 1),
                interval(numbers["p99_us"]),
                *("" if rule == own else share(data["below"][own][rule]) for own in LIBRARY),
                "" if rule == "primary" else percent(numbers["share_of_gain"][0], 0),
                " / ".join(map(str, numbers["disk_reads"])),
                f"{numbers['asked']:.1f}",
                str(numbers["strayed"]),
            )
        )
    return {f"{BURSTS}, {ONE_WAY_US} us one way": Table(header, tuple(rows))}


def reading(data: dict[str, Any]) -> str:
    """The library against Ceph's rules, and against the best of all that ask nobody."""
    rules = data["rules"]
    others = [rule for rule in RULES if rule not in (*LIBRARY, "oracle")]
    rival = min(others, key=lambda rule: rules[rule]["mean_us"][0])
    lines = []
    for own in LIBRARY:
        below = data["below"][own]
        lines.append(
            f"{RULES[own]}: {rules[own]['mean_us'][0]:.1f} us, {share(below['primary'])} below the "
            f"primary, {share(below['balance'])} below balance, {share(below[rival])} below the "
            f"best other rule, {RULES[rival]}, {rules[rival]['mean_us'][0]:.1f} us. p99: "
            f"{rules[own]['p99_us'][0]:.0f} us, of balance {rules['balance']['p99_us'][0]:.0f}."
        )
    return "\n".join(lines)


def draw(data: dict[str, Any], path: Path) -> None:
    """Means with their intervals."""
    bars([(f"{BURSTS}, {ONE_WAY_US} us one way", data)], tuple(RULES), LIBRARY, path)


EXPERIMENT = Experiment(
    name="ceph",
    title="Reading Ceph from the OSD that is expected to answer first",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    differs="Nodes are network namespaces of one kernel, in virtual time: processors cost nothing, "
    "neither the OSDs' nor the client's; the network has no jitter and loses nothing. One client. "
    "The oracle does not know where on a drive BlueStore has a block, but what bursts do to it.",
    sources=(
        "eval/intervals.py",
        "eval/experiments/cluster",
        "cluster/agent",
        "cluster/client",
        "cluster/ceph",
        "kernel/config/um-cluster.config",
        "linnapp/lab/ceph.py",
    ),
)
