# SPDX-License-Identifier: MIT
"""Recordings of real applications agree with their README and can be replayed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from recorded_traces import RECORDED, unpack
from replays import replay

from linnapp.cli import cli

NAMES = ("fio", "pgbench")


@pytest.mark.parametrize("name", NAMES)
def test_readme_of_the_recordings_shows_the_output_of_inspect(name: str, tmp_path: Path) -> None:
    trace = unpack(name, tmp_path)
    run = CliRunner().invoke(cli, ["inspect", str(trace)])
    assert run.exit_code == 0, run.output
    shown = run.output.split("\n", 1)[1].rstrip()
    assert len(shown.splitlines()) > 5
    assert (
        f"## `linnapp inspect {name}.blk`\n\n```\n{shown}\n```"
        in (RECORDED / "README.md").read_text()
    )
    assert (RECORDED / f"{name}.sh").exists()


@pytest.mark.lab
@pytest.mark.parametrize("name", NAMES)
def test_a_recording_is_replayed(boot, name: str, tmp_path: Path) -> None:
    """Every I/O of the first second is submitted when it is due."""
    trace = unpack(name, tmp_path)
    result = replay(
        boot, tmp_path, trace, "--spread --duration 1 --fit --policy baseline",
        before=f"linnapp convert {trace} $OUT/t.iolog --slice 0:1",
    )  # fmt: skip
    counts, log = result.summary, result.log
    lines = [line.split() for line in result.guest.text("t.iolog").splitlines()[1:]]
    wanted = sorted(int(line[0]) for line in lines if line[2] in ("read", "write"))
    assert len(log) == len(wanted) > 2000
    assert np.abs(np.sort(log["due_ns"]) / 1000 - wanted).max() <= 1
    assert (counts["data_errors"], counts["io_errors"], counts["unanswered"]) == (0, 0, 0)
    # Each reading of the clock takes 0.26 us of virtual time; checkpoints write many blocks.
    assert counts["lag_p50_us"] < 5 and counts["lag_p99_us"] < 50
