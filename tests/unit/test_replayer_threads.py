# SPDX-License-Identifier: MIT
"""The replayer with several submitters: no I/O is lost, repeated, or counted wrongly."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from replaying import (
    BLOCK,
    DRIVE_BYTES,
    GIVE_UP_S,
    REPLAYER,
    mixed_ios,
    replay,
    replay_summed,
    start,
    summary,
    wait_until_written,
    write_trace,
)

from linnapp.trace import replay_log


def test_threads_do_the_work_of_one(tmp_path: Path, drives: list[Path]) -> None:
    """The few blocks are read while other threads write them, and afterwards."""
    few = [
        (at, action, offset % (64 * BLOCK), length)
        for at, action, offset, length in mixed_ios(20_000, seed=1, every_us=20, read_share=0.5)
    ]
    trace = write_trace(tmp_path / "t", [*few, (400_000, "read", 5, 10), (400_000, "trim", 0, 1)])
    done, runs = [], []
    for threads in (1, 2, 5):
        out = tmp_path / f"{threads}"
        replay(drives, [trace], "clone", "--spread", "--threads", str(threads), "--loops", "2",
               "--json", f"{out}.json", "--log", f"{out}.log")  # fmt: skip
        run, log = summary(Path(f"{out}.json")), replay_log.read(Path(f"{out}.log"))
        columns = ("due_ns", "op", "offset_bytes", "size_bytes", "home")
        done.append(sorted(zip(*(log[c].tolist() for c in columns), strict=True)))
        assert sum(run["reads_served_by"]) == run["reads"]
        assert (run["data_errors"], run["io_errors"], run["unanswered"]) == (0, 0, 0)
        assert run["blocks_checked"] + run["unverified_blocks"] > run["reads"]
        assert run["unverified_blocks"] == 0 and run["percentiles"] == "exact"
        assert run["config"]["threads"] == threads
        runs.append(
            {key: run[key] for key in ("reads", "writes", "read_bytes", "write_bytes",
             "realigned_ios", "skipped_trace_lines", "prefill_blocks", "cancels_tried")}
        )  # fmt: skip
    assert done[0] == done[1] == done[2]
    assert runs[0] == runs[1] == runs[2]
    assert runs[0]["realigned_ios"] == 2 and len(done[0]) == 2 * 20_001


def test_every_thread_checks_what_it_reads(tmp_path: Path, drives: list[Path]) -> None:
    n = DRIVE_BYTES // BLOCK
    trace = write_trace(tmp_path / "t", [(k, "read", k * BLOCK, BLOCK) for k in range(n)])
    drives[0].write_bytes(os.urandom(DRIVE_BYTES))
    replay(drives, [trace], "baseline", "--threads", "4", "--prefill", "none", "--json",
           str(tmp_path / "o.json"), status=2)  # fmt: skip
    assert summary(tmp_path / "o.json")["data_errors"] == n


def test_threads_together_hedge_no_more_than_the_budget_allows(
    tmp_path: Path, drives: list[Path]
) -> None:
    n = 20_000
    trace = write_trace(tmp_path / "t", [(0, "read", k % 99 * BLOCK, BLOCK) for k in range(n)])
    run = replay_summed(drives, [trace], "hedge", "--hedge-us", "1", "--threads", "3")
    assert run["reads"] == n and run["hedges_denied"] > 0
    assert 0 < run["hedged"] <= 0.05 * n


def policies() -> list[str]:
    shown = subprocess.run([REPLAYER, "--help"], capture_output=True, text=True, check=True).stdout
    listed = shown[shown.index("Policies") : shown.index("\nRun:")]
    return re.findall(r"^  ([a-z0-9-]+) ", listed, re.MULTILINE)


#: Policies that do not decide by counts of the drives.
KEEP_NO_COUNT = {
    "baseline", "clone", "random", "hedge", "hedge-ip", "linnos", "linnos-hl", "linnos-h99",
    "oracle", "verdict",
}  # fmt: skip


def test_a_policy_that_keeps_a_count_of_the_drives_is_refused(
    tmp_path: Path, drives: list[Path]
) -> None:
    trace = write_trace(tmp_path / "t", [(0, "read", 0, BLOCK)])
    names = policies()
    assert set(names) > KEEP_NO_COUNT and len(names) > 15
    for policy in names:
        refused = subprocess.run(
            [REPLAYER, "--devices", ",".join(map(str, drives)), "--trace", trace,
             "--policy", policy, "--threads", "2", "--settle-ms", "0"],
            capture_output=True, text=True, check=False,
        ).stderr  # fmt: skip
        said = f"--threads 2: policy {policy} counts the I/O of the drives" in refused
        assert said == (policy not in KEEP_NO_COUNT), (policy, refused)


@pytest.mark.parametrize("option", ["--depth", "--max-orphans", "--hedge-burst"])
def test_limits_smaller_than_the_number_of_threads_are_refused(
    tmp_path: Path, drives: list[Path], option: str
) -> None:
    trace = write_trace(tmp_path / "t", [(0, "read", 0, BLOCK)])
    ran = replay(drives, [trace], "baseline", "--threads", "3", option, "2", status=1)
    assert f"{option}" in ran.stderr and "must be 3 at least" in ran.stderr


def test_interrupt_stops_all_threads(tmp_path: Path, drives: list[Path]) -> None:
    n = 60_000
    trace = write_trace(tmp_path / "t", [(i * 10_000, "write", 0, BLOCK) for i in range(n)])
    run = start(drives, [trace], "baseline", "--threads", "3", "--json",
                str(tmp_path / "o.json"), "--log", str(tmp_path / "o.log"))  # fmt: skip
    wait_until_written(drives[0], 0, bytes(BLOCK))
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=GIVE_UP_S)
    assert run.returncode == 130
    result = summary(tmp_path / "o.json")
    assert result["stopped"] == "interrupted" and 0 < result["writes"] < n
    assert len(replay_log.read(tmp_path / "o.log")) == result["writes"]
