# SPDX-License-Identifier: MIT
"""Results, each written beside its place and renamed onto it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from linnapp.files import replace_text


def write_text(path: Path, text: str) -> None:
    """Write a text file; its directory is made where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, text)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file; what JSON has no word for (a path) as text."""
    write_text(path, json.dumps(value, indent=1, default=str) + "\n")
