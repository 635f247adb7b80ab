# SPDX-License-Identifier: MIT
"""The package's metadata agree with the project; a moved clone gets a new environment."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import linnapp

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_messages_about_missing_packages_name_extras() -> None:
    """Every call of needs() ends in 'linnapp[EXTRA]', and every extra is named by one."""
    named = set()
    for path in (ROOT / "linnapp").rglob("*.py"):
        for call in re.findall(r"with needs\(\s*(.*?)\s*\)[,:]", path.read_text(), re.DOTALL):
            (extra,) = re.findall(r"'linnapp\[(\w+)\]'", call)
            named.add(extra)
    assert named == set(PROJECT["optional-dependencies"])


def test_all_parts_have_one_version() -> None:
    cargo = tomllib.loads((ROOT / "liblinnos" / "rust" / "Cargo.toml").read_text())["package"]
    assert PROJECT["version"] == linnapp.__version__ == cargo["version"]
    assert f"Version {linnapp.__version__}, " in (ROOT / "CHANGELOG.md").read_text()


def test_files_that_the_metadata_name_exist() -> None:
    assert (ROOT / PROJECT["readme"]).is_file()
    for name in PROJECT["license-files"]:
        assert (ROOT / name).is_file()


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
