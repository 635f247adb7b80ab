# SPDX-License-Identifier: MIT
"""linnos-ublk after crashes: all readable replicas are equal, no flushed data is missing, and
two reads of a block return the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_ublk_mirror import folder, run  # noqa: F401

pytestmark = pytest.mark.lab

CRASH = Path(__file__).with_name("crash_mirror.py")


@pytest.mark.long
@pytest.mark.parametrize("n_moments", [10, pytest.param(200, marks=pytest.mark.crashes)])
def test_mirror_is_equal_and_complete_after_crashes_at_random_moments(
    boot: Any,
    folder: Path,  # noqa: F811
    tmp_path: Path,
    n_moments: int,
) -> None:
    run(boot, folder, f"python3 {CRASH} {n_moments} 1 >$OUT/done 2>$OUT/progress")
    done = json.loads((tmp_path / "done").read_text())
    print(done)
    assert done["crashes"] == n_moments and done["writes"] > 100 * n_moments
    # Without a repair replicas would differ, and the option that skips it is refused.
    assert done["differed"] > n_moments / 4 and done["refused"] > n_moments / 4
    assert all(done[kind] for kind in ("dropped", "missing", "in_resync", "recovered", "copied"))
    # A write to a marked region needs no additional I/O.
    assert done["record_writes_first"] > 0 and done["record_writes_later"] == 0
