# SPDX-License-Identifier: MIT
"""The command that runs while something is recorded: whether it is there, its start, its end."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from linnapp.errors import LinnappError


def check_command(command: Sequence[str]) -> None:
    """Find out whether a command is there to be run."""
    try:
        found = shutil.which(command[0])
    except ValueError as error:  # a NUL in it
        raise LinnappError(f"{command[0]!r}: {error}") from error
    if found is None:
        raise LinnappError(f"{command[0]}: no such command, or not executable")


def started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start it; within :func:`linnapp.signals.signals_held`, so that it is not left behind."""
    try:
        return subprocess.Popen(list(command))
    except OSError as error:
        raise LinnappError(f"{command[0]}: {error.strerror}") from error


def exit_status(returncode: int) -> int:
    """As a shell has it, of what :mod:`subprocess` says: 128 and more of what a signal ended."""
    return returncode if returncode >= 0 else 128 - returncode
