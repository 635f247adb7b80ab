# SPDX-License-Identifier: MIT
"""`linnapp check` says yes if choosing replicas helps, and no if it cannot."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from recorded_traces import RECORDED

from linnapp.cli import cli
from linnapp.commands.check import UNKNOWN_STATUS
from linnapp.errors import TraceError
from linnapp.insight.benefit import RIVALS, Benefit, _decide, estimate_benefit
from linnapp.stats import Interval
from linnapp.trace.reads import check_common_clock

#: Arrays of each kind; with 100, as the promise of 5 wrong verdicts is checked by hand.
N_ARRAYS = int(os.environ.get("LINNOS_CHECK_ARRAYS", "1"))

SECONDS = 60


def write_logs(folder: Path, kind: str, seed: int, replicas: int = 2) -> list[Path]:
    """Write the log of each replica of an array, in FlashNet's format.

    As md does, each read goes to the replica with the fewest reads in flight, and to the first one
    of these. The rate, the drives and their stalls are drawn from the seed.
    """
    random = np.random.default_rng(seed)

    def between(low: float, high: float) -> float:
        return float(np.exp(random.uniform(np.log(low), np.log(high))))

    rate, median_us, sigma = between(300, 1500), between(60, 120), between(0.05, 0.4)
    stall_us, window_s, share = between(700, 5000), between(0.03, 0.8), between(0.005, 0.4)
    slower = int(random.integers(replicas))
    at_s = np.cumsum(random.exponential(1 / rate, int(rate * SECONDS)))
    own_us = random.lognormal(np.log(median_us), sigma, len(at_s))
    offsets = random.integers(0, 10**6, len(at_s))
    window = (at_s / window_s).astype(int) % (2 * replicas)
    is_chosen = random.uniform(size=len(at_s)) < share
    in_flight: list[list[float]] = [[] for _ in range(replicas)]
    lines: list[list[str]] = [[] for _ in range(replicas)]
    for row in np.argsort(at_s):
        ends = [[end for end in of if end > at_s[row]] for of in in_flight]
        k = min(range(replicas), key=lambda replica: len(ends[replica]))
        slow = {
            "in turn": window[row] == 2 * k,
            "at once": window[row] == 0,
            "one at random": k == slower and is_chosen[row],
            "equal": False,
        }[kind]
        latency_us = own_us[row] + stall_us * slow
        in_flight = ends
        in_flight[k].append(at_s[row] + latency_us / 1e6)
        at_ms, offset = 1000 * at_s[row], 4096 * offsets[row]
        lines[k].append(f"{at_ms:.3f},{latency_us:.0f},1,4096,{offset},{at_ms:.3f},4096\n")
    paths = []
    for k in range(replicas):
        paths.append(folder / f"{kind.replace(' ', '-')}-{seed}-drive{k}.csv")
        paths[-1].write_text("".join(lines[k]))
    return paths


def check(folder: Path, kind: str, seed: int, replicas: int = 2) -> Benefit:
    paths = write_logs(folder, kind, seed, replicas)
    found = estimate_benefit(paths, [path.stem for path in paths])
    for path in paths:
        path.unlink()
    return found


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [("in turn", "yes"), ("at once", "no"), ("one at random", "no"), ("equal", "no")],
)
def test_check_verdict_is_right_on_synthetic_arrays(
    kind: str, verdict: str, tmp_path: Path
) -> None:
    found = [check(tmp_path, kind, seed) for seed in range(N_ARRAYS)]
    wrong = [benefit.reason for benefit in found if benefit.verdict != verdict]
    print(f"{kind}: {len(wrong)} of {len(found)} wrong: {set(wrong)}")
    assert len(wrong) <= 0.05 * len(found)
    if kind == "one at random":
        assert re.search(r"drive\d is slower than the others all the time", found[0].reason)
    if kind == "at once":
        assert found[0].both_slow > 3 * found[0].both_slow_if_independent


def test_check_of_three_replicas_gains_most_of_a_perfect_choice(tmp_path: Path) -> None:
    found = check(tmp_path, "in turn", 1, replicas=3)
    assert found.gains_us["round_robin"].value > 0.8 * found.best_us


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(cli, ["check", *map(str, arguments)])
    print(result.output, result.exception)
    return result.output


def test_check_command_prints_verdict_json_and_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recordings need no root, no module and no TensorFlow."""
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("LINNAPP_SYSFS", str(tmp_path / "no-sysfs"))
    paths = write_logs(tmp_path, "in turn", 1)
    traces = [word for path in paths for word in ("--trace", path)]
    text = run(*traces)
    assert "It would help" in text and "linnapp enable" in text
    assert "On this machine, a prediction takes " in text
    found = json.loads(run(*traces, "--json", "-o", tmp_path / "a.svg"))
    assert found["verdict"] == "yes" and found["pairs"] > 50
    assert "<svg" in (tmp_path / "a.svg").read_text()


def test_check_says_unknown_when_the_gain_may_be_large() -> None:
    found = Benefit(
        (), 100, 100.0, 0.0, 0.0, {name: Interval(9.0, -5.0, 23.0) for name in RIVALS}, 50.0
    )
    verdict, reason = _decide(found)
    assert verdict == "unknown" and "uncertain, -5 to 23 %" in reason
    gains = {name: Interval(1.0, -5.0, 7.0) for name in RIVALS}
    assert _decide(dataclasses.replace(found, gains_us=gains))[0] == "no"


@pytest.mark.parametrize("reads", [0, 100])
def test_check_of_an_idle_array_is_unknown_and_no_error(tmp_path: Path, reads: int) -> None:
    paths = write_logs(tmp_path, "equal", 1)
    paths[1].write_text("".join(paths[1].read_text().splitlines(keepends=True)[:reads]))
    traces = [word for path in paths for word in ("--trace", str(path))]
    before = sorted(tmp_path.iterdir())
    result = CliRunner().invoke(cli, ["check", *traces, "--json"])
    assert result.exit_code == UNKNOWN_STATUS
    found = json.loads(result.output)
    assert found["verdict"] == "unknown" and found["replicas"][1]["reads"] == reads
    text = CliRunner().invoke(cli, ["check", *traces])
    assert text.exit_code == UNKNOWN_STATUS and found["sentence"] in text.output
    is_idle = "drive1 served no reads; record while the array is in use" in found["sentence"]
    assert is_idle == (not reads)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(shutil.which("blkparse") is None, reason="blkparse is not installed")
def test_recordings_of_blkparse_have_no_common_clock(tmp_path: Path) -> None:
    merged = tmp_path / "merged"
    subprocess.run(["blkparse", "-i", "nullblk", "-O", "-d", merged], cwd=RECORDED, check=True)
    with pytest.raises(TraceError, match="merged: its times begin at 0, as blkparse writes them"):
        check_common_clock([RECORDED / "nullblk", merged])
    with pytest.raises(TraceError, match="its times begin at 0"):
        estimate_benefit([merged, RECORDED / "nullblk"], ["a", "b"])
    check_common_clock([RECORDED / "nullblk", RECORDED / "nullblk"])


def test_recording_without_ios_has_no_clock_to_check(tmp_path: Path) -> None:
    note = struct.pack("=IIQQIIIIIHH", 0x65617407, 0, 1, 0, 0, 1 << 26, 1, 8 << 20, 0, 0, 0)
    (tmp_path / "sda.blk").write_bytes(note)
    check_common_clock([tmp_path / "sda.blk"])
