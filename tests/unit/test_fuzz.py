# SPDX-License-Identifier: MIT
"""The trace readers and linnos-agent under ASan and UBSan, with kept and new inputs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[1] / "fuzz"

#: The number of inputs of each target, the same in each run; `make fuzz` tries new inputs for ten
#: minutes.
RUNS = 5_000


def run(target: str, bound: str, out: Path) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        ["make", "-C", FUZZ, f"OUT={out}", bound, f"run-{target}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result


@pytest.mark.parametrize("target", ["blktrace", "events", "text", "agent"])
def test_reader_survives_fuzzed_inputs(target: str, tmp_path: Path) -> None:
    """A crash, overflow, leak, failed assertion, 5 s or 256 MB for one input end the run."""
    result = run(target, f"RUNS={RUNS}", tmp_path)
    executed = result.stderr.split("stat::number_of_executed_units:")[1].split()[0]
    n_corpus_files = len(list((FUZZ / "corpus" / target).iterdir()))
    assert int(executed) > n_corpus_files >= 9


def test_agent_survives_random_datagrams(tmp_path: Path) -> None:
    """Check that each datagram is counted once, and each client gets only its own answers."""
    for _ in range(2):
        stdout = run("sockets", "TOTAL_SECONDS=2", tmp_path).stdout
    sent, *counted = map(
        int,
        re.findall(
            r"(\d+) datagrams in .*answered (\d+) queries; ignored (\d+) from other addresses, "
            r"(\d+) over the rate, (\d+) malformed, (\d+) not signed, (\d+) about unknown drives",
            stdout,
        )[0],
    )
    answered, elsewhere, _, malformed, not_signed, _ = counted
    assert sent == sum(counted) and min(answered, elsewhere, malformed, not_signed) > 0
