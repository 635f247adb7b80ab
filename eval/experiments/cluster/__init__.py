# SPDX-License-Identifier: MIT
"""Is it worth it to ship predictions? Reads of GlusterFS from the node of a rule's choice.

    make eval-cluster
    make eval-cluster LINNOS_CLUSTER=50us,4-clients     # these of `CELLS`
    make eval-cluster LINNOS_CLUSTER=msr-1370 LINNOS_TRACES=DIR

Not among what `make eval` runs: it needs a kernel of its own (`make kernel-cluster`) and GlusterFS
(`make deps-gluster`), which is as Debian has it.

Three nodes keep a file three times. Clients read from it over a network, while a burst wanders over
the nodes' drives, or a Table 1 load or a trace is beside. Where a read goes is told by rules that
ask nobody (they know what the client itself has in flight, or what its last reads took), by what
the nodes' agents tell (how much is in flight at the drive, or what the kernel predicts), by other
engines' and papers' rules, and by the engine's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eval import trace_files
from eval.cells import N_DRIVES, WORKLOADS
from eval.experiment import Context, Experiment
from eval.experiments.cluster import brought, cells, pages
from eval.experiments.cluster.lab import (
    BURST_US,
    BURSTS,
    FILE_MB,
    MEAN_US,
    MEASURED_MS,
    PROBES,
    RECORDED_MS,
    ROUNDS,
    TURN_US,
    Measured,
    Situation,
    compiled,
)
from eval.experiments.cluster.text import LIBRARY, RULES, SHIPPED, draw, reading, table
from eval.intervals import RESAMPLES, Blocks, Pooled
from linnapp.lab.work import StepError
from linnapp.stats import LEVEL

#: Which of `CELLS` are measured, with commas between.
VARIABLE = "LINNOS_CLUSTER"

#: What the client meets, besides traces; seeds are others'.
_OWN = {
    "20us": Situation(BURSTS, 0, 20),
    "5us": Situation(BURSTS, 0, 5),
    "50us": Situation(BURSTS, 0, 50),
    "200us": Situation(BURSTS, 0, 200),
    "4-clients": Situation(BURSTS, 0, 20, clients=4),
    "16-clients": Situation(BURSTS, 0, 20, clients=16),
    "half-lost": Situation(BURSTS, 0, 20, lost_percent=50),
    "silent": Situation(BURSTS, 0, 20, lost_percent=100),
    "stuck": Situation(BURSTS, 0, 20, fails="server"),
    "cut": Situation(BURSTS, 0, 20, fails="network"),
    # so long that a client has found it again, for which it looks every three seconds
    "gone": Situation(BURSTS, 0, 20, fails="node", measured_ms=3 * MEASURED_MS),
    "writes-10": Situation(BURSTS, 0, 20, writes_percent=10),
    "writes-50": Situation(BURSTS, 0, 20, writes_percent=50),
    "fast-liar": Situation(BURSTS, 0, 20, lies="fast"),
    "slow-liar": Situation(BURSTS, 0, 20, lies="slow"),
    # two rounds of bursts
    "nine": Situation(BURSTS, 0, 20, clients=4, nodes=9, measured_ms=2 * 9 * TURN_US // 1000),
    **{load: Situation(load, 0, 50) for load in WORKLOADS},
}

CELLS = {**_OWN, **cells.of_traces(50)}

#: Those that are measured when none is named.
UNNAMED = ("20us", "50us", "200us", "bi-e")

#: Of the others one: they are many.
N_SEEDS = {"20us": 3}

PERCENT = 99.0

#: What is drawn: whole turns of the burst, which have their fate in common.
N_BLOCKS = ROUNDS * N_DRIVES

#: Of every experiment that reads from a cluster in this way.
SETTINGS: dict[str, Any] = {
    "reads for, ms": MEASURED_MS,
    "mean distance of reads, us": MEAN_US,
    "recorded to train on, ms": RECORDED_MS,
    "burst, us": BURST_US,
    "turn, us": TURN_US,
    "level": LEVEL,
    "resamples": RESAMPLES,
    "blocks": N_BLOCKS,
}

PARAMETERS: dict[str, Any] = {
    "cells": cells.chosen(VARIABLE, CELLS, UNNAMED),
    "rules": tuple(RULES),
    "file, MB": FILE_MB,
    "nodes asked a read": PROBES,
    "seeds": N_SEEDS,
    **SETTINGS,
}


def run(context: Context) -> dict[str, Any]:
    """The chosen cells under every rule."""
    client = compiled(context.folder)
    names = tuple(PARAMETERS["cells"])
    # Refuses traces that are named and not there.
    for name, path in brought.files().items():
        if name in (*_OWN, BURSTS):
            raise StepError(f"{path}: {name} is a cell or a load already: name the trace otherwise")
    also = f"; and traces, as {trace_files.VARIABLE}=DIR names them"
    return {
        "cells": cells.read(
            context, client, CELLS, names, tuple(RULES), score, N_SEEDS, VARIABLE, also
        )
    }  # fmt: skip


def score(
    seeds: list[dict[str, Measured]],
    measured_ms: int = MEASURED_MS,
    base: str = "round-robin",
    compared: Sequence[str] = (*SHIPPED, *LIBRARY),
) -> dict[str, Any]:
    """A cell's numbers over its seeds, of reads that were measured for so long.

    Returns
    -------
    dict
        ``rules``: {name: {``mean_us``, ``p99_us`` as [value, low, high], ``share_of_gain`` of what
        the oracle gains over `base`, ``extra`` reads sent a read, ``disk_reads`` by node,
        ``asked`` a read, ``strayed`` of all reads, which others served than were asked}};
        ``below``: {name: {other: [share, low, high]}} of means, of those in `compared`.
    """
    blocks = []
    pooled: dict[str, list[np.ndarray[Any, Any]]] = {}
    for by_rule in seeds:
        due_us = next(iter(by_rule.values())).reads["due_ns"] / 1e3
        one = Blocks(due_us, measured_ms * 1e3, measured_ms * 1000 // TURN_US)
        for name, done in by_rule.items():
            if not np.array_equal(done.reads["due_ns"] / 1e3, due_us):
                raise ValueError(f"{name}: not the reads of the others")
            latency_us = done.reads["latency_ns"] / 1e3
            one.add(name, latency_us)
            pooled.setdefault(name, []).append(latency_us)
        blocks.append(one)
    drawn = Pooled(blocks, (PERCENT,))
    rules: dict[str, dict[str, Any]] = {}
    for name, latencies in pooled.items():
        p99_us = float(np.percentile(np.concatenate(latencies), PERCENT))
        runs = [by_rule[name] for by_rule in seeds]
        n = sum(len(run.reads) for run in runs)
        rules[name] = {
            "mean_us": drawn.mean(name).to_json(),
            "p99_us": drawn.percentile(name, PERCENT, p99_us).to_json(),
            "share_of_gain": drawn.share(name, "oracle", base).to_json(),
            "extra": sum(int(run.reads["attempts"].sum()) for run in runs) / n - 1,
            "disk_reads": np.sum([run.disk_reads for run in runs], axis=0).tolist(),
            "asked": sum(run.counted["asked"] for run in runs) / n,
            "strayed": sum(run.counted["strayed"] for run in runs),
        }
    return {
        "seeds": len(seeds),
        "reads": n,
        "rules": rules,
        "below": {
            name: {other: drawn.below(name, other).to_json() for other in rules if other != name}
            for name in compared
            if name in rules
        },
    }


EXPERIMENT = Experiment(
    name="cluster",
    title="Reading from the node whose drive is predicted to answer first",
    parameters=PARAMETERS,
    run=run,
    command=f"make eval-cluster, or with {VARIABLE}=NAME,NAME",
    table=table,
    reading=reading,
    draw=draw,
    adds=True,
    pages=pages.committed,
    differs="Nodes are network namespaces of one kernel, in virtual time: processors cost nothing, "
    "neither the engine's nor the client's nor the agents'; the network has no jitter and loses "
    "nothing but questions to agents, where that is said. One client's own count in `bursts` is "
    "the drives' queue. Rules read the same file one after the other on the same drives.",
    sources=(
        "eval/intervals.py",
        "cluster/agent",
        "cluster/client",
        "eval/simulator",
        "cluster/wire",
        "kernel/config/um-cluster.config",
        "eval/experiments/cluster/guest",
    ),
)
