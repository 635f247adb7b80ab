# SPDX-License-Identifier: MIT
"""Each table of the rules for clusters lists all of them."""

from __future__ import annotations

import re
from pathlib import Path

from c_library import names

from eval.experiments import ceph
from eval.experiments.cluster.lab import GUEST
from eval.experiments.cluster.rules import EXTRA, RIVALS, RULES
from eval.experiments.simulation.cells import RULES as SIMULATED

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "eval" / "simulator"
TABLE = (SOURCE / "rules.c").read_text().split("const struct rule rules[] = {")[1].split("\n};")[0]
#: The rules that only one program has.
OWN = r"\.rule\.name = \"([a-z-]+)\""


def test_every_table_lists_all_rules() -> None:
    assert re.findall(r"\.name = \"([a-z0-9-]+)\"", TABLE) == list(RIVALS)
    client = names((GUEST / "reads.c").read_text(), OWN)
    simulation = names((SOURCE / "main.c").read_text(), OWN)
    engine_s = {f"engine-{mode}" for mode in range(6)}
    assert set(RULES) == {*RIVALS, *client, *engine_s}
    # there, random is Ceph's own rule, and so is the primary
    assert set(ceph.RULES) == {*RIVALS, "balance", *ceph.LIBRARY, "oracle"} - {"random"}
    assert set(SIMULATED) == {*RIVALS, *simulation} - {"observe"}


def test_extra_reads_of_rules_agree_with_the_table() -> None:
    rows = dict(re.findall(r"\{\.name = \"([a-z0-9-]+)\"(.*?)\}", TABLE, re.DOTALL))
    assert {rule for rule, row in rows.items() if "hedges" in row or "clones" in row} == set(EXTRA)
