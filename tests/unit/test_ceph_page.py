# SPDX-License-Identifier: MIT
"""What docs/cluster.md says of reads of Ceph is what eval/results/ceph.json has."""

from __future__ import annotations

import json

from eval.cache import RESULTS
from eval.experiments.ceph import RULES
from eval.experiments.cluster.lab import GUEST

TABLES = json.loads((RESULTS / "ceph.json").read_text())["tables"]


def test_the_client_has_every_rule() -> None:
    sources = (
        GUEST / "reads.c",
        GUEST / "ceph.c",
        GUEST.parents[3] / "cluster" / "rules" / "rules.c",
    )
    known = "".join(path.read_text() for path in sources)
    assert all(f'"{rule}"' in known for rule in RULES)
