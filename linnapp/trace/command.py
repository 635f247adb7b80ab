# SPDX-License-Identifier: MIT
"""Run a command while something is recorded: check it, start it, return its exit status."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from linnapp.errors import LinnappError


def check_command(command: Sequence[str]) -> None:
    """Check that a command exists and is executable. Raise LinnappError if not."""
    try:
        found = shutil.which(command[0])
    except ValueError as error:  # A NUL character in the name.
        raise LinnappError(f"{command[0]!r}: {error}") from error
    if found is None:
        raise LinnappError(f"{command[0]}: no such command, or not executable")


def started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command. Call this within :func:`linnapp.signals.signals_held` to avoid an orphan."""
    try:
        return subprocess.Popen(list(command))
    except OSError as error:
        raise LinnappError(f"{command[0]}: {error.strerror}") from error


def exit_status(returncode: int) -> int:
    """Return the exit status as a shell does: 128 plus the signal number after a signal."""
    return returncode if returncode >= 0 else 128 - returncode
