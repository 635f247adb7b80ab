# SPDX-License-Identifier: MIT
"""Identify a disk or an md array after a reboot.

Names such as ``/dev/vda`` and ``/dev/md127`` depend on the order in which devices are found. The
links that udev makes in ``/dev/disk/by-id`` do not change. For devices without such a link,
drives.conf also has the values that the devices report. A WWID, a serial number or an array's UUID
suffices to find a device under another name. A model name and a size can only show that a device
is a different one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from linnapp.drive.md import is_md
from linnapp.drive.sysfs import disk_name, node_of, sysfs_root
from linnapp.errors import DeviceError

#: Best first: ids that a drive itself reports or an array stores on disk, then ids that are built
#: from the model name and the serial number.
_PREFERRED = ("wwn-", "nvme-eui.", "nvme-uuid.", "md-uuid-", "nvme-", "scsi-", "ata-")


def _links() -> Path:
    """Return ``/dev/disk/by-id``, or the directory that tests use instead."""
    return Path(os.environ.get("LINNAPP_BY_ID", "/dev/disk/by-id"))


def stable_id(name: str) -> str | None:
    """Return the path of the best stable name of ``nvme0n1``.

    None if it has none, as is the case for virtual disks.
    """
    found = []
    with contextlib.suppress(OSError):
        for link in sorted(_links().iterdir()):
            with contextlib.suppress(OSError):
                if Path(link.readlink()).name == name:
                    found.append(str(link))
    return min(found, key=_rank, default=None)


def name_to_keep(name: str) -> str:
    """Return the name of a disk or array in drives.conf: its stable id, or else its node."""
    return stable_id(name) or str(node_of(name))


def _rank(path: str) -> tuple[int, int, str]:
    name = Path(path).name
    place = next((i for i, p in enumerate(_PREFERRED) if name.startswith(p)), len(_PREFERRED))
    return place, len(name), path


#: By key in drives.conf: files below the disk's directory; the first that is not empty is used.
_FILES = {
    "wwid": ("wwid", "device/wwid"),
    "serial": ("serial", "device/serial"),
    "product": ("device/model",),
    "sectors": ("size",),
}
#: Any of these alone suffices; the first that both have is compared.
_UNIQUE = ("uuid", "wwid", "serial")
_OTHER = ("product", "sectors")
#: Keys in drives.conf.
KEYS = {"drive": (*_UNIQUE[1:], *_OTHER), "array": _UNIQUE[:1]}

Identity = Mapping[str, str]


def identity_of(name: str) -> dict[str, str]:
    """Return the values that a disk reports, or the UUID of an md array."""
    directory = sysfs_root() / "block" / name
    if is_md(name):
        uuid = _read_line(directory / "md" / "uuid")
        return {"uuid": uuid.replace("-", ":").lower()} if uuid else {}
    found = {
        key: next(filter(None, (_read_line(directory / file) for file in files)), "")
        for key, files in _FILES.items()
    }
    return {key: value for key, value in found.items() if value.strip("0 ")}


def _read_line(path: Path) -> str:
    """Return a file's text in one line, as it is written to drives.conf."""
    text = ""
    with contextlib.suppress(OSError):
        text = path.read_text(errors="replace")
    return " ".join("".join(c for c in text if c.isprintable() or c.isspace()).split())


def warn_of_name(name: str) -> str | None:
    """Return a warning for a device whose name may change; None if it has a stable name."""
    if stable_id(name) is not None:
        return None
    unique = [key for key in _UNIQUE if key in identity_of(name)]
    found = (
        f"`linnapp restore` finds this one by its {unique[0]}"
        if unique
        else "it has neither a WWID nor a serial number, so that `linnapp restore` can tell it "
        "from others only by its size and model; give it a serial number, or check `linnapp "
        "status` after each reboot"
    )
    return (
        f"{name} has no stable name (in /dev/disk/by-id): after a reboot another "
        f"device may be called {node_of(name)}; {found}"
    )


def find_device(name: str, recorded: Identity) -> str:
    """Return the current name of the device that drives.conf calls `name`.

    If it does not exist, or if its name now belongs to another device, DeviceError is raised.
    """
    is_there = Path(name).exists()
    # Names other than the kernel's are links to this device that udev or a user made.
    if is_there and (not recorded or Path(name) != node_of(Path(name).resolve().name)):
        return name
    why = ""
    if is_there:
        now = identity_of(disk_name(name))
        if not (differing := _differing_keys(recorded, now)):
            return name
        why = "; ".join(f"{key} {now.get(key)}, not {recorded[key]}" for key in differing)
    unique = [key for key in _UNIQUE if key in recorded]
    disks = sorted(path.name for path in (sysfs_root() / "block").glob("*")) if unique else []
    same = [
        disk
        for disk in disks
        if any(key in recorded for key in _UNIQUE if key in (now := identity_of(disk)))
        and not _differing_keys(recorded, now)
    ]
    if len(same) == 1:
        return str(node_of(same[0]))
    if same:
        raise DeviceError(f"{name}: {' and '.join(same)} have the same {unique[0]}; none is taken")
    if not is_there:
        raise DeviceError(f"{name}: No such file or directory; `lsblk` lists the drives")
    raise DeviceError(
        f"{name} is another device than the one that was enabled ({why}), which is not there; "
        "enable it again, or remove its section from drives.conf"
    )


def _differing_keys(recorded: Identity, now: Identity) -> list[str]:
    for key in _UNIQUE:
        if key in recorded and key in now:
            return [key] if recorded[key] != now[key] else []
    return [key for key in _OTHER if key in recorded and recorded[key] != now.get(key)]
