# SPDX-License-Identifier: MIT
"""Interrupt a command that records while it starts its program."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Sequence
from types import ModuleType

import pytest


def programs_started_by(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, then: Callable[[], None] = lambda: None
) -> list[subprocess.Popen[bytes]]:
    """Return the programs that a module starts, in order.

    Parameters
    ----------
    module : module
        Has `started` of linnapp.drive.recording.
    monkeypatch : pytest.MonkeyPatch
    then : callable
        Called when a program runs that the module does not know yet.
    """
    programs: list[subprocess.Popen[bytes]] = []
    start = module.started

    def started(command: Sequence[str]) -> subprocess.Popen[bytes]:
        programs.append(start(command))
        then()
        return programs[-1]

    monkeypatch.setattr(module, "started", started)
    return programs


def interrupted_as_it_starts(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> list[subprocess.Popen[bytes]]:
    """Do the same, with a ctrl-C at that moment."""
    return programs_started_by(module, monkeypatch, lambda: signal.raise_signal(signal.SIGINT))
