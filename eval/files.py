# SPDX-License-Identifier: MIT
"""Results, each written beside its place and renamed onto it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from linnapp.files import replace_text


def keep_copy(program: Path, kept: Path) -> None:
    """Copy what runs, that may be running there, too."""
    # By hand, and not as results are written: copy2 keeps what makes it executable.
    beside = kept.with_name(f".{kept.name}.tmp")
    shutil.copy2(program, beside)
    beside.replace(kept)


def write_text(path: Path, text: str) -> None:
    """Write a text file; its directory is made where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, text)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file; what JSON has no word for (a path) as text."""
    write_text(path, json.dumps(value, indent=1, default=str) + "\n")
