# SPDX-License-Identifier: MIT
"""Find the target of `linnapp enable` and check that it can be enabled; errors give the reason."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from linnapp.drive import state
from linnapp.drive.drives_conf import DrivesConf
from linnapp.drive.md import MdArray, cannot_ask, is_md
from linnapp.drive.stable_ids import name_to_keep
from linnapp.drive.sysfs import (
    Drive,
    disk_name,
    explain_no_node,
    explain_no_queue,
    has_module,
    is_virtual_disk,
    node_of,
    nvme_paths,
    read_text,
    sysfs_root,
)
from linnapp.errors import DeviceError

#: Levels whose members hold the same data.
_MIRRORED = ("raid1", "raid10")

#: States of members from which md does not read: they are incomplete or to be read last.
_NOT_READ = frozenset({"faulty", "spare", "write_mostly"})

#: A recording is written and then merged. 10,000 I/Os a second for 15 minutes take 3 GB, and twice
#: as much during the merge; most loads need a hundredth of that.
LEAST_FREE_BYTES = 256 << 20


@dataclasses.dataclass(frozen=True)
class Target:
    """Drives that hold the same data, or the mirrors of an md array that it reads from."""

    #: Current names of the disks.
    drives: tuple[str, ...]
    #: The md array.
    md: MdArray | None = None

    @property
    def array(self) -> str | None:
        """Current name of the md array."""
        return None if self.md is None else self.md.name

    @property
    def folder(self) -> Path:
        """Folder of its recordings and models."""
        return state.models_root() / (self.array or "+".join(self.drives))

    @property
    def title(self) -> str:
        """Name in messages."""
        return self.array or ", ".join(self.drives)

    @property
    def arguments(self) -> str:
        """Its devices as on a command line."""
        return " ".join(
            f"/dev/{name}" for name in (self.drives if not self.array else [self.array])
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all devices that `linnapp enable` writes to drives.conf."""
        return self.drives if self.array is None else (*self.drives, self.array)

    @property
    def nodes(self) -> list[Path]:
        """The paths of the drives' nodes."""
        return [node_of(name) for name in self.drives]


def find_target(devices: Sequence[str]) -> Target:
    """Return the target for one md array or for drives, which must exist and be named once."""
    arrays = [device for device in devices if is_md(device)]
    if not arrays:
        names = [disk_name(device) for device in devices]
        for number, (device, name) in enumerate(zip(devices, names, strict=True)):
            if name in names[:number]:
                raise DeviceError(f"{device}: {name} is named twice; name each drive once")
        return Target(tuple(names))
    if len(devices) > 1:
        raise DeviceError(f"{arrays[0]} is an md array: name one array, or drives without one")
    array = MdArray(arrays[0])
    read = [mirror.disk for mirror in array.mirrors if not mirror.states & _NOT_READ]
    return Target(tuple(dict.fromkeys(read)), array)


def check(target: Target, conf: DrivesConf) -> list[Drive]:
    """Check that the target can be enabled, without changes; return its drives.

    `conf` is the current state: the drives that it contains may be on. Others that are on were
    switched on by other means, and their state could not be restored.
    """
    if os.geteuid() != 0:
        raise DeviceError("recording and switching on need root; run this command with sudo")
    check_replicas(target)
    array = target.md
    if array is not None and array.asks is None:
        raise DeviceError(cannot_ask(array.name))
    drives = [Drive(name, is_added=True) for name in target.drives]
    for drive in drives:
        if drive.observer == "none" and not has_module():
            drive.check_observed()
        mode = drive.mode if drive.is_observed else "off"
        if mode != "off" and name_to_keep(drive.name) not in conf.drives:
            raise DeviceError(
                f"{drive.name} is already in mode {mode}, which drives.conf does not contain; to "
                f"switch it off: linnapp disable {target.arguments}"
            )
    if array is not None and array.asks and name_to_keep(array.name) not in conf.arrays:
        raise DeviceError(
            f"{array.name} already queries LinnOS, which drives.conf does not contain; to switch "
            f"it off: linnapp disable /dev/{array.name}"
        )
    directory = _existing_state_directory()
    if not os.access(directory, os.W_OK):
        raise DeviceError(
            f"{directory}: not writable; name another place for recordings and models with "
            "LINNAPP_STATE"
        )
    check_space()
    return drives


def check_replicas(target: Target) -> None:
    """Raise an error if the target's reads cannot be recorded, or there is no choice of drives."""
    if target.md is not None:
        _check_mirrors(target.md)
    for name in target.drives:
        _check_disk(name)
    if len(target.drives) < 2:
        raise DeviceError(
            f"{target.title}: a single drive to read from; at least two drives with the same data "
            "are needed to choose one"
        )


def _check_disk(name: str) -> None:
    disk = sysfs_root() / "block" / name
    if array := _array_below(name):
        raise DeviceError(f"{name} is a volume on {array}: name /dev/{array}")
    if why := explain_no_queue(name) or explain_no_node(name):
        raise DeviceError(why)
    if is_virtual_disk(name) or not ((disk / "mq").is_dir() or nvme_paths(name)):
        raise DeviceError(f"{name} is not a drive that serves requests itself; name drives")
    if read_text(disk / "queue" / "rotational") == "1":
        raise DeviceError(
            f"{name} reports that it rotates, and the models are for flash; if it is an SSD behind "
            f"a controller, echo 0 >{disk}/queue/rotational"
        )


def _array_below(name: str) -> str | None:
    """Return the md array below a volume, possibly with other volumes in between."""
    for part in sorted((sysfs_root() / "block" / name / "slaves").glob("*")):
        below = disk_name(part.name)
        if found := below if is_md(below) else _array_below(below):
            return found
    return None


def check_array(array: MdArray) -> None:
    """Raise an error if an array cannot choose mirrors, or would not show its usual load."""
    _check_mirrors(array)
    if array.asks is None:
        raise DeviceError(cannot_ask(array.name))


def _check_mirrors(array: MdArray) -> None:
    """Raise an error if an array has no mirrors to choose, or would not show its usual load."""
    # The container of arrays with external metadata has no level.
    metadata, level, name = array.metadata, array.level, array.name
    if metadata.startswith("external"):
        raise DeviceError(
            f"{name} has external metadata ({metadata}), of the controller's firmware, with which "
            "LinnOS has not been tested; create the array with md's own (mdadm --metadata=1.2)"
        )
    if not level:
        raise DeviceError(
            f"{name} is not running; some of its drives may be missing; assemble it first (mdadm "
            "--detail)"
        )
    if level not in _MIRRORED:
        raise DeviceError(
            f"{name} is {level}: only {' and '.join(_MIRRORED)} have another copy to read from"
        )
    if array.n_mirrors < 2:
        raise DeviceError(
            f"{name} has one mirror, so there is no other to read from; add one: mdadm --grow "
            f"/dev/{name} --raid-devices=2 --add DEVICE"
        )
    if array.n_missing:
        raise DeviceError(
            f"{name} is degraded, {array.n_missing} of {array.n_mirrors} mirrors are missing, so "
            "that a recording would not show its usual load; repair it first (mdadm --detail)"
        )
    if (action := array.sync_action) != "idle":
        raise DeviceError(
            f"{name} is busy ({action}), so that a recording would not show its usual load; mdadm "
            f"--wait /dev/{name}"
        )
    disks = [mirror.disk for mirror in array.mirrors if not mirror.states & {"faulty", "spare"}]
    for disk in disks:
        if disks.count(disk) > 1:
            raise DeviceError(
                f"{name}: two of its mirrors are on the same drive, {disk}; move one to another "
                "drive (mdadm --replace)"
            )
        if (sysfs_root() / "block" / disk / "dm").is_dir():
            raise DeviceError(
                f"{name}: its mirror {disk} is a device-mapper volume (dm-crypt, LVM), and only "
                "mirrors on drives can be recorded and observed; create the array on the drives, "
                "and put the volume, such as encryption, on the array"
            )


def check_space() -> None:
    """Check that there is enough disk space for a recording."""
    directory = _existing_state_directory()
    free = shutil.disk_usage(directory).free
    if free < LEAST_FREE_BYTES:
        raise DeviceError(
            f"{directory}: {free >> 20} MiB are free, and the recording may need "
            f"{LEAST_FREE_BYTES >> 20}; make room, or name another place with LINNAPP_STATE"
        )


def _existing_state_directory() -> Path:
    directory = state.state_directory().absolute()
    return next(path for path in (directory, *directory.parents) if path.exists())
