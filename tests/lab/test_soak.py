# SPDX-License-Identifier: MIT
"""A small run of the soak test (eval/soak.py); its bookkeeping detects errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval import soak
from linnapp.lab.guest import REPOSITORY
from linnapp.lab.uml import DEFAULT_KERNEL
from linnapp.trace import replay_log


@pytest.mark.lab
def test_small_soak_finds_no_problems(tmp_path: Path) -> None:
    """The command for ten million reads is in docs/studies.md."""
    replayer = REPOSITORY / "build" / "replayer" / "replayer"
    models = REPOSITORY / "models" / "example"
    found = soak.soak(tmp_path, 60_000, 1, DEFAULT_KERNEL, replayer, models)
    assert found["problems"] == []
    assert found["reads"] == 60_000
    assert min(found["revoked"], found["hedges_won"], found["io_errors"]) > 50
    # The model decides how many reads go to the dead drive, but at least one in 64 does.
    assert found["injected_errors"]["flash2 dead"] > 15_000 / 64


def books(folder: Path, ios: list[tuple[int, int, int]], **changes: int) -> list[Path]:
    """Return traces of three reads and a write, and the logs that a replay of `ios` would write.

    An I/O consists of its default drive, 0 (read) or 1 (write), and its block.
    """
    lines = {0: ["read 4096", "write 8192"], 1: ["read 0"], 2: ["read 12288"]}
    traces = []
    for drive, actions in lines.items():
        traces.append(folder / f"t{drive}.iolog")
        traces[-1].write_text(
            "fio version 3 iolog\n" + "".join(f"0 d {action} 4096\n" for action in actions)
        )
    records = np.zeros(len(ios), replay_log.RECORD)
    for record, (home, op, block) in zip(records, ios, strict=True):
        record["home"], record["op"], record["offset_bytes"] = home, op, block * 4096
    records[0]["revocations"] = 1
    header = np.zeros(1, replay_log.HEADER)
    header["magic"], header["version"] = replay_log.MAGIC, replay_log.VERSION
    header["record_bytes"], header["n_drives"] = replay_log.RECORD.itemsize, 3
    (folder / "log").write_bytes(header.tobytes() + records.tobytes())
    reads = sum(op == 0 for _, op, _ in ios)
    zeros = (
        "data_errors unanswered reads_failed writes_failed unverified_blocks torn_blocks hedged"
        " extra_ios cancelled elapsed_s"
    )
    summary: dict[str, Any] = dict.fromkeys(zeros.split(), 0)
    summary |= {"reads": reads, "writes": len(ios) - reads, "blocks_checked": reads}
    summary |= {"revoked": 1, "revocations": 1, "hedges_won": 1, "io_errors": 2}
    summary |= {"failovers_on_error": 2, "reads_served_by": [reads, 0, 0], **changes}
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "rules").write_text("flash0 errors 9 2\n")
    (folder / "counters").write_text("flash0 faulted_reads 2\nflash0 reads 9\n")
    return traces


WELL = [(0, 0, 1), (2, 0, 3), (0, 1, 2), (1, 0, 0)]


@pytest.mark.parametrize(
    ("ios", "changes", "problem"),
    [
        (WELL, {}, None),
        (WELL[:3], {}, "lost: 1, not 0"),
        ([*WELL, (2, 0, 3)], {}, "counted_twice: 1, not 0"),
        ([*WELL[:3], (2, 0, 0)], {}, "counted_twice: 1, not 0"),
        (WELL, {"data_errors": 1}, "wrong_reads: 1, not 0"),
        (WELL, {"unanswered": 1}, "lost: 1, not 0"),
        (WELL, {"reads_failed": 3}, "unanswered_reads: 3, not 0"),
        (WELL, {"io_errors": 3}, "io_errors: 3 in one place, 2 in another"),
        (WELL, {"reads": 4}, "reads: 3 in one place, 4 in another"),
        (WELL, {"hedges_won": 0}, "hedges_won: none happened"),
    ],
)
def test_bookkeeping_shows_injected_errors(
    tmp_path: Path, ios: list[tuple[int, int, int]], changes: dict[str, int], problem: str | None
) -> None:
    found = soak.check(tmp_path, books(tmp_path, ios, **changes))
    if problem is None:
        assert found["problems"] == []
    else:
        assert problem in found["problems"]
