# SPDX-License-Identifier: MIT
"""The text of every licence that a file names is in LICENSES/, and nobody's is missing."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: as the kernel still writes it, of old
ALSO_CALLED = {"GPL-2.0": "GPL-2.0-only"}


def named() -> set[str]:
    """Licences and exceptions that files are under, by their first lines."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    found = set()
    for path in (ROOT / name for name in listed.split("\0") if name):
        if not path.is_file() or path.parent.name == "LICENSES":
            continue
        head = path.read_bytes()[:600].decode(errors="replace")
        for line in re.findall(r"SPDX-License-Identifier: ([\w.()+ -]+)", head):
            found |= set(re.findall(r"[A-Za-z][\w.]*-[\w.-]*\w|MIT", line))
    return {ALSO_CALLED.get(name, name) for name in found}


def test_each_has_its_text() -> None:
    texts = {path.stem: path.read_text() for path in (ROOT / "LICENSES").glob("*.txt")}
    assert texts.keys() == named()
    assert all(len(text) > 500 for text in texts.values())
