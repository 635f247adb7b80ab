# SPDX-License-Identifier: MIT
"""The trace readers and linnos-agent under ASan and UBSan: inputs that are kept, and new ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[1] / "fuzz"

#: each; `make fuzz` takes ten minutes for the four
SECONDS = 10


@pytest.mark.parametrize("target", ["blktrace", "events", "text", "agent"])
def test_fuzz(target: str, tmp_path: Path) -> None:
    """A crash, an overflow, a leak, a broken promise, 5 s or 256 MB for one input end the run."""
    ran = subprocess.run(
        ["make", "-C", FUZZ, f"OUT={tmp_path}", f"TOTAL_SECONDS={4 * SECONDS}", f"run-{target}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    executed = ran.stderr.split("stat::number_of_executed_units:")[1].split()[0]
    kept = len(list((FUZZ / "corpus" / target).iterdir()))
    assert int(executed) > kept >= 9
