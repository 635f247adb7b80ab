# SPDX-License-Identifier: MIT
"""`kernel/build.sh deb`: what it takes for a configuration, and what it does not."""

from __future__ import annotations

import lzma
import os
import subprocess
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[2] / "kernel" / "build.sh"


def refused(tmp_path: Path, *arguments: str | Path) -> str:
    """What the script says when it stops before it builds anything."""
    environment = {**os.environ, "BUILD": str(tmp_path)}
    done = subprocess.run(
        [BUILD, *arguments], capture_output=True, text=True, env=environment, timeout=60
    )
    assert done.returncode == 1, done.stderr
    assert not list(tmp_path.rglob(".config"))
    return done.stderr


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """debhelper as a name alone: nothing is built here."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "dh").symlink_to("/bin/false")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_configuration_that_is_not_there_is_named(tmp_path: Path) -> None:
    wanted = tmp_path / "none"
    assert f"no configuration to read at {wanted}" in refused(tmp_path, "deb", "--config", wanted)


def test_what_is_no_configuration_is_not_taken_for_one(tmp_path: Path) -> None:
    wrong = tmp_path / "notes"
    wrong.write_text("CONFIG_NET=y\n")
    assert f"{wrong} is not a kernel's configuration" in refused(tmp_path, "deb", "--config", wrong)


def test_a_configuration_may_be_compressed_and_long(tmp_path: Path) -> None:
    """It is taken: what is wrong is the tree."""
    text = b"CONFIG_BLOCK=y\n" + b"# CONFIG_OTHER is not set\n" * 20_000
    for name, content in (("config", text), ("config.xz", lzma.compress(text))):
        (tmp_path / name).write_bytes(content)
        said = refused(tmp_path, "deb", "--config", tmp_path / name, "--ksrc", tmp_path)
        assert f"{tmp_path} is not a kernel source tree" in said


def test_the_lab_has_configurations_of_its_own(tmp_path: Path) -> None:
    assert "--config is for deb" in refused(tmp_path, "um", "--config", tmp_path / "any")
