# SPDX-License-Identifier: MIT
"""The policy `lowest` on drives that have bursts one after the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from test_replayer_in_lab import DRIVES, ROTATING, summary, write_traces
from trees_by_hand import last_four

from linnapp.cli import cli
from linnapp.model.file import LatencyModel
from linnapp.trace import replay_log

pytestmark = pytest.mark.lab


def test_lowest_leaves_a_drive_during_its_burst_and_returns(boot, tmp_path: Path) -> None:
    """Models are trained on the reads of one run and direct the reads of another."""
    traces = []
    for n in (2500, 12000):
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
    assert [LatencyModel.load(path).n_trees > 0 for path in models] == [True] * len(DRIVES)
    boot(
        f"{replayer} --trace {traces[0]} --policy lowest --latency-model {','.join(models)}"
        " --json $OUT/lowest.json"
    )
    baseline, lowest = (summary(tmp_path / f"{name}.json") for name in ("baseline", "lowest"))
    assert (lowest["data_errors"], lowest["io_errors"]) == (0, 0)
    assert lowest["extra_ios"] == lowest["explored"]
    assert lowest["response_mean_us"] < 0.7 * baseline["response_mean_us"]
    assert lowest["explored"] <= lowest["reads"] / 100
    # No drive is locked out.
    assert min(lowest["reads_served_by"]) > 0.1 * lowest["reads"]


#: Times to hedge in us: for predictions below a millisecond, and for others.
TABLE = "linnos hedge table 1\n0 400\n1000 1500\n"


def test_read_is_hedged_after_the_time_in_the_table(boot, tmp_path: Path) -> None:
    """The model predicts the mean of the last four reads; reads do not overlap.

    If each fifth read takes 4 ms longer, the four reads before it were fast. If each second read
    does, two of the four were slow. Reads leave the default replica only for a hedge.
    """
    n, every_us = 100, 10_000
    reads = [f"{i * every_us} /dev/x read {i * 4096} 4096\n" for i in range(n)]
    (tmp_path / "t.iolog").write_text("fio version 3 iolog\n" + "".join(reads))
    limits = {"threshold_us": 900, "refuse_us": 900, "overdue_us": 10**6}
    for name in ("flash0", "flash1", "flash2"):
        last_four(100, 4100, 1000, **limits).save(tmp_path / f"{name}.linnos")
        (tmp_path / f"{name}.hedge").write_text(TABLE)
    files = (
        ",".join(f"$OUT/flash{k}.{suffix}" for k in range(3)) for suffix in ("linnos", "hedge")
    )
    replayer = (
        f"replayer --devices {','.join(DRIVES)} --trace $OUT/t.iolog --policy lowest-p99 --quiet"
        " --latency-model {} --hedge-table {} --hedge-budget none --home-margin 100"
        " --explore-ms 0 --prefill none --settle-ms 0"
    ).format(*files)
    cases = {5: 400, 2: 1500}
    boot(
        "".join(
            f"{replayer} --inject interval:interval={interval},latency_us=4000,op=read,drive=0"
            f" --json $OUT/{interval}.json --log $OUT/{interval}.log\n"
            for interval in cases
        )
    )
    for interval, after_us in cases.items():
        run = summary(tmp_path / f"{interval}.json")
        log = replay_log.read(tmp_path / f"{interval}.log")
        assert (run["data_errors"], run["io_errors"], run["reads"]) == (0, 0, n)
        hedged = log["flags"] & replay_log.HEDGED != 0
        assert np.array_equal(log["served_by"] != 0, hedged)
        assert run["hedged"] == run["hedges_won"] == np.count_nonzero(hedged)
        assert abs(run["hedged"] - n // interval) <= 1
        # The history is shorter until four reads have completed.
        late = log[hedged & (log["due_ns"] >= 4 * every_us * 1000)]
        waited_ns = late["latency_ns"].astype(int) - 1000 * late["device_latency_us"].astype(int)
        # Submission takes time, and the time of the second attempt is stored in whole us.
        assert len(late) > 0.9 * n / interval
        assert np.all((waited_ns >= after_us * 1000) & (waited_ns < after_us * 1000 + 3000)), (
            waited_ns
        )
