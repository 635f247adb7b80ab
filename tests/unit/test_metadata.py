# SPDX-License-Identifier: MIT
"""The metadata of the Python package agree with the code and the rest of the project."""

from __future__ import annotations

import re
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
