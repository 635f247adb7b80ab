# SPDX-License-Identifier: MIT
"""docs/build_site.py builds a site of all pages with working links and no external resources."""

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
SITE = ROOT / "build" / "site"


def laid_out(clone: Path) -> Path:
    """Return the pages of a clone, laid out for mkdocs."""
    (clone / "docs").mkdir(exist_ok=True)
    for name in ("build_site.py", "site.css"):
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
@pytest.mark.parametrize("link", ["gone.md", "gone.c", "README.md#gone"])
def test_build_site_fails_when_a_link_is_dead(tmp_path: Path, link: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(f"# Top\n\n[dead]({link})\n")
    for name in ("build_site.py", "site.css"):
        shutil.copy(ROOT / "docs" / name, tmp_path / "docs")
    settings = (ROOT / "docs" / "mkdocs.yml").read_text()
    (tmp_path / "docs" / "mkdocs.yml").write_text(settings[: settings.index("\nnav:\n") + 1])
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    ran = subprocess.run(
        [PYTHON, tmp_path / "docs" / "build_site.py"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1 and link in ran.stderr


@pytest.fixture(scope="module")
def pages() -> list[Path]:
    """Build the site without a warning; return all pages."""
    if not PYTHON.exists():
        pytest.skip("`make docs` has not been run here")
    ran = subprocess.run(
        [PYTHON, ROOT / "docs" / "build_site.py"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0 and "WARNING" not in ran.stderr, ran.stdout + ran.stderr
    built = sorted(SITE.rglob("*.html"))
    assert len(built) > 20
    return built


def test_the_site_names_all_pages_and_loads_nothing_from_elsewhere(pages: list[Path]) -> None:
    # Each page of mkdocs.yml is in the navigation of every page, by its own name.
    named = re.findall(
        r"- (?:([\w ]+): )?([\w./-]+\.md)$", (ROOT / "docs/mkdocs.yml").read_text(), re.M
    )
    front = re.sub(r"\s+", " ", (SITE / "index.html").read_text())
    assert len(named) > 20
    for title, page in named[1:]:
        heading = re.search(r"^# (.*)$", (ROOT / page).read_text(), re.M)
        address = re.sub(r"README\.html$", "index.html", page.replace(".md", ".html"))
        shown = re.search(rf'<a href="{address}" class="md-nav__link.*?<span[^>]*> (.*?) </', front)
        assert heading and shown, page
        assert html.unescape(shown[1]) == (title or heading[1].replace("`", "")), page
    for page in (page for page in pages if "report" not in page.name):
        text = page.read_text()
        assert not re.search(r"<(?:script|img|iframe|link)[^>]*(?:src|href)=.?(?:https?:)?//", text)


def test_diagrams_equal_those_that_the_script_draws(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    script = shutil.copy(ROOT / "docs" / "draw_diagrams.py", tmp_path / "docs")
    subprocess.run([sys.executable, script], check=True)
    drawn = {path.name: path.read_bytes() for path in (tmp_path / "docs/diagrams").iterdir()}
    committed = {path.name: path.read_bytes() for path in (ROOT / "docs/diagrams").iterdir()}
    assert len(drawn) == 4 and drawn == committed, "run docs/draw_diagrams.py"
