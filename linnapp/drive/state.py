# SPDX-License-Identifier: MIT
"""What linnapp remembers between runs: the model before the last upload, counters last seen.

Kept per drive in a directory: ``LINNAPP_STATE`` if set, ``/var/lib/linnapp`` for root, and
``~/.local/state/linnapp`` (or ``XDG_STATE_HOME``) otherwise.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from linnapp.errors import LinnappError
from linnapp.files import explain_os_error, replace_text, replaced_file


def state_directory() -> Path:
    """Where state is kept; it need not exist yet."""
    if "LINNAPP_STATE" in os.environ:
        return Path(os.environ["LINNAPP_STATE"])
    if os.geteuid() == 0:
        return Path("/var/lib/linnapp")
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "linnapp"


def drive_directory(drive: str) -> Path:
    """The directory of one drive's state, made if needed.

    Raises
    ------
    LinnappError
        If it cannot be made.
    """
    directory = state_directory() / drive
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explain_os_error(error, directory) from error
    return directory


def save_previous_model(drive: str, data: bytes) -> None:
    """Remember the model that an upload is about to replace."""
    with replaced_file(drive_directory(drive) / "previous.linnos") as stream:
        stream.write(data)


def previous_model(drive: str) -> Path:
    """The model before the last upload.

    Raises
    ------
    LinnappError
        If there is none.
    """
    path = state_directory() / drive / "previous.linnos"
    if not path.exists():
        raise LinnappError(f"{drive}: no model before the active one is known ({path} is missing)")
    return path


def load_json(drive: str, name: str) -> dict[str, Any]:
    """A remembered object, empty when there is none or it is unreadable."""
    with contextlib.suppress(OSError, ValueError):
        loaded = json.loads((state_directory() / drive / f"{name}.json").read_text())
        if isinstance(loaded, dict):
            return loaded
    return {}


def save_json(drive: str, name: str, content: dict[str, Any]) -> None:
    """Remember an object; it replaces the old one at once or not at all."""
    replace_text(drive_directory(drive) / f"{name}.json", json.dumps(content, indent=1) + "\n")
