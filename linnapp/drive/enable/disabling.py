# SPDX-License-Identifier: MIT
"""Undo `linnapp enable`: switch off, and remove its models and the entries that name them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from linnapp.drive import state
from linnapp.drive.drives_conf import DEFAULT_CONF, DrivesConf, load_conf, save_conf
from linnapp.drive.enable.checks import find_target, name_to_keep
from linnapp.drive.enable.places import (
    alone,
    home_of,
    remove_models,
    remove_unused,
    root_of_all,
)
from linnapp.drive.enable.restore_unit import disable_unit
from linnapp.drive.journal import Log
from linnapp.drive.keep import switched_back
from linnapp.drive.md import MdArray
from linnapp.drive.sysfs import Drive, disk_name, observer_of
from linnapp.drive.trial.state import put_back_left
from linnapp.errors import DeviceError, LinnappError
from linnapp.files import AnyPath
from linnapp.model.model_file import model_from_bytes
from linnapp.signals import signals_held


def disable(
    devices: list[str], *, conf_path: AnyPath = DEFAULT_CONF, log: Log = print
) -> list[str]:
    """Undo :func:`~.enabling.enable`: switch off, remove models and their entries.

    `devices` are an md array, or drives; without any, all of drives.conf is disabled. A patched
    kernel keeps a drive's model, with mode off, until it is rebooted. Return the errors of those
    that could not be switched off, usually missing drives; their files are removed nevertheless.
    """
    with alone():
        put_back_left(log)
        conf = load_conf(conf_path) or DrivesConf()
        drives, arrays, homes = _disabled(devices, conf)
        if not drives and not arrays:
            log(f"nothing is enabled: {conf_path} has no drive")
        failures = []
        with signals_held():
            for name in sorted(arrays):
                failures += _tried(name, _array_off, log, "linnos off")
            for name in sorted(drives):
                failures += _tried(name, _drive_off, log, "off")
            left = conf.without(drives, arrays)
            if left != conf:
                save_conf(conf_path, left)
            switched_back.forget(drives | arrays)
            for home in homes:
                remove_models(home, left)
        if left.is_empty:
            disable_unit(Path(conf_path), log)
        remove_unused()
    return failures


def _disabled(devices: list[str], conf: DrivesConf) -> tuple[set[str], set[str], list[Path]]:
    """Return the selected drives and arrays of drives.conf, and the folders of their models."""
    if not devices:
        drives, arrays = set(conf.drives), set(conf.arrays)
        # Also the models that were replaced by others.
        homes = [path for path in root_of_all().iterdir() if path.is_dir()]
    else:
        target = find_target(devices)
        drives = {name_to_keep(name) for name in target.drives}
        arrays = set() if target.array_id is None else {target.array_id}
        drives |= {name for name, entry in conf.drives.items() if entry.array in arrays}
        homes = [home_of(target)]
    for name in drives:
        array = conf.drives[name].array if name in conf.drives else None
        if array is not None and array not in arrays:
            raise DeviceError(f"{name} is in {array}: linnapp disable {array}")
    root = root_of_all()
    for name in drives & conf.drives.keys():
        model = conf.drives[name].model
        if model is not None and root in model.parents:
            homes.append(root / model.relative_to(root).parts[0])
    return drives, arrays, list(dict.fromkeys(homes))


def _tried(name: str, act: Callable[[str], None], log: Log, done: str) -> list[str]:
    try:
        act(name)
    except LinnappError as error:
        return [f"{name}: {error}"]
    log(f"{name}: {done}")
    return []


def _array_off(name: str) -> None:
    array = MdArray(name)
    if array.asks:
        array.set_asks(False)


def _drive_off(name: str) -> None:
    if observer_of(disk_name(name)) in ("none", "unnamed"):
        return
    drive = Drive(name)
    _forget_upload(drive)
    switch_off(drive, forget=True)


def _forget_upload(drive: Drive) -> None:
    """Remove the state of our upload; that of another model, from before it, is kept."""
    directory = state.state_directory() / drive.name
    previous = directory / "previous.linnos"
    with contextlib.suppress(OSError):
        (directory / "upload.json").unlink(missing_ok=True)
        with contextlib.suppress(LinnappError):
            if (
                previous.exists()
                and model_from_bytes(previous.read_bytes(), str(previous)).model_id
                == drive.model_id
            ):
                previous.unlink()
        directory.rmdir()


def switch_off(drive: Drive, *, forget: bool) -> None:
    """Switch a drive off; if `forget`, the module stops observing it."""
    drive.set_mode("off")
    if forget:
        drive.forget()
