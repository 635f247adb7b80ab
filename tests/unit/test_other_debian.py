# SPDX-License-Identifier: MIT
"""The check on the other Debian is skipped where no chroot can be made, and only there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Commands that would change the machine or use the network, and what they do in a test.
COMMANDS = {
    "id": "echo 0",
    "dpkg-query": "echo installed",
    "apt-get": ". /etc/os-release; echo deb http://mirror.test/debian/ $VERSION_CODENAME main",
    "debootstrap": 'for root; do case $root in */base.new) mkdir -p "$root"/etc/apt/apt.conf.d '
    '"$root"/etc/sudoers.d "$root"/home/tester "$root"/usr/local/share/ca-certificates; esac; done',
    "chroot": ":",
    "chown": ":",
    "unshare": ":",
}


def check(tmp_path: Path, **changed: str) -> subprocess.CompletedProcess[str]:
    """Run other_debian.sh with commands that only pretend."""
    commands = tmp_path / "commands"
    commands.mkdir()
    for name, script in {**COMMANDS, **changed}.items():
        (commands / name).write_text(f"#!/bin/sh\n{script}\n")
        (commands / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{commands}:{os.environ['PATH']}",
        "LINNOS_CACHE": str(tmp_path / "cache"),
    }
    return subprocess.run(
        [ROOT / "tests" / "machine" / "other_debian.sh"],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"id": "echo 1000", "sudo": "exit 1"}, "a chroot needs root"),
        ({"unshare": "exit 1"}, "this machine allows no namespaces"),
        ({"dpkg-query": "exit 1", "apt-get": "exit 100"}, "debootstrap cannot be installed"),
        (
            {"debootstrap": "echo E: Failed getting release file >&2; exit 1"},
            "failed: E: Failed getting release file",
        ),
        (
            {"chroot": "case $2 in apt-get) echo E: no network >&2; exit 100; esac"},
            "apt-get update failed: E: no network",
        ),
    ],
)
def test_check_is_skipped_with_a_reason_when_no_chroot_can_be_made(
    tmp_path: Path, changed: dict[str, str], reason: str
) -> None:
    skipped = check(tmp_path, **changed)
    assert skipped.returncode == 0, skipped.stderr
    assert skipped.stdout.splitlines()[-1].startswith("other_debian.sh: skipped: ")
    assert reason in skipped.stdout


def test_check_fails_when_the_build_in_the_chroot_fails(tmp_path: Path) -> None:
    failed = check(tmp_path, unshare='case "$*" in *inside*) exit 2; esac')
    assert failed.returncode == 1
    assert "other_debian.sh: failed on " in failed.stderr
    assert "skipped" not in failed.stdout
    assert not list((tmp_path / "cache").glob("*/run.*"))


def test_check_passes_when_the_build_in_the_chroot_passes(tmp_path: Path) -> None:
    passed = check(tmp_path)
    assert passed.returncode == 0, passed.stderr
    assert "the demo and " in passed.stdout
