# SPDX-License-Identifier: MIT
"""Give drives the models and modes of drives.conf, for example after a reboot.

Only differences are written, so this can be repeated at any time.
"""

from __future__ import annotations

import time

from linnapp.drive.drives_conf import DriveEntry, DrivesConf
from linnapp.drive.enable.checks import name_to_keep
from linnapp.drive.journal import Log
from linnapp.drive.md import MdArray
from linnapp.drive.stable_ids import Identity, find_device
from linnapp.drive.sysfs import Drive, observed
from linnapp.errors import DeviceError, LinnappError
from linnapp.model import load_model

#: interval between checks for a drive that is not there yet
_LOOK_S = 0.2


def restore(
    conf: DrivesConf,
    *,
    wait_s: float = 0.0,
    log: Log = print,
    renamed: dict[str, str] | None = None,
) -> list[str]:
    """Apply the settings of the file to all its drives and arrays, each independently.

    In total, wait up to `wait_s` for drives that do not exist yet. Return an error with the name
    and the reason for each failure. The mode of a drive that failed does not change. `renamed`
    receives the names in drives.conf of devices that now have another name, with the new names.
    """
    deadline = time.monotonic() + wait_s
    failures = []
    renamed = {} if renamed is None else renamed
    for name, entry in conf.drives.items():
        try:
            device = _found(name, entry.identity, deadline)
            drive = restore_drive(device, entry)
            if device != name:
                renamed[name] = name_to_keep(drive.name)
                log(f"{name} is {device} now, by what it says of itself")
            log(f"{drive.name}: model {drive.model_id or 'none'}, mode {drive.mode} ({name})")
        except LinnappError as error:
            failures.append(_with_name(name, error))
    for name, asks in conf.arrays.items():
        try:
            device = _found(name, conf.array_identities.get(name, {}), deadline)
            array = MdArray(device)
            if device != name:
                renamed[name] = name_to_keep(array.name)
                log(f"{name} is {device} now, by its UUID")
            array.set_asks(asks)
            log(f"{array.name}: linnos {'on' if asks else 'off'} ({name})")
        except LinnappError as error:
            failures.append(_with_name(name, error))
    return failures


def _with_name(name: str, error: LinnappError) -> str:
    """Return the message, prefixed with the name in drives.conf unless it begins with that."""
    return str(error) if str(error).startswith(name) else f"{name}: {error}"


def restore_drive(name: str, entry: DriveEntry) -> Drive:
    """Give a drive its model and mode."""
    drive = observed(name)
    if entry.model is not None:
        model = load_model(entry.model)
        if drive.model_id != model.model_id:
            drive.upload(model)
    if drive.mode != entry.mode:
        drive.set_mode(entry.mode)
    return drive


def _found(name: str, known: Identity, deadline: float) -> str:
    """Wait for the device that drives.conf names `name`, and return its current name."""
    while True:
        try:
            return find_device(name, known)
        except DeviceError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_LOOK_S)
