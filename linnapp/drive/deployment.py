# SPDX-License-Identifier: MIT
"""Give drives models and modes, and arrays their setting: upload, apply, undo, restore.

drives.conf is the journal of every change: its entries are written before the drives change. If a
command is killed, drives.conf therefore describes the intended state. `linnapp restore` completes
the change, at the next boot or when it is run, and `linnapp disable` undoes it. Only differences
are written to the kernel, so all of this can be repeated at any time.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from linnapp.arguments import check_choice
from linnapp.drive import md, state, switches
from linnapp.drive.checks import find_target
from linnapp.drive.drives_conf import (
    DEFAULT_CONF,
    ArrayEntry,
    DriveEntry,
    DrivesConf,
    load_conf,
    load_filled_conf,
    save_conf,
)
from linnapp.drive.journal import Log, errors_logged
from linnapp.drive.md import MdArray
from linnapp.drive.stable_ids import Identity, find_device, identity_of, name_to_keep
from linnapp.drive.sysfs import MODES, Drive, observed
from linnapp.drive.units import disable_unit
from linnapp.errors import DeviceError, LinnappError
from linnapp.files import AnyPath
from linnapp.model import SUFFIX, LatencyModel, Model, load_model
from linnapp.signals import signals_held

#: Interval between checks for a drive that is not there yet.
_POLL_S = 0.2


# -- one drive --


def upload(
    model: Model | LatencyModel,
    device: AnyPath,
    *,
    mode: str | None = None,
    warn: Callable[[str], None] = warnings.warn,
) -> Drive:
    """Upload a model atomically, check that the kernel has it, then set the mode.

    Parameters
    ----------
    model : Model or LatencyModel
        Or a fitted predictor, see :mod:`linnapp.learn.fit`.
    device : path
        ``/dev/nvme0n1``, the disk's bare name, or a partition, which stands for its disk.
    mode : {"off", "observe", "enforce"}, optional
        Does not change unless given.
    warn : callable
        Called when the previous model cannot be kept for ``linnapp upload --previous``.

    Raises
    ------
    DeviceError
        If there is no such disk, its kernel lacks LinnOS, or it cannot be written.
    ModelError
        If the kernel does not support or refuses the model; the old one is then still active.
    ValueError
        If the mode is unknown.
    """
    if mode is not None:
        check_choice("mode", mode, MODES)
    model = getattr(model, "model_", model)
    drive = Drive(os.fspath(device))
    replace_model(drive, model, warn)
    if mode is not None:
        drive.set(mode)
    return drive


def replace_model(
    drive: Drive, model: Model | LatencyModel, warn: Callable[[str], None], *, keep: bool = True
) -> None:
    """Upload a model and keep the previous one; raises the errors of :func:`upload`.

    `warn` is called when the previous model cannot be kept. Unless `keep`, it is dropped.
    """
    active = drive.read_model()
    drive.upload(model)
    md.restart_guards(drive.name)
    if keep and active is not None and active != model.to_bytes():
        try:
            state.save_previous_model(drive.name, active)
        except LinnappError as error:
            warn(f"`linnapp upload --previous` will not work: {error}")
    # If the time cannot be saved, the model's age is shown as unknown.
    with contextlib.suppress(LinnappError):
        state.save_upload(drive.name, model.model_id)


def _set_drive(drive: Drive, entry: DriveEntry) -> None:
    """Give a drive its model and mode."""
    if entry.model is not None:
        model = load_model(entry.model)
        if drive.model_id != model.model_id:
            drive.upload(model)
    drive.set(entry.mode)


# -- apply and undo --


@contextlib.contextmanager
def recorded(conf_path: AnyPath, change: DrivesConf) -> Iterator[DrivesConf]:
    """Write entries to drives.conf before the block changes drives; undo that if the block fails.

    Yield the content before. Signals are delayed until the end of the block.
    """
    with signals_held():
        before = load_conf(conf_path)
        after = before.updated(change)
        if after != before:
            save_conf(conf_path, after)
        try:
            yield before
        except BaseException:
            if after != before:
                save_conf(conf_path, before)
            raise


def deploy(
    drives: Sequence[Drive],
    array: MdArray | None,
    models: Mapping[str, Model | LatencyModel],
    folder: Path,
    conf_path: AnyPath,
    log: Log,
) -> DrivesConf:
    """Let drives with the same data observe, and their array query them; return drives.conf.

    `models` are in `folder`, by the names of the drives. If a step fails, all are undone.
    """
    by_name = {name_to_keep(drive.name): drive for drive in drives}
    keep = None if array is None else name_to_keep(array.name)
    change = DrivesConf(
        {
            name: DriveEntry(
                "observe", folder / f"{drive.name}{SUFFIX}", keep, identity_of(drive.name)
            )
            for name, drive in by_name.items()
        },
        {} if array is None or keep is None else {keep: ArrayEntry(True, identity_of(array.name))},
    )
    with recorded(conf_path, change) as before, contextlib.ExitStack() as undo:
        for name, drive in by_name.items():
            old = before.drives.get(name, DriveEntry("off"))
            undo.callback(_undo_drive, drive, old, log, forget=not drive.is_observed)
            drive.observe()
            # The previous model is only kept if `linnapp enable` did not make it.
            replace_model(drive, models[drive.name], log, keep=name not in before.drives)
            drive.set("observe")
            log(f"{drive.name}: model {drive.model_id}, mode observe")
        if array is not None:
            undo.callback(_undo_array, array, array.value, log)
            array.set_asks(True)
            log(f"{array.name}: reads from the mirror that is predicted to answer first")
        switches.forget_resets([*change.drives, *change.arrays])
        undo.pop_all()
    log(f"written to {conf_path}")
    return before.updated(change)


def _undo_drive(drive: Drive, entry: DriveEntry, log: Log, *, forget: bool) -> None:
    """Restore a drive's previous settings; if `forget`, the module stops observing it."""
    with errors_logged(log):
        if drive.is_observed:
            _set_drive(drive, entry)
            if forget:
                drive.forget()


def _undo_array(array: MdArray, value: str, log: Log) -> None:
    with errors_logged(log):
        array.set(value)


def disable(
    devices: list[str], *, conf_path: AnyPath = DEFAULT_CONF, log: Log = print
) -> list[str]:
    """Undo :func:`~.enabling.enable`: switch off, remove models and their entries.

    `devices` are an md array, or drives; without any, all of drives.conf is disabled. A patched
    kernel keeps a drive's model, with mode off, until it is rebooted. Return the errors of those
    that could not be switched off, usually missing drives; their files are removed nevertheless.
    """
    with state.alone():
        conf = load_conf(conf_path)
        drives, arrays, folders = _find_disabled(devices, conf)
        if not drives and not arrays:
            log(f"nothing is enabled: {conf_path} has no drive")
        failures = []
        with signals_held():
            for name in sorted(arrays) + sorted(drives):
                try:
                    if name in drives:
                        _drive_off(name)
                    elif (array := MdArray(name)).asks:
                        array.set_asks(False)
                    log(f"{name}: {'off' if name in drives else 'linnos off'}")
                except LinnappError as error:
                    failures.append(f"{name}: {error}")
            left = conf.without(drives | arrays)
            if left != conf:
                save_conf(conf_path, left)
            switches.forget_resets(drives | arrays)
            for folder in folders:
                state.remove_models(folder, left.models)
        if left.is_empty:
            disable_unit(Path(conf_path), log)
        state.remove_unused()
    return failures


def _find_disabled(devices: list[str], conf: DrivesConf) -> tuple[set[str], set[str], list[Path]]:
    """Return the names of the drives and arrays to switch off, and the folders of their models."""
    root = state.models_root()
    if not devices:
        # Models that were replaced by others are also in these folders.
        return set(conf.drives), set(conf.arrays), [p for p in root.iterdir() if p.is_dir()]
    target = find_target(devices)
    drives = {name_to_keep(name) for name in target.drives}
    arrays = {name_to_keep(target.array)} if target.array else set()
    drives |= {name for name, entry in conf.drives.items() if entry.array in arrays}
    folders = [target.folder]
    for name in drives & conf.drives.keys():
        entry = conf.drives[name]
        if entry.array is not None and entry.array not in arrays:
            raise DeviceError(f"{name} is in {entry.array}: linnapp disable {entry.array}")
        if entry.model is not None and root in entry.model.parents:
            folders.append(root / entry.model.relative_to(root).parts[0])
    return drives, arrays, list(dict.fromkeys(folders))


def _drive_off(name: str) -> None:
    """Switch a drive off, and remove what linnapp saved about the upload of its active model.

    If a different model was active before, it stays saved as the previous one.
    """
    drive = Drive(name, is_added=True)
    if not drive.is_observed:
        return
    directory = state.state_directory() / drive.name
    previous = directory / "previous.linnos"
    with contextlib.suppress(OSError):
        (directory / "upload.json").unlink(missing_ok=True)
        with contextlib.suppress(LinnappError):
            if previous.exists() and load_model(previous).model_id == drive.model_id:
                previous.unlink()
        directory.rmdir()
    drive.set("off")
    drive.forget()


# -- restore --


def restore(
    conf_path: AnyPath, *, wait_s: float = 0.0, log: Log = print, warn: Log = print
) -> list[str]:
    """Apply drives.conf to all its drives and arrays, each independently, and return the errors.

    In total, wait up to `wait_s` for drives that do not exist yet. The mode of a drive that failed
    does not change. If devices have other names now, drives.conf gets these.
    """
    conf = load_filled_conf(conf_path)
    deadline = time.monotonic() + wait_s
    failures, renamed = [], {}
    entries: dict[str, DriveEntry | ArrayEntry] = {**conf.drives, **conf.arrays}
    for name, entry in entries.items():
        try:
            device = _wait_for(name, entry.identity, deadline)
            if isinstance(entry, ArrayEntry):
                array = MdArray(device)
                array.set_asks(entry.asks)
                current, setting = array.name, f"linnos {'on' if entry.asks else 'off'}"
            else:
                drive = observed(device)
                _set_drive(drive, entry)
                current = drive.name
                setting = f"model {drive.model_id or 'none'}, mode {drive.mode}"
            if device != name:
                renamed[name] = name_to_keep(current)
                log(f"{name} is {device} now, according to the values that it reports")
            log(f"{current}: {setting} ({name})")
        except LinnappError as error:
            message = str(error)
            failures.append(message if message.startswith(name) else f"{name}: {message}")
    if renamed:
        try:
            with state.alone():
                save_conf(conf_path, load_filled_conf(conf_path).renamed(renamed))
            log(f"{conf_path}: has the new names")
        except (LinnappError, ValueError) as error:
            warn(f"{conf_path} keeps the old names: {error}")
    return failures


def _wait_for(name: str, identity: Identity, deadline: float) -> str:
    """Wait for the device that drives.conf calls `name`, and return its current name."""
    while True:
        try:
            return find_device(name, identity)
        except DeviceError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_POLL_S)
