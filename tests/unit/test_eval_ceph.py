# SPDX-License-Identifier: MIT
"""The Ceph experiment: the pages of its committed results, and its client."""

from __future__ import annotations

import numpy as np

from eval import pages
from eval.experiments.ceph import EXPERIMENT, RULES
from eval.experiments.cluster.lab import READ, Measured, together
from eval.long_table import LongTable


def test_page_has_columns_of_bursts_and_rows_of_failures_and_loads() -> None:
    table = pages.committed("ceph")
    data = EXPERIMENT.page_data
    assert data is not None
    bursts, failures, loads = pages.render("ceph_all.md.j2", table, **data(table))
    assert [title for title in bursts.header if "client" in title and "mean" in title] == [
        "1 client: mean us", "8 clients: mean us", "16 clients: mean us"
    ]  # fmt: skip
    assert [row[0] for row in bursts.rows] == list(RULES.values())
    assert [row[0] for row in failures.rows][:2] == ["a server stands still", "a node cut off"]
    assert loads.rows[0][0] == "`az-e`"
    # a run of some situations has the tables that these need
    some = LongTable(table.factors)
    for key, number in table.items():
        if key.place == ("8-clients",):
            some.add(key.place, key.policy, key.measure, number, key.reference)
    (only,) = pages.render("ceph_all.md.j2", some, **data(some))
    assert len(only.header) == 4


def test_reads_of_clients_are_merged_in_order() -> None:
    clients = []
    for first_ns in (0, 5):
        reads = np.zeros(3, READ)
        reads["due_ns"] = first_ns + 10 * np.arange(3)
        clients.append(Measured(reads, (3, first_ns, 0), {"asked": 2, "strayed": first_ns}))
    both = together(clients)
    assert both.reads["due_ns"].tolist() == [0, 5, 10, 15, 20, 25]
    assert both.disk_reads == (3, 0, 0) and both.counted == {"asked": 4, "strayed": 5}
