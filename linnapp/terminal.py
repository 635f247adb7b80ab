# SPDX-License-Identifier: MIT
"""Print safely to a terminal."""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    """Replace control characters by ?, because file names can contain escape sequences."""
    return "".join(c if c.isprintable() else "?" for c in text)


class StatusLine:
    """Log lines on stderr and, on a terminal, a status line below them that is overwritten."""

    def __init__(self) -> None:
        self.is_live = sys.stderr.isatty()

    def log(self, line: str) -> None:
        """Print a line that is not overwritten."""
        self.show("")
        print(line, file=sys.stderr, flush=True)

    def show(self, line: str) -> None:
        """Replace the status line."""
        if self.is_live:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
