# SPDX-License-Identifier: MIT
"""The modules that the replayer chooses by: their C tests."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from replaying import BUILT, LIBRARY

TESTS = [
    (path.stem, test)
    for path in sorted(LIBRARY.glob("tests/test_*.c"))
    for test in re.findall(r"^TEST\((\w+)\)$", path.read_text(), re.MULTILINE)
]


@pytest.fixture(scope="module")
def built() -> Path:
    subprocess.run(
        ["make", "-s", "-C", LIBRARY, f"OUT={BUILT}", "tests"], check=True, capture_output=True
    )
    return BUILT


@pytest.mark.parametrize(("program", "test"), TESTS)
def test_library_module(built: Path, program: str, test: str) -> None:
    ran = subprocess.run(
        [built / "tests" / program, test], capture_output=True, text=True, timeout=120
    )
    assert (ran.returncode, ran.stdout) == (0, "1 tests passed\n"), ran.stderr
