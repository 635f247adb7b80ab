# SPDX-License-Identifier: MIT
"""The tables of docs/cluster.md are what eval/results/cluster.json has."""

from __future__ import annotations

import json
import re

import pytest

from eval.cache import RESULTS, ROOT

COMMITTED = json.loads((RESULTS / "cluster.json").read_text())
PAGE = (ROOT / "docs" / "cluster.md").read_text()
LOADS = list(dict.fromkeys(heading.split(",")[0] for heading in COMMITTED["tables"]))


def committed(load: str, column: str) -> dict[str, list[str]]:
    """Of each rule a column of the committed tables, network by network."""
    found: dict[str, list[str]] = {}
    for heading, table in COMMITTED["tables"].items():
        if heading.split(",")[0] != load:
            continue
        for row in table["rows"]:
            named = dict(zip(table["header"], row, strict=True))
            found.setdefault(named["rule"], []).append(named[column])
    return found


def said(load: str) -> dict[str, list[str]]:
    """Of each rule what the page has, network by network."""
    section = re.split(r"^###? ", PAGE.split(f"\n### {load}\n")[1], flags=re.MULTILINE)[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return {row[0].strip(): [cell.strip(" *") for cell in row[1:]] for row in rows[1:]}


@pytest.mark.parametrize("load", LOADS)
def test_means_are_the_committed_ones(load: str) -> None:
    means = {
        rule: [value.split()[0] for value in values]
        for rule, values in committed(load, "mean us").items()
    }
    below = committed(load, "mean below in-flight's by")["shipped: the prediction"]
    rows = said(load)
    assert rows.pop("prediction below in flight by") == below
    assert rows == means
