# SPDX-License-Identifier: MIT
"""The record of a mirror of linnos-ublk, and its bits for regions that may differ."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

UBLK = Path(__file__).parents[2] / "liblinnos" / "ublk"
SOURCE = UBLK / "tests" / "test_state.c"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("state") / "test_state"
    subprocess.run(
        ["gcc", "-D_GNU_SOURCE", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g",
         "-fsanitize=address,undefined", '-DSTATE_FOLDER="state"', f"-I{UBLK}",
         f"-I{UBLK.parent}", f"-I{UBLK.parent}/include", f"-I{UBLK.parents[1]}/core/userspace",
         "-o", out, SOURCE,
         *(UBLK / f"{name}.c" for name in ("state", "identity", "replicas", "resync")),
         UBLK.parent / "program" / "program.c", '-DPROGRAM="linnos-ublk"',
         '-DPROGRAM_VERSION=""'],
        check=True,
    )  # fmt: skip
    return out


@pytest.mark.parametrize("name", re.findall(r"^TEST\((\w+)\)$", SOURCE.read_text(), re.MULTILINE))
def test_state(program: Path, tmp_path: Path, name: str) -> None:
    ran = subprocess.run(
        [program, name], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": "/usr/bin:/bin", "ASAN_OPTIONS": "detect_leaks=0"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
