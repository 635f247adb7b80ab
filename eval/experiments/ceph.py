# SPDX-License-Identifier: MIT
"""Reads of Ceph from the OSD that is expected to answer first, compared with Ceph's own rules.

    make eval-ceph

`make eval` does not run it: it needs a kernel of its own (`make kernel-cluster`) and Debian's Ceph
(`make deps-ceph`). The three nodes, the client and the wandering burst are those of
`make eval-cluster`. Reads use the handles of liblinnos-ceph. The OSD is chosen by Ceph's own rules,
by rules that send no queries, and by liblinnos-ceph itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eval.cache import RESULTS, ROOT
from eval.cells import WORKLOADS
from eval.experiment import Context
from eval.experiments.cluster import cells, rules
from eval.experiments.cluster.lab import BURSTS, Situation, compiled
from eval.experiments.cluster.rules import EXTRA, MEASURES, RIVALS
from eval.long_table import LongTable
from eval.study import Study

ONE_WAY_US = 20

#: Processor time of a read in an OSD. On one machine it was 99 to 195 us, and shortest with eight
#: reads at a time.
OSD_US = 105

N_SEEDS = {"1-client": 3, "8-clients": 3}

#: Environment variable that names the situations of `CELLS` to measure, separated by commas.
VARIABLE = "LINNOS_CEPH"

#: The situations. Clients share the reads, and a client does not know those of the others.
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

#: The situations that are measured if none is named.
UNNAMED = ("1-client", "8-clients")

#: The names of the rules in the client, and their titles in tables.
RULES = {
    "primary": "primary: Ceph's default",
    "balance": "balance: Ceph's, at random",
    **{rule: title for rule, title in RIVALS.items() if rule not in ("primary", "random")},
    "ceph-library": "liblinnos-ceph, asks nobody",
    "ceph-library-agents": "liblinnos-ceph",
    "oracle": "oracle",
}

#: The rules of liblinnos-ceph.
LIBRARY = ("ceph-library", "ceph-library-agents")

CHOSEN = cells.chosen(VARIABLE, UNNAMED)


def run(context: Context) -> LongTable:
    """Measure the chosen situations under every rule."""
    return cells.measure(
        context, compiled(context.folder, "ceph"), CELLS, CHOSEN, tuple(RULES), n_seeds=N_SEEDS,
        variable=VARIABLE, base="primary", compared=LIBRARY,
    )  # fmt: skip


def page_data(table: LongTable) -> Mapping[str, Any]:
    """Return what the templates of the pages use besides the table.

    Bursts have columns. Failures and costs have a row each, and so do loads.
    """
    bursts = [place for place in table.places if CELLS[place[0]].load == BURSTS]
    plain = [p for p in bursts if not CELLS[p[0]].fails and not CELLS[p[0]].osd_us]
    return {
        "rules": RULES,
        "rivals": [rule for rule in RULES if rule not in (*EXTRA, *LIBRARY, "oracle")],
        "shown": ("primary", "balance", "clone", "prediction", *LIBRARY, "oracle"),
        "best": rules.best,
        "n_below_and_above": rules.n_below_and_above,
        "bursts": {place: rules.heading(CELLS[place[0]]).split(", ")[-1] for place in plain},
        "failures": {p: rules.short_heading(CELLS[p[0]]) for p in bursts if p not in plain},
        "loads": [place for place in table.places if place not in bursts],
    }


EXPERIMENT = Study(
    name="ceph",
    title="Reading Ceph from the OSD that is expected to answer first",
    factors={"situation": CHOSEN},
    policies=tuple(RULES),
    titles=RULES,
    measure_all=run,
    measures=MEASURES,
    pairs=[(own, rule) for own in LIBRARY for rule in RULES if rule != own],
    figure=lambda table, path: rules.bars(table, tuple(RULES), LIBRARY, path),
    settings={"cells": cells.told(CELLS, CHOSEN), "seeds": N_SEEDS, **cells.SETTINGS},
    page_data=page_data,
    pages={"ceph_all.md.j2": RESULTS / "cluster.md", "ceph.md.j2": ROOT / "docs" / "cluster.md"},
    command=f"make eval-ceph, or with {VARIABLE}=NAME,NAME",
    adds=True,
    differs="Nodes are network namespaces of one kernel, in virtual time: processors cost nothing; "
    "if an OSD takes time, its threads sleep, but share no processor; the network has no jitter, "
    "and loses nothing. In bursts with one and with eight clients, and if something fails, the "
    "oracle knows what bursts do to a drive, but not where on it a block is.",
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
