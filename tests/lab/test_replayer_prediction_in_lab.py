# SPDX-License-Identifier: MIT
"""Choosing the lowest prediction, on drives of which one after the other has a burst."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_replayer_in_lab import DRIVES, ROTATING, write_traces

from linnapp.cli import cli

pytestmark = pytest.mark.lab


def summary(path: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(path.read_text())
    return parsed


def test_it_leaves_the_drive_that_has_a_burst_and_comes_back(boot, tmp_path: Path) -> None:
    """Models from one run's own reads; another run's reads are then sent by them."""
    traces = []
    for n in (2500, 4000):
        (tmp_path / f"{n}").mkdir()
        traces.append(write_traces(tmp_path / f"{n}", n, 300, 0.8))
    replayer = (
        f"replayer --devices {','.join(DRIVES)} --inject {ROTATING} --quiet --prefill none"
        " --settle-ms 0"
    )
    boot(
        f"linnapp trace {' '.join(DRIVES)} -o $OUT -- {replayer} --trace {traces[1]}"
        " --policy baseline --json $OUT/baseline.json"
    )
    recordings = [tmp_path / f"flash{k}.blk" for k in range(len(DRIVES))]
    ran = CliRunner().invoke(
        cli,
        ["train", "--kind", "latency", "--output", str(tmp_path / "models"),
         *(part for path in recordings for part in ("--trace", str(path)))],
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    models = [str(path) for path in sorted((tmp_path / "models").glob("**/*.linnos"))]
    boot(
        f"{replayer} --trace {traces[0]} --policy lowest --latency-model {','.join(models)}"
        " --json $OUT/lowest.json"
    )
    baseline, lowest = (summary(tmp_path / f"{name}.json") for name in ("baseline", "lowest"))
    assert (lowest["data_errors"], lowest["io_errors"], lowest["extra_ios"]) == (0, 0, 0)
    assert lowest["response_mean_us"] < 0.7 * baseline["response_mean_us"]
    assert lowest["explored"] <= lowest["reads"] / 100
    # Nobody is locked out.
    assert min(lowest["reads_served_by"]) > 0.1 * lowest["reads"]
