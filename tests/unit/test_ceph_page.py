# SPDX-License-Identifier: MIT
"""What docs/cluster.md says of reads of Ceph is what eval/results/ceph.json has."""

from __future__ import annotations

import json
import re
from typing import Any

from eval.cache import RESULTS, ROOT
from eval.experiments.ceph import LIBRARY, RULES
from eval.experiments.cluster.lab import GUEST
from eval.experiments.cluster.text import EXTRA
from eval.intervals import Interval

TABLES: dict[str, Any] = json.loads((RESULTS / "ceph.json").read_text())["tables"]
SECTION = (ROOT / "docs" / "cluster.md").read_text().split("\n### bursts, on Ceph\n")[1]
ONE, EIGHT = (table for heading, table in TABLES.items() if heading.count(",") == 2)


def test_every_rule_is_measured_with_one_client_and_with_eight() -> None:
    for table in (ONE, EIGHT):
        assert [row[0] for row in table["rows"]] == list(RULES.values())


def below(table: dict[str, Any]) -> dict[str, Interval]:
    """What the library's mean is below others' by, by rule."""
    column = table["header"].index(f"{RULES[LIBRARY[1]]}: mean below its by")
    titles = {title: rule for rule, title in RULES.items()}
    return {
        titles[row[0]]: Interval(*map(float, re.findall(r"-?[\d.]+", row[column])))
        for row in table["rows"]
        if row[column]
    }


def test_what_is_said_to_be_won_lost_or_undecided_is() -> None:
    for table, undecided in ((ONE, {"own-latency"}), (EIGHT, {"elasticsearch", "prequal"})):
        shares = {rule: by for rule, by in below(table).items() if rule not in (*LIBRARY, "oracle")}
        assert {rule for rule, by in shares.items() if by.is_below} == {"clone"} < set(EXTRA)
        assert {rule for rule, by in shares.items() if not by.is_apart} == undecided
    assert below(EIGHT)["clone"].value < -45
    assert not below(ONE)[LIBRARY[0]].is_apart and below(EIGHT)[LIBRARY[0]].is_above


def test_gains_are_the_committed_ones() -> None:
    shares = [
        next(line for line in table["rows"] if line[0] == RULES[LIBRARY[1]])[
            table["header"].index("of the oracle's gain")
        ]
        for table in (ONE, EIGHT)
    ]
    assert f"has {shares[0]} with one client, {shares[1]} with eight" in " ".join(SECTION.split())


def test_the_client_has_every_rule() -> None:
    rules = ROOT / "cluster" / "rules" / "rules.c"
    known = "".join(path.read_text() for path in (GUEST / "reads.c", GUEST / "ceph.c", rules))
    assert all(f'"{rule}"' in known for rule in RULES)
