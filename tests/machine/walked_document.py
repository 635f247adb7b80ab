# SPDX-License-Identifier: MIT
"""The command lines of a document, as a reader would type them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple


class Command(NamedTuple):
    """One command of a document, of several lines if the shell needs them.

    Attributes
    ----------
    section : str
        The heading that it is under.
    text : str
        The command without its indentation.
    """

    section: str
    text: str


def commands(document: Path) -> list[Command]:
    """Return all commands of a document's indented blocks and sh fences, in order.

    A bash fence has commands that are not run, such as an overview of those of several systems.
    """
    found = []
    section, pending, fence = "", "", ""
    for line in document.read_text().splitlines():
        if line.startswith("```"):
            assert not pending.strip(), f"{document}: a block ends within a command: {pending}"
            fence = "" if fence else line
            continue
        if not fence and (heading := re.match(r"#+ (.*)", line)):
            section = heading[1]
        if fence == "```sh" or (not fence and line.startswith("    ")):
            pending += (line if fence else line[4:]).rstrip() + "\n"
            if pending.strip() and _is_whole(pending):
                found.append(Command(section, pending.strip()))
                pending = ""
        elif line.strip():
            assert not pending.strip(), f"{document}: a block ends within a command: {pending}"
    assert not pending.strip(), f"{document}: it ends within a command: {pending}"
    return found


def _is_whole(text: str) -> bool:
    """Return true if the shell would run the text, and not wait for more."""
    if text.rstrip().endswith("\\"):
        return False
    return not subprocess.run(["bash", "-n", "-c", text], capture_output=True).returncode
