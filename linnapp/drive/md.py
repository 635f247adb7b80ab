# SPDX-License-Identifier: MIT
"""An md array as the kernel shows it, ``/sys/block/<md>/md``: its mirrors, and whether it asks."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

from linnapp.drive import journal
from linnapp.drive.sysfs import disk_name, explained, sysfs_root
from linnapp.errors import DeviceError
from linnapp.files import os_errors


@dataclasses.dataclass(frozen=True)
class Mirror:
    """A member of an array."""

    #: What md was given: a disk, or a partition.
    part: str
    #: The disk that it is on.
    disk: str
    #: ``in_sync``, ``faulty``, ``write_mostly``, ``spare`` and what else md says.
    states: frozenset[str]


class MdArray:
    """An md array: ``/dev/md0``, ``md0``, or a partition of it."""

    def __init__(self, device: str) -> None:
        self.name = disk_name(device)
        self._directory = sysfs_root() / "block" / self.name / "md"
        if not self._directory.is_dir():
            raise DeviceError(f"{device}: no md array; `cat /proc/mdstat` lists those that run")

    def _text(self, name: str) -> str:
        path = self._directory / name
        with os_errors(path, explained):
            return path.read_text(errors="replace").strip()

    @property
    def level(self) -> str:
        """``raid1``, ``raid10`` and so on."""
        return self._text("level")

    @property
    def n_mirrors(self) -> int:
        """Members that it is to have."""
        return int(self._text("raid_disks").split()[0])

    @property
    def n_missing(self) -> int:
        """Members that it lacks."""
        return int(self._text("degraded") or 0)

    @property
    def metadata(self) -> str:
        """``1.2``, ``none``, or ``external:`` and whose."""
        return self._text("metadata_version")

    @property
    def sync_action(self) -> str:
        """``idle``, or what goes on: ``resync``, ``check``."""
        return self._text("sync_action")

    @property
    def mirrors(self) -> list[Mirror]:
        """What it has now, spares and faulty ones too."""
        found = []
        for directory in sorted(self._directory.glob("dev-*")):
            with contextlib.suppress(OSError):  # it is being removed
                states = (directory / "state").read_text().strip().split(",")
                block = (directory / "block").resolve(strict=True)
                disk = block.parent if (block / "partition").exists() else block
                found.append(Mirror(block.name, disk.name, frozenset(states)))
        return found

    @property
    def attribute(self) -> Path:
        """The file that says, and is told, whether it asks."""
        return self._directory / "linnos"

    @property
    def asks(self) -> bool | None:
        """Whether it asks LinnOS before it reads; None if this md cannot."""
        if not self.attribute.exists():
            return None
        return {"on": True, "off": False}.get(self._text("linnos"))

    def set_asks(self, on: bool, *, noted: bool = True) -> None:
        """Switch that, and note it in the journal unless told not to."""
        before = self.asks
        try:
            if before is None:
                raise DeviceError(cannot_ask(self.name))
            if before != on:
                self.attribute.write_text("on" if on else "off")
                if noted:
                    journal.note(f"{self.name}: linnos {'off -> on' if on else 'on -> off'}")
        except OSError as error:
            why = error.strerror or str(error)
            raise DeviceError(f"{self.attribute}: {why}; run as root") from error


def cannot_ask(name: str) -> str:
    """What to do about an array whose md has no such attribute."""
    return (
        f"{name}: this md does not ask LinnOS (/sys/block/{name}/md/linnos is missing, or n/a); "
        "boot the patched kernel; or install linnos-dkms, stop the array, modprobe -r raid1 "
        "raid10, and assemble it again"
    )


def is_md(device: str) -> bool:
    """Whether a device is an md array, or lies on one."""
    return (sysfs_root() / "block" / disk_name(device) / "md").is_dir()
