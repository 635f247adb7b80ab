# SPDX-License-Identifier: MIT
"""Compare rules for choosing the GlusterFS node of each read, with and without agents' reports.

    make eval-cluster
    make eval-cluster LINNOS_CLUSTER=50us,4-clients     # these of `CELLS`

`make eval` does not run it: it needs a kernel of its own (`make kernel-cluster`) and Debian's
GlusterFS (`make deps-gluster`).

Three nodes keep a file three times. Clients read from it over a network, while a burst wanders over
the nodes' drives, or a Table 1 load runs on them. The node of a read is chosen by rules
that send no queries (they know what the client itself has in flight, or how long its last reads
took), by the reports of the nodes' agents (how much is in flight at the drive, or what the kernel
predicts), by rules of other engines and of papers, and by GlusterFS itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from eval.cache import RESULTS, ROOT
from eval.cells import WORKLOADS
from eval.experiment import names_from_environment
from eval.experiments.cluster import cells, lab, rules
from eval.experiments.cluster.lab import BURSTS, MEASURED_MS, TURN_US, Situation
from eval.experiments.cluster.rules import LIBRARY, RIVALS, RULES
from eval.long_table import LongTable
from eval.study import Study, load_study_texts

#: The situations. Their seeds are replaced.
CELLS = {
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

#: The situations that are measured if none is named.
UNNAMED = ("20us", "50us", "200us", "bi-e")

#: The number of seeds. All other situations have one, because they are many.
N_SEEDS = {"20us": 3}

#: Environment variable: the situations to measure.
VARIABLE = "LINNOS_CLUSTER"

CHOSEN = names_from_environment(VARIABLE, UNNAMED)


def page_data(table: LongTable) -> Mapping[str, Any]:
    """Return what the templates of the pages use besides the table.

    The first situation has a table of its own. The other ones have a row each, in the table of
    bursts or in that of loads.
    """
    bursts = [
        place for place in table.places if place[0] in CELLS and CELLS[place[0]].load == BURSTS
    ]
    return {
        "rules": RULES,
        "rivals": RIVALS,
        "best": rules.best,
        "n_faster_and_slower": rules.n_faster_and_slower,
        "side": rules.side,
        "compared": partial(rules.compared, n_seeds=N_SEEDS),
        "first": bursts[0],
        "first_heading": rules.heading(CELLS[bursts[0][0]]),
        "bursts": {place: rules.short_heading(CELLS[place[0]]) for place in bursts[1:]},
        "loads": [place for place in table.places if place not in bursts],
    }


#: The situations and rules of the figure; the tables have all.
_DRAWN = ("20us", "16-clients", "az-e", "co-c")
_DRAWN_RULES = (
    "primary", "own-latency", "c3", "elasticsearch", "prequal", "prediction", "clone", "library",
    "library-hedge", "oracle",
)  # fmt: skip


EXPERIMENT = Study(
    **load_study_texts("cluster"),
    factors={"situation": CHOSEN},
    policies=tuple(RULES),
    measure_all=partial(
        cells.measure, engine="gluster", cells=CELLS, names=CHOSEN, rules=tuple(RULES),
        n_seeds=N_SEEDS, variable=VARIABLE,
    ),
    pairs=[(own, rule) for own in ("library", "prediction") for rule in RULES if rule != own],
    figure=partial(
        rules.draw,
        situations={name: CELLS[name] for name in _DRAWN},
        titles={rule: RULES[rule] for rule in _DRAWN_RULES},
        ours=LIBRARY,
    ),
    page_data=page_data,
    pages={
        "cluster_all.md.j2": RESULTS / "cluster.md",
        "cluster.md.j2": ROOT / "docs" / "cluster.md",
    },
    adds=True,
    sources=lab.SOURCES,
)  # fmt: skip
