# SPDX-License-Identifier: MIT
"""The C tests of the replayer's modules."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from replaying import REPLAYER

SOURCE = REPLAYER.parents[2] / "replayer"
TESTS = [
    (path.stem, test)
    for path in sorted(SOURCE.glob("tests/test_*.c"))
    for test in re.findall(r"^TEST\((\w+)\)$", path.read_text(), re.MULTILINE)
]


@pytest.fixture(scope="module")
def programs() -> Path:
    subprocess.run(
        ["make", "-s", "-C", SOURCE, f"OUT={REPLAYER.parent}", "tests"],
        check=True, capture_output=True,
    )  # fmt: skip
    return REPLAYER.parent / "tests"


@pytest.mark.parametrize(("program", "test"), TESTS)
def test_module(programs: Path, program: str, test: str) -> None:
    ran = subprocess.run([programs / program, test], capture_output=True, text=True, timeout=600)
    assert (ran.returncode, ran.stdout) == (0, "1 tests passed\n"), ran.stderr
