# SPDX-License-Identifier: MIT
"""The one-liners of the README print the output that it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def one_liners() -> list[tuple[str, str]]:
    """Return commands with the output shown below each."""
    section = README.split("\n## Five one-liners\n")[1].split("\n## ")[0]
    blocks = re.findall(r"(?:^    .*\n)+", section, re.M)
    plain = [re.sub("^    ", "", block, flags=re.M).rstrip() for block in blocks]
    return list(zip(plain[::2], plain[1::2], strict=True))


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a PATH on which a shell finds `linnapp`."""
    (tmp_path / "linnapp").write_text(
        f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m linnapp "$@"\n'
    )
    (tmp_path / "linnapp").chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        pytest.param(*both, marks=pytest.mark.lab if " lab " in both[0] else ())
        for both in one_liners()
    ],
    ids=lambda text: " ".join(text.split()[:3]),
)
def test_a_one_liner_prints_what_is_shown(command: str, shown: str, path: str) -> None:
    ran = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT, check=False, capture_output=True, text=True, env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.rstrip().splitlines() == shown.splitlines()
