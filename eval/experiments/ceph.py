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

from eval.cells import WORKLOADS
from eval.experiment import Context, Experiment, Table
from eval.experiments.cluster import SETTINGS, cells, pages, score, text
from eval.experiments.cluster.lab import (
    BURSTS,
    FILE_MB,
    Situation,
    compiled,
)
from eval.experiments.cluster.text import EXTRA, RIVALS, bars, share, table_of

ONE_WAY_US = 20

#: Processor time of a read in an OSD. On one machine it was 99 to 195 us, least with eight reads
#: at a time.
OSD_US = 105

N_SEEDS = {"1-client": 3, "8-clients": 3}

#: Which of `CELLS` are measured, with commas between.
VARIABLE = "LINNOS_CEPH"

#: What clients meet. They share the reads: a client knows nothing of the others'.
CELLS = {
    "1-client": Situation(BURSTS, 0, ONE_WAY_US, engine="ceph"),
    "8-clients": Situation(BURSTS, 0, ONE_WAY_US, engine="ceph", clients=8),
    "16-clients": Situation(BURSTS, 0, ONE_WAY_US, engine="ceph", clients=16),
    "stuck": Situation(BURSTS, 0, ONE_WAY_US, engine="ceph", fails="server"),
    "cut": Situation(BURSTS, 0, ONE_WAY_US, engine="ceph", fails="network"),
    "osd": Situation(BURSTS, 0, ONE_WAY_US, engine="ceph", osd_us=OSD_US),
    "osd-16-clients": Situation(BURSTS, 0, ONE_WAY_US, engine="ceph", clients=16, osd_us=OSD_US),
    **{load: Situation(load, 0, 50, engine="ceph") for load in WORKLOADS},
}

#: Those that are measured when none is named.
UNNAMED = ("1-client", "8-clients")

#: As the client calls them, and what tables say.
RULES = {
    "primary": "primary: Ceph's default",
    "balance": "balance: Ceph's, at random",
    **{rule: title for rule, title in RIVALS.items() if rule not in ("primary", "random")},
    "ceph-library": "liblinnos-ceph, asks nobody",
    "ceph-library-agents": "liblinnos-ceph",
    "oracle": "oracle",
}

#: liblinnos-ceph's.
LIBRARY = ("ceph-library", "ceph-library-agents")

PARAMETERS: dict[str, Any] = {
    "cells": cells.chosen(VARIABLE, CELLS, UNNAMED),
    "rules": tuple(RULES),
    "objects of 1 MB": FILE_MB,
    "seeds": N_SEEDS,
    **SETTINGS,
}


def run(context: Context) -> dict[str, Any]:
    """The same reads under each rule, seed by seed, of one client and of several."""
    client = compiled(context.folder, "ceph")
    scored = partial(score, base="primary", compared=LIBRARY)
    names = tuple(PARAMETERS["cells"])
    return {
        "cells": cells.read(
            context, client, CELLS, names, tuple(RULES), scored, N_SEEDS, VARIABLE
        )
    }  # fmt: skip


def table(data: dict[str, Any]) -> dict[str, Table]:
    """What reads took, against whom, who served, and what was asked and sent on."""
    compared = {rule: f"{RULES[rule]}: mean below its by" for rule in LIBRARY}
    return {
        heading(cell): table_of(
            cell, RULES, "primary", compared, {"sent on by a replica": "strayed"}
        )
        for cell in data["cells"]
    }


def heading(cell: dict[str, Any]) -> str:
    """A cell's load, network and clients, also where there is one."""
    return text.heading(cell, counted=True)


def reading(data: dict[str, Any]) -> str:
    """The library against Ceph's rules, and against the best of all that ask nobody."""
    lines = []
    for cell in data["cells"]:
        rules = cell["rules"]
        others = [rule for rule in RULES if rule not in (*LIBRARY, *EXTRA, "oracle")]
        rival = min(others, key=lambda rule: rules[rule]["mean_us"][0])
        for own in LIBRARY:
            below = cell["below"][own]
            lines.append(
                f"{heading(cell)}: {RULES[own]}, {rules[own]['mean_us'][0]:.1f} us, is "
                f"{share(below['primary'])} below the primary, {share(below['balance'])} below "
                f"balance, and {share(below[rival])} below the best rule without extra reads, "
                f"{RULES[rival]}, {rules[rival]['mean_us'][0]:.1f} us. "
                f"p99: {rules[own]['p99_us'][0]:.0f} us, of "
                f"balance {rules['balance']['p99_us'][0]:.0f}."
            )
    return "\n".join(lines)


def draw(data: dict[str, Any], path: Path) -> None:
    """Means with their intervals, a panel a cell."""
    bars([(heading(cell), cell) for cell in data["cells"]], tuple(RULES), LIBRARY, path)


EXPERIMENT = Experiment(
    name="ceph",
    title="Reading Ceph from the OSD that is expected to answer first",
    parameters=PARAMETERS,
    run=run,
    command=f"make eval-ceph, or with {VARIABLE}=NAME,NAME",
    table=table,
    reading=reading,
    draw=draw,
    adds=True,
    pages=pages.committed,
    differs="Nodes are network namespaces of one kernel, in virtual time: processors cost nothing; "
    "where an OSD is said to take time its threads sleep, but share no processor; the network has "
    "no jitter, and loses nothing. In bursts of one and of eight clients, and where something "
    "fails, the oracle knows what bursts do to a drive, but not where on it a block is.",
    sources=(
        "eval/intervals.py",
        "eval/experiments/cluster",
        "cluster/agent",
        "cluster/client",
        "cluster/ceph",
        "eval/simulator",
        "cluster/wire",
        "kernel/config/um-cluster.config",
        "linnapp/lab/engines/ceph.py",
    ),
)
