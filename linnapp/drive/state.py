# SPDX-License-Identifier: MIT
"""State that linnapp keeps between runs: the previous model and the last counters.

It is kept per drive in a directory: ``LINNAPP_STATE`` if set, ``/var/lib/linnapp`` for root, and
``~/.local/state/linnapp`` (or ``XDG_STATE_HOME``) otherwise.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from linnapp.errors import LinnappError
from linnapp.files import os_errors, replace_text, replaced_file

_OF_ROOT = Path("/var/lib/linnapp")


def state_directory() -> Path:
    """Return the directory of the state, which may not exist yet."""
    if "LINNAPP_STATE" in os.environ:
        return Path(os.environ["LINNAPP_STATE"])
    if os.geteuid() == 0:
        return _OF_ROOT
    if base := os.environ.get("XDG_STATE_HOME"):
        return Path(base) / "linnapp"
    try:
        return Path.home() / ".local" / "state" / "linnapp"
    except RuntimeError as error:
        raise LinnappError(
            "this user has no home directory to remember things in; set LINNAPP_STATE to a "
            "directory, or HOME"
        ) from error


def drive_directory(drive: str) -> Path:
    """Return the directory of one drive's state, and create it if needed."""
    directory = state_directory() / drive
    with os_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
    return directory


def save_previous_model(drive: str, data: bytes) -> None:
    """Save the model that an upload is about to replace."""
    with replaced_file(drive_directory(drive) / "previous.linnos") as stream:
        stream.write(data)


def previous_model(drive: str) -> Path:
    """Return the path of the model before the last upload."""
    path = state_directory() / drive / "previous.linnos"
    if not path.exists():
        raise LinnappError(f"{drive}: no model before the active one is known ({path} is missing)")
    return path


def save_upload(drive: str, model_id: str) -> None:
    """Save the time at which a drive was given a model."""
    save_json(drive, "upload", {"model_id": model_id, "time": time.time()})


def uploaded_at(drive: str, model_id: str) -> float | None:
    """Return the time at which a drive was given its active model, in seconds since 1970.

    Only root uploads, but any user may call this, so root's state is also read. None if the model
    was not uploaded by `linnapp`, or if the time could not be saved.
    """
    for directory in _directories():
        upload = _load(directory / drive / "upload.json")
        when = upload.get("time")
        if upload.get("model_id") == model_id and isinstance(when, int | float):
            return float(when)
    return None


def load_shared(name: str) -> dict[str, Any]:
    """Return the state that all drives share: this user's file, or else root's."""
    found = (_load(directory / name) for directory in _directories())
    return next((content for content in found if content), {})


def _directories() -> list[Path]:
    """Return this user's state directory and root's."""
    directories = [] if "LINNAPP_STATE" in os.environ else [_OF_ROOT]
    with contextlib.suppress(LinnappError):
        directories.insert(0, state_directory())
    return directories


def load_json(drive: str, name: str) -> dict[str, Any]:
    """Return a saved object; empty if there is none or it is unreadable."""
    with contextlib.suppress(LinnappError):
        return _load(state_directory() / drive / f"{name}.json")
    return {}


def save_json(drive: str, name: str, content: dict[str, Any]) -> None:
    """Save an object; it replaces the old one atomically."""
    replace_text(drive_directory(drive) / f"{name}.json", json.dumps(content, indent=1) + "\n")


def _load(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        loaded = json.loads(path.read_text())
        if isinstance(loaded, dict):
            return loaded
    return {}
