# SPDX-License-Identifier: MIT
"""docs/build_site.py builds a site in which every link works; `make lint` runs it on all pages."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "build" / "venv-docs" / "bin" / "python"


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
    for name in ("build_site.py", "site.css", "site_hooks.py"):
        shutil.copy(ROOT / "docs" / name, tmp_path / "docs")
    settings = (ROOT / "docs" / "mkdocs.yml").read_text()
    (tmp_path / "docs" / "mkdocs.yml").write_text(settings[: settings.index("\nnav:\n") + 1])
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    ran = subprocess.run(
        [PYTHON, tmp_path / "docs" / "build_site.py"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1 and link in ran.stderr


def test_marked_classifies_numbers_and_words_in_tables() -> None:
    found = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "site_hooks.py")
    assert found and found.loader
    hooks = importlib.util.module_from_spec(found)
    found.loader.exec_module(hooks)
    marked = hooks.marked(
        "<table><thead><tr><th>who</th><th>mean</th><th>rule</th><th>why it is so</th></tr></thead>"
        "<tr><td>MSR 105</td><td><strong>40</strong> / 174</td><td><code>c3</code> -4.6</td>"
        "<td>6 drives are told of it, one by one</td></tr>"
        "<tr><td>2</td><td>&lt; 3 us</td><td>home</td><td></td></tr></table>"
    )
    assert re.findall(r"<(t[hd])(?: class=\"(.*?)\")?>", marked) == [
        ("th", "k"), ("th", "n"), ("th", ""), ("th", ""),
        ("td", "s k"), ("td", "n s"), ("td", "s"), ("td", ""),
        ("td", "s k"), ("td", "n s"), ("td", "s"), ("td", "s"),
    ]  # fmt: skip
    begins = "# A `b`\n\n```sh\nls\n```\n\nOf *all* [pages](p.md),\n`this`.\n\nNo."
    assert hooks.description(begins) == "Of all pages, this."
    assert hooks.description("# Words\n\n| word | what |\n|---|---|\n") == "Words"
