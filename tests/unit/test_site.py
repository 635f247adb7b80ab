# SPDX-License-Identifier: MIT
"""docs/build_site.py builds a site of all pages with working links and no external resources.

If chromium is installed, a test opens every page at the widths of a phone and of a desktop, in
light and dark colours, and searches.
"""

from __future__ import annotations

import http.server
import importlib
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
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "build" / "venv-docs" / "bin" / "python"
CHROMIUM = shutil.which("chromium")
SITE = ROOT / "build" / "site"


def make_clone(clone: Path) -> None:
    """Copy the scripts of the site into a new repository."""
    (clone / "docs").mkdir(exist_ok=True)
    for name in ("build_site.py", "reference_pages.py", "site.css", "site_hooks.py"):
        shutil.copy(ROOT / "docs" / name, clone / "docs")
    subprocess.run(["git", "init", "-q", clone], check=True)


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
    make_clone(tmp_path)
    script = "import build_site; build_site.lay_out()"
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path / "docs", check=True)
    pages = tmp_path / "build" / "site-pages"
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
    make_clone(tmp_path)
    (tmp_path / "README.md").write_text(f"# Top\n\n[dead]({link})\n")
    settings = (ROOT / "docs" / "mkdocs.yml").read_text()
    (tmp_path / "docs" / "mkdocs.yml").write_text(settings[: settings.index("\nnav:\n") + 1])
    result = subprocess.run(
        [PYTHON, tmp_path / "docs" / "build_site.py"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1 and link in result.stderr


@pytest.fixture(scope="module")
def pages() -> list[Path]:
    """Build the site without a warning; return all pages."""
    if not PYTHON.exists():
        pytest.skip("`make docs` has not been run here")
    result = subprocess.run(
        [PYTHON, ROOT / "docs" / "build_site.py"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0 and "WARNING" not in result.stderr, result.stdout + result.stderr
    built = sorted(SITE.rglob("*.html"))
    assert len(built) > 20
    return built


def test_diagrams_equal_those_that_the_script_draws(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    script = shutil.copy(ROOT / "docs" / "draw_diagrams.py", tmp_path / "docs")
    subprocess.run([sys.executable, script], check=True)
    drawn = {path.name: path.read_bytes() for path in (tmp_path / "docs/diagrams").iterdir()}
    committed = {path.name: path.read_bytes() for path in (ROOT / "docs/diagrams").iterdir()}
    assert len(drawn) == 4 and drawn == committed, "run docs/draw_diagrams.py"


def test_table_cells_are_classified_as_numbers_or_words() -> None:
    found = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "site_hooks.py")
    assert found and found.loader
    hooks = importlib.util.module_from_spec(found)
    found.loader.exec_module(hooks)
    marked = hooks.marked(
        "<table><thead><tr><th>who</th><th>mean</th><th>rule</th><th>why it is so</th></tr></thead>"
        "<tr><td>MSR 105</td><td><strong>40</strong> / 174</td><td><code>c3</code> -4.6</td>"
        "<td>6 drives hear of it, one by one</td></tr>"
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


#: Widths of the pages in CSS pixels.
WIDTHS = (375, 1280)

#: Shows one page after the other in a frame, because no window of chromium is as narrow as a phone.
#: Each page is loaded again for each width, because its layout is made when it is loaded.
LOOK = """<!DOCTYPE html><link rel="icon" href="data:,"><body><script>
const frame = document.createElement("iframe");
document.body.append(frame);
const inside = () => frame.contentWindow.document;
const show = page => new Promise(done => { frame.onload = done; frame.src = page; });
const pause = () => new Promise(done => setTimeout(done, 100));
(async () => {
  const seen = [], links = {};
  for (const width of WIDTHS) {
    frame.style = `border: 0; width: ${width}px; height: 844px`;
    for (const page of PAGES) {
      await show(page);
      const images = [...inside().images];
      images.forEach(image => image.loading = "eager");
      await Promise.all(images.map(image => image.decode().catch(() => {})));
      for (const link of inside().links)
        if (link.origin == location.origin) links[link.pathname] = page;
      const look = inside().defaultView.getComputedStyle(inside().body);
      seen.push({
        page, width,
        needed: inside().documentElement.scrollWidth,
        missing: images.filter(image => !image.naturalWidth).map(image => image.src),
        colours: [look.backgroundColor, look.color],
        title: inside().title,
        described: inside().querySelector("meta[name=description]")?.content ?? "",
        headings: [...inside().querySelectorAll(":is(h1, h2, h3, h4, h5)")].map(h => +h.tagName[1]),
      });
    }
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
  await fetch("/seen", {method: "POST", body: JSON.stringify({seen, links, found})});
})();
</script>"""


@pytest.fixture(params=["light", "dark"])
def browser_report(
    pages: list[Path], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[dict[str, Any]]:
    """Return chromium's view of each page, search results, refused requests and its console."""
    scheme = {"dark": 0, "light": 1}[request.param]
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
            page = LOOK.replace("PAGES", names).replace("of WIDTHS", f"of {list(WIDTHS)}")
            self.wfile.write(page.encode())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()
            answers.put(json.loads(body))

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def log_error(self, format: str, *args: Any) -> None:
            refused.append(f"{self.path}: {format % args}")

    report_path = tmp_path / "said"
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server,
        report_path.open("w") as to,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = subprocess.Popen(
            [
                CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
                "--no-first-run", "--disable-background-networking", "--disable-component-update",
                "--disable-sync", f"--blink-settings=preferredColorScheme={scheme}",
                f"--user-data-dir={tmp_path}/profile", "--enable-logging=stderr",
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
    console = [line for line in report_path.read_text().splitlines() if "CONSOLE" in line]
    yield {**answer, "refused": refused, "console": console, "scheme": request.param}


def brightness(colour: str) -> float:
    """Return the mean of red, green and blue of a computed colour, 0 to 1."""
    numbers = [float(number) for number in re.findall(r"[\d.]+", colour)[:3]]
    return sum(numbers) / 3 / 255


@pytest.mark.nightly
def test_a_browser_shows_every_page_on_a_phone_and_a_desktop_and_finds(
    browser_report: dict[str, Any],
) -> None:
    assert not browser_report["refused"] and not browser_report["console"]
    assert "/docs/glossary.html" in browser_report["found"]
    dead = {
        link: page
        for link, page in browser_report["links"].items()
        if not (SITE / unquote(link).lstrip("/")).exists()
    }
    assert not dead
    for view in browser_report["seen"]:
        name = f"{view['page']} at {view['width']} px"
        assert view["needed"] <= view["width"], name
        assert not view["missing"], name
        background, text = map(brightness, view["colours"])
        assert (background < 0.3 < 0.5 < text) == (browser_report["scheme"] == "dark"), name
        assert (text < 0.3 < 0.9 < background) == (browser_report["scheme"] == "light"), name
        headings = view["headings"]
        assert view["title"] and headings[0] == 1 and headings.count(1) == 1, name
        steps = itertools.pairwise(headings)
        assert all(below <= above + 1 for above, below in steps), name
        assert view["described"] or view["page"] == "404.html", name
    for page in (page for page in SITE.rglob("*.html") if "report" not in page.name):
        text = page.read_text()
        assert not re.search(r"<(?:script|img|iframe|link)[^>]*(?:src|href)=.?(?:https?:)?//", text)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (".SH NAME\nx \\- y & z\n", "\n## Name\n\n<p>x - y &amp; z</p>"),
        (".TP\n.BI \\-o \" FILE\"\nWrite.\n",
         "<dl>\n<dt><b>-o</b><i> FILE</i></dt><dd>\n<p>Write.</p>\n</dd></dl>"),
        (".nf\na\n  b\n.fi\n", "<pre>a\n  b</pre>"),
        (".BR other (3),\n", '<p><a href="other.3.html"><b>other</b>(3)</a>,</p>'),
        (".IP \\(bu 2\none\n.IP \\(bu 2\ntwo\n",
         "<ul>\n<li>\n<p>one</p>\n</li>\n<li>\n<p>two</p>\n</li></ul>"),
        ("a \\fIb\\fR c\n", "<p>a <i>b</i> c</p>"),
    ],
)  # fmt: skip
def test_manual_pages_become_markdown(
    monkeypatch: pytest.MonkeyPatch, source: str, expected: str
) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    pages = importlib.import_module("reference_pages")
    head = ".TH PAGE 1\n"
    assert pages.manual_page(head + source, {"other.3"}) == f"# page(1)\n\n{expected}\n"
    for unknown in (".XY a\n", "\\(xx\n"):
        with pytest.raises(ValueError, match="XY|xx"):
            pages.manual_page(head + unknown, set())


def test_comments_of_headers_and_rust_become_markdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    pages = importlib.import_module("reference_pages")
    header = (
        "/**\n * DOC: name, what it is\n *\n * About\n * all.\n */\n\n"
        "/**\n * f() - do it\n * @a: first,\n *\tas for g()\n *\n * Return: -%E2BIG.\n */\n"
        "int f(int a);\n"
    )
    assert pages.c_header(header, "h") == (
        "# h\n\nName, what it is.\n\nAbout all.\n\n"
        "## `f()`\n\nDo it.\n\n```c\nint f(int a);\n```\n\n"
        "- `a`: first, as for `g()`\n\nReturn: -`E2BIG`.\n"
    )
    rust = (
        "//! About.\n\n"
        "/// How it [`reads`](x).\npub struct Options {\n    /// Us.\n    pub us: u32,\n}\n"
        "impl A {\n    /// Reads.\n    pub fn read(\n        &self) -> u32 {\n"
    )
    assert pages.rust_source(rust, "r") == (
        "# r\n\nAbout.\n\n## `struct Options`\n\nHow it `reads`.\n\n- `us: u32`: Us.\n\n"
        "### `read`\n\n```rust\npub fn read( &self) -> u32\n```\n\nReads.\n"
    )
