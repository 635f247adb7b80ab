# SPDX-License-Identifier: MIT
"""What may be written to a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` with ? for what is none: a file's name may hold anything, also what moves a cursor."""
    return "".join(c if c.isprintable() else "?" for c in text)
