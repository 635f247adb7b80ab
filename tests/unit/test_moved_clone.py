# SPDX-License-Identifier: MIT
"""A clone that was copied or moved builds and runs its own code."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("folder", "header"),
    [
        ("replayer", "../liblinnos/predictor/budget.h"),
        ("liblinnos", "predictor/budget.h"),
    ],
)
def test_copied_build_compiles_again_when_a_header_changes(
    tmp_path: Path, folder: str, header: str
) -> None:
    subprocess.run(
        ["make", "-C", ROOT / folder, f"OUT={tmp_path}/built", tmp_path / "built/obj/budget.o"],
        check=True,
        capture_output=True,
    )
    shutil.copytree(tmp_path / "built", tmp_path / "copied")
    copied = tmp_path / "copied" / "obj" / "budget.o"
    make = ["make", "--dry-run", "-C", ROOT / folder, f"OUT={tmp_path}/copied"]

    def planned(*options: str) -> str:
        return subprocess.run(
            [*make, *options, copied], check=True, capture_output=True, text=True
        ).stdout

    assert "budget.c" not in planned()
    assert "budget.c" in planned("--what-if", header)


def clone_with_environment_of(folder: Path, owner: str) -> Path:
    """Make a folder with a Makefile whose environment was installed for the clone `owner`."""
    folder.mkdir()
    for name in ("Makefile", "requirements.txt", "requirements-tests.txt", "pyproject.toml"):
        shutil.copy2(ROOT / name, folder)
    shutil.copytree(ROOT / "packaging" / "apt", folder / "packaging" / "apt")
    (folder / ".venv").mkdir()
    (folder / "build").mkdir()
    for stamp in ("build/.deps-programs", ".venv/.installed", ".venv/.installed-demo"):
        (folder / stamp).write_text(f"{owner}\n")
    return folder


def test_make_installs_the_environment_again_when_the_clone_was_moved(tmp_path: Path) -> None:
    def planned(folder: Path) -> str:
        make = ["make", "--dry-run", "venv"]
        return subprocess.run(make, cwd=folder, check=True, capture_output=True, text=True).stdout

    own = clone_with_environment_of(tmp_path / "own", str(tmp_path / "own"))
    assert "pip install" not in planned(own)
    moved = clone_with_environment_of(tmp_path / "moved", "/where/it/was")
    assert "belongs to another folder" in planned(moved)
    assert "pip install" in planned(moved)


def test_linnapp_warns_when_it_runs_in_a_clone_with_other_code(tmp_path: Path) -> None:
    (tmp_path / "linnapp").mkdir()
    (tmp_path / "linnapp" / "cli.py").touch()
    (tmp_path / "kernel" / "linnos").mkdir(parents=True)
    show_version = "from linnapp.cli import main; main()"

    def warnings(folder: Path) -> str:
        return subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {show_version}",
             "--version"],
            cwd=folder, check=True, capture_output=True, text=True,
        ).stderr  # fmt: skip

    assert f"not that of the clone {tmp_path}" in warnings(tmp_path / "kernel" / "linnos")
    assert warnings(ROOT / "docs") == ""
