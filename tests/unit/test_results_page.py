# SPDX-License-Identifier: MIT
"""The tables of the eight workloads are what eval/results/ has, and the results are short."""

from __future__ import annotations

import json
import statistics

import pytest

from eval.cache import RESULTS, ROOT
from eval.cells import WORKLOADS
from eval.contenders import LITTLE
from eval.experiments.fig08_pages import Committed, committed
from eval.page_tables import with_tables

SHORT = (ROOT / "docs" / "results.md").read_text()


def test_the_pages_have_the_committed_tables() -> None:
    for path, tables in committed().items():
        page = path.read_text()
        assert page == with_tables(page, tables), "`python -m eval --pages fig08` writes it"


@pytest.mark.parametrize("workload", WORKLOADS)
def test_means_over_all_reads_are_those_of_the_cell(workload: str) -> None:
    """Two ways to them: read by read in the cell's table, by seeds in the table of repeats."""
    found = Committed()
    for name, mean in found.means[workload].items():
        of_cell = float(found.policies[workload][name]["mean us"].split()[0])
        assert mean == pytest.approx(of_cell, abs=0.06)


def test_of_the_best_rivals_one_sends_little_and_one_nothing_twice() -> None:
    found = Committed()
    for workload, mean in found.means.items():
        ranked = [mean[found.best(workload, most)] for most in (1.0, LITTLE, 0.0)]
        assert ranked == sorted(ranked)


def test_the_median_cells_share_of_the_oracles_gain_is_that_of_the_cells() -> None:
    found = Committed()
    column = "of the oracle's gain"
    shares = [float(cell["lowest"][column].split()[0]) for cell in found.policies.values()]
    median = statistics.median(found.shares_of_oracle("lowest").values())
    assert median == pytest.approx(statistics.median(shares), abs=1)


def test_the_papers_claims_are_counted_as_they_were_judged() -> None:
    judged = [row["judged"] for row in json.loads((RESULTS / "claims.json").read_text())["numbers"]]
    n_same, n_worse = judged.count("same"), judged.count("worse")
    words = f"Of the paper's {len(judged)} claims {n_same} comes out the same and {n_worse} worse"
    assert words in SHORT
