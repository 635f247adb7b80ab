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
from functools import partial
from typing import Any

from eval.cache import RESULTS, ROOT
from eval.cells import WORKLOADS
from eval.experiment import names_from_environment
from eval.experiments.cluster import EXPERIMENT as CLUSTER
from eval.experiments.cluster import cells, rules
from eval.experiments.cluster.lab import BURSTS, Situation
from eval.experiments.cluster.rules import EXTRA
from eval.long_table import LongTable
from eval.study import Study, load_study_texts

ONE_WAY_US = 20

#: Processor time of a read in an OSD. On one machine it was 99 to 195 us, and shortest with eight
#: reads at a time.
OSD_US = 105

N_SEEDS = {"1-client": 3, "8-clients": 3}

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
RULES: dict[str, str] = load_study_texts("ceph")["titles"]

#: The rules of liblinnos-ceph.
LIBRARY = ("ceph-library", "ceph-library-agents")

#: Environment variable: the situations to measure.
VARIABLE = "LINNOS_CEPH"

CHOSEN = names_from_environment(VARIABLE, UNNAMED)


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
        "compared": partial(rules.compared, n_seeds=N_SEEDS),
        "n_faster_and_slower": rules.n_faster_and_slower,
        "bursts": {place: rules.heading(CELLS[place[0]]).split(", ")[-1] for place in plain},
        "failures": {p: rules.short_heading(CELLS[p[0]]) for p in bursts if p not in plain},
        "loads": [place for place in table.places if place not in bursts],
    }


#: The situations and rules of the figure; the tables have all.
_DRAWN = ("1-client", "8-clients", "16-clients", "az-e")
_DRAWN_RULES = (
    "primary", "balance", "own-latency", "elasticsearch", "prequal", "prediction", "clone",
    *LIBRARY, "oracle",
)  # fmt: skip


EXPERIMENT = Study(
    **load_study_texts("ceph"),
    factors={"situation": CHOSEN},
    policies=tuple(RULES),
    measure_all=partial(
        cells.measure, engine="ceph", cells=CELLS, names=CHOSEN, rules=tuple(RULES),
        n_seeds=N_SEEDS, variable=VARIABLE, base="primary", compared=LIBRARY,
    ),
    measures=CLUSTER.measures,
    pairs=[(own, rule) for own in LIBRARY for rule in RULES if rule != own],
    figure=partial(
        rules.draw,
        situations={name: CELLS[name] for name in _DRAWN},
        titles={rule: RULES[rule] for rule in _DRAWN_RULES},
        ours=LIBRARY,
    ),
    page_data=page_data,
    pages={"ceph_all.md.j2": RESULTS / "cluster.md", "ceph.md.j2": ROOT / "docs" / "cluster.md"},
    adds=True,
    sources=CLUSTER.sources,
)  # fmt: skip
