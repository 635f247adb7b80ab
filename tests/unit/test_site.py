# SPDX-License-Identifier: MIT
"""docs/build_site.py builds a site of all pages with working links and no external resources.

If chromium is installed, a test opens every page at the width of a phone and searches.
"""

from __future__ import annotations

import html
import http.server
import importlib.util
import itertools
import json
import queue
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "build" / "venv-docs" / "bin" / "python"
CHROMIUM = shutil.which("chromium")
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
    for name in ("build_site.py", "site.css", "site_hooks.py"):
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


#: Shows one page after the other in a frame, since no window of chromium is as narrow as a phone.
LOOK = """<!DOCTYPE html><link rel="icon" href="data:,"><body><script>
const frame = document.createElement("iframe");
frame.style = "width: 390px; height: 844px";
document.body.append(frame);
const inside = () => frame.contentWindow.document;
const show = page => new Promise(done => { frame.onload = done; frame.src = page; });
const pause = () => new Promise(done => setTimeout(done, 100));
(async () => {
  const seen = {};
  for (const page of PAGES) {
    await show(page);
    seen[page] = {
      width: inside().documentElement.scrollWidth,
      title: inside().title,
      described: inside().querySelector("meta[name=description]")?.content ?? "",
      headings: [...inside().querySelectorAll(":is(h1, h2, h3, h4, h5)")].map(h => +h.tagName[1]),
    };
  }
  await show("index.html");
  const asked = inside().querySelector(".md-search__input");
  asked.focus();
  asked.value = "inflection point";
  let found = [];
  for (let k = 0; k < 300 && !found.length; k++) {
    asked.dispatchEvent(new Event("keyup"));
    await pause();
    found = [...inside().querySelectorAll(".md-search-result__item a")].map(a => a.pathname);
  }
  await fetch("/seen", {method: "POST", body: JSON.stringify({seen, found})});
})();
</script>"""


@pytest.fixture
def looked_at(pages: list[Path], tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Return chromium's view of each page, search results, refused requests and its console."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (packaging/apt/chromium.txt)")
    names = json.dumps([str(page.relative_to(SITE)) for page in pages])
    answers: queue.Queue[dict[str, Any]] = queue.Queue()
    refused: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, directory=str(SITE), **kwargs)

        def do_GET(self) -> None:
            if self.path != "/look":
                super().do_GET()
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(LOOK.replace("PAGES", names).encode())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()
            answers.put(json.loads(body))

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def log_error(self, format: str, *args: Any) -> None:
            refused.append(f"{self.path}: {format % args}")

    said = tmp_path / "said"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, said.open("w") as to:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = subprocess.Popen(
            [
                CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
                "--no-first-run", "--disable-background-networking", "--disable-component-update",
                "--disable-sync", f"--user-data-dir={tmp_path}/profile", "--enable-logging=stderr",
                f"http://127.0.0.1:{server.server_port}/look",
            ],
            stdout=subprocess.DEVNULL, stderr=to,
        )  # fmt: skip
        try:
            answer = answers.get(timeout=600)
        finally:
            browser.terminate()
            browser.wait(timeout=60)
            server.shutdown()
    console = [line for line in said.read_text().splitlines() if "CONSOLE" in line]
    yield {**answer, "refused": refused, "console": console}


@pytest.mark.long
def test_a_browser_shows_every_page_on_a_phone_and_finds(looked_at: dict[str, Any]) -> None:
    assert not looked_at["refused"] and not looked_at["console"]
    assert "/docs/glossary.html" in looked_at["found"]
    for name, page in looked_at["seen"].items():
        assert page["width"] <= 390, name
        headings = page["headings"]
        assert page["title"] and headings[0] == 1 and headings.count(1) == 1, name
        steps = itertools.pairwise(headings)
        assert all(below <= above + 1 for above, below in steps), name
        assert page["described"] or name == "404.html", name
