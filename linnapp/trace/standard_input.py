# SPDX-License-Identifier: MIT
"""Standard input as a trace.

Readers seek and read twice, so standard input is copied once to a temporary file without a name,
which exists until this process ends.
"""

from __future__ import annotations

import functools
import shutil
import sys
import tempfile
from pathlib import Path
from typing import IO

from linnapp.files import os_errors


@functools.cache
def _copy() -> IO[bytes]:
    with os_errors(tempfile.gettempdir()):
        target = tempfile.TemporaryFile(prefix="linnapp-")  # noqa: SIM115
        shutil.copyfileobj(sys.stdin.buffer, target, 1 << 20)
        target.flush()
    return target


def copied() -> Path:
    """Return the name of a file with the content of standard input."""
    return Path(f"/proc/self/fd/{_copy().fileno()}")


def named(message: str) -> str:
    """Return a message with "standard input" in place of the name of the temporary file."""
    if not _copy.cache_info().currsize:
        return message
    return message.replace(str(copied()), "standard input")
