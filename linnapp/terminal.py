# SPDX-License-Identifier: MIT
"""What may be written to a terminal."""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    """`text` with ? for what is none: a file's name may hold anything, also what moves a cursor."""
    return "".join(c if c.isprintable() else "?" for c in text)


class StatusLine:
    """On stderr, lines that stay; on a terminal, one below them that is written again and again."""

    def __init__(self) -> None:
        self.is_live = sys.stderr.isatty()

    def log(self, line: str) -> None:
        """A line that stays."""
        self.show("")
        print(line, file=sys.stderr, flush=True)

    def show(self, line: str) -> None:
        """A line until the next one."""
        if self.is_live:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
