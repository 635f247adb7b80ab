# SPDX-License-Identifier: MIT
"""An older build is rebuilt after a source file has moved."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("folder", "module"), [("replayer", "budget"), ("liblinnos", "budget")])
def test_moved_source_is_found(tmp_path: Path, folder: str, module: str) -> None:
    built = tmp_path / "obj" / f"{module}.o"
    make = ["make", "-C", ROOT / folder, f"OUT={tmp_path}", built]
    subprocess.run(make, check=True, capture_output=True)
    dependencies = built.with_suffix(".d")
    dependencies.write_text(f"{built}: was_here/{module}.c\n")
    first = built.stat().st_mtime_ns
    subprocess.run(make, check=True, capture_output=True)
    assert built.stat().st_mtime_ns > first
    assert "was_here" not in dependencies.read_text()
