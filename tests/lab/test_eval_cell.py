# SPDX-License-Identifier: MIT
"""One small cell of Fig. 8, replayed again, gives the committed numbers exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval import small_cell

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("policy", small_cell.POLICIES)
def test_cell_repeats_exactly(policy: str, tmp_path: Path) -> None:
    committed = json.loads((small_cell.FOLDER / "numbers.json").read_text())
    assert small_cell.replay(policy, tmp_path) == committed["runs"][policy]
