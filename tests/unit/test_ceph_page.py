# SPDX-License-Identifier: MIT
"""What docs/cluster.md says of Ceph is what eval/results/ceph.json has."""

from __future__ import annotations

import json
import re

from eval.cache import RESULTS, ROOT
from eval.experiments.ceph import LIBRARY, RULES
from eval.experiments.cluster.lab import GUEST

(TABLE,) = json.loads((RESULTS / "ceph.json").read_text())["tables"].values()
SECTION = (ROOT / "docs" / "cluster.md").read_text().split("\n### bursts, on Ceph\n")[1]


def test_the_table_is_the_committed_one() -> None:
    lines = re.split(r"^###? ", SECTION, flags=re.MULTILINE)[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    columns = ["rule", "mean us", "p99 us", f"{RULES[LIBRARY[1]]}: mean below its by"]
    columns.append("of the oracle's gain")
    picked = [TABLE["header"].index(column) for column in columns]
    committed = [[row[k] for k in picked] for row in TABLE["rows"]]
    # means and p99 without their intervals
    short = [[row[0], *(cell.split(" [")[0] for cell in row[1:3]), *row[3:]] for row in committed]
    assert rows[2:] == short


def test_the_client_has_every_rule() -> None:
    known = "".join((GUEST / name).read_text() for name in ("reads.c", "ceph.c"))
    assert all(f'"{rule}"' in known for rule in RULES)
