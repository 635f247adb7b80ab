# SPDX-License-Identifier: MIT
"""An md array in ``/sys/block/<md>/md``: its mirrors, and whether it queries LinnOS."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable

from linnapp.drive.sysfs import Switchable, disk_name, read_text, sysfs_root
from linnapp.errors import DeviceError


@dataclasses.dataclass(frozen=True)
class Mirror:
    """A member of an array."""

    #: The device that was given to md: a disk or a partition.
    part: str
    #: The disk that contains it.
    disk: str
    #: ``in_sync``, ``faulty``, ``write_mostly``, ``spare`` and other states of md.
    states: frozenset[str]


@dataclasses.dataclass(frozen=True)
class Guard:
    """The kernel's measurement of the benefit that an array has from redirecting reads.

    `state` is ``off``, ``unguarded``, ``redirecting``, or ``suspended``: reads that were redirected
    were not faster, and few are redirected. `redirected` is the number since this was switched on.
    `classes` has statistics by the predicted slowness of the default replica (``normal``,
    ``over_p90``, ``over_2x_p90``, ``over_3x_p90``), for the reads for which another replica was
    predicted to be faster: the number of such reads (``reads``) and of those redirected
    (``redirected``), the mean latency in us of the control group and of the redirected reads
    (``control_us``, ``redirected_us``; 0 if there were none recently), and the current share of
    redirected reads in 1024ths (``share``).
    """

    array: str
    state: str
    redirected: int
    classes: dict[str, dict[str, int]]

    @classmethod
    def parse(cls, array: str, text: str) -> Guard:
        """Parse the text of ``md/linnos_guard``; raise ValueError if it is not valid."""
        values = {name: rest for name, *rest in map(str.split, text.splitlines())}
        try:
            (state,), (redirected,) = values.pop("state"), values.pop("redirected")
            classes = {
                name: {key: int(value) for key, value in zip(rest[::2], rest[1::2], strict=True)}
                for name, rest in values.items()
            }
        except KeyError as error:
            raise ValueError(f"no {error}") from error
        return cls(array, state, int(redirected), classes)

    @property
    def words(self) -> str:
        """Return all values in one line."""
        if self.state == "unguarded":
            return f"{self.array}: redirecting, unguarded"
        parts = [f"{self.array}: {self.state}, {self.redirected} reads redirected"]
        for name, seen in self.classes.items():
            if seen["reads"]:
                redirected, control = (
                    f"{seen[key]} us" if seen[key] else "-"
                    for key in ("redirected_us", "control_us")
                )
                parts.append(
                    f"default replica {name}: {seen['share'] / 1024:.0%} are redirected, these "
                    f"{redirected}, others {control}"
                )
        return "; ".join(parts)


class MdArray(Switchable):
    """An md array: ``/dev/md0``, ``md0``, or a partition of it."""

    def __init__(self, device: str) -> None:
        self.name = disk_name(device)
        self._directory = sysfs_root() / "block" / self.name / "md"
        if not self._directory.is_dir():
            raise DeviceError(f"{device}: no md array; `cat /proc/mdstat` lists those that run")
        self.file = self._directory / "linnos"

    def _text(self, name: str) -> str:
        return read_text(self._directory / name)

    @property
    def level(self) -> str:
        """``raid1``, ``raid10`` and so on."""
        return self._text("level")

    @property
    def n_mirrors(self) -> int:
        """Nominal number of members."""
        return int(self._text("raid_disks").split()[0])

    @property
    def n_missing(self) -> int:
        """Number of members that are missing."""
        return int(self._text("degraded") or 0)

    @property
    def metadata(self) -> str:
        """``1.2``, ``none``, or ``external:`` and the name of the external format."""
        return self._text("metadata_version")

    @property
    def sync_action(self) -> str:
        """``idle``, or the current operation: ``resync``, ``check``."""
        return self._text("sync_action")

    @property
    def mirrors(self) -> list[Mirror]:
        """Current members, including spare and faulty ones."""
        found = []
        for directory in sorted(self._directory.glob("dev-*")):
            with contextlib.suppress(OSError):  # the member is being removed
                states = (directory / "state").read_text().strip().split(",")
                block = (directory / "block").resolve(strict=True)
                disk = block.parent if (block / "partition").exists() else block
                found.append(Mirror(block.name, disk.name, frozenset(states)))
        return found

    @property
    def asks(self) -> bool | None:
        """True if the array queries LinnOS before it reads; None if this md cannot."""
        if not self.file.exists():
            return None
        return {"on": True, "unguarded": True, "off": False}.get(self.value)

    @property
    def guard(self) -> Guard | None:
        """Measurement of the benefit; None if this md has no such file."""
        path = self.file.with_name("linnos_guard")
        if not path.exists():
            return None
        try:
            return Guard.parse(self.name, self._text(path.name))
        except ValueError as error:
            raise DeviceError(f"{path}: not understood: {error}") from error

    def set(self, value: str, *, noted: bool = True) -> None:
        """Set ``off``, ``on`` or ``unguarded``; see :meth:`.Switchable.set`."""
        if self.asks is None:
            raise DeviceError(cannot_ask(self.name))
        super().set(value, noted=noted)

    def set_asks(self, on: bool) -> None:
        """Switch queries on, with the guard, or off."""
        self.set("on" if on else "off")


def cannot_ask(name: str) -> str:
    """Explain what to do about an array whose md has no such attribute."""
    return (
        f"{name}: this md does not ask LinnOS (/sys/block/{name}/md/linnos is missing); "
        "boot the patched kernel; or install linnos-dkms, stop the array, modprobe -r raid1 "
        "raid10, and assemble it again"
    )


def arrays() -> list[MdArray]:
    """Return all running arrays."""
    return _existing_arrays(path.parent.name for path in sysfs_root().glob("block/*/md"))


def arrays_of(drive: str) -> list[MdArray]:
    """Return the arrays that have a disk, or a partition of it, as a member."""
    disk = sysfs_root() / "block" / drive
    return _existing_arrays(
        path.name for pattern in ("", "*/") for path in disk.glob(f"{pattern}holders/md*")
    )


def _existing_arrays(names: Iterable[str]) -> list[MdArray]:
    found = []
    for name in sorted(set(names)):
        with contextlib.suppress(DeviceError):  # the array is being stopped
            found.append(MdArray(name))
    return found


def guards() -> list[Guard]:
    """Return the guards of all arrays that can query LinnOS, except those being stopped."""
    found = []
    for array in arrays():
        with contextlib.suppress(DeviceError):
            guard = array.guard
            if guard is not None:
                found.append(guard)
    return found


def restart_guards(drive: str) -> None:
    """Make the arrays of a drive that are on measure the benefit from the start."""
    for array in arrays_of(drive):
        with contextlib.suppress(DeviceError):
            if array.asks and array.value == "on":
                array.set("on")


def is_md(device: str) -> bool:
    """Return true if a device is an md array or a part of one."""
    return (sysfs_root() / "block" / disk_name(device) / "md").is_dir()
