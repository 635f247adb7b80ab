# SPDX-License-Identifier: MIT
"""The command that runs while something is recorded: whether it is there, its start, its end."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence

from linnapp.errors import LinnappError


def check_command(command: Sequence[str]) -> None:
    """Find out whether a command is there to be run.

    Raises
    ------
    LinnappError
        If it is not.
    """
    try:
        found = shutil.which(command[0])
    except ValueError as error:  # a NUL in it
        raise LinnappError(f"{command[0]!r}: {error}") from error
    if found is None:
        raise LinnappError(f"{command[0]}: no such command, or not executable")


def started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start it; within :func:`signals_held`, so that it is not left behind.

    Raises
    ------
    LinnappError
        If it cannot be run.
    """
    try:
        return subprocess.Popen(list(command))
    except OSError as error:
        raise LinnappError(f"{command[0]}: {error.strerror}") from error


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Have what ends this program come afterwards, so that a child is known before it is left."""
    held: list[int] = []
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    before = {number: signal.getsignal(number) for number in numbers}
    # Those that are ignored, or that end the program without its doing, stay as they are; only
    # the first thread may change any.
    if threading.current_thread() is not threading.main_thread():
        before.clear()
    taken = [number for number, handler in before.items() if callable(handler)]
    for number in taken:
        signal.signal(number, lambda number, _: held.append(number))
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])
        for told in held:
            signal.raise_signal(told)


def exit_status(returncode: int) -> int:
    """As a shell has it, of what :mod:`subprocess` says: 128 and more of what a signal ended."""
    return returncode if returncode >= 0 else 128 - returncode
