# SPDX-License-Identifier: MIT
"""What docs/cluster.md says of reads of Ceph is what eval/results/ceph.json has."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from eval.cache import RESULTS, ROOT
from eval.cells import WORKLOADS
from eval.experiments.ceph import LIBRARY, OSD_US, RULES
from eval.experiments.cluster.lab import GUEST
from eval.experiments.cluster.text import EXTRA
from eval.intervals import Interval

TABLES: dict[str, Any] = json.loads((RESULTS / "ceph.json").read_text())["tables"]
SECTION, LOADS = (
    (ROOT / "docs" / "cluster.md").read_text().split(f"\n### {title}\n")[1].split("\n#")[0]
    for title in ("bursts, on Ceph", "Loads, on Ceph")
)
ONE, EIGHT, SIXTEEN = (
    TABLES[f"bursts, 20 us one way, {n} client{'s' * (n > 1)}"] for n in (1, 8, 16)
)
#: By clients, where an OSD's processor is charged.
CHARGED = {
    n: TABLES[f"bursts, 20 us one way, {n} client{'s' * (n > 1)}, an OSD takes {OSD_US} us"]
    for n in (1, 16)
}
#: By load.
BESIDE = {
    heading.split(",")[0]: table
    for heading, table in TABLES.items()
    if not heading.startswith("bursts, ")
}


def test_every_rule_is_measured_in_every_cell() -> None:
    for table in TABLES.values():
        assert [row[0] for row in table["rows"]] == list(RULES.values())


def below(table: dict[str, Any], own: str = LIBRARY[1]) -> dict[str, Interval]:
    """What the library's mean is below others' by, by rule."""
    column = table["header"].index(f"{RULES[own]}: mean below its by")
    titles = {title: rule for rule, title in RULES.items()}
    return {titles[row[0]]: _interval(row[column]) for row in table["rows"] if row[column]}


def _interval(cell: str) -> Interval:
    """An end that was rounded to zero stays on its side."""
    value, low, high = (
        float(end) or math.copysign(1e-9, float(end)) for end in re.findall(r"-?[\d.]+", cell)
    )
    return Interval(value, low, high)


def test_what_is_said_to_be_won_lost_or_undecided_is() -> None:
    cells = (
        (ONE, {"own-latency"}), (EIGHT, {"elasticsearch", "prequal"}), (SIXTEEN, {"prequal"}),
        (CHARGED[1], {"own-latency"}), (CHARGED[16], {"elasticsearch", "prequal"}),
    )  # fmt: skip
    for table, undecided in cells:
        shares = {rule: by for rule, by in below(table).items() if rule not in (*LIBRARY, "oracle")}
        assert {rule for rule, by in shares.items() if by.is_below} == {"clone"} < set(EXTRA)
        assert {rule for rule, by in shares.items() if not by.is_apart} == undecided
    assert below(EIGHT)["clone"].value < -45
    assert f"of 16 by {-below(SIXTEEN)['clone'].value:.0f} %" in SECTION
    assert not below(ONE)[LIBRARY[0]].is_apart and below(EIGHT)[LIBRARY[0]].is_above
    for table in (EIGHT, SIXTEEN):
        alone = below(table, LIBRARY[0])
        assert {rule for rule, by in alone.items() if by.is_below} == {
            "elasticsearch", "prequal", "clone", LIBRARY[1], "oracle"
        }  # fmt: skip
    alone = below(CHARGED[16], LIBRARY[0])
    assert {rule for rule, by in alone.items() if by.is_below} == {
        "elasticsearch", "prequal", "prediction", "clone", LIBRARY[1], "oracle"
    }  # fmt: skip
    assert f"{gain(CHARGED[1])} of the gain, and {gain(CHARGED[16])} of 16 clients" in (
        " ".join(SECTION.split())
    )


def test_of_loads_each_win_and_each_loss_is_named() -> None:
    assert set(BESIDE) == set(WORKLOADS)
    words = {
        "prequal": "Prequal",
        "elasticsearch": "Elasticsearch's rule",
        "prediction": "the prediction",
        "snitch": "Cassandra's snitch",
        "clone": "two at once",
        "hedge": "hedges at will",
        "hedge-capped": "hedges under a cap",
        LIBRARY[0]: "itself without agents",
    }
    shares = {load: below(table) for load, table in BESIDE.items()}
    lines = [" ".join(line.split()) for line in LOADS.split("\n\n")[1].split("\n- ")]
    lost = [clause for line in lines if line.startswith("**Lost**") for clause in line.split(";")]
    for load, by in shares.items():
        said = {
            rule
            for rule, word in words.items()
            if any(word in clause and f"`{load}`" in clause for clause in lost)
        }
        assert said == {rule for rule in by if by[rule].is_below} - {"oracle"}, load
    for word, rule in (("up to 7.6 %, to Prequal", "prequal"), ("up to 0.6 %, to its", LIBRARY[0])):
        most = -min(by[rule].value for by in shares.values() if by[rule].is_below)
        assert f"up to {most} %" in word and any(word in clause for clause in lost)
    primary, balance = (
        [f"`{load}`" for load in sorted(shares) if shares[load][rule].is_above]
        for rule in ("primary", "balance")
    )
    assert f"below the primary in {_listed(primary)}; below `balance` in {_listed(balance)}." in (
        " ".join(LOADS.split())
    )


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def gain(table: dict[str, Any]) -> str:
    """Of the oracle's over the primary, what the library has."""
    row = next(line for line in table["rows"] if line[0] == RULES[LIBRARY[1]])
    return str(row[table["header"].index("of the oracle's gain")])


def test_gains_are_the_committed_ones() -> None:
    one, eight, sixteen = map(gain, (ONE, EIGHT, SIXTEEN))
    said = f"has {one} with one client, {eight} with eight, {sixteen} with 16"
    assert said in " ".join(SECTION.split())
    shares = sorted(int(gain(table).removesuffix(" %")) for table in BESIDE.values())
    assert f"it has {shares[0]} to {shares[-2]} %; in `bi-c`, by chance, {shares[-1]} %." in LOADS
    assert not below(BESIDE["bi-c"])["primary"].is_apart


def test_the_client_has_every_rule() -> None:
    rules = ROOT / "cluster" / "rules" / "rules.c"
    known = "".join(path.read_text() for path in (GUEST / "reads.c", GUEST / "ceph.c", rules))
    assert all(f'"{rule}"' in known for rule in RULES)
