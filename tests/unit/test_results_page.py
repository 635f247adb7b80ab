# SPDX-License-Identifier: MIT
"""The tables of the eight workloads are what eval/results/ has, and the results are short."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from eval import contenders
from eval.cache import RESULTS, ROOT
from eval.cells import WORKLOADS
from eval.intervals import Interval
from eval.scores import verdict

SHORT = (ROOT / "docs" / "results.md").read_text()
TABLES = (ROOT / "docs" / "tables.md").read_text()


def test_the_results_are_two_pages() -> None:
    assert len(SHORT.split()) <= 1100


def _rows(page: str, markup: str = "*`") -> dict[str, list[str]]:
    """Of each workload its row in a page, markup left out."""
    section = re.split(r"\n##+ ", page.split("\n## The eight workloads\n")[1])[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    rows = [re.sub(f"[{markup}]", "", row) for row in rows]
    return {row.split("|")[1].strip(): [c.strip() for c in row.split("|")[2:-1]] for row in rows}


@pytest.fixture(scope="module")
def fig08() -> dict[str, Any]:
    """The committed results of Fig. 8."""
    committed: dict[str, Any] = json.loads((RESULTS / "fig08.json").read_text())
    return committed


def _means(committed: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Means over all reads of all seeds, by workload and policy."""
    table = committed["tables"]["Every repeat"]
    rows = [dict(zip(table["header"], row, strict=True)) for row in table["rows"]]
    total: dict[tuple[str, str], tuple[int, float]] = {}
    for row in rows:
        reads, us = total.get((row["workload"], row["policy"]), (0, 0.0))
        more = int(row["reads"])
        total[row["workload"], row["policy"]] = (
            reads + more, us + more * float(row["response mean us"]),
        )  # fmt: skip
    return {
        workload: {p: us / reads for (w, p), (reads, us) in total.items() if w == workload}
        for workload in WORKLOADS
    }


def _said(committed: dict[str, Any], workload: str, policy: str, reference: str) -> str:
    below = Interval.from_json(committed["numbers"][workload][policy][reference])
    word = verdict(below)
    return word if word == "undecided" else f"{abs(100 * below.value):.0f} % {word}"


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_row_is_the_results(workload: str, fig08: dict[str, Any]) -> None:
    mean = _means(fig08)[workload]
    best = min(contenders.rivals(mean), key=mean.__getitem__)

    def ours(policy: str) -> list[str]:
        return [
            f"{mean[policy]:.0f}",
            _said(fig08, workload, policy, "hedge"),
            _said(fig08, workload, policy, best),
        ]

    assert _rows(TABLES)[workload] == [
        f"{mean['baseline']:.0f}", f"{mean['hedge']:.0f}", f"{mean[best]:.0f}, {best}",
        *ours("linnos"), f"{mean['linnos-hl']:.0f}", *ours("lowest"),
        f"{mean['verdict']:.0f}", f"{mean['oracle']:.0f}",
    ]  # fmt: skip


def _table(committed: dict[str, Any], workload: str) -> dict[str, dict[str, str]]:
    """A cell's policies, by name: its columns."""
    table = next(
        table for title, table in committed["tables"].items() if title.startswith(f"{workload} on ")
    )
    rows = [dict(zip(table["header"], row, strict=True)) for row in table["rows"]]
    return {row["policy"].strip("*"): row for row in rows}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_row_of_the_results_has_p99_and_the_best_that_sends_nothing_twice(
    workload: str, fig08: dict[str, Any]
) -> None:
    mean = _means(fig08)[workload]
    policies = _table(fig08, workload)
    frugal = [name for name, row in policies.items() if row["extra I/O"] == "0.00 %"]
    best = min(contenders.rivals(frugal), key=mean.__getitem__)

    def both(policy: str) -> str:
        return f"{mean[policy]:.0f}/{policies[policy]['p99'].split()[0]}"

    def ours(policy: str) -> str:
        above = _said(fig08, workload, policy, best).endswith("above")
        return f"**{both(policy)}**" if above else both(policy)

    assert _rows(SHORT, "`")[workload] == [
        both("baseline"), f"{'home' if best == 'baseline' else best} {both(best)}", both("clone"),
        ours("linnos"), ours("lowest"),
    ]  # fmt: skip


def test_the_papers_claims_are_counted_as_they_were_judged() -> None:
    judged = [row["judged"] for row in json.loads((RESULTS / "claims.json").read_text())["numbers"]]
    n_same, n_worse = judged.count("same"), judged.count("worse")
    words = f"Of the paper's {len(judged)} claims {n_same} comes out the same and {n_worse} worse"
    assert words in SHORT
