# SPDX-License-Identifier: MIT
"""The replayer's modules, one by one: their C tests, and what they may know of each other."""

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
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("replayer")
    subprocess.run(
        ["make", "-s", "-C", SOURCE, f"OUT={out}", "CFLAGS=-O1 -g", "tests"],
        check=True, capture_output=True,
    )  # fmt: skip
    return out / "tests"


@pytest.mark.parametrize(("program", "test"), TESTS)
def test_module(programs: Path, program: str, test: str) -> None:
    ran = subprocess.run([programs / program, test], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, "1 tests passed\n"), ran.stderr
