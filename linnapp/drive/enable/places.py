# SPDX-License-Identifier: MIT
"""The folders for recordings and models of `linnapp enable`, one per array, and their lock."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from linnapp.drive import state
from linnapp.drive.drives_conf import DrivesConf
from linnapp.drive.enable.checks import Target
from linnapp.files import AnyPath, locked_folder


def root_of_all() -> Path:
    """Return the folder of models and recordings, which has a folder for each array."""
    return state.state_directory().absolute() / "enable"


def home_of(target: Target) -> Path:
    """Return an array's folder."""
    return root_of_all() / target.key


def alone() -> contextlib.AbstractContextManager[None]:
    """Lock out other processes that enable, disable, run a trial or record again."""
    return locked_folder(
        root_of_all(),
        "another linnapp enable, disable, trial or recalibrate is at work; wait for its end",
    )


def remove_models(home: AnyPath, conf: DrivesConf) -> None:
    """Remove an array's folder except models in use, as its name may have been another array's."""
    in_use = {entry.model.parent for entry in conf.drives.values() if entry.model is not None}
    with contextlib.suppress(OSError):
        for path in Path(home).iterdir():
            if path not in in_use:
                shutil.rmtree(path, ignore_errors=True)
        Path(home).rmdir()


def remove_unused() -> None:
    """Remove the folder of all models, and of all state, if it is empty."""
    root = root_of_all()
    with contextlib.suppress(OSError):
        if [path.name for path in root.iterdir()] == [".lock"]:
            (root / ".lock").unlink()
            root.rmdir()
            root.parent.rmdir()
