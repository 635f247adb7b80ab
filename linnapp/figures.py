# SPDX-License-Identifier: MIT
"""Save figures, and check before a recording that this will be possible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from linnapp.errors import LinnappError, needs
from linnapp.files import AnyPath, replaced_file

SUFFIXES = (".png", ".svg")


def check_can_draw(path: AnyPath) -> None:
    """Raise an error if a figure cannot be drawn, before anything is recorded for it."""
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise LinnappError(f"{path}: the name of a picture must end in {' or '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise LinnappError(f"{path.parent}: no such folder for {path.name}")
    with needs("figures need matplotlib", "'linnapp[figures]'"):
        import matplotlib  # noqa: F401


def save(figure: Any, path: AnyPath) -> None:
    """Write a figure atomically; the suffix determines its format."""
    with replaced_file(path) as stream:
        figure.savefig(stream, dpi=120, format=Path(path).suffix[1:])
