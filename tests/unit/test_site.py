# SPDX-License-Identifier: MIT
"""docs/build_site.py makes a site of all pages, whose links hold and which loads nothing else."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "build" / "venv-docs" / "bin" / "python"


def laid_out(clone: Path) -> Path:
    """The pages of a clone, and where mkdocs would find them."""
    (clone / "docs").mkdir(exist_ok=True)
    for name in ("check.py", "build_site.py", "site.css"):
        shutil.copy(ROOT / "docs" / name, clone / "docs")
    subprocess.run(["git", "init", "-q", clone], check=True)
    script = "import build_site; build_site.lay_out()"
    subprocess.run([sys.executable, "-c", script], cwd=clone / "docs", check=True)
    return clone / "build" / "site-pages"


def test_pages_and_what_they_link_to_are_laid_out_as_in_the_clone(tmp_path: Path) -> None:
    for folder in ("docs", "kernel", "texts"):
        (tmp_path / folder).mkdir()
    (tmp_path / "README.md").write_text(
        "<!-- licence -->\n# Top\n\n[index](docs/README.md#a), [kernel](kernel/#k), "
        "[texts](texts), [file](kernel/a.c), `[code](gone)`\n"
    )
    (tmp_path / "docs" / "README.md").write_text("# A\n")
    (tmp_path / "kernel" / "README.md").write_text("# K\n")
    (tmp_path / "kernel" / "a.c").write_text("int a;\n")
    (tmp_path / "kernel" / "b.c").touch()
    (tmp_path / "texts" / "MIT.txt").touch()
    pages = laid_out(tmp_path)
    assert (pages / "README.md").read_text() == (
        "# Top\n\n[index](docs/README.md#a), [kernel](kernel/README.md#k), "
        "[texts](texts/listing.md), [file](kernel/a.c), `[code](gone)`\n"
    )
    assert (pages / "texts" / "listing.md").read_text() == "# texts\n\n- `MIT.txt`\n"
    assert (pages / "kernel" / "a.c").read_text() == "int a;\n"
    assert not (pages / "kernel" / "b.c").exists()


@pytest.mark.skipif(not PYTHON.exists(), reason="`make docs` has not been run here")
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere() -> None:
    ran = subprocess.run(
        [PYTHON, ROOT / "docs" / "build_site.py"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0 and not ran.stderr, ran.stdout + ran.stderr
    site = ROOT / "build" / "site"
    pages = [page for page in site.rglob("*.html") if "report" not in page.name]
    assert len(pages) > 20 and (site / "search" / "search_index.json").exists()
    # Each page that mkdocs.yml names is in the list beside every page, by its own name.
    named = re.findall(r"- (?:([\w ]+): )?([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    front = re.sub(r"\s+", " ", (site / "index.html").read_text())
    assert len(named) > 20
    for title, page in named[1:]:
        heading = re.search(r"^# (.*)$", (ROOT / page).read_text(), re.M)
        address = re.sub(r"README\.html$", "index.html", page.replace(".md", ".html"))
        shown = re.search(rf'<a href="{address}" class="md-nav__link.*?<span[^>]*> (.*?) </', front)
        assert heading and shown, page
        assert html.unescape(shown[1]) == (title or heading[1].replace("`", "")), page
    for page in pages:
        text = page.read_text()
        assert not re.search(r"<(?:script|img|iframe|link)[^>]*(?:src|href)=.?(?:https?:)?//", text)
