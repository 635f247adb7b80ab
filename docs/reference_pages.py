# SPDX-License-Identifier: MIT
"""Turn manual pages, C headers and Rust sources into Markdown for the site (docs/build_site.py).

Only the markup that these files use is known. Anything else is an error, so that no text is lost.
"""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Iterator

_ESCAPES = {
    r"\-": "-", r"\&": "", r"\ ": " ", r"\(bu": "•", r"\e": "\\", r"\(aq": "'", r"\(dq": '"',
    r"\~": " ", r"\|": "", r"\^": "", r"\.": ".", r"\(em": "—", r"\(en": "–", r"\(->": "→",
    r"\(lq": "“", r"\(rq": "”",
}  # fmt: skip
_FONTS = {"B": "b", "I": "i", "R": ""}


class _Manual:
    """Reads the requests of one manual page and writes HTML, of which Markdown takes no notice."""

    def __init__(self, pages: set[str]) -> None:
        self.pages = pages
        self.parts: list[str] = []
        self.paragraph: list[str] = []
        self.title = ""
        self.is_literal = self.has_tag = False
        #: The end of the list that is open: of definitions, or of points.
        self.list_end = ""

    def inline(self, text: str, font: str = "R") -> str:
        """Return text with its fonts and special characters as HTML."""
        out, open_tag = "", ""
        for piece in re.split(r"(\\f[BIRP]|\\\(..|\\.)", text):
            if re.fullmatch(r"\\f[BIRP]", piece):
                font = "R" if piece[2] == "P" else piece[2]
                continue
            if piece.startswith("\\"):
                if piece not in _ESCAPES:
                    raise ValueError(f"{self.title}: {piece} in {text!r}")
                piece = _ESCAPES[piece]
            tag = _FONTS[font]
            if piece and tag != open_tag:
                out += (f"</{open_tag}>" if open_tag else "") + (f"<{tag}>" if tag else "")
                open_tag = tag
            out += html.escape(piece, quote=False)
        return out + (f"</{open_tag}>" if open_tag else "")

    def fonts(self, fonts: str, rest: str) -> str:
        """Return the arguments of a request such as .BR, in alternating fonts."""
        words = _arguments(rest)
        if len(fonts) == 1:
            return self.inline(" ".join(words), fonts)
        if fonts == "BR" and len(words) > 1 and (number := re.match(r"\((\d)\)", words[1])):
            page = f"{words[0].replace(chr(92) + '-', '-')}.{number[1]}"
            if page in self.pages:
                after = "".join(self.inline(word) for word in words[2:])
                rest_of = self.inline(words[1][len(number[0]) :])
                shown = f"<b>{self.inline(words[0])}</b>({number[1]})"
                return f'<a href="{page}.html">{shown}</a>{rest_of}{after}'
        return "".join(self.inline(word, fonts[i % 2]) for i, word in enumerate(words))

    def end_paragraph(self) -> None:
        if self.paragraph:
            tag = "pre" if self.is_literal else "p"
            glue = "\n" if self.is_literal else " "
            self.parts.append(f"<{tag}>{glue.join(self.paragraph)}</{tag}>")
        self.paragraph = []

    def end_list(self) -> None:
        self.end_paragraph()
        self.parts += [self.list_end] * bool(self.list_end)
        self.list_end = ""

    def item(self, tag: str) -> None:
        """Begin an item of a list of definitions, or of a list of points."""
        end = "</li></ul>" if tag == "•" else "</dd></dl>"
        if self.list_end == end:
            self.end_paragraph()
            self.parts.append(end[:5])
        else:
            self.end_list()
            self.parts.append("<ul>" if tag == "•" else "<dl>")
        self.parts.append("<li>" if tag == "•" else f"<dt>{tag}</dt><dd>")
        self.list_end = end

    def line(self, line: str) -> None:
        """Take one line of the page."""
        if line.startswith('.\\"') or line.strip() == ".":
            return
        request, _, rest = line[1:].partition(" ") if line.startswith(".") else ("", "", line)
        if request in ("B", "I", "BR", "RB", "BI", "IB", "IR", "RI"):
            text = self.fonts(request, rest)
        elif not request:
            text = self.inline(rest)
        else:
            self.request(request, rest)
            return
        if self.has_tag:
            self.has_tag = False
            self.item(text)
        else:
            self.paragraph.append(text)

    def request(self, request: str, rest: str) -> None:
        """Obey a request that is not about fonts."""
        words = _arguments(rest)
        if request == "TH":
            self.title = f"{self.inline(words[0]).lower()}({words[1]})"
        elif request in ("SH", "SS"):
            self.end_list()
            heading = self.inline(" ".join(words))
            # Markdown makes anchors of these, and the search knows them.
            heading = heading.capitalize() if request == "SH" else heading
            self.parts.append(f"\n{'##' if request == 'SH' else '###'} {heading}\n")
        elif request in ("PP", "LP"):
            self.end_paragraph() if self.is_literal else self.end_list()
        elif request == "TP":
            self.has_tag = True
        elif request == "IP":
            self.item(self.inline(words[0]) if words else "")
        elif request in ("nf", "EX"):
            self.end_paragraph()
            self.is_literal = True
        elif request in ("fi", "EE"):
            self.end_paragraph()
            self.is_literal = False
        elif request in ("br", "sp"):
            self.paragraph.append("" if self.is_literal else "<br>")
        elif request not in ("RS", "RE"):
            raise ValueError(f"{self.title}: unknown request .{request}")


def _arguments(text: str) -> list[str]:
    """Split the arguments of a request; a quoted argument can have spaces."""
    lexer = shlex.shlex(text, posix=False, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters, lexer.quotes = True, "", '"'
    return [
        word[1:-1] if word[:1] == '"' == word[-1:] and len(word) > 1 else word for word in lexer
    ]


def manual_page(text: str, pages: set[str]) -> str:
    """Return a manual page as Markdown; the names of other pages in `pages` become links."""
    manual = _Manual(pages)
    for line in text.splitlines():
        manual.line(line)
    manual.end_list()
    return f"# {manual.title}\n\n" + "\n".join(manual.parts) + "\n"


#: A comment in the style of the kernel, and the declaration that follows it.
_DOCUMENTED = re.compile(r"/\*\*\n(.*?) ?\*/\n(.*?)(?=\n\n|\n/\*|\Z)", re.S)
_REFERENCE = re.compile(r"(?<![\w`])(?:[%&@](\w+(?:\.\w+)*)|(\w+\(\)))")


def _prose(text: str) -> str:
    """Return the text of a comment as Markdown, with names in the font of code."""
    lines = [re.sub(r"^ \* ?", "", line).replace("\t", "    ") for line in text.splitlines()]
    paragraphs = "\n".join(lines).split("\n\n")
    shown = []
    for paragraph in paragraphs:
        if paragraph.startswith("    "):  # a drawing
            shown.append(f"```text\n{paragraph}\n```")
        else:
            paragraph = re.sub(r"\s*\n\s*", " ", paragraph.strip())
            shown.append(_REFERENCE.sub(lambda found: f"`{found[1] or found[2]}`", paragraph))
    return "\n\n".join(shown)


def c_header(text: str, name: str) -> str:
    """Return the documentation of a C header as Markdown."""
    parts = [f"# {name}"]
    for found in _DOCUMENTED.finditer(text):
        comment, code = found[1], found[2]
        head, _, rest = comment.partition("\n")
        head = head.removeprefix(" * ")
        if head.startswith("DOC: "):
            parts += [head.removeprefix("DOC: ").capitalize() + ".", _prose(rest)]
            continue
        title, _, brief = head.partition(" - ")
        rest = re.sub(r"^ \*\n", "\n", rest, flags=re.M)
        members, _, after = rest.partition("\n\n")
        if not members.startswith(" * @"):
            members, after = "", rest
        parts += [
            f"## `{title.strip()}`",
            f"{brief[:1].upper()}{brief[1:]}.",
            f"```c\n{code.strip()}\n```",
        ]
        items = re.findall(r"^ \* @([\w.]+): (.*?)(?=^ \* @|\Z)", members, re.M | re.S)
        parts.append("\n".join(f"- `{member}`: {_prose(said)}" for member, said in items))
        parts.append(_prose(after.replace("\n\n", "\n *\n").strip("\n")).replace(" * ", ""))
    return "\n\n".join(part for part in parts if part.strip()) + "\n"


def _documented_items(text: str) -> Iterator[tuple[str, str]]:
    """Yield each public item of a Rust source with its comment."""
    comment: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        stripped = line.strip()
        if stripped.startswith("///"):
            comment.append(stripped[3:].removeprefix(" "))
        elif stripped.startswith("pub ") and comment:
            while not re.search(r"[{;,]$|where$", stripped):
                stripped += " " + next(lines).strip()
            yield re.sub(r"\s*(\{|;|,|where)$", "", stripped), " ".join(comment)
            comment = []
        elif not stripped.startswith("#["):
            comment = []


def rust_source(text: str, name: str) -> str:
    """Return the documentation of the public items of a Rust source as Markdown."""
    about = "\n".join(re.findall(r"^//! ?(.*)$", text, re.M))
    # Lines that begin with # are compiled, and not shown.
    about = re.sub(r"^# .*\n", "", about.replace("```no_run", "```rust"), flags=re.M)
    parts = [f"# {name}", about]
    for item, comment in _documented_items(text):
        words = re.sub(r"\[(`[^`]+`)\](\([^)]*\))?", r"\1", comment)
        if re.match(r"pub (struct|enum|trait)", item):
            parts += [f"## `{item.removeprefix('pub ')}`", words]
        elif "fn " in item:
            called = re.search(r"fn (\w+)", item)
            assert called is not None
            parts += [f"### `{called[1]}`", f"```rust\n{item}\n```", words]
        else:
            parts.append(f"- `{item.removeprefix('pub ')}`: {words}")
    return "\n\n".join(parts) + "\n"
