#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Build the documentation as a site with a search, build/site; `make docs`.

Pages link to each other, and to files of the clone, as they are laid out there. Therefore all
pages, and the files that they link to, are copied into one folder in the clone's own order, and
mkdocs makes the site from that, without a warning. A link to a folder becomes a link to a page that
lists it. Manual pages, C headers and Rust sources become pages, too, and docs/landing.md is the
first page.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import reference_pages

CLONE = Path(__file__).resolve().parents[1]
PAGES = CLONE / "build" / "site-pages"
DOCS = CLONE / "docs"

#: The file that describes the kernel's files, as the kernel's documentation does.
ABI = DOCS / "ABI-sysfs-block-linnos"

#: Sources whose comments are the reference of an interface, and the names of their pages.
INTERFACES = {
    "liblinnos/include/liblinnos.h": "liblinnos.h",
    "liblinnos/include/linnos_choose.h": "linnos_choose.h",
    "cluster/client/linnos_cluster.h": "linnos_cluster.h",
    "cluster/ceph/linnos_ceph.h": "linnos_ceph.h",
    "liblinnos/rust/src/lib.rs": "rust",
}

#: The interface of the Python package, by the headings of its page.
PYTHON = {
    "Recordings": ("linnapp.load", "linnapp.trace.reads.IoTable"),
    "Models": (
        "linnapp.fit_latency",
        "linnapp.fit_network",
        "linnapp.load_model",
        "linnapp.learn.fit.FittedModel",
    ),
    "Evaluation": (
        "linnapp.evaluate",
        "linnapp.learn.judge.Evaluation",
        "linnapp.inflection_point",
        "linnapp.learn.labels.InflectionPoint",
    ),
    "Drives": ("linnapp.upload",),
    "Replicas": ("linnapp.replicas",),
    "Errors": ("linnapp.errors.LinnappError",),
}

_FENCED = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.M | re.S)
_QUOTED = re.compile(r"``[^\n]+?``|`[^`\n]+`")
_LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.I)


def files(clone: Path) -> list[Path]:
    """Return the files that git tracks, and new files that it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=clone, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    found = [clone / name for name in sorted(set(listed.split("\0"))) if name]
    return [path for path in found if path.is_file()]


def links(text: str) -> list[str]:
    """Return the targets of a page's links and pictures within the clone, except those in code."""
    prose = _QUOTED.sub("", _FENCED.sub("", text))
    return [link for link in _LINK.findall(prose) if not _ELSEWHERE.match(link)]


def _listing(folder: Path, there: list[Path]) -> str:
    """Return a page for a folder that has none."""
    names = sorted({path.relative_to(folder).parts[0] for path in there if folder in path.parents})
    return f"# {folder.name}\n\n" + "".join(f"- `{name}`\n" for name in names)


def _manual_pages() -> list[Path]:
    return sorted(DOCS.glob("*.[1-8]"))


def _write(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def lay_out_references() -> None:
    """Write the pages that are made from other files than Markdown."""
    manual_pages = _manual_pages()
    names = {path.name for path in manual_pages}
    for path in manual_pages:
        page = reference_pages.manual_page(path.read_text(), names)
        _write(PAGES / "docs" / f"{path.name}.md", page)
    if ABI.exists():
        text = ABI.read_text().replace("```", "")
        _write(PAGES / "docs" / f"{ABI.name}.md", f"# The kernel's files\n\n```text\n{text}```\n")
    for source, name in INTERFACES.items():
        if (path := CLONE / source).exists():
            convert = (
                reference_pages.c_header if path.suffix == ".h" else reference_pages.rust_source
            )
            title = name if path.suffix == ".h" else "liblinnos for Rust"
            _write(PAGES / "docs" / "api" / f"{name}.md", convert(path.read_text(), title))
    if (CLONE / "linnapp" / "__init__.py").exists():
        parts = ["# The Python library", "[The guide](../library.md) has complete examples."]
        for heading, objects in PYTHON.items():
            parts += [f"## {heading}", *(f"::: {name}" for name in objects)]
        _write(PAGES / "docs" / "api" / "python.md", "\n\n".join(parts) + "\n")


def lay_out() -> None:
    """Copy the pages and the files that they link to."""
    shutil.rmtree(PAGES, ignore_errors=True)
    there = files(CLONE)
    landing = DOCS / "landing.md"
    as_pages = {*_manual_pages(), ABI}
    for page in (path for path in there if path.suffix == ".md"):
        if landing in there and page == CLONE / "README.md":
            continue  # the landing page takes its place
        text = page.read_text()
        for link in links(text):
            name, _, anchor = link.partition("#")
            target = (page.parent / unquote(name)).resolve() if name else page
            place = PAGES / target.relative_to(CLONE)
            place.parent.mkdir(parents=True, exist_ok=True)
            to = link
            if target.is_dir():
                index = "README.md" if (target / "README.md") in there else "listing.md"
                place.mkdir(exist_ok=True)
                if index == "listing.md":
                    (place / index).write_text(_listing(target, there))
                to = f"{name.rstrip('/')}/{index}" + (f"#{anchor}" if anchor else "")
            elif target in as_pages:
                to = link.replace(name, f"{name}.md")
            elif target.suffix != ".md" and target in there:
                shutil.copyfile(target, place)
            if page == landing and name:
                at = os.path.relpath(PAGES / target.relative_to(CLONE), PAGES)
                to = at + to[len(name) :] if not target.is_dir() else f"docs/{to}"
            if to != link:
                text = re.sub(rf"\]\({re.escape(link)}\)", lambda _, to=to: f"]({to})", text)
        place = PAGES / "README.md" if page == landing else PAGES / page.relative_to(CLONE)
        # A page's title is the heading that it begins with.
        _write(place, re.sub(r"\A<!--.*?-->\s*", "", text))
    lay_out_references()
    shutil.copy(DOCS / "site.css", PAGES / "docs")


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
