#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the documentation: no relative link is dead, and what is in docs/ is linked from a page.

``docs/check.py [CLONE]`` looks at all pages that git knows, and at those that are new; each finding
is a line, and the exit status says whether there was one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

_FENCED = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.M | re.S)
_QUOTED = re.compile(r"``[^\n]+?``|`[^`\n]+`")
_LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.I)


def files(clone: Path) -> list[Path]:
    """What git has, and what it would be told of."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=clone, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    found = [clone / name for name in sorted(set(listed.split("\0"))) if name]
    return [path for path in found if path.is_file()]


def links(text: str) -> list[str]:
    """Targets of a page's links and pictures that are in the clone; what is in code is none."""
    prose = _QUOTED.sub("", _FENCED.sub("", text))
    return [link for link in _LINK.findall(prose) if not _ELSEWHERE.match(link)]


def anchors(text: str) -> set[str]:
    """What a page's headings are called in links, as GitHub has it."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.*?)[ #]*$", _FENCED.sub("", text), re.M):
        words = re.sub(r"\]\([^)]*\)", "", heading).lower()
        name = first = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        times = 0
        while name in found:
            times += 1
            name = f"{first}-{times}"
        found.add(name)
    return found


def findings(clone: Path) -> list[str]:
    """What is wrong, a line each."""
    clone = clone.resolve()
    there = files(clone)
    known = {*there, *(parent for path in there for parent in path.parents)}
    wrong = []
    linked: set[Path] = set()
    for page in (path for path in there if path.suffix == ".md"):
        for link in links(page.read_text()):
            name, _, anchor = link.partition("#")
            target = (page.parent / unquote(name)).resolve() if name else page
            shown = f"{page.relative_to(clone)}: {link}"
            if target not in known:
                wrong.append(f"{shown}: there is no such file")
            elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
                wrong.append(f"{shown}: {target.relative_to(clone)} has no such heading")
            if target != page:
                linked.add(target)
    docs = clone / "docs"
    wrong += [
        f"{path.relative_to(clone)}: no page links to it; docs/README.md is where"
        for path in there
        if docs in path.parents and path not in linked and path.suffix not in (".css", ".py")
    ]
    return wrong


def main() -> int:
    """Print what is wrong."""
    clone = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    wrong = findings(clone)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
