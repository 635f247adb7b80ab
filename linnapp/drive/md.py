# SPDX-License-Identifier: MIT
"""An md array as the kernel shows it, ``/sys/block/<md>/md``: its mirrors, and whether it asks."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable
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


@dataclasses.dataclass(frozen=True)
class Guard:
    """Whether an array gains by reading elsewhere than it would by itself, as its kernel says.

    Attributes
    ----------
    state : str
        ``off``, ``unguarded``, ``choosing``, or ``staying``: what its drives predict is known not
        to be worth it, and hardly a read goes elsewhere for it.
    steered : int
        Reads that have gone elsewhere since it was switched on.
    gain_percent : tuple of int or None
        By how much that makes the mean of all reads lower, and between what it is in 95 of 100
        cases; None if it is not known yet.
    homes : dict
        By how slow the drive was called that md would have read from (``usual``, ``slow``,
        ``slower``, ``bad``), of the reads that another was predicted to answer sooner: how many
        ``wished`` to leave and ``left``, what those took that stayed and left (``stayed_us``,
        ``left_us``; 0: none did lately), and how many of 1024 leave now (``share``).
    """

    array: str
    state: str
    steered: int
    gain_percent: tuple[int, int, int] | None
    homes: dict[str, dict[str, int]]

    @classmethod
    def parse(cls, array: str, text: str) -> Guard:
        """Of the text of ``md/linnos_guard``; ValueError of another."""
        values = {name: rest for name, *rest in map(str.split, text.splitlines())}
        try:
            (state,), (steered,) = values.pop("state"), values.pop("steered")
            gain = values.pop("gain_percent")
            low_high = None
            if gain != ["n/a"]:
                percent, low, high = map(int, gain)
                low_high = percent, low, high
            homes = {
                name: {key: int(value) for key, value in zip(rest[::2], rest[1::2], strict=True)}
                for name, rest in values.items()
            }
        except KeyError as error:
            raise ValueError(f"no {error}") from error
        return cls(array, state, int(steered), low_high, homes)

    @property
    def words(self) -> str:
        """All of it in a line."""
        if self.state == "unguarded":
            return f"{self.array}: choosing, unguarded"
        parts = [f"{self.array}: {self.state}, {self.steered} reads steered"]
        if self.gain_percent is None:
            parts[0] += ", what that is worth is not known yet"
        else:
            percent, low, high = self.gain_percent
            parts[0] += f", mean lower by {percent} [{low}, {high}] %"
        for name, home in self.homes.items():
            if home["wished"]:
                took = (f"{home[key]} us" if home[key] else "-" for key in ("left_us", "stayed_us"))
                left, stayed = took
                share = home["share"] / 1024
                parts.append(f"home {name}: {share:.0%} leave, left {left}, stayed {stayed}")
        return "; ".join(parts)


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
        return {"on": True, "unguarded": True, "off": False}.get(self.state)

    @property
    def state(self) -> str:
        """``off``, ``on`` or ``unguarded``, of one that can ask."""
        return self._text("linnos")

    @property
    def guard(self) -> Guard | None:
        """Whether that is worth it; None if this md has no such file."""
        path = self.attribute.with_name("linnos_guard")
        if not path.exists():
            return None
        try:
            return Guard.parse(self.name, self._text(path.name))
        except ValueError as error:
            raise DeviceError(f"{path}: not understood: {error}") from error

    def set_asks(self, on: bool) -> None:
        """Switch that on, guarded, or off; errors as :meth:`set_state` has them."""
        self.set_state("on" if on else "off")

    def set_state(self, state: str, *, noted: bool = True) -> None:
        """Give it one of the states, and note a change in the journal unless told not to.

        An array that is told anew to be on forgets what choosing was worth: for its drives have got
        other models.
        """
        try:
            if self.asks is None:
                raise DeviceError(cannot_ask(self.name))
            before = self.state
            if state != before or state == "on":
                self.attribute.write_text(state)
            if state != before and noted:
                journal.note(f"{self.name}: linnos {before} -> {state}")
        except OSError as error:
            why = error.strerror or str(error)
            raise DeviceError(f"{self.attribute}: {why}; run as root") from error


def cannot_ask(name: str) -> str:
    """What to do about an array whose md has no such attribute."""
    return (
        f"{name}: this md does not ask LinnOS (/sys/block/{name}/md/linnos is missing); "
        "boot the patched kernel; or install linnos-dkms, stop the array, modprobe -r raid1 "
        "raid10, and assemble it again"
    )


def arrays() -> list[MdArray]:
    """All that run."""
    return _those_left(path.parent.name for path in sysfs_root().glob("block/*/md"))


def arrays_of(drive: str) -> list[MdArray]:
    """The arrays that a disk, or a partition of it, is a member of."""
    disk = sysfs_root() / "block" / drive
    return _those_left(
        path.name for pattern in ("", "*/") for path in disk.glob(f"{pattern}holders/md*")
    )


def _those_left(names: Iterable[str]) -> list[MdArray]:
    found = []
    for name in sorted(set(names)):
        with contextlib.suppress(DeviceError):  # it is being stopped
            found.append(MdArray(name))
    return found


def guards() -> list[Guard]:
    """Of all arrays that may ask, but those that are being stopped."""
    found = []
    for array in arrays():
        with contextlib.suppress(DeviceError):
            guard = array.guard
            if guard is not None:
                found.append(guard)
    return found


def restart_guards(drive: str) -> None:
    """Have the arrays of a drive that are on find out anew what choosing is worth."""
    for array in arrays_of(drive):
        with contextlib.suppress(DeviceError):
            if array.asks and array.state == "on":
                array.set_state("on")


def is_md(device: str) -> bool:
    """Whether a device is an md array, or lies on one."""
    return (sysfs_root() / "block" / disk_name(device) / "md").is_dir()
