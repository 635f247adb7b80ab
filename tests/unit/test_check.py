# SPDX-License-Identifier: MIT
"""`linnapp check` says yes if choosing replicas helps, and no if it cannot."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from linnapp.cli import cli
from linnapp.insight.benefit import Benefit, estimate_benefit

#: Arrays of each kind; with 100, as the promise of 5 wrong verdicts is checked by hand.
N_ARRAYS = int(os.environ.get("LINNOS_CHECK_ARRAYS", "2"))

SECONDS, READS_PER_S, STALL_US = 60, 400, 2000


def write_logs(folder: Path, kind: str, seed: int, replicas: int = 2) -> list[Path]:
    """Write a log of reads for each replica, in FlashNet's format."""
    random = np.random.default_rng(seed)
    paths = []
    for k in range(replicas):
        at_s = np.sort(random.uniform(0, SECONDS, SECONDS * READS_PER_S))
        latency_us = random.lognormal(np.log(90), 0.1, len(at_s))
        if kind == "in turn":
            latency_us += STALL_US * ((at_s / 0.4).astype(int) % (3 * replicas) == 3 * k)
        elif kind == "at once":
            latency_us += STALL_US * ((at_s / 0.4).astype(int) % 6 == 0)
        elif kind == "one at random":
            latency_us += STALL_US * ((random.uniform(size=len(at_s)) < 0.2) & (k == 0))
        path = folder / f"{kind.replace(' ', '-')}-{seed}-drive{k}.csv"
        path.write_text(
            "".join(
                f"{1000 * at:.3f},{latency:.0f},1,4096,{4096 * offset},{1000 * at:.3f},4096\n"
                for at, latency, offset in zip(
                    at_s, latency_us, random.integers(0, 10**6, len(at_s)), strict=True
                )
            )
        )
        paths.append(path)
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


def test_check_names_the_replica_that_is_always_slower(tmp_path: Path) -> None:
    found = check(tmp_path, "one at random", 1)
    assert "drive0 is slower than the others all the time" in found.reason


def test_check_reports_coinciding_stalls(tmp_path: Path) -> None:
    found = check(tmp_path, "at once", 1)
    assert found.both_slow > 4 * found.both_slow_if_independent


def test_check_of_three_replicas_gains_most_of_a_perfect_choice(tmp_path: Path) -> None:
    found = check(tmp_path, "in turn", 1, replicas=3)
    gain = found.gains_us["round_robin"]
    assert gain.low is not None and gain.low > 0.8 * found.best_us


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(cli, ["check", *map(str, arguments)])
    print(result.output, result.exception)
    return result.output


def test_check_command_prints_verdict_json_and_picture(tmp_path: Path) -> None:
    paths = write_logs(tmp_path, "in turn", 1)
    traces = [word for path in paths for word in ("--trace", path)]
    text = run(*traces)
    assert "It would help" in text and "linnapp enable" in text
    found = json.loads(run(*traces, "--json", "-o", tmp_path / "a.svg"))
    assert found["verdict"] == "yes" and found["pairs"] > 200
    assert "<svg" in (tmp_path / "a.svg").read_text()


def test_check_says_unknown_when_reads_are_too_few(tmp_path: Path) -> None:
    paths = write_logs(tmp_path, "equal", 1)
    for path in paths:
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:100]))
    traces = [word for path in paths for word in ("--trace", path)]
    assert json.loads(run(*traces, "--json"))["verdict"] == "unknown"


def test_check_refuses_one_recording_and_none() -> None:
    result = CliRunner().invoke(cli, ["check"])
    assert result.exit_code and "name an md array" in result.output
    result = CliRunner().invoke(cli, ["check", "--trace", "a.blk"])
    assert result.exit_code
