#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds the documentation as a site, build/site, with a search; `make docs`.

Pages link to each other, and to files of the clone, as they are laid out there. So all pages, and
whatever they link to, are copied into one folder in the clone's own order, and mkdocs makes the
site of that, without a warning. A link to a folder becomes one to a page that lists it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

CLONE = Path(__file__).resolve().parents[1]
PAGES = CLONE / "build" / "site-pages"


_FENCED = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.M | re.S)
_QUOTED = re.compile(r"``[^\n]+?``|`[^`\n]+`")
_LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.I)


def files(clone: Path) -> list[Path]:
    """The files that git tracks, and new files that it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=clone, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    found = [clone / name for name in sorted(set(listed.split("\0"))) if name]
    return [path for path in found if path.is_file()]


def links(text: str) -> list[str]:
    """The targets of a page's links and pictures within the clone; links in code do not count."""
    prose = _QUOTED.sub("", _FENCED.sub("", text))
    return [link for link in _LINK.findall(prose) if not _ELSEWHERE.match(link)]


def _listing(folder: Path, there: list[Path]) -> str:
    """A page for a folder that has none."""
    names = sorted({path.relative_to(folder).parts[0] for path in there if folder in path.parents})
    return f"# {folder.name}\n\n" + "".join(f"- `{name}`\n" for name in names)


def lay_out() -> None:
    """Copy the pages and what they link to."""
    shutil.rmtree(PAGES, ignore_errors=True)
    there = files(CLONE)
    for page in (path for path in there if path.suffix == ".md"):
        text = page.read_text()
        for link in links(text):
            name, _, anchor = link.partition("#")
            target = (page.parent / unquote(name)).resolve() if name else page
            place = PAGES / target.relative_to(CLONE)
            place.parent.mkdir(parents=True, exist_ok=True)
            if target.is_dir():
                index = "README.md" if (target / "README.md") in there else "listing.md"
                place.mkdir(exist_ok=True)
                if index == "listing.md":
                    (place / index).write_text(_listing(target, there))
                to = f"{name.rstrip('/')}/{index}" + (f"#{anchor}" if anchor else "")
                text = re.sub(rf"\]\({re.escape(link)}\)", f"]({to})", text)
            elif target.suffix != ".md" and target in there:
                shutil.copyfile(target, place)
        place = PAGES / page.relative_to(CLONE)
        place.parent.mkdir(parents=True, exist_ok=True)
        # A page's title is the heading that it begins with.
        place.write_text(re.sub(r"\A<!--.*?-->\s*", "", text))
    shutil.copy(CLONE / "docs" / "site.css", PAGES / "docs")


def main() -> int:
    """Lay out, build."""
    lay_out()
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--clean", "-f", "docs/mkdocs.yml"],
        cwd=CLONE, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    if not built.returncode:
        print("build/site: python3 -m http.server -b 127.0.0.1 -d build/site 8000")
    return built.returncode


if __name__ == "__main__":
    sys.exit(main())
