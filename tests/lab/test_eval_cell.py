# SPDX-License-Identifier: MIT
"""One small configuration of Fig. 8, replayed again, gives exactly the committed numbers.

Policies that do not query LinnOS give them on a kernel without LinnOS, too.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval import small_cell
from linnapp.lab import guests

STOCK_KERNEL = Path(__file__).parents[2] / "build" / "linux-um-unpatched" / "linux"


#: test_views_change_nothing.py checks the numbers of the other policy.
NOT_VIEWED = [policy for policy in small_cell.POLICIES if policy != "linnos"]


@pytest.mark.lab
@pytest.mark.parametrize("policy", NOT_VIEWED)
def test_small_cell_repeats_the_committed_numbers(policy: str, tmp_path: Path) -> None:
    committed = json.loads((small_cell.FOLDER / "numbers.json").read_text())
    assert small_cell.replay(policy, tmp_path) == committed["runs"][policy]


@pytest.mark.stock
@pytest.mark.parametrize("policy", ["baseline", "hedge", "oracle"])
def test_small_cell_has_the_same_numbers_on_a_kernel_without_linnos(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not STOCK_KERNEL.exists():
        pytest.fail(f"{STOCK_KERNEL}: no kernel; `make kernel-unpatched` builds it")
    monkeypatch.setattr(guests, "_kernel", STOCK_KERNEL)
    test_small_cell_repeats_the_committed_numbers(policy, tmp_path)
