# SPDX-License-Identifier: MIT
"""What a failed step of an experiment says."""

from __future__ import annotations

from pathlib import Path


class StepError(RuntimeError):
    """A step of an experiment failed; the message says where its output is."""


def tail(log: Path) -> str:
    """The end of a log file, and where the rest of it is."""
    text = log.read_text(errors="replace").replace("\r", "\n").splitlines()
    return "\n".join([*text[-20:], f"(all of it: {log})"])
