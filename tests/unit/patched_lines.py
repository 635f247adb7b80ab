# SPDX-License-Identifier: MIT
"""What a patch changes, counted."""

from __future__ import annotations

import re
from pathlib import Path


def changed_lines(patch: Path, signs: str = "-+") -> dict[str, int]:
    """How many lines with such a sign a patch has for each file that it changes."""
    files: dict[str, int] = {}
    name = ""
    for line in patch.read_text().splitlines():
        if found := re.match(r"\+\+\+ b/(.*)", line):
            files[name := found[1]] = 0
        elif name and re.match(rf"[{signs}](?!-- a/)", line):
            files[name] += 1
    return files
