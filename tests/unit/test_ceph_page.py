# SPDX-License-Identifier: MIT
"""What docs/cluster.md says of Ceph is what eval/results/ceph.json has."""

from __future__ import annotations

import json
import re

from eval.cache import RESULTS, ROOT
from eval.experiments.ceph import LIBRARY, RULES
from eval.experiments.cluster.lab import GUEST

TABLES = json.loads((RESULTS / "ceph.json").read_text())["tables"].values()
SECTION = (ROOT / "docs" / "cluster.md").read_text().split("\n### bursts, on Ceph\n")[1]


def test_the_table_is_the_committed_ones() -> None:
    lines = re.split(r"^###? ", SECTION, flags=re.MULTILINE)[0].splitlines()
    said = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    measured = {row[0] for table in TABLES for row in table["rows"]}
    committed: list[list[str]] = [[title] for title in RULES.values() if title in measured]
    for table in TABLES:
        below = table["header"].index(f"{RULES[LIBRARY[1]]}: mean below its by")
        for row, line in zip(committed, table["rows"], strict=True):
            assert line[0] == row[0]
            # means and p99 without their intervals
            row += [*(cell.split(" [")[0] for cell in line[1:3]), line[below]]
    assert said[2:] == committed


def test_the_client_has_every_rule() -> None:
    sources = (GUEST / "reads.c", GUEST / "ceph.c", ROOT / "cluster" / "rules" / "rules.c")
    known = "".join(path.read_text() for path in sources)
    assert all(f'"{rule}"' in known for rule in RULES)
