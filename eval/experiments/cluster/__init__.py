# SPDX-License-Identifier: MIT
"""Is it worth it to ship predictions? Reads of GlusterFS from the node that a rule chooses.

    make eval-cluster
    make eval-cluster LINNOS_CLUSTER=50us,4-clients     # these of `CELLS`
    make eval-cluster LINNOS_CLUSTER=msr-1370 LINNOS_TRACES=DIR

`make eval` does not run it: it needs a kernel of its own (`make kernel-cluster`) and Debian's
GlusterFS (`make deps-gluster`).

Three nodes keep a file three times. Clients read from it over a network, while a burst wanders over
the nodes' drives, or a Table 1 load or a trace runs on them. The node of a read is chosen by rules
that send no queries (they know what the client itself has in flight, or how long its last reads
took), by the reports of the nodes' agents (how much is in flight at the drive, or what the kernel
predicts), by rules of other engines and of papers, and by GlusterFS itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eval import trace_files
from eval.cache import RESULTS, ROOT
from eval.cells import WORKLOADS
from eval.experiment import Context
from eval.experiments.cluster import brought, cells, rules
from eval.experiments.cluster.lab import BURSTS, MEASURED_MS, PROBES, TURN_US, Situation, compiled
from eval.experiments.cluster.rules import MEASURES, OTHERS, RULES
from eval.long_table import LongTable
from eval.study import Study
from linnapp.lab.work import StepError

#: Environment variable that names the situations of `CELLS` to measure, separated by commas.
VARIABLE = "LINNOS_CLUSTER"

#: The situations without traces. Their seeds are replaced.
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
    # long enough for a client to find the node again, which it tries every three seconds
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

#: The situations that are measured if none is named.
UNNAMED = ("20us", "50us", "200us", "bi-e")

#: The number of seeds. All other situations have one, because they are many.
N_SEEDS = {"20us": 3}

CHOSEN = cells.chosen(VARIABLE, UNNAMED)


def run(context: Context) -> LongTable:
    """Measure the chosen situations under every rule."""
    client = compiled(context.folder)
    # Refuses traces that are named and do not exist.
    for name, path in brought.files().items():
        if name in (*_OWN, BURSTS):
            raise StepError(f"{path}: {name} is a cell or a load already: name the trace otherwise")
    return cells.measure(
        context, client, CELLS, CHOSEN, tuple(RULES), n_seeds=N_SEEDS, variable=VARIABLE,
        also=f"; and traces, as {trace_files.VARIABLE}=DIR names them",
    )  # fmt: skip


def page_data(table: LongTable) -> Mapping[str, Any]:
    """Return what the templates of the pages use besides the table.

    The first situation has a table of its own. The other ones have a row each, in the table of
    bursts or in that of loads.
    """
    bursts = [place for place in table.places if place[0] in _OWN and _OWN[place[0]].load == BURSTS]
    return {
        "rules": RULES,
        "rivals": OTHERS,
        "best": rules.best,
        "n_below_and_above": rules.n_below_and_above,
        "side": rules.side,
        "first": bursts[0],
        "first_heading": rules.heading(_OWN[bursts[0][0]]),
        "bursts": {place: rules.short_heading(_OWN[place[0]]) for place in bursts[1:]},
        "loads": [place for place in table.places if place not in bursts],
    }


EXPERIMENT = Study(
    name="cluster",
    title="Reading from the node whose drive is predicted to answer first",
    factors={"situation": CHOSEN},
    policies=tuple(RULES),
    titles=RULES,
    measure_all=run,
    measures=MEASURES,
    pairs=[(own, rule) for own in ("library", "prediction") for rule in RULES if rule != own],
    figure=lambda table, path: rules.bars(table, tuple(RULES), ("prediction",), path),
    settings={
        "cells": cells.told(CELLS, CHOSEN),
        "nodes asked a read": PROBES,
        "seeds": N_SEEDS,
        **cells.SETTINGS,
    },
    page_data=page_data,
    pages={
        "cluster_all.md.j2": RESULTS / "cluster.md",
        "cluster.md.j2": ROOT / "docs" / "cluster.md",
    },
    command=f"make eval-cluster, or with {VARIABLE}=NAME,NAME",
    adds=True,
    differs="Nodes are network namespaces of one kernel, in virtual time: the engine, the client "
    "and the agents take no processor time; the network has no jitter, and loses nothing but "
    "questions to agents, where that is said. With one client, its own count in `bursts` is the "
    "queue of the drives. Rules read the same file one after the other on the same drives.",
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
