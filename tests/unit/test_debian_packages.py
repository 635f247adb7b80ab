# SPDX-License-Identifier: MIT
"""A build of one library installs only the packages that it needs, and no server."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARIES, LIBRADOS = (f"packaging/apt/{name}.txt" for name in ("libraries", "librados"))


def lists(target: str) -> set[str]:
    """Return the package lists that make checks, in a clone without a build."""
    asked = subprocess.run(
        ["make", "--dry-run", "BUILD=no/such", target],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return set(re.findall(r"'s/#\.\*//' (\S+)\)", asked))


def packages(name: str) -> list[str]:
    lines = (ROOT / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize(
    ("target", "needed"),
    [
        *((name, {LIBRARIES}) for name in ("liblinnos", "install-lib", "cluster", "agent")),
        ("install-ceph", {LIBRARIES, LIBRADOS}),
        ("replayer", {LIBRARIES, "packaging/apt/build.txt"}),
        ("deps-ceph", {LIBRADOS, "packaging/apt/ceph.txt"}),
    ],
)
def test_a_target_installs_what_it_needs(target: str, needed: set[str]) -> None:
    assert lists(target) == needed


def test_no_package_is_in_two_lists() -> None:
    named = [
        package
        for name in (LIBRARIES, LIBRADOS, "packaging/apt/build.txt", "packaging/apt/ceph.txt")
        for package in packages(name)
        if package != "iproute2"
    ]
    assert len(named) == len(set(named))
    assert packages(LIBRADOS) == ["librados-dev"]
