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
from linnapp.drive.stable_ids import stable_id
from linnapp.drive.sysfs import (
    Drive,
    disk_name,
    has_module,
    has_no_node,
    has_no_queue,
    is_made_up,
    node_of,
    nvme_paths,
    observer_of,
    sysfs_root,
)
from linnapp.errors import DeviceError

#: Levels whose members hold the same data.
_MIRRORED = ("raid1", "raid10")

#: md does not read from such a member: it is incomplete, or to be read last.
_NOT_READ = frozenset({"faulty", "spare", "write_mostly"})

#: A recording is written and then merged. 10,000 I/Os a second for 15 minutes take 3 GB, and twice
#: as much during the merge; most loads need a hundredth of that.
LEAST_FREE_BYTES = 256 << 20


@dataclasses.dataclass(frozen=True)
class Target:
    """Drives that hold the same data, or the mirrors of an md array that it reads from."""

    #: Current names of the disks.
    drives: tuple[str, ...]
    #: Current name of the md array.
    array: str | None = None

    @property
    def key(self) -> str:
        """Name of its files."""
        return self.array or "+".join(self.drives)

    @property
    def shown(self) -> str:
        """Name in messages."""
        return self.array or ", ".join(self.drives)

    @property
    def words(self) -> str:
        """Its devices as on a command line."""
        names = self.drives if self.array is None else (self.array,)
        return " ".join(f"/dev/{name}" for name in names)

    @property
    def named(self) -> tuple[str, ...]:
        """All names that drives.conf gets."""
        return self.drives if self.array is None else (*self.drives, self.array)

    @property
    def array_id(self) -> str | None:
        """The array's stable name."""
        return None if self.array is None else name_to_keep(self.array)


def name_to_keep(name: str) -> str:
    """Return the name of a disk or array in drives.conf: its stable id, or else its node."""
    return stable_id(name) or str(node_of(name))


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
    return Target(tuple(dict.fromkeys(read)), array.name)


def check(target: Target, conf: DrivesConf) -> None:
    """Check that the target can be enabled, without changes; raise an error if it cannot.

    `conf` is the current state: the drives that it contains may be on.
    """
    if os.geteuid() != 0:
        raise DeviceError("recording and switching on need root; run this command with sudo")
    for name in target.drives:
        _check_disk(name)
    if target.array is not None:
        check_array(MdArray(target.array))
    if len(target.drives) < 2:
        raise DeviceError(
            f"{target.shown}: a single drive to read from; there must be two with the same data "
            "for one of them to be chosen"
        )
    for name in target.drives:
        _check_observable(name)
    _check_unused(target, conf)
    check_state()
    check_space()


def _check_disk(name: str) -> None:
    disk = sysfs_root() / "block" / name
    if why := (nvme_paths(name) and has_no_queue(name)) or has_no_node(name):
        raise DeviceError(why)
    if (disk / "dm").is_dir():
        array = _array_below(name)
        instead = "put md on the drives and the volume on md"
        if array:
            instead = f"it lies on {array}: name /dev/{array}"
        raise DeviceError(
            f"{name} is a device-mapper volume (dm-crypt, LVM), which has no queue of its own to "
            f"predict; {instead}"
        )
    if (disk / "md").is_dir():
        raise DeviceError(f"{name} is an md array inside of the other; enable the inner one")
    if is_made_up(name):
        raise DeviceError(f"{name} is no drive but a disk of memory or of a file; name drives")
    if not (disk / "mq").is_dir():
        raise DeviceError(f"{name} passes its I/Os on and serves no requests; name what is below")
    try:
        rotates = (disk / "queue" / "rotational").read_text().strip() == "1"
    except OSError as error:
        raise DeviceError(f"{disk}/queue/rotational: {error.strerror}") from error
    if rotates:
        raise DeviceError(
            f"{name} says that it rotates: the models are of flash; if it is an SSD behind a "
            f"controller, echo 0 >{disk}/queue/rotational"
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
    # The container of such arrays has no level.
    if array.metadata.startswith("external"):
        raise DeviceError(
            f"{array.name} has its metadata outside ({array.metadata}), of the controller's "
            "firmware; only arrays with md's own have been tried"
        )
    if not array.level:
        raise DeviceError(
            f"{array.name} does not run: some of its drives are missing, perhaps; assemble it "
            "first (mdadm --detail)"
        )
    if array.level not in _MIRRORED:
        raise DeviceError(
            f"{array.name} is {array.level}: only {' and '.join(_MIRRORED)} have another copy to "
            "read from"
        )
    if array.n_mirrors < 2:
        raise DeviceError(f"{array.name} has one mirror: there is no other to read from")
    if array.n_missing:
        raise DeviceError(
            f"{array.name} is degraded, {array.n_missing} of {array.n_mirrors} mirrors are "
            "missing: recorded now, its load would not be the usual one; repair it first (mdadm "
            "--detail)"
        )
    if array.sync_action != "idle":
        raise DeviceError(
            f"{array.name} is busy ({array.sync_action}): recorded now, its load would not be the "
            f"usual one; mdadm --wait /dev/{array.name}"
        )
    disks = [mirror.disk for mirror in array.mirrors if not mirror.states & {"faulty", "spare"}]
    for disk in disks:
        if disks.count(disk) > 1:
            raise DeviceError(f"{array.name}: two of its mirrors are on {disk}, one drive")
    if array.asks is None:
        raise DeviceError(cannot_ask(array.name))


def _check_observable(name: str) -> None:
    observer = observer_of(name)
    if observer == "none":
        if not has_module():
            Drive(name)  # raises an error about what is missing
    elif observer != "unnamed":
        Drive(name).check_runs_latency_models(f"{name}: models of latencies are trained")


def _check_unused(target: Target, conf: DrivesConf) -> None:
    """Refuse drives that were switched on by other means: their state could not be restored."""
    for name in target.drives:
        if observer_of(name) in ("kernel", "module") and name_to_keep(name) not in conf.drives:
            mode = Drive(name).mode
            if mode != "off":
                raise DeviceError(
                    f"{name} is in mode {mode} already, and not by drives.conf; if that is to end: "
                    f"linnapp disable {target.words}"
                )
    if target.array is None or target.array_id in conf.arrays:
        return
    if MdArray(target.array).asks:
        raise DeviceError(
            f"{target.array} asks LinnOS already, and not by drives.conf; if that is to end: "
            f"linnapp disable /dev/{target.array}"
        )


def check_space() -> None:
    """Check that there is enough disk space for a recording."""
    there = _state_is_below()
    free = shutil.disk_usage(there).free
    if free < LEAST_FREE_BYTES:
        raise DeviceError(
            f"{there}: {free >> 20} MiB are free, and the recording may need "
            f"{LEAST_FREE_BYTES >> 20}; make room, or name another place with LINNAPP_STATE"
        )


def check_state() -> None:
    """Check that recordings and models can be stored in their folder."""
    there = _state_is_below()
    if not os.access(there, os.W_OK):
        raise DeviceError(
            f"{there}: cannot be written to; recordings and models want another place: "
            "LINNAPP_STATE"
        )


def _state_is_below() -> Path:
    directory = state.state_directory().absolute()
    return next(path for path in (directory, *directory.parents) if path.exists())


def nodes(target: Target) -> list[Path]:
    """Return the paths of the drives' nodes."""
    return [node_of(name) for name in target.drives]
