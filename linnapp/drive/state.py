# SPDX-License-Identifier: MIT
"""The files that linnapp keeps between runs, and their lock.

They are in one directory: ``LINNAPP_STATE`` if set, or ``/var/lib/linnapp``. It has a folder for
each drive (its previous model) and ``enable``, with a folder of recordings and models for each
array.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from linnapp.errors import LinnappError
from linnapp.files import AnyPath, locked_folder, os_errors, replace_text, replaced_file


def state_directory() -> Path:
    """Return the directory of the state, which may not exist yet."""
    return Path(os.environ.get("LINNAPP_STATE", "/var/lib/linnapp"))


# -- JSON files --


def read_json(path: AnyPath) -> dict[str, Any]:
    """Return the object in a file; empty if there is none or it is damaged."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        loaded = json.loads(Path(path).read_text())
        if isinstance(loaded, dict):
            return loaded
    return {}


def write_json(path: AnyPath, content: dict[str, Any]) -> None:
    """Write an object; it replaces the old file atomically."""
    replace_text(path, json.dumps(content, indent=1) + "\n")


# -- a drive's uploads --


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
    content = {"model_id": model_id, "time": time.time()}
    write_json(drive_directory(drive) / "upload.json", content)


def uploaded_at(drive: str, model_id: str) -> float | None:
    """Return the time at which a drive was given its active model, in seconds since 1970.

    None if the model was not uploaded by `linnapp`, or if the time could not be saved.
    """
    upload = read_json(state_directory() / drive / "upload.json")
    when = upload.get("time")
    if upload.get("model_id") == model_id and isinstance(when, int | float):
        return float(when)
    return None


# -- the folders of `linnapp enable` --


def models_root() -> Path:
    """Return the folder of models and recordings, which has a folder for each array."""
    return state_directory().absolute() / "enable"


def alone() -> contextlib.AbstractContextManager[None]:
    """Lock out other processes that enable, disable, run a trial or record again."""
    return locked_folder(
        models_root(),
        "another linnapp enable, disable, trial or recalibrate is running; wait until it ends",
    )


def remove_models(folder: AnyPath, in_use: Collection[AnyPath]) -> None:
    """Remove an array's folder except models in use, as its name may have been another array's."""
    folders_in_use = {Path(model).parent for model in in_use}
    with contextlib.suppress(OSError):
        for path in Path(folder).iterdir():
            if path not in folders_in_use:
                shutil.rmtree(path, ignore_errors=True)
        Path(folder).rmdir()


def remove_unused() -> None:
    """Remove the folder of all models, and of all state, if it is empty."""
    root = models_root()
    with contextlib.suppress(OSError):
        if [path.name for path in root.iterdir()] == [".lock"]:
            (root / ".lock").unlink()
            root.rmdir()
            root.parent.rmdir()
