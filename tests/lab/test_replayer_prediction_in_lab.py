# SPDX-License-Identifier: MIT
"""The policy `fastest` on drives that have bursts one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from replays import DRIVES, QUIET, ROTATING, summary, write_traces

from linnapp.cli import cli
from linnapp.model import LatencyModel

pytestmark = pytest.mark.lab


def test_fastest_avoids_a_drive_during_its_burst_and_returns(boot, tmp_path: Path) -> None:
    """Models are trained on the reads of one run and direct the reads of another."""
    traces = []
    for n in (2500, 12000):
        (tmp_path / f"{n}").mkdir()
        traces.append(write_traces(tmp_path / f"{n}", n, 300, 0.8))
    replayer = f"replayer --devices {','.join(DRIVES)} --inject {ROTATING} {QUIET}"
    boot(
        f"linnapp trace {' '.join(DRIVES)} -o $OUT -- {replayer} --trace {traces[1]}"
        " --policy baseline --json $OUT/baseline.json"
    )
    recordings = [tmp_path / f"flash{k}.blk" for k in range(len(DRIVES))]
    result = CliRunner().invoke(
        cli,
        ["train", "--kind", "latency", "--output", str(tmp_path / "models"),
         *(part for path in recordings for part in ("--trace", str(path)))],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    models = [str(path) for path in sorted((tmp_path / "models").glob("**/*.linnos"))]
    assert [LatencyModel.load(path).n_trees > 0 for path in models] == [True] * len(DRIVES)
    boot(
        f"{replayer} --trace {traces[0]} --policy fastest --latency-model {','.join(models)}"
        " --json $OUT/fastest.json"
    )
    baseline, fastest = (summary(tmp_path / f"{name}.json") for name in ("baseline", "fastest"))
    assert (fastest["data_errors"], fastest["io_errors"]) == (0, 0)
    assert fastest["extra_ios"] == fastest["probes"]
    assert fastest["response_mean_us"] < 0.7 * baseline["response_mean_us"]
    assert fastest["probes"] <= fastest["reads"] / 100
    # No drive is locked out.
    assert min(fastest["reads_served_by"]) > 0.1 * fastest["reads"]
